use axum::body::{Body, to_bytes};
use axum::http::Request;
use retro_core::time::FixedClock;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;
use crate::dead_letters::tests::dead_letter;
use crate::world::{World, at_hour, investigation_result, repair_finding, rich_world, workflow_key};

/// Returns the full test store of `default`, plus a tenant `acme` with the same names but other lessons.
pub(crate) fn two_tenants() -> World {
    let mut world = rich_world();
    world.run_retrospective(&workflow_key("acme", "shop"), &|_, _| {
        investigation_result(vec![repair_finding("acme only")], vec![])
    });
    world.dead_letters.push(dead_letter(Some("default"), b"hunter2 of default"));
    world.dead_letters.push(dead_letter(Some("acme"), b"hunter2 of acme"));
    world
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    kind: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

async fn ask(tenant: &str, path: &str, accept: &str) -> Answer {
    ask_of(two_tenants(), tenant, path, accept).await
}

pub(crate) async fn ask_of(world: World, tenant: &str, path: &str, accept: &str) -> Answer {
    let redact: SharedRedactFn = Arc::new(|text| text.replace("hunter2", "[redacted]"));
    let app = retro_http::finish_router(router(Arc::new(world), redact, Arc::new(FixedClock(at_hour(24)))));
    let request = Request::get(path).header("Retro-Tenant", tenant).header("Accept", accept);
    let response = app.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let (status, kind) = (
        response.status().as_u16(),
        response.headers()[axum::http::header::CONTENT_TYPE].to_str().unwrap().to_owned(),
    );
    let bytes = to_bytes(response.into_body(), 1 << 22).await.unwrap();
    Answer { status, kind, body: String::from_utf8(bytes.to_vec()).unwrap() }
}

async fn items(tenant: &str, path: &str) -> Vec<Value> {
    let answer = ask(tenant, path, "*/*").await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    answer.json()["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn no_list_contains_data_of_another_tenant() {
    let lists = ["/v1/memories", "/v1/retrospectives", "/v1/runs", "/v1/dead-letters"];
    let world = two_tenants();
    let of = |tenant: &str| world.memories.iter().filter(|(owner, _)| owner.as_str() == tenant).count();
    assert_eq!(items("default", "/v1/memories").await.len(), of("default"));
    assert_eq!(items("acme", "/v1/memories").await.len(), of("acme"));
    for path in lists {
        let (own, others, strangers) =
            (items("acme", path).await, items("default", path).await, items("nobody", path).await);
        assert!(!own.is_empty() && !others.is_empty(), "positive control: {path}");
        assert!(own.iter().all(|item| !others.contains(item)), "{path}");
        assert_eq!(strangers, Vec::<Value>::new(), "{path}");
    }
    assert!(!ask("default", "/v1/memories", "*/*").await.body.contains("acme only"));
}

#[tokio::test]
async fn held_memories_are_listed_to_their_tenant_only() {
    let held = |tenant: &'static str| async move {
        let mut world = two_tenants();
        let id = world.memory_about("acme only");
        let (_, memory) = world.memories.iter_mut().find(|(_, memory)| memory.id == id).unwrap();
        memory.quarantine = Some("a person decides".to_owned());
        let answer = ask_of(world, tenant, "/v1/memories?held=true", "*/*").await;
        answer.json()["items"].as_array().unwrap().len()
    };
    assert_eq!((held("acme").await, held("default").await), (1, 0));
}

#[tokio::test]
async fn another_tenant_s_object_answers_exactly_like_a_missing_one() {
    let world = two_tenants();
    let (memory, report) = (world.memory_about("acme only"), world.reports.last().unwrap().id);
    let dead_letter_id = world.dead_letters[1].id;
    let missing = retro_core::id::derive_uuid("missing", &[]);
    for (kind, id, rest) in [
        ("memories", memory.to_string(), "/why"),
        ("memories", memory.short_id(), "/why"),
        ("memories", memory.to_string(), "/effect"),
        ("memories", memory.short_id(), "/effect"),
        ("retrospectives", report.to_string(), ""),
        ("reports", report.to_string(), ""),
        ("dead-letters", dead_letter_id.to_string(), ""),
    ] {
        let own = ask("acme", &format!("/v1/{kind}/{id}{rest}"), "*/*").await;
        assert_eq!(own.status, 200, "positive control: {kind} {}", own.body);
        let foreign = ask("default", &format!("/v1/{kind}/{id}{rest}"), "*/*").await;
        let none = ask("default", &format!("/v1/{kind}/{missing}{rest}"), "*/*").await;
        assert_eq!((foreign.status, foreign.kind.as_str()), (404, "application/problem+json"), "{kind}");
        assert_eq!(foreign.body.replace(&id, "ID"), none.body.replace(&missing.to_string(), "ID"), "{kind}");
    }
}

#[tokio::test]
async fn a_short_id_resolves_within_the_tenant_and_fails_when_ambiguous() {
    let own = two_tenants().memory_about("syntax");
    let twin = |world: &mut World, tenant: &str| {
        let mut memory = world.memory(own).clone();
        let mut id = own.to_string();
        id.replace_range(9..13, if &id[9..13] == "ffff" { "0000" } else { "ffff" });
        memory.id = id.parse().unwrap();
        world.memories.push((workflow_key(tenant, "shop").tenant, memory));
    };
    let path = format!("/v1/memories/{}/why", own.short_id());
    let mut world = two_tenants();
    twin(&mut world, "acme");
    let answer = ask_of(world, "default", &path, "*/*").await;
    assert_eq!(
        (answer.status, &answer.json()["id"]),
        (200, &json!(own)),
        "another tenant's memory does not make the id ambiguous"
    );
    let mut world = two_tenants();
    twin(&mut world, "default");
    let answer = ask_of(world, "default", &path, "*/*").await;
    assert_eq!((answer.status, answer.kind.as_str()), (409, "application/problem+json"), "{}", answer.body);
    assert!(answer.body.contains("give more digits"), "{}", answer.body);
}

#[tokio::test]
async fn a_suppressed_lesson_is_found_by_its_whole_id() {
    let world = two_tenants();
    let kept_away = world.changes.iter().find(|(_, change)| change.effect.kind() == "suppressed").unwrap();
    let id = kept_away.1.memory;
    assert_eq!(ask("default", &format!("/v1/memories/{id}/why"), "*/*").await.status, 200);
    assert_eq!(ask("default", &format!("/v1/memories/{}/why", id.short_id()), "*/*").await.status, 404);
}

#[tokio::test]
async fn a_report_is_json_markdown_or_tables_by_accept() {
    let id = two_tenants().reports[2].id;
    let path = format!("/v1/reports/{id}");
    let json = ask("default", &path, "application/json").await;
    assert_eq!((json.kind.as_str(), &json.json()["id"]), ("application/json", &json!(id)));
    let markdown = ask("default", &path, "text/markdown").await;
    assert!(markdown.kind.starts_with("text/markdown") && markdown.body.starts_with("# Retrospective 3"));
    let table = ask("default", &path, "text/plain").await;
    assert!(table.kind.starts_with("text/plain") && table.body.contains("════"));
    // What a browser sends.
    let page = ask("default", &path, "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8").await;
    assert!(page.kind.starts_with("text/html") && page.body.contains("<h1>Retrospective 3"), "{}", page.body);
    assert!(!page.body.contains("<img") && page.body.contains("&lt;img"), "{}", page.body);
    assert_eq!(ask("default", &path, "image/png").await.kind, "application/json");
    let effect = format!("/v1/memories/{}/effect", two_tenants().memory_about("syntax"));
    assert!(ask("default", &effect, "text/plain").await.body.contains("not known yet"));
    let json = ask("default", &effect, "*/*").await.json();
    assert_eq!(
        (&json["effect"]["interval"], &json["comparison"]["without"]["runs"]),
        (&json!(null), &json!(20))
    );
    let why = format!("/v1/memories/{}/why", two_tenants().memory_about("syntax"));
    assert!(ask("default", &why, "text/plain").await.body.contains("0.300 → 0.150"));
    assert!(ask("default", &why, "text/plain").await.body.contains("\neffect: not known yet: handed to 0 "));
    let json = ask("default", &why, "*/*").await.json();
    assert_eq!(json["history"].as_array().unwrap().len(), 5);
    assert_eq!(json["effect"], "not known yet: handed to 0 and by chance withheld from 0 runs");
}

#[tokio::test]
async fn lists_are_filtered_bounded_and_say_when_there_is_more() {
    assert_eq!(items("default", "/v1/memories?status=archived").await.len(), 1);
    assert_eq!(items("default", "/v1/memories?workflow=other").await.len(), 0);
    assert_eq!(items("default", "/v1/memories?held=true").await.len(), 0);
    let all = items("default", "/v1/memories").await.len();
    assert_eq!(items("default", "/v1/memories?held=false").await.len(), all, "positive control");
    assert_eq!(items("default", "/v1/runs?run=run-07").await.len(), 1);
    assert_eq!(items("default", "/v1/dead-letters?code=not_json").await.len(), 0);
    assert_eq!(items("default", "/v1/dead-letters?code=field_invalid&workflow=shop").await.len(), 1);
    let few = ask("default", "/v1/runs?limit=29", "*/*").await.json();
    assert_eq!((few["items"].as_array().unwrap().len(), &few["more"]), (29, &json!(true)));
    let all = ask("default", "/v1/runs?limit=30", "*/*").await.json();
    assert_eq!((all["items"].as_array().unwrap().len(), &all["more"]), (30, &json!(false)));
    for (path, field) in [
        ("/v1/runs?limit=0", "limit"),
        ("/v1/runs?limit=1001", "limit"),
        ("/v1/memories?status=sleepy", "status"),
        ("/v1/dead-letters?code=7", "code"),
        ("/v1/dead-letters?role=sleeper", "role"),
        ("/v1/dead-letters/stats?role=", "role"),
        ("/v1/memories/7/why", "id"),
    ] {
        let answer = ask("default", path, "*/*").await;
        assert_eq!((answer.status, &answer.json()["path"]), (400, &json!(field)), "{path}: {}", answer.body);
    }
    let answer = ask("default", "/v1/dead-letters?role=sleeper", "*/*").await;
    assert!(answer.body.contains("the roles are counter, "), "it names the allowed ones: {}", answer.body);
    assert_eq!(items("default", "/v1/dead-letters?role=counter").await.len(), 1, "positive control");
    assert_eq!(items("default", "/v1/dead-letters?role=writer").await.len(), 0);
}

#[tokio::test]
async fn dead_letters_are_shown_redacted() {
    let id = two_tenants().dead_letters[0].id;
    let whole = ask("default", &format!("/v1/dead-letters/{id}"), "*/*").await;
    assert_eq!(whole.json()["payload"], "[redacted] of default");
    for path in ["/v1/dead-letters".to_owned(), format!("/v1/dead-letters/{id}")] {
        assert!(!ask("default", &path, "*/*").await.body.contains("hunter2"), "{path}");
    }
}
