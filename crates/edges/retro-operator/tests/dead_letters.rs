//! Tests dead letters in a real database: editing, exact bytes, exports and redaction.

#![expect(clippy::unwrap_used, reason = "a failed unwrap shows where the test failed")]

#[path = "dead_letters/dry_run.rs"]
mod dry_run;

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use retro_core::count::{self, Arrival};
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::{DeadLetterId, Tenant, Workflow};
use retro_core::policy::Policy;
use retro_core::time::FixedClock;
use retro_events::hosts::DatarefHosts;
use retro_events::{Delivery, run_completed};
use retro_operator::{
    DeadLetterSearch, Edit, EditError, EditService, EditedVersion, PredictedEffect, ReplayService,
    SharedRedactFn, edit_router, replay_router, router,
};
use retro_redact::Redactor;
use retro_store::{
    AuditAction, CounterStore, DeadLetterFilter, DeliveryPosition, DeliveryStore, IncomingBody, IncomingRun,
    NewDeadLetter, OperatorStore, WindowsToCheck,
};
use retro_store_sql::SqliteStore;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Notify;
use tower::ServiceExt;

/// Fake secrets from upstream test suites, split into pieces.
const FIXTURE: &str = include_str!("../../../foundation/retro-redact/tests/fixtures/fake_secrets.jsonl");

struct World {
    store: SqliteStore,
    edit_service: EditService,
    _folder: TempDir,
}

async fn open_world() -> World {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open_and_migrate(&folder.path().join("retro.db")).await.unwrap();
    let mending = EditService::new(Arc::new(store.clone()), clock(), DatarefHosts::default(), redact());
    World { store, edit_service: mending, _folder: folder }
}

fn clock() -> Arc<FixedClock> {
    Arc::new(FixedClock("2026-11-20T12:00:00Z".parse().unwrap()))
}

fn redact() -> SharedRedactFn {
    Arc::new(|text: &str| Redactor::shared().redact_text(text).into_owned())
}

fn tenant(name: &str) -> Tenant {
    Tenant::new(name).unwrap()
}

fn event_payload(id: &str, data: &Value) -> Vec<u8> {
    let event = json!({
        "specversion": "1.0", "type": "dev.retrospect.run.completed.v1", "source": "engine", "id": id, "data": data,
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    });
    event.to_string().into_bytes()
}

fn new_dead_letter(sequence: u64, payload: Vec<u8>, rejection: Rejection) -> NewDeadLetter {
    NewDeadLetter {
        position: DeliveryPosition {
            consumer: "counter".to_owned(),
            stream: "RETRO_INTAKE".to_owned(),
            sequence,
        },
        tenant: Some(tenant("default")),
        workflow: Some(Workflow::new("shop").unwrap()),
        subject: "retro.run.completed.default.shop".to_owned(),
        headers: vec![("content-type".to_owned(), "application/cloudevents+json".to_owned())],
        payload,
        rejection,
        attempts: 1,
        stored_at: "2026-11-20T11:00:00Z".parse().unwrap(),
    }
}

/// Builds a dead letter of an event with an unknown outcome.
fn invalid_event(sequence: u64) -> NewDeadLetter {
    let data = json!({"workflow": "shop", "run_id": format!("run-{sequence}"), "outcome": "fine"});
    let rejection =
        Rejection::of_field(DeadLetterCode::FieldInvalid, "data.outcome", "unknown variant `fine`");
    new_dead_letter(sequence, event_payload(&format!("event-{sequence}"), &data), rejection)
}

impl World {
    async fn store_dead_letter(&self, dead_letter: &NewDeadLetter) -> DeadLetterId {
        self.store.store_dead_letter(dead_letter).await.unwrap()
    }

    async fn edit(&self, id: DeadLetterId, edit: &Edit) -> Result<EditedVersion, EditError> {
        let edited = self.edit_service.edit(&tenant("default"), id, None, edit, "ann", "a typo", false).await;
        edited.map(|edited| edited.expect("the dead letter exists"))
    }

    fn replay_service(&self) -> ReplayService {
        let (store, policies) = (Arc::new(self.store.clone()), Arc::new(Policy::default()));
        ReplayService::new(store, policies, clock(), Arc::new(Notify::new()), redact())
    }

