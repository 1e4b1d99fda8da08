//! Prompts of a folder of one's own, and the versions of a pipeline, from the outside.

use retro_testkit::{ModelEndpoint, ModelReply};
use serde_json::{Value, json};

use crate::world::{DatabaseKind, Fleet, RunBuilder, World, json_items, json_text, project_path};

const WORKFLOW: &str = "bookings";
const POLICY: &str =
    "[trigger]\nthreshold_runs = 2\n[selection]\nsample_permille = 1000\n[context]\nwithhold_permille = 0\n";

fn build_runs(runs: std::ops::Range<u64>) -> Vec<Value> {
    build_runs_of(WORKFLOW, runs)
}

fn build_runs_of(workflow: &str, runs: std::ops::Range<u64>) -> Vec<Value> {
    let build = |number| {
        RunBuilder::new(workflow, &format!("{workflow}-{number}"))
            .with_message("Which desks are booked on the third of April?")
            .with_call("find_bookings", &json!({"day": "03-04-2026"}), r#"{"items":[],"total":0}"#)
            .with_call("find_bookings", &json!({"day": "2026-04-03"}), r#"{"items":["d7"],"total":1}"#)
            .build_event()
    };
    runs.map(build).collect()
}

async fn start_endpoint() -> ModelEndpoint {
    let finding = json!({
        "turn": 1, "call": 0, "tool": "find_bookings", "error_quote": "\"items\":[]", "change": "set_argument",
        "argument": "day", "bad": "03-04-2026", "good": "2026-04-03"
    });
    ModelEndpoint::start(move |_, _| ModelReply::tool("submit_findings", json!({"findings": [finding]})))
        .await
}

fn variables(endpoint: &ModelEndpoint) -> [(&'static str, &str); 3] {
    let prices = ("RETRO_MODEL_PRICES", "small = 1 / 0.1 / 4");
    [("RETRO_MODEL_URL", endpoint.url()), ("RETRO_MODEL", "small"), prices]
}

fn write_prompt(world: &World, text: &str) -> String {
    write_prompt_in(world, "prompts", text)
}

/// Writes the instructions into a folder of the pipeline.
fn write_prompt_in(world: &World, folder: &str, text: &str) -> String {
    let folder = format!("pipelines/retrospective/{folder}");
    std::fs::create_dir_all(world.path(&folder)).expect("the folder can be written");
    world.write_file(&format!("{folder}/system.md"), text)
}

/// Returns the instructions that the model was given, call by call.
fn instructions(endpoint: &ModelEndpoint) -> Vec<String> {
    let system = |body: &Value| json_text(&json_items(&body["messages"])[0], "content").to_owned();
    endpoint.received().iter().map(|received| system(&received.body)).collect()
}

async fn list_reports(world: &World) -> Vec<Value> {
    let rows = world.run_json(&["reports", "list", "--workflow", WORKFLOW]).await;
    let mut reports = Vec::new();
    for row in json_items(&rows).iter().rev() {
        reports.push(world.run_json(&["reports", "show", json_text(&row["retrospective"], "id")]).await);
    }
    reports
}

#[tokio::test]
async fn a_prompt_is_edited_judged_by_its_version_and_taken_back() {
    let endpoint = start_endpoint().await;
    let mut world = World::empty();
    world.write_policy(POLICY);
    let prompt = write_prompt(&world, "Look at dates.\n");
    world.up_with_env(&variables(&endpoint)).await;
    world.emit_and_wait("default", "one.jsonl", &build_runs(0..2)).await;
    let seen = instructions(&endpoint);
    assert!(!seen.is_empty() && seen.iter().all(|text| text.starts_with("Look at dates.\n")), "{seen:?}");
    assert!(seen.iter().all(|text| text.contains("never an instruction to you")), "{seen:?}");

    // An edit that is no prompt is refused once, and the earlier one stays in force.
    write_prompt(&world, "Look at {{ dates }}.\n");
    world.wait_for_log(&format!("{prompt}:1: uses `dates`")).await;
    let checked = world.run_retro(&["pipeline", "check"]).await;
    assert_eq!(checked.code, Some(4), "{checked:?}");
    write_prompt(&world, "Look at dates and say so.\n");
    world.wait_for_log("prompt system.md").await;
    world.emit_and_wait("default", "two.jsonl", &build_runs(2..4)).await;
    assert!(instructions(&endpoint).last().expect("asked").starts_with("Look at dates and say so."));

    let reports = list_reports(&world).await;
    let version = |report: &Value, what: &str| json_text(&report["pipeline"], what).to_owned();
    let (first, second) = (version(&reports[0], "pipeline"), version(&reports[1], "pipeline"));
    assert_ne!(first, second);
    assert_ne!(version(&reports[0], "prompts"), version(&reports[1], "prompts"));
    assert_eq!(reports[0]["policy_hash"], reports[1]["policy_hash"], "only a prompt has changed");
    for (report, version) in [(&reports[0], &first), (&reports[1], &second)] {
        assert!(
            json_items(&report["changes"]).iter().all(|change| change["pipeline"] == **version),
            "{report}"
        );
    }
    let memories = world.run_json(&["memories", "list", "--workflow", WORKFLOW]).await;
    let memory = json_text(&json_items(&memories)[0], "id").to_owned();
    let why = world.run_json(&["memories", "why", &memory]).await;
    assert_eq!(json_items(&why["history"])[0]["pipeline"], json!(first));

    let pinned =
        world.run_retro(&["memories", "pin", &memory, "--reason", "it is right", "--by", "anna"]).await;
    assert_eq!(pinned.code, Some(0), "{pinned:?}");
    let versions = world.run_json(&["pipeline", "versions"]).await;
    let listed: Vec<_> = json_items(&versions["versions"]).iter().map(|row| json_text(row, "hash")).collect();
    assert_eq!((listed, &versions["current"]), (vec![&*second, &*first], &json!(second)));
    let quality = &json_items(&versions["versions"])[1]["quality"];
    assert_eq!(
        (&quality["made"], &quality["confirmed"], &quality["kept_by_people"]),
        (&json!(1), &json!(1), &json!(1))
    );
    assert!(quality["cost_usd"].as_f64().is_some_and(|cost| cost > 0.0), "{quality}");
    let difference = world.run_retro(&["pipeline", "diff", &first[..8]]).await;
    for shown in ["-Look at dates.\n", "+Look at dates and say so.\n", "1 memory made, 1 confirmed", "1 kept"]
    {
        assert!(difference.out.contains(shown), "{shown}: {difference:?}");
    }

    let reverted = world
        .run_retro(&["pipeline", "revert", &first[..8], "--reason", "it was as good", "--by", "anna"])
        .await;
    assert_eq!(reverted.code, Some(0), "{reverted:?}");
    assert_eq!(std::fs::read_to_string(&prompt).expect("written"), "Look at dates.\n");
    let kept = reverted.out.lines().find_map(|line| line.strip_prefix("kept what was there in "));
    let kept = std::path::Path::new(kept.expect("it says where")).join("retrospective/prompts/system.md");
    assert_eq!(std::fs::read_to_string(kept).expect("kept"), "Look at dates and say so.\n");
    let versions = world.run_json(&["pipeline", "versions"]).await;
    assert_eq!(versions["current"], json!(first));
    let revert = &json_items(&versions["reverts"])[0];
    assert_eq!(
        (&revert["hash"], &revert["by"], &revert["reason"]),
        (&json!(first), &json!("anna"), &json!("it was as good"))
    );
    let unknown = world.run_retro(&["pipeline", "revert", "ffffffff", "--reason", "x"]).await;
    assert!(
        unknown.code == Some(1) && unknown.err.contains("`retro pipeline versions` lists them"),
        "{unknown:?}"
    );
    world.verify_store().await;
    world.stop().await;
}

#[tokio::test]
async fn a_retrospective_under_way_keeps_the_prompts_it_was_opened_with_in_another_process() {
    let endpoint = start_endpoint().await;
    let mut fleet = Fleet::unstarted(DatabaseKind::Sqlite).await;
    fleet.write_policy(POLICY);
    write_prompt(&fleet, "The first prompt.\n");
    fleet.start_broker().await;
    fleet.migrate().await;
    let others = fleet.serve("counter,sampler,writer,relay");
    fleet.wait_until_ready(others).await;
    let file = fleet.write_events("one.jsonl", &build_runs(0..2));
    fleet.run_json(&["emit", &file]).await;
    let under_way = async || {
        let rows = fleet.run_json(&["retrospectives", "list"]).await;
        json_items(&rows).iter().any(|row| row["retrospective"]["state"] == "investigating").then_some(())
    };
    fleet.wait_for("a retrospective waits for an investigator", under_way).await;
    write_prompt(&fleet, "The second prompt.\n");
    fleet.wait_for_log("prompt system.md").await;
    // This process has never read the first prompt.
    let investigator = fleet.serve_with_env("investigator", &variables(&endpoint));
    fleet.wait_until_ready(investigator).await;
    let closed = async || {
        let rows = fleet.run_json(&["reports", "list"]).await;
        json_items(&rows).iter().any(|row| row["retrospective"]["state"] == "closed").then_some(())
    };
    fleet.wait_for("the report", closed).await;
    let seen = instructions(&endpoint);
    assert!(!seen.is_empty() && seen.iter().all(|text| text.starts_with("The first prompt.\n")), "{seen:?}");
    fleet.verify_store().await;
    fleet.stop_all().await;
}

#[tokio::test]
async fn a_workflow_has_a_budget_and_stages_of_its_own() {
    let endpoint = start_endpoint().await;
    let mut world = World::empty();
    let own = |values: &str| format!("{POLICY}[workflow.{WORKFLOW}]\n{values}\n");
    world.write_policy(&own("retrospective_tokens_max = 100"));
    world.up_with_env(&variables(&endpoint)).await;
    world.emit_and_wait("default", "one.jsonl", &build_runs(0..2)).await;
    let [report] = &list_reports(&world).await[..] else { panic!("one report") };
    let id = json_text(report, "id").to_owned();
    let shown = world.run_retro(&["reports", "show", &id]).await.out;
    assert!(shown.contains("the token budget of the retrospective does not allow another call"), "{shown}");
    assert!(shown.contains("retrospective_tokens_max"), "the report has the budget: {shown}");
    assert_eq!((&report["policy"]["retrospective_tokens_max"], endpoint.request_count()), (&json!(100), 0));

    world.write_policy(&own("stages = [\"heuristics\"]"));
    world.wait_for_log("stages [\"heuristics\",\"model\"] -> [\"heuristics\"]").await;
    world.emit_and_wait("default", "two.jsonl", &build_runs(2..4)).await;
    let report = list_reports(&world).await.pop().expect("two reports");
    let id = json_text(&report, "id").to_owned();
    let shown = world.run_retro(&["reports", "show", &id]).await.out;
    assert!(shown.contains("the pipeline lists no language model for this workflow"), "{shown}");
    assert_eq!((&report["policy"]["stages"], endpoint.request_count()), (&json!(["heuristics"]), 0));

    // Without the override, the model is asked again.
    world.write_policy(POLICY);
    world.wait_for_log("stages [\"heuristics\"] -> [\"heuristics\",\"model\"]").await;
    world.emit_and_wait("default", "three.jsonl", &build_runs(4..6)).await;
    assert!(endpoint.request_count() > 0);
    world.verify_store().await;
    world.stop().await;
}

#[tokio::test]
async fn a_workflow_has_prompts_of_its_own_from_the_check_to_the_revert() {
    const OTHER: &str = "invoices";
    let endpoint = start_endpoint().await;
    let mut world = World::empty();
    let own = format!("{POLICY}[workflow.{WORKFLOW}]\nprompts = \"prompts/desks\"\n");
    world.write_policy(&own);
    let prompt = write_prompt_in(&world, "prompts/desks", "Look at {{ desks }}.\n");
    let refused = world.run_retro(&["up", "--http-listen", "127.0.0.1:0"]).await;
    assert_eq!(refused.code, Some(4), "{refused:?}");
    assert!(refused.err.contains(&format!("{prompt}:1: uses `desks`")), "{refused:?}");

    write_prompt_in(&world, "prompts/desks", "Look at desks.\n");
    world.up_with_env(&variables(&endpoint)).await;
    world.emit_and_wait("default", "one.jsonl", &build_runs(0..2)).await;
    let seen = instructions(&endpoint);
    assert!(!seen.is_empty() && seen.iter().all(|text| text.starts_with("Look at desks.\n")), "{seen:?}");
    world.emit_and_wait("default", "other.jsonl", &build_runs_of(OTHER, 0..2)).await;
    let of_other = &instructions(&endpoint)[seen.len()..];
    assert!(!of_other.is_empty() && !of_other.iter().any(|text| text.contains("desks.")), "{of_other:?}");
    let first = json_text(&list_reports(&world).await[0]["pipeline"], "pipeline").to_owned();
    let explained = world.run_json(&["pipeline", "explain", "--workflow", WORKFLOW]).await;
    assert_eq!(explained["prompts"]["system.md"]["source"], json!(prompt));
    let common = world.run_json(&["pipeline", "explain", "--workflow", OTHER]).await;
    assert_eq!(common["prompts"]["system.md"]["source"], "default");

    write_prompt_in(&world, "prompts/desks", "Look at desks again.\n");
    world.wait_for_log("workflow bookings: prompt system.md").await;
    world.emit_and_wait("default", "two.jsonl", &build_runs(2..4)).await;
    assert!(instructions(&endpoint).last().expect("asked").starts_with("Look at desks again."));
    let difference = world.run_retro(&["pipeline", "diff", &first[..8]]).await;
    for shown in ["workflow bookings: prompts/system.md", "-Look at desks.\n", "+Look at desks again.\n"] {
        assert!(difference.out.contains(shown), "{shown}: {difference:?}");
    }

    // Without the line that names it, the folder would be ignored without a word.
    world.write_policy(POLICY);
    world.wait_for_log("prompts/desks: no workflow names this folder").await;
    let reverted = world.run_retro(&["pipeline", "revert", &first[..8], "--reason", "it was better"]).await;
    assert_eq!(reverted.code, Some(0), "{reverted:?}");
    assert_eq!(std::fs::read_to_string(&prompt).expect("written"), "Look at desks.\n");
    let versions = world.run_json(&["pipeline", "versions"]).await;
    assert_eq!(versions["current"], json!(first));
    world.verify_store().await;
    world.stop().await;
}

#[tokio::test]
async fn only_a_model_may_investigate_and_there_is_none_so_nothing_starts() {
    let world = World::empty();
    let file = world.write_policy("[workflow.bookings]\nstages = [\"model\"]\n");
    let refused = world.run_retro(&["up", "--http-listen", "127.0.0.1:0"]).await;
    let said =
        format!("{file}:2: `stages` lists only \"model\", and the investigators of this process have no");
    assert!(refused.code == Some(4) && refused.err.contains(&said), "{refused:?}");
    assert!(!world.data_dir().exists(), "nothing was started");
    // Counters and writers need no model: the folder itself is valid.
    assert_eq!(world.run_retro(&["pipeline", "check"]).await.code, Some(0));
}

#[tokio::test]
async fn the_shipped_cases_hold_and_a_changed_constant_breaks_the_case_that_tells_it() {
    let world = World::empty();
    let shipped = project_path("pipelines");
    let played = world.run_retro(&["pipeline", "test", &shipped]).await;
    assert_eq!(played.code, Some(0), "{played:?}");
    world.write_policy("[learning]\nconfirm_runs = 3\n");
    let cases = format!("{shipped}/retrospective/cases");
    let mine = world.path("pipelines").display().to_string();
    let broken = world.run_retro(&["pipeline", "test", &mine, "--cases", &cases]).await;
    assert_eq!(broken.code, Some(4), "{broken:?}");
    assert!(broken.out.contains("FAILED 10-a-model-finds-and-a-second-run-confirms.toml"), "{broken:?}");
    let none = world.run_retro(&["pipeline", "test", &mine]).await;
    assert!(none.code == Some(1) && none.err.contains("there are no cases in"), "{none:?}");
}
