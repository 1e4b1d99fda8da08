//! A finding becomes a memory, confirms one, adds to one, or revives one.

use retro_core::finding::MemoryVerdict;
use retro_core::id::derive_uuid;
use retro_core::memory::{EVIDENCE_KEPT_MAX, MemoryScope};
use retro_core::policy::Policy;

use crate::world::{World, finding, in_step, look, remark, run};

#[test]
fn one_run_makes_a_tentative_memory_that_weighs_nothing() {
    let mut world = World::new();
    assert_eq!(world.retro(&[look("r1").finds(finding("A"))]), ["r1 created A: tentative 0.000"]);
}

#[test]
fn a_separate_run_confirms_it_across_retrospectives() {
    let mut world = World::new();
    world.retro(&[look("r1").finds(finding("A"))]);
    assert_eq!(world.retro(&[look("r2").finds(finding("A"))]), ["r2 promoted A: active 0.300"]);
    let memory = world.named("A");
    assert_eq!((memory.observed_runs, memory.evidence.len()), (2, 2));
    assert_eq!(memory.evidence[0].run, run("r1"));
    assert_eq!(memory.evidence[1].run, run("r2"));
}

#[test]
fn two_runs_of_one_retrospective_make_it_active_at_once() {
    let mut world = World::new();
    let lines = world.retro(&[look("r1").finds(finding("A")), look("r2").finds(finding("A"))]);
    assert_eq!(lines, ["r1 created A: tentative 0.000", "r2 promoted A: active 0.300"]);
}

#[test]
fn the_same_run_confirms_nothing_however_often_it_shows_it() {
    let mut world = World::new();
    let r1 = look("r1").finds(finding("A")).finds(finding("A")).finds(finding("A"));
    let (lines, applied) = world.retrospective(&[r1]);
    assert_eq!(lines, ["r1 created A: tentative 0.000", "r1 refused (observe) A: tentative 0.000"]);
    let why = "run r1 has shown it already; only a separate run confirms";
    assert_eq!(applied.outcomes[1].why, why);
    assert_eq!(applied.outcomes[2].why, format!("this has happened before: {why}"));
    // The store may have forgotten to say that the run was seen: the memory itself still knows.
    let mut asked = world.ask(&[look("r1").finds(finding("A"))]);
    asked.facts.applied.clear();
    assert!(crate::world::decide(&asked).memories.is_empty());
}

#[test]
fn a_run_that_confirms_a_memory_counts_once_in_its_evidence() {
    let mut world = World::new();
    world.retro(&[look("r1").finds(finding("A"))]);
    let (lines, applied) = world.retrospective(&[look("r2").finds(finding("A")).finds(finding("A"))]);
    assert_eq!(lines, ["r2 promoted A: active 0.300"]);
    assert_eq!(applied.outcomes[1].why, "run r2 has shown it already; a run counts once");
    assert_eq!(world.named("A").observed_runs, 2);
}

#[test]
fn the_same_lesson_in_another_step_confirms_nothing() {
    let mut world = World::new();
    world.retro(&[look("r1").finds(finding("A"))]);
    let lines = world.retro(&[look("r2").finds(in_step("review", finding("A")))]);
    assert_eq!(lines, ["r2 created A: tentative 0.000"]);
    assert_eq!(world.memories.len(), 2);
}

#[test]
fn an_active_memory_that_is_seen_again_gains_evidence_and_no_weight() {
    let mut world = World::new();
    world.active("A", 450);
    let lines = world.retro(&[look("r1").finds(finding("A")), look("r2").finds(finding("A"))]);
    assert_eq!(lines, ["r1 observed A: active 0.450", "r2 observed A: active 0.450"]);
    assert_eq!(world.named("A").observed_runs, 3);
}

#[test]
fn an_archived_memory_is_revived_as_tentative_and_a_separate_run_confirms_it() {
    let mut world = World::new();
    world.archived("A");
    let r1 = look("r1").finds(finding("A")).finds(finding("A"));
    assert_eq!(
        world.retro(&[r1]),
        ["r1 revived A: tentative 0.000", "r1 refused (observe) A: tentative 0.000"]
    );
    assert_eq!(world.named("A").evidence[0].run, run("given"), "with its evidence");
    assert_eq!(world.retro(&[look("r2").finds(finding("A"))]), ["r2 promoted A: active 0.300"]);
}

#[test]
fn a_way_out_that_weighs_more_supersedes_the_warnings_about_the_same_error() {
    let way_out = || {
        let mut found = finding("A");
        found.title = "Pass a region".to_owned();
        found.cue.prefer = Some("with `region`".to_owned());
        found
    };
    let repeated = || {
        let mut found = finding("A");
        found.title = "Stop".to_owned();
        found.cue.avoid = Some("again".to_owned());
        found
    };
    let mut world = World::new();
    world.active("A", 300);
    world.retro(&[look("r1").finds(finding("B")).finds(in_step("review", finding("A"))).finds(repeated())]);
    assert_eq!(world.retro(&[look("r2").finds(way_out())]), ["r2 created Pass a region: tentative 0.000"]);
    let lines = world.retro(&[look("r3").finds(way_out())]);
    assert_eq!(lines, ["r3 promoted Pass a region: active 0.300"], "it has not shown yet that it is better");
    let known = world.id("Pass a region");
    assert_eq!(
        world.retro(&[look("r4").judged(known, MemoryVerdict::Helped)]),
        [
            "retro reweighted (helped +0.100) Pass a region: active 0.400",
            "retro superseded A: superseded 0.300"
        ],
        "neither another error, another step nor what tells more than the error"
    );
}

