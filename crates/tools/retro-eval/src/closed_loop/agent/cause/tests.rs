//! What a world can express about causes, seen in the trajectories of its runs.

use serde_json::{Value, json};

use crate::closed_loop::agent::tests::HABITS;
use crate::closed_loop::agent::{RunResult, SimulatedRun, StepContext};
use crate::closed_loop::lesson::Lesson;
use crate::closed_loop::trajectory::{EventFacts, build_event};
use crate::closed_loop::truth::{MemoryTruth, WorldItem, evaluate_truth, match_claim};
use crate::closed_loop::world::tests::{CHANGED, SMALL, read};
use crate::closed_loop::world::{AgentHabits, Workflow};

/// Simulates a run of a workflow whose prompt holds these lines in every step.
fn play(workflow: &Workflow, number: u32, lines: &[&str]) -> RunResult {
    let memories: Vec<_> = lines.iter().map(|line| ((*line).to_owned(), Lesson::from_line(line))).collect();
    let handed = StepContext { text: "block".to_owned(), tokens: 9, memories };
    let each = workflow.steps.iter().map(|step| (step.get_ref().name.clone(), handed.clone()));
    SimulatedRun { world: "w", agents: &HABITS, workflow, seed: 1, number }.simulate(&each.collect())
}

/// Returns the first run, from `from` on, that meets the first cause without a memory and ends as `failed`.
fn first_met(workflow: &Workflow, from: u32, failed: bool) -> u32 {
    let met = |number: &u32| {
        let played = play(workflow, *number, &[]);
        played.causes_met.contains(&0) && played.failed_by.contains(&0) == failed
    };
    (from..from + 200).find(met).expect("a half of the runs meet the cause")
}

/// Returns the turns with a call to `tool`, as tool, arguments, answer, flag and time.
fn calls(played: &RunResult, tools: &[&str]) -> Vec<(String, Value, String, Value, Value)> {
    let facts = EventFacts {
        workflow: "w",
        run: "r",
        failed: played.failed,
        presented: Vec::new(),
        read: Vec::new(),
        remarks: &[],
    };
    let event = build_event(&facts, &played.trace);
    let turns = event["data"]["trajectory"]["steps"].as_array().unwrap().clone();
    let called = turns.iter().filter_map(|turn| {
        let (call, result) = (&turn["tool_calls"][0], &turn["observation"]["results"][0]);
        let tool = call["function_name"].as_str().filter(|tool| tools.contains(tool))?;
        let answer = result["content"].as_str()?.to_owned();
        let (flag, time) = (result["is_error"].clone(), turn["timestamp"].clone());
        Some((tool.to_owned(), call["arguments"].clone(), answer, flag, time))
    });
    called.collect()
}

fn with(text: &str, from: &str, to: &str) -> Workflow {
    assert!(text.contains(from), "{from}");
    read(&text.replacen(from, to, 1)).unwrap()
}

#[test]
fn a_tool_can_refuse_and_exit_with_zero() {
    let line = "flags = true\nexit_line = \"exit code {exit}\"\n[values]";
    let refuses = with(SMALL, "[values]", line);
    let number = first_met(&refuses, 1, true);
    let (_, _, answer, flag, _) = calls(&play(&refuses, number, &[]), &["deploy_service"]).remove(0);
    assert_eq!(
        (answer.as_str(), flag),
        ("Error: missing required argument 'region'\nexit code 1", json!(true))
    );
    let text = SMALL.replacen("[values]", line, 1);
    let lies = with(&text, "errors = [\"Error: missing", "exit = 0\nerrors = [\"Error: missing");
    let (_, _, answer, flag, _) = calls(&play(&lies, number, &[]), &["deploy_service"]).remove(0);
    assert_eq!(
        (answer.as_str(), flag),
        ("Error: missing required argument 'region'\nexit code 0", json!(false))
    );
}

#[test]
fn a_silent_failure_shows_only_at_the_end_of_the_run() {
    let text = SMALL.replacen("[values]", "flags = true\n[values]", 1);
    let silent = with(&text, "until = 60", "silent = true");
    let number = first_met(&silent, 1, true);
    let played = play(&silent, number, &[]);
    let (_, _, _, flag, _) = calls(&played, &["deploy_service"]).remove(0);
    assert!(flag == json!(false) && played.failed);
    let harmless = with(&text, "until = 60", "silent = true\nbad_end = 0.0");
    assert!(!play(&harmless, number, &[]).failed_by.contains(&0), "it can end well all the same");
}

