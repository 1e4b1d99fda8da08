use serde_json::json;

use super::*;
use crate::closed_loop::world::tests::{CHANGED, read, small};

const REGION: &str = "When `deploy_service` answers “missing required argument …”, pass `region` as well.";

fn truth_of(step: &str, lesson: &Lesson, run: u32) -> MemoryTruth {
    let workflow = small();
    evaluate_truth(&workflow, &match_claim(&workflow, step, lesson), run)
}

fn stands(step: &str, line: &str, run: u32) -> MemoryTruth {
    truth_of(step, &Lesson::from_line(line), run)
}

fn with_cue(line: &str, cue: &Value) -> Lesson {
    Lesson::from_json(&json!({"title": line, "cue": cue}))
}

#[test]
fn a_memory_is_known_by_its_step_tool_error_and_remedy() {
    assert_eq!(stands("deploy", REGION, 10), MemoryTruth::True);
    assert_eq!(stands("build", REGION, 10), MemoryTruth::Noise, "another step");
    for other in ["restart", "Deploy_Service"] {
        let line = REGION.replace("deploy_service", other);
        assert_eq!(stands("deploy", &line, 10), MemoryTruth::Noise, "another tool");
    }
    let line = REGION.replace("pass `region` as well", "stop repeating the call");
    assert_eq!(stands("deploy", &line, 10), MemoryTruth::Vague);
    let line = "When `deploy_service` answers “gateway”, pass `verbose` as well.";
    assert_eq!(stands("deploy", line, 10), MemoryTruth::Noise);
    let line = "When `deploy_service` answers “no quorum”, pass `force` as well.";
    assert_eq!(stands("deploy", line, 10), MemoryTruth::Trap);
}

#[test]
fn a_lesson_of_the_opposite_is_false() {
    let line = REGION.replace("pass `region` as well", "do not pass `region`");
    assert_eq!(stands("deploy", &line, 10), MemoryTruth::Noise);
    let cue = json!({"tool": "deploy_service", "prefer": "without `region`"});
    assert_eq!(truth_of("deploy", &with_cue(REGION, &cue), 10), MemoryTruth::Noise);
    let line = "When `deploy_service` answers “no quorum”, never pass `force`.";
    assert_eq!(stands("deploy", line, 10), MemoryTruth::Noise, "no trap: it warns of it");
}

#[test]
fn the_structure_decides_where_there_is_one() {
    let reworded = "`deploy_service` failed; with `region` the same call worked (3 runs).";
    assert_eq!(stands("deploy", reworded, 10), MemoryTruth::Noise, "the error's words are missing");
    let cue = json!({"tool": "deploy_service", "prefer": "with `region`"});
    assert_eq!(truth_of("deploy", &with_cue(reworded, &cue), 10), MemoryTruth::True);
    let cue = json!({"tool": "deploy_service", "prefer": "`region` = `us`"});
    assert_eq!(truth_of("deploy", &with_cue(REGION, &cue), 10), MemoryTruth::Noise, "another value");
    let cue = json!({"tool": "deploy_service", "prefer": "with `verbose`"});
    assert_eq!(truth_of("deploy", &with_cue(REGION, &cue), 10), MemoryTruth::Noise, "another remedy");
    let cue = json!({"tool": "deploy_service", "prefer": "with `force`"});
    assert_eq!(truth_of("deploy", &with_cue(REGION, &cue), 10), MemoryTruth::Trap);
}

#[test]
fn one_memory_can_be_the_remedy_of_two_causes() {
    let mut workflow = small();
    workflow.causes.push(workflow.causes[0].clone());
    let claim = match_claim(&workflow, "deploy", &Lesson::from_line(REGION));
    assert_eq!(claim.items, [WorldItem::Cause(0, 0), WorldItem::Cause(1, 0)]);
}

#[test]
fn a_fixed_cause_leaves_a_memory_that_is_stale_or_outdated() {
    assert_eq!(stands("deploy", REGION, 60), MemoryTruth::True, "its last run");
    assert_eq!(stands("deploy", REGION, 61), MemoryTruth::Outdated);
    let vague = REGION.replace("pass `region` as well", "expect it");
    assert_eq!(stands("deploy", &vague, 61), MemoryTruth::Stale);
}

#[test]
fn the_way_out_of_harm_is_true_as_long_as_there_is_harm() {
    let without = |parameter: &str, run| {
        let cue = json!({"tool": "deploy_service", "prefer": format!("without `{parameter}`")});
        truth_of("deploy", &with_cue("When it refuses that, leave it out.", &cue), run)
    };
    assert_eq!([without("region", 60), without("region", 61)], [MemoryTruth::Noise, MemoryTruth::True]);
    assert_eq!(without("force", 10), MemoryTruth::True, "the way back from a trap");
    assert_eq!(without("verbose", 10), MemoryTruth::Noise);
}

#[test]
fn a_remark_is_known_without_a_tool() {
    assert_eq!(stands("main", "Always clear the cache before you deploy.", 1), MemoryTruth::Trap);
    assert_eq!(stands("other", "Always clear the cache before you deploy.", 1), MemoryTruth::Noise);
    assert_eq!(stands("main", "Do not clear the cache before you deploy.", 1), MemoryTruth::Noise);
}

#[test]
fn a_replaced_remedy_is_outdated_and_the_new_one_is_true() {
    let workflow = read(CHANGED).unwrap();
    let truth = |line: &str, run| {
        evaluate_truth(&workflow, &match_claim(&workflow, "test", &Lesson::from_line(line)), run)
    };
    let old = "When `bash` answers “No module named …”, run `pip install` first.";
    let new = "When `bash` answers “No module named …”, run `uv add` first.";
    assert_eq!([truth(old, 100), truth(old, 101)], [MemoryTruth::True, MemoryTruth::Outdated]);
    assert_eq!([truth(new, 100), truth(new, 101)], [MemoryTruth::Outdated, MemoryTruth::True]);
}

#[test]
fn the_program_that_comes_first_is_compared_in_a_list_of_words() {
    let workflow = read(CHANGED).unwrap();
    let about = |prefer: &str| {
        let cue = json!({"tool": "bash", "prefer": prefer});
        match_claim(&workflow, "test", &with_cue("When `bash` fails, prepare it.", &cue)).items
    };
    assert_eq!(about("first `pip install`"), [WorldItem::Cause(0, 0)]);
    assert_eq!(about("first `uv add`"), [WorldItem::Cause(0, 1)]);
    assert!(about("first `pip install cv2`").is_empty(), "the package of one run");
}

#[test]
fn the_function_that_comes_first_is_known_by_its_name() {
    let argv = "tool = \"bash\", arguments = { argv = [\"pip\", \"install\", \"{lib.package}\"] }";
    let code = "tool = \"r\", arguments = { code = \"install.packages('{lib.package}')\" }";
    let workflow = read(&CHANGED.replace(argv, code)).unwrap();
    let about = |prefer: &str| {
        let cue = json!({"tool": "bash", "prefer": prefer});
        match_claim(&workflow, "test", &with_cue("When `bash` fails, prepare it.", &cue)).items
    };
    assert_eq!(about("first `install.packages`"), [WorldItem::Cause(0, 0)]);
    assert!(about("first `packages`").is_empty() && about("first `install`").is_empty());
}
