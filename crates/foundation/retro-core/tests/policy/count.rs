//! Counts runs: the disposition of each event, and the opening of windows.

use std::collections::HashMap;

use retro_core::count::{
    Arrival, CountingEffects, CountingFacts, Disposition, IntakeProgress, KnownRun, count_arrivals,
};
use retro_core::dead_letter::DeadLetterCode;
use retro_core::id::{EventKey, Ordinal, Tenant};
use retro_core::policy::Policy;
use retro_core::retention::{ContentDigest, SeenContent};
use retro_core::retrospective::WorkflowState;
use retro_core::run::{NotCountedReason, RunFacts, RunKind, RunMemories, RunOutcome};
use retro_core::time::add_seconds;

use crate::world::{key, run, start_time};

fn run_facts(name: &str, attempt: u32) -> RunFacts {
    RunFacts {
        run_id: run(name),
        attempt,
        kind: RunKind::Normal,
        outcome: RunOutcome::Success,
        outcome_only: false,
        started_at: None,
        finished_at: None,
        repo: None,
        repo_visibility: None,
        pull_request: None,
        commit: None,
        user: None,
        agent: None,
        prompt_version: None,
        task: None,
        usage: None,
        memories: RunMemories::default(),
        self_feedback: Vec::new(),
    }
}

fn arrival(event: &str, name: &str) -> Arrival {
    Arrival {
        event: EventKey { tenant: Tenant::default_tenant(), source: "ci".into(), id: event.into() },
        key: key(),
        content_hash: format!("{name} as it was"),
        position: 0,
        run: run_facts(name, 1),
    }
}

fn attempt(event: &str, name: &str, attempt: u32) -> Arrival {
    Arrival { run: run_facts(name, attempt), ..arrival(event, name) }
}

fn with_outcome(outcome: RunOutcome, arrival: Arrival) -> Arrival {
    Arrival { run: RunFacts { outcome, ..arrival.run }, ..arrival }
}

/// Builds the facts for a workflow in which `counted` runs `k1`, `k2` … were counted. An open retrospective
/// claims the first `claimed` of them.
fn counting_facts(counted: Ordinal, claimed: Ordinal) -> CountingFacts {
    let run_of = |ordinal: Ordinal| {
        ((key(), run(&format!("k{ordinal}"))), KnownRun { attempt: 2, ordinal: Some(ordinal) })
    };
    let epoch = u64::from(claimed > 0);
    let state = WorkflowState { counted, claimed, epoch, open: claimed > 0, ..WorkflowState::default() };
    CountingFacts {
        events: HashMap::new(),
        runs: (1..=counted).map(run_of).collect(),
        workflows: [(key(), state)].into(),
        ..CountingFacts::default()
    }
}

fn count(facts: CountingFacts, arrivals: &[Arrival]) -> CountingEffects {
    count_arrivals(facts, arrivals, IntakeProgress::NotAwaited, &Policy::default(), start_time())
}

#[track_caller]
fn check_dispositions(facts: CountingFacts, arrivals: &[Arrival], expected: &[Disposition]) {
    let effects = count(facts, arrivals);
    let dispositions: Vec<_> = effects.decisions.into_iter().map(|one| one.disposition).collect();
    assert_eq!(dispositions, expected);
}

use Disposition::{Counted, Duplicate, Recorded, Superseded, Updated};

#[test]
fn each_new_run_gets_the_next_ordinal() {
    check_dispositions(
        counting_facts(0, 0),
        &[arrival("a", "r1"), arrival("b", "r2")],
        &[Counted(1), Counted(2)],
    );
    check_dispositions(counting_facts(7, 0), &[arrival("a", "r1")], &[Counted(8)]);
}

#[test]
fn the_same_event_again_changes_nothing() {
    check_dispositions(
        counting_facts(0, 0),
        &[arrival("a", "r1"), arrival("a", "r1")],
        &[Counted(1), Duplicate],
    );
    let mut facts = counting_facts(1, 0);
    facts.events.insert(arrival("a", "k1").event, SeenContent::Full(arrival("a", "k1").content_hash));
    let effects = count(facts, &[arrival("a", "k1")]);
    assert_eq!(effects.decisions[0].disposition, Duplicate);
    assert!(effects.workflows.is_empty() && effects.opened.is_empty());
}

#[test]
fn a_purged_event_is_still_recognized_and_so_is_a_change_to_it() {
    let mut facts = counting_facts(1, 0);
    facts
        .events
        .insert(arrival("a", "k1").event, SeenContent::Purged(ContentDigest::of_hash("k1 as it was")));
    let changed = Arrival { content_hash: "changed".into(), ..arrival("a", "k1") };
    let effects = count(facts, &[arrival("a", "k1"), changed]);
    assert_eq!(effects.decisions[0].disposition, Duplicate);
    let Disposition::Conflict(rejection) = &effects.decisions[1].disposition else { panic!("{effects:?}") };
    assert!(rejection.detail.contains("its hash was purged since"), "{rejection}");
    assert!(effects.workflows.is_empty());
}

