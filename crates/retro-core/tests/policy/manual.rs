//! Manual retrospectives: what they propose, and what a person's decision does.

use retro_core::id::{RunId, WorkflowKey};
use retro_core::manual::{
    DecideError, ManualRequest, NamedRun, RUNS_MAX, TriggerError, trigger_retrospective,
};
use retro_core::policy::Policy;

use crate::world::{World, dawn, finding, in_step, key, look, remark, run};

fn asked(runs: &[&str]) -> ManualRequest {
    let runs = runs.iter().map(|name| run(name)).collect();
    ManualRequest { request: "q1".into(), by: "ada".into(), runs, focus: None }
}

fn counted(name: &str, ordinal: u64) -> NamedRun {
    NamedRun { run: run(name), ordinal: Some(ordinal), has_facts: true }
}

fn known() -> Vec<NamedRun> {
    vec![
        counted("a", 7),
        counted("b", 3),
        NamedRun { run: run("skipped"), ordinal: None, has_facts: true },
        NamedRun { run: run("purged"), ordinal: Some(1), has_facts: false },
    ]
}

#[test]
fn it_looks_at_exactly_the_named_runs_in_the_order_in_which_they_were_counted() {
    let key: WorkflowKey = key();
    let triggered =
        trigger_retrospective(&key, &asked(&["a", "b", "a"]), &known(), &Policy::default(), dawn()).unwrap();
    assert_eq!((triggered.sample.order, triggered.sample.size), (vec![3, 7], 2));
    let opened = triggered.retrospective;
    assert_eq!(opened.asked.as_ref().unwrap().runs, ["b", "a"].map(run));
    assert_eq!((opened.epoch, opened.first, opened.last, opened.window_runs()), (0, 0, 0, 2));
    let other = trigger_retrospective(
        &key,
        &ManualRequest { request: "q2".into(), ..asked(&["a"]) },
        &known(),
        &opened.policy,
        dawn(),
    );
    assert_ne!(other.unwrap().retrospective.id, opened.id, "the id is the request's");
}