#[test]
fn a_policy_may_ask_for_one_run_or_for_three() {
    let mut one = World::with(Policy { confirm_runs: 1, ..Policy::default() });
    let twice = look("r1").finds(finding("A")).finds(finding("A"));
    assert_eq!(one.retro(&[twice]), ["r1 created A: active 0.300"]);
    assert_eq!(one.named("A").observed_runs, 1);
    let mut three = World::with(Policy { confirm_runs: 3, ..Policy::default() });
    let lines = three.retro(&["r1", "r2", "r2", "r3"].map(|name| look(name).finds(finding("A"))));
    assert_eq!(
        lines,
        [
            "r1 created A: tentative 0.000",
            "r2 observed A: tentative 0.000",
            "r2 refused (observe) A: tentative 0.000",
            "r3 promoted A: active 0.300"
        ]
    );
}

#[test]
fn without_evidence_a_tentative_memory_stays_as_it_is() {
    let mut world = World::new();
    world.retro(&[look("r1").finds(finding("A"))]);
    let before = world.named("A").clone();
    for name in ["r2", "r3", "r4"] {
        assert_eq!(world.retro(&[look(name)]), [""; 0]);
    }
    assert_eq!(*world.named("A"), before);
}

/// Whether a second run that says `again` confirms what a first one said.
#[track_caller]
fn check_merge(first: &str, again: &str, confirmed: bool) {
    let mut world = World::new();
    let lines = world.retro(&[look("r1").finds(remark(first)), look("r2").finds(remark(again))]);
    assert_eq!(lines[1].contains("promoted"), confirmed, "{first} / {again}: {lines:?}");
}

#[test]
fn lessons_of_words_alone_are_one_when_they_are_similar_and_no_detail_differs() {
    check_merge("List the tables before querying", "Before querying, list the tables", true);
    check_merge("List the tables before querying", "Ask the user for the payment method", false);
    check_merge("Retry the failing call", "Never retry the failing call", false);
    check_merge("Wait 5 seconds after the deploy", "Wait 50 seconds after the deploy", false);
    check_merge("Query the table `orders` by date", "Query the table `order_items` by date", false);
    check_merge("Use rg instead of grep", "Use grep instead of rg", false);
}

#[test]
fn the_most_similar_memory_is_confirmed_and_of_equals_the_oldest() {
    let mut world = World::new();
    let titles =
        ["Read the error message first", "Read the error message and the log first", "Read the log first"];
    world.policy.merge_similarity = 1000;
    for (nth, title) in titles.into_iter().enumerate() {
        world.retro(&[look(&format!("r{nth}")).finds(remark(title))]);
    }
    world.policy.merge_similarity = 300;
    for (nth, title) in titles.into_iter().enumerate() {
        let lines = world.clone().retro(&[look(&format!("s{nth}")).finds(remark(title))]);
        assert_eq!(lines, [format!("s{nth} promoted {title}: active 0.300")], "whichever id comes first");
    }
    for memory in world.memories.values_mut() {
        memory.lesson.title = titles[0].into();
    }
    let oldest = world.memories.values().min_by_key(|memory| memory.created_at).map(|memory| memory.id);
    world.retro(&[look("s").finds(remark(titles[0]))]);
    assert_eq!(world.log.last().map(|change| change.memory), oldest);
}

#[test]
fn a_memory_keeps_its_latest_quotes_and_counts_all_its_runs() {
    let mut world = World::new();
    world.active("A", 300);
    for number in 0..20 {
        world.retro(&[look(&format!("r{number}")).finds(finding("A"))]);
    }
    let memory = world.named("A");
    assert_eq!((memory.observed_runs, memory.evidence.len()), (21, EVIDENCE_KEPT_MAX));
    assert_eq!(memory.evidence.last().unwrap().run, run("r19"));
}

#[test]
fn a_memory_of_another_workflow_is_treated_like_a_missing_one() {
    let mut world = World::new();
    let id = world.active("A", 60);
    let foreign = MemoryScope::Step { workflow: "other".parse().unwrap(), step: "main".parse().unwrap() };
    world.memories.get_mut(&id).unwrap().scope = foreign;
    let missing = retro_core::id::MemoryId(derive_uuid("memory", &["missing"]));
    let (lines, applied) = world.retrospective(&[look("r1").shown(id).shown(missing)]);
    assert!(applied.memories.is_empty(), "{lines:?}");
    assert_eq!(applied.outcomes[0].why, "no such memory in this workflow");
    assert_eq!(applied.outcomes[0].why, applied.outcomes[1].why);
}
