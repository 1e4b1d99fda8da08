//! Tests runs of other formats that come over HTTP: transcripts, and traces of OpenTelemetry.

use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};

use crate::world::{World, json_items, json_text, project_path};

fn read_fixture(path: &str) -> String {
    let path = project_path(&format!("crates/infrastructure/retro-adapters/fixtures/{path}"));
    std::fs::read_to_string(path).expect("the program answers, and the fixture is there")
}

/// Posts a body as JSON text, and returns the status and the answer.
async fn post(world: &World, path: &str, key: Option<&str>, body: impl Into<reqwest::Body>) -> (u16, Value) {
    let url = format!("{}{path}", world.http_url());
    let mut request = reqwest_client().post(url).header("Retro-Tenant", "acme");
    request = request.header(CONTENT_TYPE, "application/json");
    if let Some(key) = key {
        request = request.header("Idempotency-Key", key);
    }
    let response = request.body(body).send().await.expect("the program answers, and the fixture is there");
    (
        response.status().as_u16(),
        response.json().await.expect("the program answers, and the fixture is there"),
    )
}

fn reqwest_client() -> reqwest::Client {
    retro_eval::http_client::configure_client()
        .build()
        .expect("the program answers, and the fixture is there")
}

#[tokio::test]
async fn a_transcript_is_posted_as_the_file_that_it_is_and_counted_once() {
    let mut world = World::start().await;
    let file = read_fixture("claude-code/two-calls.jsonl");
    let path = "/v1/transcripts?workflow=release&outcome=failure&task=deploy";
    let first = post(&world, path, None, file.clone()).await;
    assert_eq!(first, (202, json!({"accepted": 1, "refused": []})));
    let keyed = [
        post(&world, path, Some("k"), file.clone()).await,
        post(&world, path, Some("k"), file.clone()).await,
    ];
    assert_eq!(keyed, [first.clone(), first]);
    let other = post(&world, "/v1/transcripts?workflow=other", Some("k"), file.clone()).await;
    assert_eq!(other.0, 422, "the same key with other facts: {other:?}");
    world.wait_until_counted("acme", 1).await;
    world.wait_until_idle().await;
    let runs = world.run_json(&["--tenant", "acme", "runs"]).await;
    let [run] = json_items(&runs) else { panic!("{runs}") };
    assert_eq!(
        (&run["facts"]["outcome"], &run["facts"]["task"]),
        (&json!("failure"), &json!("deploy")),
        "{run}"
    );

    let (status, refused) = post(&world, "/v1/transcripts", None, "{\"a\": 1}").await;
    assert_eq!((status, &refused["code"]), (422, &json!("type_unknown")), "{refused}");
    let two = format!("{}\n{}", json!({"messages": []}), json!({"messages": []}));
    let (status, refused) = post(&world, "/v1/transcripts", None, two).await;
    assert_eq!((status, &refused["path"]), (422, &json!("line 1: messages")), "{refused}");
    for wrong in ["outcome=splendid", "outcom=success", "task="] {
        let (status, refused) = post(&world, &format!("/v1/transcripts?{wrong}"), None, file.clone()).await;
        assert_eq!(status / 100, 4, "{wrong}: {refused}");
    }
    assert_eq!(json_items(&world.run_json(&["--tenant", "acme", "dead-letters", "list"]).await).len(), 0);
    world.verify_store().await;
    world.stop().await;
}

#[tokio::test]
async fn a_whole_trace_is_a_run_at_once_and_counted_once() {
    let mut world = World::start().await;
    let requests: Vec<Value> = read_fixture("otel/agent.composed.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let groups = requests.iter().filter_map(|request| request["resourceSpans"].as_array());
    let whole = json!({"resourceSpans": groups.flatten().collect::<Vec<_>>()});
    let trace = whole.to_string();
    assert_eq!(post(&world, "/v1/traces", None, trace.clone()).await, (200, json!({})));
    assert_eq!(
        post(&world, "/v1/traces", None, trace.clone()).await,
        (200, json!({})),
        "an exporter may repeat it"
    );
    world.wait_until_counted("acme", 1).await;
    world.wait_until_idle().await;
    let runs = world.run_json(&["--tenant", "acme", "runs"]).await;
    let [run] = json_items(&runs) else { panic!("{runs}") };
    let facts = (json_text(&run["key"], "workflow"), json_text(&run["facts"], "outcome"));
    assert_eq!(facts, ("build-fixer", "failure"), "{run}");
    world.verify_store().await;
    world.stop().await;
}