    async fn audit_actions(&self, id: DeadLetterId) -> Vec<AuditAction> {
        let rows = self.store.list_audit_rows(&tenant("default"), id.0).await.unwrap();
        rows.into_iter().map(|row| row.action).collect()
    }

    async fn send_request(&self, request: Request<Body>) -> (u16, String) {
        let api = router(Arc::new(self.store.clone()), redact(), clock())
            .merge(edit_router(self.edit_service.clone()))
            .merge(replay_router(self.replay_service()));
        let response = retro_http::finish_router(api).oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let bytes = to_bytes(response.into_body(), 1 << 24).await.unwrap();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }

    async fn get(&self, of: &str, path: &str) -> (u16, String) {
        self.send_request(Request::get(path).header("Retro-Tenant", of).body(Body::empty()).unwrap()).await
    }

    async fn post(&self, of: &str, path: &str, body: &Value) -> (u16, String) {
        let request =
            Request::post(path).header("Retro-Tenant", of).header("Content-Type", "application/json");
        self.send_request(request.body(Body::from(body.to_string())).unwrap()).await
    }
}

fn set_field(path: &str, value: Value) -> Edit {
    Edit::SetFields(vec![(path.to_owned(), value)])
}

#[tokio::test]
async fn an_edited_dead_letter_has_a_version_that_would_be_accepted_and_its_original_stays() {
    let world = open_world().await;
    let original = invalid_event(1);
    let id = world.store_dead_letter(&original).await;
    let first = world.edit(id, &set_field("data.outcome", json!("fin"))).await.unwrap();
    assert_eq!((first.version, first.based_on, first.valid), (Some(1), 0, false));
    assert!(
        first.prediction.starts_with("it would be refused again: field_invalid at data.outcome"),
        "{}",
        first.prediction
    );
    let second = world.edit(id, &set_field("data.outcome", json!("success"))).await.unwrap();
    assert_eq!((second.version, second.based_on, second.valid), (Some(2), 1, true));
    assert_eq!(second.prediction, "it would be accepted as run run-1 of workflow shop");
    insta::assert_snapshot!(
        second.render_text().replace(&id.to_string(), "ID").replace(&second.payload_sha256, "SHA")
    );

    let stored = world.store.find_dead_letter(&tenant("default"), id).await.unwrap().unwrap();
    assert_eq!(stored.message, original);
    let exact =
        world.edit_service.read_raw(&tenant("default"), id, Some(2), "ann", "to see").await.unwrap().unwrap();
    let expected = String::from_utf8(original.payload.clone()).unwrap().replace("\"fine\"", "\"success\"");
    assert_eq!(String::from_utf8(exact.decode_payload()).unwrap(), expected, "nothing else changed");
    assert_eq!(
        world.audit_actions(id).await,
        [AuditAction::Edited, AuditAction::Edited, AuditAction::ReadRaw]
    );
    let tried = world
        .edit_service
        .edit(&tenant("default"), id, Some(0), &set_field("data.x", json!(1)), "a", "b", true)
        .await;
    assert_eq!(tried.unwrap().unwrap().version, None);
    assert_eq!(world.audit_actions(id).await.len(), 3, "a dry run records nothing");
}

