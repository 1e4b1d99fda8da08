//! The HTTP side as it describes itself.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::world::{World, items, mending, project, text};

#[tokio::test]
async fn the_document_that_is_committed_is_what_the_program_prints_and_serves() {
    let mut world = World::start().await;
    let printed = world.retro(&["openapi"]).await;
    let committed = std::fs::read_to_string(project("crates/retro/openapi.json")).unwrap_or_default();
    assert!(
        printed.out == committed,
        "crates/retro/openapi.json is not fresh: `cargo run -p retro -- openapi > crates/retro/openapi.json`"
    );
    let (status, served) = world.get("default", "/v1/openapi.json").await;
    assert_eq!((status, serde_json::from_str::<Value>(&served).unwrap()), (200, printed.json()));
    world.stop().await;
}

/// Every operation of the document is asked for, with ids that exist and with one that does not; what is answered is
/// held against the schema that the document promises.
#[tokio::test]
async fn every_route_is_served_and_answers_as_it_is_described() {
    let mut world = World::start().await;
    let document = document(&world).await;
    world.emit("default", "runs.jsonl", &mending("release", "deploy_service", 0..10)).await;
    world.publish("default", "release", &json!({"no": "event"})).await;
    let letters = "a dead letter is there";
    let letter = async || items(&world.ask(&["dead-letters", "list"]).await).first().cloned();
    let letter = world.until(letters, letter).await;
    let memory = items(&world.ask(&["memories", "list"]).await)[0].clone();
    let retrospective = world.ask(&["retrospectives", "list"]).await[0]["retrospective"].clone();
    world.ask(&["dead-letters", "replay", "--all", "--detach", "--reason", "to see a batch"]).await;
    let batch = items(&world.ask(&["dead-letters", "batches"]).await)[0].clone();
    let mut asked = BTreeSet::new();
    for (path, _) in document["paths"].as_object().unwrap().iter().filter(|(_, item)| item["get"].is_object())
    {
        let owner = [
            ("dead-letters/batches", &batch),
            ("dead-letters", &letter),
            ("memories", &memory),
            ("re", &retrospective),
        ];
        let id = owner
            .iter()
            .find(|(kind, _)| path.starts_with(&format!("/v1/{kind}")))
            .map(|(_, one)| text(one, "id"));
        let existing = path.replace("{id}", id.unwrap_or_default());
        let (status, body) = world.get("default", &existing).await;
        assert_eq!(status, 200, "{existing}: {body}");
        fits(&document, path, "get", "200", &body);
        if path.contains("{id}") {
            let (status, body) =
                world.get("default", &path.replace("{id}", "ffffffff-ffff-8fff-bfff-ffffffffffff")).await;
            assert_eq!(status, 404, "{path}: {body}");
            fits(&document, path, "get", "default", &body);
        }
        asked.insert(path.clone());
    }
    assert!(asked.len() >= 12, "{asked:?}");
    posts(&world, &document).await;
    world.stop().await;
}

async fn posts(world: &World, document: &Value) {
    let context = world.context("default", &json!({"workflow": "release", "step": "deploy"})).await;
    assert!(!items(&context["memories"]).is_empty(), "{context}");
    fits(document, "/v1/context", "post", "200", &context.to_string());
    let event = mending("release", "deploy_service", 0..1).remove(0);
    for (body, form, status) in [
        (event.clone(), "application/cloudevents+json", "202"),
        (json!([event, 7]), "application/cloudevents-batch+json", "207"),
        (json!([7]), "application/cloudevents-batch+json", "422"),
        (json!(7), "application/cloudevents+json", "default"),
    ] {
        let posted = world.post_events("default", form, &[], body.to_string()).await;
        assert_eq!(posted.status.to_string(), if status == "default" { "400" } else { status }, "{posted:?}");
        fits(document, "/v1/events", "post", status, &posted.body.to_string());
    }
}

#[tokio::test]
async fn the_golden_events_are_as_the_document_describes_an_event() {
    let world = World::empty();
    let document = document(&world).await;
    let content = &document["paths"]["/v1/events"]["post"]["requestBody"]["content"];
    let schema = &content["application/cloudevents+json"]["schema"];
    for name in ["v1-minimal", "v1-full"] {
        let path = project(&format!("crates/retro-events/golden/{name}.structured.json"));
        let golden: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(wrong(&document, schema, &golden), Vec::<String>::new(), "{name}");
        let mut nameless = golden;
        nameless["data"].as_object_mut().unwrap().remove("run_id");
        assert_eq!(
            wrong(&document, schema, &nameless).len(),
            1,
            "{name}: a description that asks for nothing"
        );
    }
}

async fn document(world: &World) -> Value {
    world.retro(&["openapi"]).await.json()
}

/// The answer of this status fits the first form that the document promises for it.
#[track_caller]
fn fits(document: &Value, path: &str, method: &str, status: &str, body: &str) {
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
        wrong(document, &form["schema"], &value),
        Vec::<String>::new(),
        "{method} {path} {status}: {body}"
    );
}

/// What is wrong with a value by a schema of the document.
fn wrong(document: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut schema = schema.clone();
    schema["components"] = document["components"].clone();
    let validator = jsonschema::draft202012::new(&schema).expect("a schema");
    validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect()
}