#[test]
fn the_same_call_works_after_a_wait() {
    let remedy = "right = { service = \"{service}\", region = \"eu\" }";
    let waits = with(SMALL, remedy, "wait = 90");
    let number = first_met(&waits, 1, false);
    let called = calls(&play(&waits, number, &[]), &["deploy_service"]);
    let of_cause: Vec<_> = called.iter().filter(|call| call.1["wait"].is_null()).collect();
    assert_eq!(of_cause[0].1, of_cause[1].1, "the same call");
    let time = |call: &Value| {
        let text = call.as_str().unwrap();
        text[14..16].parse::<u32>().unwrap() * 60 + text[17..19].parse::<u32>().unwrap()
    };
    assert_eq!(time(&of_cause[1].4) - time(&of_cause[0].4), 97, "the wait and the turn before it");
    let called = calls(&play(&read(SMALL).unwrap(), number, &[]), &["deploy_service"]);
    assert!(called.iter().all(|call| call.4.is_null()), "no times without a wait");
}

#[test]
fn two_look_ups_supply_a_value_in_two_steps_and_another_tool_finishes() {
    let look_ups = "look_up = [{ tool = \"find_order\", answer = \"id {id}\" }, { tool = \"get_order\", arguments = { id = \"{id}\" }, answer = \"version {version}\" }]";
    let text = SMALL.replacen("[values]", "[values]\nid = \"o-###\"\nversion = \"v##\"", 1);
    let text = text.replacen("region = \"eu\" }", "version = \"{version}\" }", 1);
    let two = with(&text, "until = 60", &format!("{look_ups}\nright_tool = \"replace_service\""));
    let number = first_met(&two, 1, false);
    let called = calls(&play(&two, number, &[]), &["find_order", "get_order", "replace_service"]);
    let tools: Vec<&str> = called.iter().map(|call| call.0.as_str()).collect();
    assert_eq!(tools, ["find_order", "get_order", "replace_service"]);
    assert_eq!(called[0].2, format!("id {}", called[1].1["id"].as_str().unwrap()));
    assert_eq!(called[1].2, format!("version {}", called[2].1["version"].as_str().unwrap()));
    let line = "When `deploy_service` answers “missing required argument …”, pass `region` as well.";
    let followed = calls(&play(&two, number, &[line]), &["deploy_service"]);
    assert!(followed.iter().all(|call| call.1["wait"] == true), "a follower leaves the failing call out");
}

#[test]
fn only_the_order_of_two_calls_can_be_the_remedy() {
    let order = "first = { tool = \"lock\", answer = \"locked\", usual = \"after\" }\nmemory = { error = [\"missing required\"], remedy = [\"`lock` first\"] }";
    let text =
        SMALL.replacen("memory = { error = [\"missing required\"], remedy = [\"pass `region`\"] }", order, 1);
    let order = with(&text, "right = { service = \"{service}\", region = \"eu\" }\n", "");
    let tools = |number, lines: &[&str]| -> Vec<String> {
        let called = calls(&play(&order, number, lines), &["lock", "deploy_service"]);
        // The other calls of the tool belong to the trap.
        called.into_iter().filter(|call| call.1["wait"].is_null()).map(|call| call.0).collect()
    };
    let (lost, found) = (first_met(&order, 1, true), first_met(&order, 1, false));
    assert_eq!(tools(lost, &[]), ["deploy_service", "lock"]);
    assert_eq!(tools(found, &[]), ["deploy_service", "lock", "deploy_service"]);
    let line = "When `deploy_service` answers “missing required …”, call `lock` first.";
    assert_eq!(tools(lost, &[line]), ["lock", "deploy_service"]);
    let unmet = (1..60).find(|number| play(&order, *number, &[]).causes_met.is_empty()).unwrap();
    assert_eq!(tools(unmet, &[]), ["deploy_service", "lock"]);
    assert_eq!(tools(unmet, &[line]), ["lock", "deploy_service"]);
}

#[test]
fn a_replaced_remedy_harms_and_the_new_one_helps() {
    let workflow = read(CHANGED).unwrap();
    let (old, new) = (
        "When `bash` answers “No module named …”, run `pip install` first.",
        "When `bash` answers “No module named …”, run `uv add` first.",
    );
    let before = first_met(&workflow, 1, true);
    assert!(!play(&workflow, before, &[old]).failed);
    let after = first_met(&workflow, 101, true);
    let harmed = play(&workflow, after, &[old, new]);
    assert_eq!(harmed.harmed_by, [WorldItem::Cause(0, 0)], "the first memory of the prompt is followed");
    assert!(harmed.failed && harmed.causes_met == [0]);
    let helped = play(&workflow, after, &[new, old]);
    assert!(!helped.failed && helped.harmed_by.is_empty());
    let called = calls(&helped, &["bash"]);
    assert_eq!(called[0].1["argv"][0], "uv", "{called:?}");
    assert!(!play(&workflow, before, &[new]).harmed_by.is_empty() || before > 100, "not before its time");
}