#[tokio::test]
async fn forbidden_edits_are_refused_and_store_nothing() {
    let world = open_world().await;
    let id = world.store_dead_letter(&invalid_event(1)).await;
    let wake_up = NewDeadLetter {
        position: DeliveryPosition { consumer: "sampler".to_owned(), ..invalid_event(2).position },
        subject: "retro.retrospective.due.default.shop".to_owned(),
        ..invalid_event(2)
    };
    let wake_up = world.store_dead_letter(&wake_up).await;
    let copied =
        json!({"specversion": "1.0", "id": "event-1", "source": "engine", "data": {"user": "[redacted:x]"}});
    for (of, edit, why) in [
        (id, set_field("id", json!("another")), "changes the event's source or id"),
        (id, set_field("source", json!("another")), "changes the event's source or id"),
        (id, set_field("tenant", json!("acme")), "data never moves between tenants"),
        (id, set_field("data.outcome", json!("fine")), "changes nothing"),
        (id, set_field("data.no.such", json!(1)), "there is no `data.no`"),
        (id, Edit::ReplacePayload(copied.to_string().into_bytes()), "copied from redacted output"),
        (id, Edit::ReplacePayload(vec![b' '; 2 << 20]), "at most 1048576"),
        (wake_up, set_field("a", json!(1)), "only events can be edited"),
    ] {
        let error = world.edit(of, &edit).await.unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    let missing = world
        .edit_service
        .edit(&tenant("default"), id, Some(7), &set_field("data.x", json!(1)), "a", "b", false)
        .await;
    assert!(missing.unwrap_err().to_string().contains("has no version 7"));
    let nobody = world
        .edit_service
        .edit(&tenant("default"), id, None, &set_field("data.x", json!(1)), "a", " ", false)
        .await;
    assert!(matches!(nobody, Err(EditError::Attribution(_))), "{nobody:?}");
    assert_eq!(world.audit_actions(id).await, []);
}

#[tokio::test]
async fn the_identity_may_change_if_it_caused_the_rejection() {
    let world = open_world().await;
    let conflict = NewDeadLetter {
        rejection: Rejection::of_message(
            DeadLetterCode::IdentityConflict,
            "the same id came with other content",
        ),
        payload: event_payload("event-1", &json!({"workflow": "shop", "run_id": "r", "outcome": "success"})),
        ..invalid_event(1)
    };
    let id = world.store_dead_letter(&conflict).await;
    assert!(world.edit(id, &set_field("id", json!("event-1b"))).await.unwrap().valid);
}

/// The emitter sent a corrected version of the event meanwhile, and it was counted.
#[tokio::test]
async fn a_version_of_an_event_handled_meanwhile_reports_that() {
    let world = open_world().await;
    let id = world.store_dead_letter(&invalid_event(1)).await;
    world.edit(id, &set_field("data.outcome", json!("success"))).await.unwrap();
    let exact =
        world.edit_service.read_raw(&tenant("default"), id, Some(1), "ann", "to see").await.unwrap().unwrap();
    let NewDeadLetter { position, subject, headers, stored_at, .. } = invalid_event(1);
    let (stream, sequence, payload) = (position.stream, position.sequence, exact.decode_payload().into());
    let sent = Delivery { stream, subject, sequence, headers, payload, delivered: 1, stored_at };
    let read = run_completed::parse_delivery(&sent, &DatarefHosts::default()).unwrap();
    let run_completed::RunCompleted { event, key, content_hash, run, .. } = read;
    let arrival = Arrival { event, key, content_hash, position: sequence, run };
    let run = IncomingRun { arrival, body: IncomingBody::None, trace: None };
    let decide = |facts, arrivals: &[Arrival]| {
        count::count_arrivals(
            facts,
            arrivals,
            count::IntakeProgress::NotAwaited,
            &Policy::default(),
            stored_at,
        )
    };
    world.store.count_runs(&[run], WindowsToCheck::default(), &decide).await.unwrap();
    let predict = async |outcome: &str| {
        let edit = set_field("data.outcome", json!(outcome));
        let tried =
            world.edit_service.edit(&tenant("default"), id, Some(0), &edit, "ann", "a typo", true).await;
        let tried = tried.unwrap().unwrap();
        (tried.valid, tried.prediction)
    };
    let (valid, same) = predict("success").await;
    assert!(valid && same.contains("handled before, with this content: nothing would change"), "{same}");
    let (valid, other) = predict("failure").await;
    assert!(!valid && other.starts_with("it would be refused again: identity_conflict"), "{other}");
}

#[tokio::test]
async fn a_compressed_payload_is_edited_uncompressed() {
    let world = open_world().await;
    let plain = invalid_event(1);
    let packed = NewDeadLetter {
        payload: zstd::encode_all(plain.payload.as_slice(), 0).unwrap(),
        headers: [plain.headers.clone(), vec![("Content-Encoding".to_owned(), "zstd".to_owned())]].concat(),
        ..plain.clone()
    };
    let id = world.store_dead_letter(&packed).await;
    let edited = world.edit(id, &set_field("data.outcome", json!("success"))).await.unwrap();
    assert!(edited.valid, "{}", edited.prediction);
    let exact =
        world.edit_service.read_raw(&tenant("default"), id, Some(1), "ann", "to see").await.unwrap().unwrap();
    assert_eq!(exact.headers, plain.headers);
}

#[tokio::test]
async fn exact_bytes_need_a_reason_and_are_audited_first() {
    let world = open_world().await;
    let original = NewDeadLetter { payload: vec![0, 0xff, b'{'], ..invalid_event(1) };
    let id = world.store_dead_letter(&original).await;
    let path = format!("/v1/dead-letters/{id}/raw");
    let (status, _) = world.post("default", &path, &json!({"reason": ""})).await;
    assert_eq!(status, 400);
    assert_eq!(world.audit_actions(id).await, []);
    let (status, body) = world.post("acme", &path, &json!({"reason": "curious"})).await;
    assert_eq!(status, 404, "{body}");
    assert_eq!(world.audit_actions(id).await, [], "a failed read records nothing");
    let (status, body) = world.post("default", &path, &json!({"reason": "to mend it", "by": "ann"})).await;
    assert_eq!(status, 200, "{body}");
    let exact: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&exact["payload_base64"], &exact["version"]), (&json!("AP97"), &json!(0)));
    assert_eq!(world.audit_actions(id).await, [AuditAction::ReadRaw]);
    // Nothing may be shown when the access cannot be recorded: here the database is read-only.
    world.store.disconnect().await;
    let (status, body) = world.post("default", &path, &json!({"reason": "again"})).await;
    assert_eq!(status, 503, "{body}");
}

