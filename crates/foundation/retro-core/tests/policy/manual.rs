//! Manual retrospectives: their proposals, and the effects of decisions on them.

use retro_core::id::{RunId, WorkflowKey};
use retro_core::manual::{DecideError, NamedRun, TriggerError, trigger_retrospective};
use retro_core::policy::Policy;
use retro_core::retrospective::{MANUAL_RUNS_MAX, ManualRequest};

use crate::world::{World, finding, in_step, investigate, key, remark, run, start_time};

fn manual_request(runs: &[&str]) -> ManualRequest {
    let runs = runs.iter().map(|name| run(name)).collect();
    ManualRequest {
        request: "q1".into(),
        by: "ada".into(),
        with_token: None,
        runs,
        focus: None,
        reason: None,
    }
}

fn counted_run(name: &str, ordinal: u64) -> NamedRun {
    NamedRun { run: run(name), ordinal: Some(ordinal), has_facts: true }
}

fn known_runs() -> Vec<NamedRun> {
    vec![
        counted_run("a", 7),
        counted_run("b", 3),
        NamedRun { run: run("skipped"), ordinal: None, has_facts: true },
        NamedRun { run: run("purged"), ordinal: Some(1), has_facts: false },
    ]
}

#[test]
fn exactly_the_named_runs_are_investigated_in_counting_order() {
    let key: WorkflowKey = key();
    let triggered = trigger_retrospective(
        &key,
        &manual_request(&["a", "b", "a"]),
        &known_runs(),
        &Policy::default(),
        start_time(),
    )
    .unwrap();
    assert_eq!((triggered.sample.order, triggered.sample.size), (vec![3, 7], 2));
    let opened = triggered.retrospective;
    assert_eq!(opened.manual_request.as_ref().unwrap().runs, ["b", "a"].map(run));
    assert_eq!((opened.epoch, opened.first, opened.last, opened.window_runs()), (0, 0, 0, 2));
    let other = trigger_retrospective(
        &key,
        &ManualRequest { request: "q2".into(), ..manual_request(&["a"]) },
        &known_runs(),
        &opened.policy,
        start_time(),
    );
    assert_ne!(other.unwrap().retrospective.id, opened.id, "the id comes from the request");
}