const PORT: &str = r#"
[[step]]
name = "check"
task = "Check the health."

[[fact]]
step = "check"
tool = "health"
memory = { remedy = ["port"] }

[fact.used]
chance = 0.5
needs = ["8443"]
arguments = { path = "/" }
errors = ["connection refused"]
right = { path = "/", port = 8443 }
guess = { path = "/", port = 8080 }
guess_error = "404 page not found"
answer = "ok"
"#;

/// Returns the ports of the calls of a run that needs the fact, and whether the run failed.
fn ports(lesson: Option<Lesson>, opens: f64, number: u32) -> (Vec<Value>, bool) {
    let workflow = read(PORT).unwrap();
    let memories: Vec<_> = lesson.into_iter().map(|lesson| ("m".to_owned(), lesson)).collect();
    let handed = StepContext { text: "block".to_owned(), tokens: 9, memories };
    let habits = AgentHabits { read: opens, finds_out: 0.0, ..HABITS };
    let run = SimulatedRun { world: "w", agents: &habits, workflow: &workflow, seed: 1, number };
    let played = run.simulate(&[("check".to_owned(), handed)].into());
    (calls(&played, &["health"]).into_iter().map(|call| call.1["port"].clone()).collect(), played.failed)
}

#[test]
fn a_fact_is_used_only_with_the_exact_value() {
    let number = (1..100).find(|number| ports(None, 0.0, *number).1).unwrap();
    assert_eq!(ports(None, 0.0, number), (vec![Value::Null], true));
    let line = |line: &str| Some(Lesson::from_line(line));
    assert_eq!(ports(line("`health` listens on port 8443."), 0.0, number), (vec![json!(8443)], false));
    assert_eq!(ports(line("`health` needs another port."), 0.0, number), (vec![json!(8080)], true));
    assert_eq!(ports(line("`health` has port 84430."), 0.0, number), (vec![json!(8080)], true));
    let opened = Lesson { content: "It is 8443.".into(), ..Lesson::from_line("`health` needs a port.") };
    assert_eq!(ports(Some(opened.clone()), 1.0, number), (vec![json!(8443)], false), "opened");
    assert_eq!(ports(Some(opened), 0.0, number), (vec![json!(8080)], true), "not opened");
    let cue = json!({"title": "`health` works.", "cue": {"tool": "health", "prefer": "`port` = `9443`"}});
    let wrong = Lesson::from_json(&cue);
    assert_eq!(ports(Some(wrong), 0.0, number), (vec![json!(9443)], true), "it uses the stated value");
    let unneeded = (1..100).find(|number| !ports(None, 0.0, *number).1).unwrap();
    assert_eq!(ports(None, 0.0, unneeded), (vec![Value::Null], false));
}

#[test]
fn a_memory_without_the_value_is_vague_and_one_with_it_is_true() {
    let workflow = read(PORT).unwrap();
    let truth = |lesson: &Lesson| evaluate_truth(&workflow, &match_claim(&workflow, "check", lesson), 1);
    assert_eq!(truth(&Lesson::from_line("`health` listens on port 8443.")), MemoryTruth::True);
    assert_eq!(truth(&Lesson::from_line("`health` needs another port.")), MemoryTruth::Vague);
    assert_eq!(truth(&Lesson::from_line("`health` needs nothing.")), MemoryTruth::Noise);
}

#[test]
fn a_value_that_no_memory_could_state_is_rejected() {
    let said = read(&PORT.replace("guess_error", "guess_eror")).unwrap_err().to_string();
    assert!(said.starts_with("w.toml:18: unknown field `guess_eror`"), "{said}");
    for (from, to, says) in [
        ("needs = [\"8443\"]", "needs = [\"8444\"]", "in no call of the remedy"),
        ("needs = [\"8443\"]", "needs = []", "is empty"),
        ("needs = [\"8443\"]", "needs = [\"{port}\"]", "the same in every run"),
    ] {
        assert!(PORT.contains(from));
        let said = read(&PORT.replace(from, to)).unwrap_err().to_string();
        assert!(said.starts_with("w.toml:6: [[fact]] health: ") && said.contains(says), "{said}");
    }
}

#[test]
fn a_memory_of_both_remedies_is_followed_in_the_one_that_works() {
    let workflow = read(CHANGED).unwrap();
    let both = "When `bash` answers “No module named …”, run `pip install` or `uv add` first.";
    for from in [1, 101] {
        let number = first_met(&workflow, from, true);
        let played = play(&workflow, number, &[both]);
        assert!(!played.failed && played.harmed_by.is_empty(), "run {number}");
    }
}