#[test]
fn the_same_event_id_with_other_content_is_an_identity_conflict_and_changes_nothing() {
    let changed = Arrival { content_hash: "changed".into(), key: key(), ..arrival("a", "r2") };
    let elsewhere = Arrival {
        key: retro_core::id::WorkflowKey { workflow: "other".parse().unwrap(), ..key() },
        ..changed.clone()
    };
    let effects = count(counting_facts(0, 0), &[arrival("a", "r1"), changed, elsewhere]);
    for one in &effects.decisions[1..] {
        let Disposition::Conflict(rejection) = &one.disposition else { panic!("{one:?}") };
        assert_eq!(rejection.code, DeadLetterCode::IdentityConflict);
    }
    assert_eq!(effects.workflows.len(), 1, "an event that conflicts creates no workflow");
    assert_eq!(effects.workflows[&key()].counted, 1);
}

#[test]
fn another_event_of_a_counted_run_updates_its_facts_and_never_the_count() {
    check_dispositions(
        counting_facts(2, 0),
        &[attempt("a", "k1", 2), attempt("b", "k1", 3)],
        &[Updated, Updated],
    );
    let effects = count(counting_facts(2, 0), &[attempt("a", "k1", 3)]);
    assert_eq!(effects.decisions[0].ordinal, Some(1));
    assert!(effects.workflows.is_empty());
}

#[test]
fn a_lower_attempt_never_overwrites_a_higher_one() {
    check_dispositions(counting_facts(1, 0), &[attempt("a", "k1", 1)], &[Superseded]);
    check_dispositions(
        counting_facts(0, 0),
        &[attempt("a", "r1", 3), attempt("b", "r1", 2), attempt("c", "r1", 3)],
        &[Counted(1), Superseded, Updated],
    );
}

#[test]
fn a_claimed_run_keeps_its_facts() {
    check_dispositions(
        counting_facts(12, 10),
        &[attempt("a", "k10", 9), attempt("b", "k11", 9)],
        &[Superseded, Updated],
    );
}

#[test]
fn cancelled_skipped_and_internal_runs_are_recorded_and_not_counted() {
    let internal = RunFacts { kind: RunKind::Internal, ..run_facts("r3", 1) };
    check_dispositions(
        counting_facts(0, 0),
        &[
            with_outcome(RunOutcome::Cancellation, arrival("a", "r1")),
            with_outcome(RunOutcome::Skip, arrival("b", "r2")),
            Arrival { run: internal, ..arrival("c", "r3") },
            with_outcome(RunOutcome::Failure, arrival("d", "r4")),
            with_outcome(RunOutcome::Error, arrival("e", "r5")),
            with_outcome(RunOutcome::Timeout, arrival("f", "r6")),
        ],
        &[Recorded, Recorded, Recorded, Counted(1), Counted(2), Counted(3)],
    );
}

#[test]
fn a_run_of_which_only_the_outcome_is_known_is_recorded_until_an_attempt_shows_more() {
    let outcome_only = |event, name, nth| {
        let run = RunFacts { outcome_only: true, ..run_facts(name, nth) };
        Arrival { run, ..attempt(event, name, nth) }
    };
    check_dispositions(
        counting_facts(0, 0),
        &[
            outcome_only("a", "r1", 1),
            outcome_only("a", "r1", 1),
            outcome_only("b", "r1", 2),
            arrival("c", "r2"),
            attempt("d", "r1", 3),
            outcome_only("e", "r1", 4),
        ],
        &[Recorded, Duplicate, Recorded, Counted(1), Counted(2), Updated],
    );
}

#[test]
fn the_reason_why_a_run_is_not_counted_has_a_name() {
    let facts = run_facts("r", 1);
    for (run, reason) in [
        (facts.clone(), None),
        (RunFacts { outcome_only: true, ..facts.clone() }, Some(NotCountedReason::OutcomeOnly)),
        (
            RunFacts { outcome_only: true, outcome: RunOutcome::Skip, ..facts.clone() },
            Some(NotCountedReason::Skipped),
        ),
        (RunFacts { outcome: RunOutcome::Cancellation, ..facts.clone() }, Some(NotCountedReason::Cancelled)),
        (RunFacts { kind: RunKind::Internal, ..facts }, Some(NotCountedReason::Internal)),
    ] {
        assert_eq!(run.not_counted_reason(), reason, "{run:?}");
        assert_eq!(run.is_countable(), reason.is_none());
    }
}

#[test]
fn a_recorded_run_is_counted_when_a_later_event_says_that_it_finished() {
    check_dispositions(
        counting_facts(0, 0),
        &[
            with_outcome(RunOutcome::Cancellation, attempt("a", "r1", 1)),
            attempt("b", "r1", 2),
            with_outcome(RunOutcome::Cancellation, attempt("c", "r1", 3)),
        ],
        &[Recorded, Counted(1), Updated],
    );
}