#[test]
fn what_cannot_be_looked_at_is_named() {
    let many: Vec<String> = (0..=RUNS_MAX).map(|n| format!("r{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let long = ManualRequest { focus: Some("?".repeat(1001)), ..asked(&["a"]) };
    let nobody = ManualRequest { by: String::new(), ..asked(&["a"]) };
    for (asked, problem) in [
        (asked(&[]), "name at least one run"),
        (asked(&many), "21 runs are named; one manual retrospective investigates at most 20"),
        (asked(&["a", "elsewhere"]), "there is no run elsewhere of workflow fix-bugs in this tenant"),
        (asked(&["skipped"]), "run skipped was recorded and not counted"),
        (asked(&["purged"]), "the details of run purged were purged"),
        (long, "focus must have 1 to 1000 characters"),
        (nobody, "by must have 1 to 256 bytes"),
    ] {
        let refused =
            trigger_retrospective(&key(), &asked, &known(), &Policy::default(), dawn()).unwrap_err();
        assert!(refused.to_string().starts_with(problem), "{refused}");
    }
    let missing = TriggerError::UnknownRun { run: run("x"), workflow: key().workflow };
    assert_eq!(trigger_retrospective(&key(), &asked(&["x"]), &[], &Policy::default(), dawn()), Err(missing));
}

#[test]
fn one_pattern_is_one_proposal_with_each_run_once() {
    let mut world = World::new();
    let proposals = world.manual(&[
        look("r1").finds(finding("one")).finds(finding("one")),
        look("r2").finds(finding("other")).finds(in_step("review", finding("one"))),
        look("r3").finds(finding("one")),
    ]);
    let told = |one: &retro_core::manual::Proposal| {
        let runs: Vec<_> = one.evidence.iter().map(|shown| shown.run.to_string()).collect();
        format!("{} {}: {}", one.step, one.lesson.title, runs.join(" "))
    };
    let told: Vec<_> = proposals.iter().map(told).collect();
    assert_eq!(told, ["main one: r1 r3", "main other: r2", "review one: r2"]);
    assert!(world.log.is_empty(), "a proposal changes nothing");
}

#[test]
fn proposals_that_share_words_with_the_question_come_first() {
    let looks = [
        look("r1").finds(remark("List the tables first")).finds(remark("Refund to the gift card")),
        look("r2").finds(remark("List the tables first")),
    ];
    let first = |focus| World::new().manual_about(&looks, focus)[0].lesson.title.clone();
    assert_eq!(first(None), "List the tables first");
    assert_eq!(first(Some("Why does a refund fail?")), "Refund to the gift card");
}

#[test]
fn an_accepted_proposal_is_an_active_memory_with_its_runs_as_evidence() {
    let mut world = World::new();
    let id = world.manual(&[look("r1").finds(finding("one")), look("r2").finds(finding("one"))])[0].id;
    let lines = world.accept(id, None).unwrap();
    assert_eq!(
        lines,
        [
            "r1 created one: tentative 0.000".to_owned(),
            format!("accept {id} accepted one: active 0.300"),
            "r2 observed one: active 0.300".to_owned(),
        ]
    );
    let memory = world.named("one");
    assert_eq!((memory.observed_runs, memory.evidence.len()), (2, 2));
    assert_eq!(world.folded(), world.memories);
}

#[test]
fn a_proposal_is_decided_once() {
    let mut world = World::new();
    let looks = [look("r1").finds(finding("one")).finds(finding("two"))];
    let [one, two]: [_; 2] = world.manual(&looks).try_into().unwrap();
    world.accept(one.id, None).unwrap();
    world.refuse(two.id, "a matter of taste").unwrap();
    let length = world.log.len();
    for id in [one.id, two.id] {
        assert!(matches!(world.accept(id, None), Err(DecideError::AlreadyDecided(_))));
        assert!(matches!(world.refuse(id, "no"), Err(DecideError::AlreadyDecided(_))));
    }
    assert_eq!(world.log.len(), length);
    let told = world.accept(two.id, None).unwrap_err().to_string();
    assert_eq!(told, "it was already refused by ada");
}

#[test]
fn accepting_what_is_tentative_promotes_it_and_joins_the_evidence() {
    let mut world = World::new();
    world.retro(&[look("r1").finds(finding("one"))]);
    let id = world.manual(&[look("r1").finds(finding("one")), look("r2").finds(finding("one"))])[0].id;
    assert_eq!(world.stands("one"), "tentative 0.000", "a proposal is no evidence");
    let lines = world.accept(id, None).unwrap();
    assert_eq!(
        lines,
        [format!("accept {id} accepted one: active 0.300"), "r2 observed one: active 0.300".to_owned()]
    );
    assert_eq!(world.named("one").observed_runs, 2);
}

#[test]
fn accepting_what_is_active_adds_the_runs_that_have_not_shown_it() {
    let mut world = World::new();
    world.active("one", 500);
    let id = world.manual(&[look("given").finds(finding("one")), look("r2").finds(finding("one"))])[0].id;
    assert_eq!(world.accept(id, None).unwrap(), ["r2 observed one: active 0.500"]);
    let again = world.manual(&[look("r2").finds(finding("one"))])[0].id;
    assert!(world.accept(again, None).unwrap().is_empty(), "and a run that has shown it adds nothing");
}

#[test]
fn accepting_what_was_archived_brings_it_back_at_the_starting_weight() {
    let mut world = World::new();
    world.archived("one");
    let id = world.manual(&[look("given").finds(finding("one"))])[0].id;
    assert_eq!(world.accept(id, None).unwrap(), [format!("accept {id} accepted one: active 0.300")]);
}

#[test]
fn a_tombstone_stops_an_acceptance_until_a_reason_overrides_it() {
    let mut world = World::new();
    let given = world.active("one", 300);
    world.delete(given);
    let id = world.manual(&[look("r1").finds(finding("one"))])[0].id;
    let stopped = world.accept(id, None).unwrap_err();
    assert!(
        matches!(&stopped, DecideError::Tombstone { tombstone_of, .. } if *tombstone_of == given),
        "{stopped}"
    );
    assert!(world.proposal_facts(id).decision.is_none(), "it stays open");
    world.accept(id, Some("the tool has changed")).unwrap();
    let change = world.log.iter().find(|change| change.effect.kind() == "accepted").unwrap();
    assert!(change.reason.ends_with("despite a tombstone: the tool has changed"), "{}", change.reason);
    assert!(world.tombstones.contains_key(&given), "the tombstone stands for everybody else");
}

/// Law 6: before, after, or never accepted, a run that both passes look at is one run.
#[test]
fn a_pattern_that_both_passes_see_in_one_run_confirms_nothing() {
    let looks = || [look("r1").finds(finding("one"))];
    let shown = |world: &World| -> Vec<RunId> {
        let evidence = &world.named("one").evidence;
        evidence.iter().map(|shown| shown.run.clone()).collect()
    };
    // Accepted before the automatic pass.
    let mut world = World::new();
    let id = world.manual(&looks())[0].id;
    world.accept(id, None).unwrap();
    let length = world.log.len();
    world.retro(&looks());
    assert_eq!((world.log.len(), world.stands("one").as_str()), (length, "active 0.300"));
    assert_eq!((world.named("one").observed_runs, shown(&world)), (1, vec![run("r1")]));
    // Accepted after it.
    let mut world = World::new();
    let id = world.manual(&looks())[0].id;
    world.retro(&looks());
    assert_eq!(world.stands("one"), "tentative 0.000");
    world.accept(id, None).unwrap();
    assert_eq!((world.named("one").observed_runs, shown(&world)), (1, vec![run("r1")]));
    // Never.
    let mut world = World::new();
    world.manual(&looks());
    world.retro(&looks());
    world.manual(&looks());
    assert_eq!(world.stands("one"), "tentative 0.000");
    // The control: another run does confirm.
    world.retro(&[look("r2").finds(finding("one"))]);
    assert_eq!(world.stands("one"), "active 0.300");
}
