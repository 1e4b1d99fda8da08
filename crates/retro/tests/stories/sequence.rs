//! Investigations that build on what came before: the brief of the workflow, the calls of other runs, objections to the
//! heuristics, and the recorded answers of the demo.

use retro_testkit::{ModelEndpoint, ModelReply};
use serde_json::{Value, json};

use crate::world::{RunBuilder, World, intercode_fixture, json_items, json_text, project_path};

const WORKFLOW: &str = "release";
const POLICY: &str = "[trigger]\nthreshold_runs = 6\n[selection]\nsample_permille = 1000\nsample_runs_max = 6\n[context]\nwithhold_permille = 0\n";

/// Returns a run of a repository whose first call fails with an error that names it.
fn build_run(number: u64, repository: &str) -> Value {
    let mut event = RunBuilder::new(WORKFLOW, &format!("run-{number}"))
        .with_message("Deploy it.")
        .with_call("deploy", &json!({"region": "eu"}), &format!("Error: unknown region eu of {repository}"))
        .with_call("deploy", &json!({"region": "eu-west-1"}), "deployed")
        .build_event();
    event["data"]["repo"] = json!(format!("acme/{repository}"));
    event
}

fn texts_of<'b>(body: &'b Value, role: &str) -> Vec<&'b str> {
    let of_role = json_items(&body["messages"]).iter().filter(|message| message["role"] == role);
    of_role.filter_map(|message| message["content"].as_str()).collect()
}

/// Replies as a model that asks what other runs called, and then refutes what the heuristics found.
fn refute(body: &Value) -> ModelReply {
    if texts_of(body, "tool").is_empty() {
        return ModelReply::tool("list_workflow_calls", json!({"failed_only": true}));
    }
    let quote = json!({"turn": 2, "call": 0, "text": "deployed"});
    let refuted = json!([{"finding": 1, "reason": "task_specific", "quote": quote}]);
    ModelReply::tool("submit_findings", json!({"findings": [], "refuted": refuted}))
}

async fn load_reports(world: &World, workflow: &str) -> Vec<(Value, String)> {
    let rows = world.run_json(&["reports", "list", "--workflow", workflow]).await;
    let mut reports = Vec::new();
    for row in json_items(&rows).iter().rev() {
        let id = json_text(&row["retrospective"], "id");
        let text = world.run_retro(&["reports", "show", id, "--markdown"]).await.out;
        reports.push((world.run_json(&["reports", "show", id]).await, text));
    }
    reports
}

#[tokio::test]
async fn every_investigation_is_told_the_same_of_its_workflow_and_nothing_of_another_repository() {
    let endpoint = ModelEndpoint::start(|_, body| refute(body)).await;
    let mut world = World::empty();
    world.write_policy(POLICY);
    world.up_with_env(&[("RETRO_MODEL_URL", endpoint.url()), ("RETRO_MODEL", "small")]).await;
    let runs: Vec<_> =
        (0..6).map(|number| build_run(number, if number < 4 { "one" } else { "two" })).collect();
    world.emit_and_wait("default", "runs.jsonl", &runs).await;

    let received = endpoint.received();
    assert_eq!(
        received.len(),
        12,
        "two calls for each run: {:#?}",
        received.last().map(|one| &one.body["messages"])
    );
    let about = |repository: &str| {
        let own = format!("repository: acme/{repository}");
        received.iter().map(|one| &one.body).filter(move |body| texts_of(body, "user")[1].contains(&own))
    };
    for (repository, other, runs) in [("one", "two", 4), ("two", "one", 2)] {
        let mut briefs: Vec<_> = about(repository).map(|body| texts_of(body, "user")[0]).collect();
        assert_eq!(briefs.len(), 2 * runs);
        briefs.dedup();
        let [brief] = &briefs[..] else { panic!("one text, so that a provider can cache it: {briefs:#?}") };
        for said in [
            "workflow: release".to_owned(),
            "runs of this window: 6".to_owned(),
            format!("newest runs whose calls are known: {runs}"),
            format!("step deploy: deploy: {} calls in {runs} runs, {runs} failed", 2 * runs),
        ] {
            assert!(brief.contains(&said), "{said}: {brief}");
        }
        for body in about(repository) {
            let all = body.to_string();
            assert!(!all.contains(&format!("region eu of {other}")), "law 15: {all}");
            for told in texts_of(body, "tool") {
                assert!(
                    told.contains(&format!("unknown region eu of {repository}: {runs} calls in {runs} runs")),
                    "{told}"
                );
                assert!(told.contains("`region` = `eu-west-1`"), "what they changed: {told}");
            }
        }
    }

    let (report, text) = load_reports(&world, WORKFLOW).await.remove(0);
    assert!(text.contains("refuted by the language model"), "{text}");
    assert!(text.contains("the calls of many runs support a lesson about this error"), "{text}");
    assert_eq!(json_items(&report["investigations"][0]["refutations"]).len(), 1, "{report}");
    let memories = world.run_json(&["memories", "list", "--status", "active"]).await;
    assert!(
        memories.to_string().contains("set `region` to `eu-west-1`"),
        "the contrast stands above: {memories}"
    );
    world.verify_store().await;
    world.stop().await;
}

/// The demo's cassettes answer every prompt that this program asks. After a change of a prompt or a tool, record them again:
/// `crates/tools/xtask/fixtures/demo-model/README.md`.
#[tokio::test]
async fn the_recorded_answers_of_the_demo_fit_the_prompts() {
    let cassettes = format!("cassettes:{}", project_path("crates/tools/xtask/fixtures/demo-model/cassettes"));
    let mut world = World::empty();
    world.write_policy("");
    world.up_with_env(&[("RETRO_MODEL_URL", cassettes.as_str()), ("RETRO_MODEL", "answered-by-hand")]).await;
    let packed = std::fs::read(intercode_fixture()).expect("the fixture is there");
    let text = zstd::decode_all(packed.as_slice()).expect("it is compressed");
    let text = String::from_utf8(text).expect("it is text");
    let runs: Vec<&str> = text.lines().take(20).collect();
    let file = world.write_file("runs.jsonl", runs.join("\n") + "\n");
    world.run_retro(&["emit", &file, "--pause-every", "10"]).await;
    world.wait_until_counted("default", 20).await;
    world.wait_until_idle().await;
    let reports = load_reports(&world, "intercode-sql").await;
    assert_eq!(reports.len(), 2);
    for (report, text) in &reports {
        let missed = json_items(&report["investigations"]).iter().find(|one| !one["model_note"].is_null());
        assert!(missed.is_none(), "a prompt has no cassette; record them again: {missed:?}");
        assert!(text.contains("A language model took part in 4 of 4 answers."), "{text}");
    }
    world.verify_store().await;
    world.stop().await;
}