#[test]
fn the_tenth_run_opens_a_retrospective_over_the_whole_window() {
    let effects = count(counting_facts(8, 0), &[arrival("a", "r1"), arrival("b", "r2"), arrival("c", "r3")]);
    let [opening] = effects.opened.as_slice() else { panic!("{:?}", effects.opened) };
    let opened = &opening.retrospective;
    assert_eq!((opened.epoch, opened.first, opened.last, opened.as_of), (1, 1, 10, start_time()));
    let state = &effects.workflows[&key()];
    assert_eq!((state.counted, state.claimed, state.window_size(), state.open), (11, 10, 1, true));
}

#[test]
fn while_a_retrospective_is_open_the_window_grows_and_none_opens() {
    let many: Vec<_> = (0..25).map(|nth| arrival(&format!("e{nth}"), &format!("r{nth}"))).collect();
    let effects = count(counting_facts(10, 10), &many);
    assert!(effects.opened.is_empty());
    assert_eq!(effects.workflows[&key()].window_size(), 25);
}

#[test]
fn a_paused_workflow_opens_when_the_pause_has_passed_even_without_an_event() {
    let mut facts = counting_facts(15, 0);
    let until = add_seconds(start_time(), 3600);
    facts.workflows.get_mut(&key()).unwrap().paused_until = Some(until);
    assert!(count(facts.clone(), &[]).opened.is_empty());
    assert_eq!(
        count_arrivals(facts, &[], IntakeProgress::NotAwaited, &Policy::default(), until).opened[0]
            .retrospective
            .last,
        15
    );
}

/// Returns the events of the runs at these positions of the intake stream.
fn arrivals_at(positions: impl IntoIterator<Item = u64>) -> Vec<Arrival> {
    let at = |position: u64| {
        let name = format!("r{position}");
        Arrival { position, ..arrival(&name, &name) }
    };
    positions.into_iter().map(at).collect()
}

#[test]
fn while_another_counter_has_earlier_runs_the_retrospective_is_put_off() {
    use IntakeProgress::{BeforeEachEvent, NotAwaited, UpTo};
    let counted = |facts, arrivals: &[Arrival], progress| {
        count_arrivals(facts, arrivals, progress, &Policy::default(), start_time())
    };
    let windows = |effects: &CountingEffects| -> Vec<_> {
        effects.opened.iter().map(|opened| (opened.retrospective.first, opened.retrospective.last)).collect()
    };
    // This counter has the second hundred, and another one the first.
    let later = counted(counting_facts(0, 0), &arrivals_at(101..=200), UpTo(0));
    assert_eq!((windows(&later), later.put_off), (Vec::new(), vec![key()]));
    let state = later.workflows[&key()].clone();
    assert_eq!((state.is_in_order(), state.counted, state.counted_up_to), (false, 100, 200));
    let facts = |waiting_in_order| CountingFacts {
        workflows: [(key(), state.clone())].into(),
        waiting_in_order: [(key(), waiting_in_order)].into(),
        ..CountingFacts::default()
    };

    // The other one has counted, and claims the ten that one counter would have claimed.
    let earlier = counted(facts(0), &arrivals_at(1..=100), BeforeEachEvent);
    assert_eq!(
        (windows(&earlier), &earlier.put_off),
        (Vec::new(), &vec![key()]),
        "what follows is not known"
    );
    let all = counted(facts(0), &[], UpTo(200));
    assert_eq!((windows(&all), all.put_off), (vec![(1, 10)], Vec::new()));
    for (waiting, up_to, expected) in
        [(9, 109, Vec::new()), (10, 110, vec![(1, 10)]), (99, 199, vec![(1, 10)])]
    {
        assert_eq!(windows(&counted(facts(waiting), &[], UpTo(up_to))), expected, "{waiting} are in order");
    }
    let next = counted(facts(0), &arrivals_at([201]), BeforeEachEvent);
    assert_eq!(windows(&next), [(1, 10)], "whoever counts next knows it");
    assert_eq!(windows(&counted(facts(0), &[], NotAwaited)), [(1, 50)], "it has waited for long enough");
}

#[test]
fn a_workflow_forgets_its_positions_when_nothing_waits() {
    let claims_all = count_arrivals(
        counting_facts(0, 0),
        &arrivals_at(991..=1000),
        IntakeProgress::BeforeEachEvent,
        &Policy::default(),
        start_time(),
    );
    let state = claims_all.workflows[&key()].clone();
    assert_eq!((state.window_size(), state.counted_up_to, state.handled_up_to), (0, 0, 1000));
    // The stream was replaced by an empty one, in which the positions begin at 1.
    let facts = CountingFacts { workflows: [(key(), state)].into(), ..CountingFacts::default() };
    let replaced = count_arrivals(
        facts,
        &arrivals_at(1..=10),
        IntakeProgress::UpTo(0),
        &Policy::default(),
        start_time(),
    );
    assert!(replaced.workflows[&key()].is_in_order() && replaced.put_off.is_empty());
}