#[tokio::test]
async fn an_export_covers_every_page_and_exact_ones_are_audited() {
    let world = open_world().await;
    let mut ids = Vec::new();
    for sequence in 1..=45 {
        ids.push(world.store_dead_letter(&invalid_event(sequence)).await);
    }
    ids.reverse();
    let (status, body) = world.get("default", "/v1/dead-letters/export").await;
    assert_eq!(status, 200);
    let exported: Vec<Value> = body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let listed: Vec<DeadLetterId> =
        exported.iter().map(|one| one["id"].as_str().unwrap().parse().unwrap()).collect();
    assert_eq!(listed, ids);
    assert!(exported[0]["payload"].as_str().unwrap().contains("run-45"), "{}", exported[0]);
    assert_eq!(world.audit_actions(ids[0]).await, []);
    let (status, body) = world
        .post("default", "/v1/dead-letters/export?limit=21&text=run-", &json!({"reason": "to move"}))
        .await;
    assert_eq!((status, body.lines().count()), (200, 21), "{body}");
    assert!(body.lines().all(|line| line.contains("payload_base64")));
    for (place, id) in ids.iter().enumerate() {
        assert_eq!(world.audit_actions(*id).await.len(), usize::from(place < 21), "{place}");
    }
    let (status, body) = world.post("acme", "/v1/dead-letters/export", &json!({"reason": "curious"})).await;
    assert_eq!((status, body.as_str()), (200, ""));
    let (status, _) = world.post("default", "/v1/dead-letters/export", &json!({})).await;
    assert_eq!(status, 400);
}

#[tokio::test]
async fn versions_over_http_belong_to_the_tenant_and_return_a_diff() {
    let world = open_world().await;
    let id = world.store_dead_letter(&invalid_event(1)).await;
    let path = format!("/v1/dead-letters/{id}/versions");
    let edit_request = json!({"reason": "a typo", "by": "ann", "set": {"data.outcome": "success"}});
    let (status, foreign) = world.post("acme", &path, &edit_request).await;
    let nobodys = path.replace(&id.to_string(), "ffffffff-ffff-8fff-bfff-ffffffffffff");
    let missing = world.post("acme", &nobodys, &edit_request).await;
    let hidden = foreign.replace(&id.to_string(), "ffffffff-ffff-8fff-bfff-ffffffffffff");
    assert_eq!((status, hidden), missing);
    assert_eq!(status, 404);
    let (status, body) = world.post("default", &path, &edit_request).await;
    let edited: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &edited["version"], &edited["valid"]), (200, &json!(1), &json!(true)), "{body}");
    assert!(edited["diff"].as_str().unwrap().contains("+    \"outcome\": \"success\""), "{body}");
    let large = json!({"reason": "whole", "payload": " ".repeat(1 << 19)});
    assert_eq!(
        world.post("default", &path, &large).await.0,
        200,
        "a payload may be larger than other requests"
    );
    for wrong in [
        json!({"reason": "x"}),
        json!({"reason": "x", "set": {}}),
        json!({"reason": "x", "payload_base64": "!"}),
    ] {
        assert_eq!(world.post("default", &path, &wrong).await.0, 400, "{wrong}");
    }
    let (status, body) =
        world.post("default", &path, &json!({"reason": "x", "set": {"id": "y"}, "from": 0})).await;
    assert_eq!(status, 409, "{body}");
    let (_, shown) = world.get("default", &format!("/v1/dead-letters/{id}")).await;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["versions"].as_array().map(Vec::len), Some(2), "{shown}");
    assert!(shown["runbook"].as_str().unwrap().starts_with("# field_invalid\n"));
    assert_eq!(shown["history"][0]["code"], "field_invalid");
}