#[test]
fn an_invalid_request_is_refused_with_the_problem() {
    let many: Vec<String> = (0..=MANUAL_RUNS_MAX).map(|n| format!("r{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let long = ManualRequest { focus: Some("?".repeat(1001)), ..manual_request(&["a"]) };
    let empty = ManualRequest { reason: Some(String::new()), ..manual_request(&["a"]) };
    let nobody = ManualRequest { by: String::new(), ..manual_request(&["a"]) };
    for (requested, problem) in [
        (manual_request(&[]), "name at least one run"),
        (manual_request(&many), "21 runs are named; one manual retrospective investigates at most 20"),
        (
            manual_request(&["a", "elsewhere"]),
            "there is no run elsewhere of workflow fix-bugs in this tenant",
        ),
        (manual_request(&["skipped"]), "run skipped was recorded and not counted"),
        (manual_request(&["purged"]), "the details of run purged were purged"),
        (long, "focus must have 1 to 1000 characters"),
        (empty, "reason must have 1 to 1000 characters"),
        (nobody, "by must have 1 to 256 bytes"),
    ] {
        let refused =
            trigger_retrospective(&key(), &requested, &known_runs(), &Policy::default(), start_time())
                .unwrap_err();
        assert!(refused.to_string().starts_with(problem), "{refused}");
    }
    let missing = TriggerError::UnknownRun { run: run("x"), workflow: key().workflow };
    assert_eq!(
        trigger_retrospective(&key(), &manual_request(&["x"]), &[], &Policy::default(), start_time()),
        Err(missing)
    );
}

#[test]
fn one_pattern_is_one_proposal_with_each_run_once() {
    let mut world = World::new();
    let proposals = world.manual(&[
        investigate("r1").with_finding(finding("one")).with_finding(finding("one")),
        investigate("r2").with_finding(finding("other")).with_finding(in_step("review", finding("one"))),
        investigate("r3").with_finding(finding("one")),
    ]);
    let described = |one: &retro_core::memory::Proposal| {
        let runs: Vec<_> = one.evidence.iter().map(|shown| shown.run.to_string()).collect();
        format!("{} {}: {}", one.step, one.lesson.title, runs.join(" "))
    };
    let described: Vec<_> = proposals.iter().map(described).collect();
    assert_eq!(described, ["main one: r1 r3", "main other: r2", "review one: r2"]);
    assert!(world.log.is_empty(), "a proposal changes nothing");
}

#[test]
fn proposals_that_share_words_with_the_question_come_first() {
    let investigated = [
        investigate("r1")
            .with_finding(remark("List the tables first"))
            .with_finding(remark("Refund to the gift card")),
        investigate("r2").with_finding(remark("List the tables first")),
    ];
    let first = |focus| World::new().manual_about(&investigated, focus)[0].lesson.title.clone();
    assert_eq!(first(None), "List the tables first");
    assert_eq!(first(Some("Why does a refund fail?")), "Refund to the gift card");
}

#[test]
fn an_accepted_proposal_is_an_active_memory_with_its_runs_as_evidence() {
    let mut world = World::new();
    let id = world.manual(&[
        investigate("r1").with_finding(finding("one")),
        investigate("r2").with_finding(finding("one")),
    ])[0]
        .id;
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
    assert_eq!(world.fold_log(), world.memories);
}

#[test]
fn a_proposal_is_decided_once() {
    let mut world = World::new();
    let investigated = [investigate("r1").with_finding(finding("one")).with_finding(finding("two"))];
    let [one, two]: [_; 2] = world.manual(&investigated).try_into().unwrap();
    world.accept(one.id, None).unwrap();
    world.refuse(two.id, "a matter of taste").unwrap();
    let length = world.log.len();
    for id in [one.id, two.id] {
        assert!(matches!(world.accept(id, None), Err(DecideError::AlreadyDecided(_))));
        assert!(matches!(world.refuse(id, "no"), Err(DecideError::AlreadyDecided(_))));
    }
    assert_eq!(world.log.len(), length);
    let error = world.accept(two.id, None).unwrap_err().to_string();
    assert_eq!(error, "it was already refused by ada");
}

#[test]
fn accepting_a_tentative_memory_promotes_it_and_merges_the_evidence() {
    let mut world = World::new();
    world.retro(&[investigate("r1").with_finding(finding("one"))]);
    let id = world.manual(&[
        investigate("r1").with_finding(finding("one")),
        investigate("r2").with_finding(finding("one")),
    ])[0]
        .id;
    assert_eq!(world.status_and_weight("one"), "tentative 0.000", "a proposal is no evidence");
    let lines = world.accept(id, None).unwrap();
    assert_eq!(
        lines,
        [format!("accept {id} accepted one: active 0.300"), "r2 observed one: active 0.300".to_owned()]
    );
    assert_eq!(world.named("one").observed_runs, 2);
}

#[test]
fn accepting_an_active_memory_adds_only_new_runs() {
    let mut world = World::new();
    world.add_active("one", 500);
    let id = world.manual(&[
        investigate("given").with_finding(finding("one")),
        investigate("r2").with_finding(finding("one")),
    ])[0]
        .id;
    assert_eq!(world.accept(id, None).unwrap(), ["r2 observed one: active 0.500"]);
    let again = world.manual(&[investigate("r2").with_finding(finding("one"))])[0].id;
    assert!(world.accept(again, None).unwrap().is_empty(), "a run already in the evidence adds nothing");
}

#[test]
fn accepting_an_archived_memory_restores_it_at_the_starting_weight() {
    let mut world = World::new();
    world.add_archived("one");
    let id = world.manual(&[investigate("given").with_finding(finding("one"))])[0].id;
    assert_eq!(world.accept(id, None).unwrap(), [format!("accept {id} accepted one: active 0.300")]);
}

#[test]
fn a_tombstone_stops_an_acceptance_until_a_reason_overrides_it() {
    let mut world = World::new();
    let given = world.add_active("one", 300);
    world.delete(given);
    let id = world.manual(&[investigate("r1").with_finding(finding("one"))])[0].id;
    let stopped = world.accept(id, None).unwrap_err();
    assert!(
        matches!(&stopped, DecideError::Tombstone { tombstone_of, .. } if *tombstone_of == given),
        "{stopped}"
    );
    assert!(world.proposal_facts(id).decision.is_none(), "the proposal stays open");
    world.accept(id, Some("the tool has changed")).unwrap();
    let change = world.log.iter().find(|change| change.effect.kind() == "accepted").unwrap();
    assert!(change.reason.ends_with("despite a tombstone: the tool has changed"), "{}", change.reason);
    assert!(world.tombstones.contains_key(&given), "the tombstone stays in force otherwise");
}

/// Law 6: a run investigated by both passes counts once, whether the proposal is accepted before, after or
/// never.
#[test]
fn a_run_seen_by_both_passes_counts_once() {
    let investigated = || [investigate("r1").with_finding(finding("one"))];
    let shown = |world: &World| -> Vec<RunId> {
        let evidence = &world.named("one").evidence;
        evidence.iter().map(|shown| shown.run.clone()).collect()
    };
    // Accepted before the automatic pass.
    let mut world = World::new();
    let id = world.manual(&investigated())[0].id;
    world.accept(id, None).unwrap();
    let length = world.log.len();
    world.retro(&investigated());
    assert_eq!((world.log.len(), world.status_and_weight("one").as_str()), (length, "active 0.300"));
    assert_eq!((world.named("one").observed_runs, shown(&world)), (1, vec![run("r1")]));
    // Accepted after the automatic pass.
    let mut world = World::new();
    let id = world.manual(&investigated())[0].id;
    world.retro(&investigated());
    assert_eq!(world.status_and_weight("one"), "tentative 0.000");
    world.accept(id, None).unwrap();
    assert_eq!((world.named("one").observed_runs, shown(&world)), (1, vec![run("r1")]));
    // Never accepted.
    let mut world = World::new();
    world.manual(&investigated());
    world.retro(&investigated());
    world.manual(&investigated());
    assert_eq!(world.status_and_weight("one"), "tentative 0.000");
    // Control: another run does confirm the memory.
    world.retro(&[investigate("r2").with_finding(finding("one"))]);
    assert_eq!(world.status_and_weight("one"), "active 0.300");
}
