//! Tests the HTTP API against its OpenAPI document.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::world::{World, build_correcting_runs, json_items, json_text, project_path};

#[tokio::test]
async fn the_committed_document_equals_what_the_program_prints_and_serves() {
    let mut world = World::start().await;
    let printed = world.run_retro(&["openapi"]).await;
    let committed = std::fs::read_to_string(project_path("crates/retro/openapi.json")).unwrap_or_default();
    assert!(
        printed.out == committed,
        "crates/retro/openapi.json is not fresh: `cargo run -p retro -- openapi > crates/retro/openapi.json`"
    );
    let (status, served) = world.get("default", "/v1/openapi.json").await;
    assert_eq!((status, serde_json::from_str::<Value>(&served).unwrap()), (200, printed.parse_json()));
    world.stop().await;
}

/// Calls every operation of the document, with existing ids and with an unknown one, and checks the responses
/// against the documented schemas.
#[tokio::test]
async fn every_route_answers_as_the_document_describes() {
    let mut world = World::start().await;
    let document = load_document(&world).await;
    world
        .emit_and_wait("default", "runs.jsonl", &build_correcting_runs("release", "deploy_service", 0..10))
        .await;
    world.publish_event("default", "release", &json!({"no": "event"})).await;
    let dead_letters = "a dead letter is stored";
    let dead_letter = async || json_items(&world.run_json(&["dead-letters", "list"]).await).first().cloned();
    let dead_letter = world.wait_for(dead_letters, dead_letter).await;
    let memory = json_items(&world.run_json(&["memories", "list"]).await)[0].clone();
    let retrospective = world.run_json(&["retrospectives", "list"]).await[0]["retrospective"].clone();
    world.run_json(&["dead-letters", "replay", "--all", "--detach", "--reason", "to see a batch"]).await;
    let batch = json_items(&world.run_json(&["dead-letters", "batches"]).await)[0].clone();
    let mut checked_paths = BTreeSet::new();
    for (path, _) in document["paths"].as_object().unwrap().iter().filter(|(_, item)| item["get"].is_object())
    {
        let owner = [
            ("dead-letters/batches", &batch),
            ("dead-letters", &dead_letter),
            ("memories", &memory),
            ("re", &retrospective),
        ];
        let id = owner
            .iter()
            .find(|(kind, _)| path.starts_with(&format!("/v1/{kind}")))
            .map(|(_, one)| json_text(one, "id"));
        let existing = path
            .replace("{id}", id.unwrap_or_default())
            .replace("{workflow}", "release")
            .replace("{run}", "release-0");
        let existing = match path.as_str() {
            "/v1/memories/search" => format!("{path}?workflow=release&step=deploy&query=deploy_service"),
            _ => existing,
        };
        let (status, body) = world.get("default", &existing).await;
        assert_eq!(status, 200, "{existing}: {body}");
        assert_fits_schema(&document, path, "get", "200", &body);
        if path.contains('{') {
            let missing = path.replace("{id}", "ffffffff-ffff-8fff-bfff-ffffffffffff");
            let (status, body) = world.get("default", &missing.replace("{workflow}", "unknown")).await;
            assert_eq!(status, 404, "{path}: {body}");
            assert_fits_schema(&document, path, "get", "default", &body);
        }
        checked_paths.insert(path.clone());
    }
    assert!(checked_paths.len() >= 12, "{checked_paths:?}");
    check_posts(&world, &document).await;
    world.stop().await;
}

async fn check_posts(world: &World, document: &Value) {
    let context = world.fetch_context("default", &json!({"workflow": "release", "step": "deploy"})).await;
    assert!(!json_items(&context["memories"]).is_empty(), "{context}");
    assert_fits_schema(document, "/v1/context", "post", "200", &context.to_string());
    let event = build_correcting_runs("release", "deploy_service", 0..1).remove(0);
    for (body, form, status) in [
        (event.clone(), "application/cloudevents+json", "202"),
        (json!([event, 7]), "application/cloudevents-batch+json", "207"),
        (json!([7]), "application/cloudevents-batch+json", "422"),
        (json!(7), "application/cloudevents+json", "default"),
    ] {
        let posted = world.post_events("default", form, &[], body.to_string()).await;
        assert_eq!(posted.status.to_string(), if status == "default" { "400" } else { status }, "{posted:?}");
        assert_fits_schema(document, "/v1/events", "post", status, &posted.body.to_string());
    }
}

#[tokio::test]
async fn golden_events_match_the_documented_schema() {
    let world = World::empty();
    let document = load_document(&world).await;
    let content = &document["paths"]["/v1/events"]["post"]["requestBody"]["content"];
    let schema = &content["application/cloudevents+json"]["schema"];
    for name in ["v1-minimal", "v1-full"] {
        let path = project_path(&format!("crates/foundation/retro-events/golden/{name}.structured.json"));
        let golden: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(find_schema_errors(&document, schema, &golden), Vec::<String>::new(), "{name}");
        let mut nameless = golden;
        nameless["data"].as_object_mut().unwrap().remove("run_id");
        assert_eq!(
            find_schema_errors(&document, schema, &nameless).len(),
            1,
            "{name}: a schema without requirements"
        );
    }
}

async fn load_document(world: &World) -> Value {
    world.run_retro(&["openapi"]).await.parse_json()
}

/// Asserts that a response with this status fits the first media type documented for it.
#[track_caller]
fn assert_fits_schema(document: &Value, path: &str, method: &str, status: &str, body: &str) {
    let answer = &document["paths"][path][method]["responses"][status];
    let forms =
        answer["content"].as_object().unwrap_or_else(|| panic!("{method} {path} {status} is not described"));
    let json = ["application/json", "application/problem+json"].iter().find_map(|form| forms.get(*form));
    let Some(form) = json else {
        let texts = ["text/plain", "application/x-ndjson"];
        assert!(texts.iter().any(|form| forms.contains_key(*form)), "{method} {path} {status}: {forms:?}");
        return;
    };
    let value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"));
    assert_eq!(
        find_schema_errors(document, &form["schema"], &value),
        Vec::<String>::new(),
        "{method} {path} {status}: {body}"
    );
}

/// Returns the errors of a value against a schema in the document.
fn find_schema_errors(document: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut schema = schema.clone();
    schema["components"] = document["components"].clone();
    let validator = jsonschema::draft202012::new(&schema).expect("a schema");
    validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect()
}