#[tokio::test]
async fn no_view_shows_a_secret_and_no_search_finds_one() {
    let world = open_world().await;
    let mut cases = 0;
    for line in FIXTURE.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let joined = |name: &str| -> String {
            case[name].as_array().unwrap().iter().map(|piece| piece.as_str().unwrap()).collect()
        };
        let (text, secret) = (joined("text"), joined("secret"));
        cases += 1;
        let data = json!({"workflow": "shop", "run_id": "r", "outcome": "fine", "note": text});
        let rejection =
            Rejection::of_field(DeadLetterCode::FieldInvalid, text.clone(), format!("cannot be {text}"));
        let mut telling = new_dead_letter(cases, event_payload("e", &data), rejection);
        telling.headers.push(("x-note".to_owned(), text.clone()));
        let id = world.store_dead_letter(&telling).await;
        let default = tenant("default");
        let edit = set_field("data.note", json!(format!("{text} twice")));
        let reason = if text.chars().count() > 1000 { "a long one" } else { &text };
        let edited = world.edit_service.edit(&default, id, None, &edit, "ann", reason, false).await;
        let edited = edited.unwrap().unwrap();
        let page = retro_operator::find_dead_letter_detail(&world.store, &default, id, &*redact())
            .await
            .unwrap()
            .unwrap();
        let filter = DeadLetterFilter { limit: 1, ids: vec![id], ..Default::default() };
        let search = DeadLetterSearch { filter, text: None };
        let stats = search.compute_stats(&world.store, &default, &*redact()).await.unwrap();
        let mut views = vec![
            edited.render_text(),
            json!(edited).to_string(),
            page.render_text(),
            json!(page).to_string(),
            stats.render_text(200),
            json!(stats).to_string(),
        ];
        for path in ["", "/export", "/stats", &format!("/{id}")] {
            views.push(world.get("default", &format!("/v1/dead-letters{path}?limit=1")).await.1);
        }
        let escaped = json!(secret).to_string();
        for view in &views {
            assert!(
                !view.contains(&secret) && !view.contains(escaped.trim_matches('"')),
                "{}: {view}",
                case["kind"]
            );
        }
        assert!(page.render_text().contains("[redacted:"), "{}", case["kind"]);
        let sought = DeadLetterSearch { text: Some(secret), ..search };
        let found = sought.find_matches(&world.store, &default, &*redact()).await.unwrap();
        assert_eq!(found.dead_letters, [], "{} is found by asking for it", case["kind"]);
    }
    assert!(cases > 10, "only {cases} kinds");
}

/// A dry run of a GitHub event also uses the parser of the consumer.
#[tokio::test]
async fn a_github_event_can_be_edited() {
    let world = open_world().await;
    let event = json!({
        "specversion": "1.0", "type": "dev.retrospect.github.push.v1", "source": "https://github.com/acme/shop",
        "id": "delivery-1", "data": {"event": "push", "repo": 7, "host": "github.com", "commits": []},
    });
    let position =
        DeliveryPosition { consumer: "tracker".to_owned(), stream: "RETRO_GITHUB".to_owned(), sequence: 1 };
    let subject = "retro.github.default.push".to_owned();
    let payload = event.to_string().into_bytes();
    let id = world.store_dead_letter(&NewDeadLetter { position, subject, payload, ..invalid_event(1) }).await;
    let first = world.edit(id, &set_field("data.repo", json!(8))).await.unwrap();
    assert!(
        !first.valid && first.prediction.starts_with("it would be refused again: field_invalid"),
        "{first:?}"
    );
    let second = world.edit(id, &set_field("data.repo", json!("acme/shop"))).await.unwrap();
    assert!(
        second.valid && second.prediction.starts_with("the tracker would record push of acme/shop"),
        "{second:?}"
    );
    let error = world.edit(id, &set_field("id", json!("delivery-2"))).await.unwrap_err();
    assert!(error.to_string().contains("changes the event's source or id"), "{error}");
}
