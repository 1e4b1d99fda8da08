//! Conformance cases for counting runs.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use futures::future::join;
use retro_core::count::{ArrivalDecision, CountingEffects, CountingFacts, Disposition};
use retro_core::message::Notice;
use retro_core::retrospective::RetrospectiveState;
use retro_core::run::{NotCountedReason, RunKind, RunOutcome};

use super::Database;
use super::scenario::{LONG_S, Scenario, inline_body, new_run, run_id, time_at, workflow_key};
use crate::{IncomingBody, IncomingRun, RunFilter, StoreError, StoredBody, WindowsToCheck};

use Disposition::{Counted as Now, Duplicate, Recorded, Superseded, Updated};

/// Checks that redelivered events change nothing, within a batch and across batches (law 1).
pub async fn a_run_is_counted_once_though_its_event_comes_again(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    assert_eq!(scenario.count_runs(&["a", "a"]).await, [Now(1), Duplicate]);
    assert_eq!(scenario.with_store(&*database.two).count_runs(&["a"]).await, [Duplicate]);
    assert_eq!(scenario.workflow_state().await.counted, 1);
    assert_eq!(database.one.load_health().await.expect("health").events_seen, 1);
}

/// Checks that a run emitted again with another event id updates its facts but is not counted again (law 1).
pub async fn a_run_is_counted_once_though_it_comes_under_new_event_ids(database: &Database) {
    let mut scenario = Scenario::new(&*database.one, "t", "w");
    scenario.policy.threshold_runs = 10;
    let named = |event: &str| {
        let mut run = scenario.new_run("a");
        run.arrival.event.id = event.to_owned();
        run
    };
    let batch = [named("first"), named("second")];
    let counted: Vec<_> = dispositions_of(scenario.count_batch(&batch, time_at(0)).await);
    assert_eq!(counted, [Now(1), Updated]);
    assert_eq!(dispositions_of(scenario.count_batch(&[named("third")], time_at(0)).await), [Updated]);
    assert_eq!(database.one.list_ordinals(&scenario.key).await.expect("ordinals"), [1]);
    let all =
        database.one.list_runs(&scenario.key.tenant, &RunFilter { limit: 9, ..Default::default() }).await;
    assert_eq!(all.expect("runs").len(), 1);
}

/// Checks that two concurrent workers with the same batch store what one would have stored (law 13).
pub async fn two_workers_with_the_same_batch_leave_what_one_would_have_left(database: &Database) {
    let (one, two) = (Scenario::new(&*database.one, "t", "w"), Scenario::new(&*database.two, "t", "w"));
    for round in 0..10 {
        let names: Vec<String> = (0..5).map(|index| format!("run {round}.{index}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (by_one, by_two) = join(one.count_runs(&names), two.count_runs(&names)).await;
        let duplicates = |all: &[Disposition]| all.iter().filter(|one| **one == Duplicate).count();
        assert_eq!(duplicates(&by_one) + duplicates(&by_two), 5, "{by_one:?} {by_two:?}");
    }
    let ordinals: Vec<u64> = (1..=50).collect();
    assert_eq!(database.one.list_ordinals(&one.key).await.expect("ordinals"), ordinals);
    let opened = database.one.list_retrospectives(&one.key.tenant, None, 10).await.expect("listing");
    assert_eq!(opened.len(), 1, "one is open, so no other opens");
}

/// Checks that concurrent batches assign ordinals without duplicates or gaps (law 2).
pub async fn two_workers_with_different_batches_give_each_run_its_own_ordinal(database: &Database) {
    let (one, two) = (Scenario::new(&*database.one, "t", "w"), Scenario::new(&*database.two, "t", "w"));
    for round in 0..10 {
        let (left, right) = (format!("left {round}"), format!("right {round}"));
        join(one.count_runs(&[&left]), two.count_runs(&[&right])).await;
    }
    let ordinals: Vec<u64> = (1..=20).collect();
    assert_eq!(database.two.list_ordinals(&one.key).await.expect("ordinals"), ordinals);
}

/// Checks that an event that arrives in two workflows concurrently is counted in one. Event identities are
/// unique per tenant, so the workflow lock does not protect them.
pub async fn an_event_that_comes_in_two_workflows_at_once_is_counted_in_one(database: &Database) {
    let (one, two) = (Scenario::new(&*database.one, "t", "v"), Scenario::new(&*database.two, "t", "w"));
    let batch = |scenario: &Scenario<'_>, round: u64| {
        let named = |index| {
            let mut run = scenario.new_run(&format!("run {round}.{index}"));
            run.arrival.event.source = "tests of both".to_owned();
            run
        };
        // The batches have different orders, so each may wait for an event that the other has locked.
        let mut batch = [named(0), named(1), named(2)];
        if scenario.key.workflow.as_str() == "w" {
            batch.reverse();
        }
        batch
    };
    for round in 0..10 {
        let (left, right) = (batch(&one, round), batch(&two, round));
        let both = join(one.count_batch(&left, time_at(0)), two.count_batch(&right, time_at(0))).await;
        let all: Vec<Disposition> =
            dispositions_of(both.0).into_iter().chain(dispositions_of(both.1)).collect();
        assert_eq!(all.iter().filter(|one| **one == Duplicate).count(), 3, "{all:?}");
        assert_eq!(all.iter().filter(|one| matches!(one, Now(_))).count(), 3, "{all:?}");
    }
    assert_eq!(database.one.load_health().await.expect("health").events_seen, 30);
}

/// Checks that batches over the same workflows in different orders do not deadlock, even if the workflows are
/// not stored yet.
pub async fn two_batches_over_the_same_workflows_in_other_orders_both_go_through(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let other = scenario.with_store(&*database.two);
    for round in 0..10 {
        let keys: Vec<_> = (0..5).map(|index| workflow_key("t", &format!("w{round}.{index}"))).collect();
        let mut left: Vec<_> = keys.iter().map(|key| new_run(key, "left")).collect();
        let right: Vec<_> = keys.iter().map(|key| new_run(key, "right")).collect();
        left.reverse();
        let both = join(scenario.count_batch(&left, time_at(0)), other.count_batch(&right, time_at(0))).await;
        let all = dispositions_of(both.0).into_iter().chain(dispositions_of(both.1));
        assert_eq!(all.filter(|one| matches!(one, Now(1 | 2))).count(), 10);
        for key in &keys {
            assert_eq!(database.one.list_ordinals(key).await.expect("ordinals"), [1, 2], "{key}");
        }
    }
}

/// Checks that an event that conflicts with a stored one changes neither the inbox nor the facts.
pub async fn the_same_event_id_with_other_content_is_a_conflict_and_changes_nothing(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    scenario.count_runs(&["a"]).await;
    let mut other = scenario.new_run("b");
    other.arrival.event.id = "a".to_owned();
    let counted = dispositions_of(scenario.count_batch(std::slice::from_ref(&other), time_at(0)).await);
    assert!(matches!(&counted[..], [Disposition::Conflict(_)]), "{counted:?}");
    assert_eq!(database.one.list_ordinals(&scenario.key).await.expect("ordinals"), [1]);
    let only = RunFilter { run: Some(run_id("b")), limit: 9, ..Default::default() };
    assert_eq!(database.one.list_runs(&scenario.key.tenant, &only).await.expect("runs"), []);
    // The first content is still stored.
    assert_eq!(scenario.count_runs(&["a"]).await, [Duplicate]);
    // A workflow without a stored run does not exist.
    let nowhere = Scenario::new(&*database.two, "t", "nowhere");
    let mut other = nowhere.new_run("a");
    other.arrival.event = scenario.new_run("a").arrival.event;
    other.arrival.content_hash = "other content".to_owned();
    assert!(matches!(
        nowhere.count_batch(&[other], time_at(0)).await[0].disposition,
        Disposition::Conflict(_)
    ));
    let rows = database.one.list_workflows(&scenario.key.tenant).await.expect("listing");
    assert_eq!(rows.iter().map(|row| &row.key).collect::<Vec<_>>(), [&scenario.key]);
    assert_eq!(nowhere.count_runs(&["b"]).await, [Now(1)]);
}

/// Checks that event ids that differ only after a NUL are distinct, although some databases truncate text at
/// a NUL.
pub async fn event_ids_that_differ_behind_a_nul_are_two_events(database: &Database) {
    let mut scenario = Scenario::new(&*database.one, "t", "w");
    scenario.policy.threshold_runs = 10;
    let ids = ["x", "x\0", "x\0a", "x\0b", r"x\0b", r"x\\0b", "'; DROP TABLE runs; --"];
    for (number, id) in (1..).zip(ids) {
        let mut run = scenario.new_run(&format!("run {number}"));
        run.arrival.event.id = id.to_owned();
        let repeated = [run.clone()];
        assert_eq!(dispositions_of(scenario.count_batch(&[run], time_at(0)).await), [Now(number)], "{id:?}");
        assert_eq!(dispositions_of(scenario.count_batch(&repeated, time_at(0)).await), [Duplicate], "{id:?}");
    }
}

/// Checks that internal and cancelled runs are stored without an ordinal, and get one if a later attempt
/// counts.
pub async fn a_run_that_does_not_count_is_recorded_and_counts_once_it_does(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let [mut internal, mut cancelled, mut outcome_only] =
        ["internal", "cancelled", "outcome-only"].map(|name| scenario.new_run(name));
    internal.arrival.run.kind = RunKind::Internal;
    cancelled.arrival.run.outcome = RunOutcome::Cancellation;
    outcome_only.arrival.run.outcome_only = true;
    outcome_only.body = IncomingBody::None;
    let batch = [internal, cancelled, outcome_only, scenario.new_run("a")];
    let dispositions = dispositions_of(scenario.count_batch(&batch, time_at(0)).await);
    assert_eq!(dispositions, [Recorded, Recorded, Recorded, Now(1)]);
    let rows = database.one.list_workflows(&scenario.key.tenant).await.expect("listing");
    assert_eq!((rows[0].recorded, rows[0].state.counted), (4, 1));
    let all = RunFilter { limit: 9, ..Default::default() };
    let rows = database.one.list_runs(&scenario.key.tenant, &all).await.expect("runs");
    let reasons: BTreeMap<_, _> =
        rows.iter().map(|row| (row.facts.run_id.as_str(), row.not_counted)).collect();
    let expected = [
        ("a", None),
        ("cancelled", Some(NotCountedReason::Cancelled)),
        ("internal", Some(NotCountedReason::Internal)),
        ("outcome-only", Some(NotCountedReason::OutcomeOnly)),
    ];
    assert_eq!(reasons, expected.into());
    let mut tried_again = run_attempt(&scenario, "cancelled", 2);
    tried_again.arrival.run.outcome = RunOutcome::Failure;
    assert_eq!(dispositions_of(scenario.count_batch(&[tried_again], time_at(0)).await), [Now(2)]);
    let only = RunFilter { run: Some(run_id("cancelled")), limit: 9, ..Default::default() };
    let rows = database.one.list_runs(&scenario.key.tenant, &only).await.expect("runs");
    assert_eq!((rows[0].ordinal, rows[0].facts.outcome), (Some(2), RunOutcome::Failure));
}

/// Checks that the stored facts and body are those of the highest attempt.
pub async fn a_higher_attempt_replaces_facts_and_body_and_a_lower_one_does_not(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let counted = |batch: Vec<IncomingRun>| {
        let scenario = &scenario;
        async move { dispositions_of(scenario.count_batch(&batch, time_at(0)).await) }
    };
    assert_eq!(counted(vec![run_attempt(&scenario, "a", 2)]).await, [Now(1)]);
    assert_eq!(counted(vec![run_attempt(&scenario, "a", 1)]).await, [Superseded]);
    assert_eq!(stored_attempt(&scenario, "a").await, 2);
    let mut third = run_attempt(&scenario, "a", 3);
    third.body = inline_body(b"the third");
    assert_eq!(counted(vec![third]).await, [Updated]);
    assert_eq!(stored_attempt(&scenario, "a").await, 3);
    let mut without = run_attempt(&scenario, "b", 1);
    assert_eq!(counted(vec![without.clone()]).await, [Now(2)]);
    // The retrospective has claimed both runs, so later attempts change nothing.
    without.body = IncomingBody::None;
    without.arrival.event.id = "later".to_owned();
    without.arrival.run.attempt = 9;
    assert_eq!(counted(vec![without]).await, [Superseded]);
    scenario.draw_sample().await;
    for _ in 0..2 {
        let claim = scenario.claim_next(LONG_S).await;
        let expected = match claim.run.run_id.as_str() {
            "a" => b"the third".to_vec(),
            _ => br#"{"turns":[],"of":"t/w/b"}"#.to_vec(),
        };
        assert_eq!(claim.body, StoredBody::Inline(expected));
        scenario.finish_claim(&claim, &super::scenario::empty_result()).await.expect("finishing");
    }
}

/// Checks that the highest attempt in a batch wins, even if the run was unknown before the batch.
pub async fn of_several_attempts_in_one_batch_the_last_wins(database: &Database) {
    let mut scenario = Scenario::new(&*database.one, "t", "w");
    scenario.policy.threshold_runs = 10;
    let batch = [
        run_attempt(&scenario, "a", 1),
        run_attempt(&scenario, "a", 3),
        run_attempt(&scenario, "a", 2),
        scenario.new_run("b"),
    ];
    let counted = dispositions_of(scenario.count_batch(&batch, time_at(0)).await);
    assert_eq!(counted, [Now(1), Updated, Superseded, Now(2)]);
    assert_eq!(stored_attempt(&scenario, "a").await, 3);
    assert_eq!(
        database.one.load_health().await.expect("health").events_seen,
        4,
        "a superseded event was seen, too"
    );
}

/// Checks that a run claimed by an open retrospective keeps its facts.
pub async fn a_run_that_a_retrospective_has_claimed_keeps_its_facts(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    scenario.count_runs(&["a", "b"]).await;
    let late = [run_attempt(&scenario, "a", 7)];
    assert_eq!(dispositions_of(scenario.count_batch(&late, time_at(0)).await), [Superseded]);
    assert_eq!(stored_attempt(&scenario, "a").await, 1);
}

/// Checks that a full window opens one retrospective (law 2) and stores its message to the sampler in the
/// same transaction.
pub async fn a_full_window_opens_exactly_one_retrospective(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    scenario.count_runs(&["a"]).await;
    assert_eq!(scenario.list_notices().await, []);
    scenario.count_runs(&["b", "c"]).await;
    let opened = scenario.latest_retrospective().await;
    assert_eq!((opened.epoch, opened.first, opened.last, opened.state), (1, 1, 2, RetrospectiveState::Due));
    assert_eq!((opened.as_of, &opened.policy), (time_at(0), &scenario.policy), "stored exactly");
    assert_eq!(scenario.list_notices().await, [Notice::RetrospectiveDue { retrospective: opened.id }]);
    scenario.count_runs(&["d", "e", "f"]).await;
    let all = database.one.list_retrospectives(&scenario.key.tenant, None, 10).await.expect("listing");
    assert_eq!(all.len(), 1, "one at a time");
    assert_eq!(scenario.workflow_state().await.window_size(), 4);
}

/// Checks that polling finds a window only if its pause has ended and no retrospective is open. No message
/// announces the end of a pause.
pub async fn a_window_is_waiting_only_while_none_is_open_and_no_pause_runs(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let waiting = |seconds| database.two.list_waiting_windows(time_at(seconds), 10);
    assert_eq!(waiting(0).await.expect("waiting"), []);
    scenario.count_runs(&["a"]).await;
    assert_eq!(waiting(0).await.expect("waiting"), std::slice::from_ref(&scenario.key));
    scenario.count_runs(&["b", "c"]).await;
    assert_eq!(waiting(0).await.expect("waiting"), [], "one is open");
    scenario.draw_sample().await;
    scenario.investigate_all(&|_| super::scenario::failed_result()).await;
    scenario.close_retrospective(scenario.latest_retrospective().await.id).await;
    let until = scenario.workflow_state().await.paused_until.expect("a failure pauses");
    assert_eq!(
        database.one.list_waiting_windows(until, 10).await.expect("waiting"),
        std::slice::from_ref(&scenario.key)
    );
    let before = until - jiff::SignedDuration::from_nanos(1);
    assert_eq!(
        database.one.list_waiting_windows(before, 10).await.expect("waiting"),
        [],
        "to the nanosecond"
    );
    Scenario::new(&*database.one, "t", "another").count_runs(&["a"]).await;
    assert_eq!(
        database.one.list_waiting_windows(until, 1).await.expect("waiting").len(),
        1,
        "at most so many"
    );
}

/// Checks that a batch with several tenants and workflows is counted in one transaction.
pub async fn a_batch_may_span_tenants_and_workflows(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let keys = [workflow_key("t", "w"), workflow_key("t", "v"), workflow_key("u", "w")];
    let batch: Vec<_> =
        ["a", "b"].into_iter().flat_map(|name| keys.iter().map(move |key| new_run(key, name))).collect();
    let counted = dispositions_of(scenario.count_batch(&batch, time_at(0)).await);
    assert_eq!(counted, [Now(1), Now(1), Now(1), Now(2), Now(2), Now(2)]);
    for key in &keys {
        assert_eq!(database.one.list_ordinals(key).await.expect("ordinals"), [1, 2], "{key}");
        let rows =
            database.one.list_retrospectives(&key.tenant, Some(&key.workflow), 9).await.expect("listing");
        assert_eq!(rows.len(), 1, "{key}");
    }
}

/// Checks that an empty batch opens full windows, as the counter uses it after a pause, and ignores unknown
/// workflows.
pub async fn an_empty_batch_only_checks_windows(database: &Database) {
    let mut scenario = Scenario::new(&*database.one, "t", "w");
    let unknown = |facts: CountingFacts, _: &[_]| {
        assert!(facts.workflows.is_empty());
        CountingEffects::default()
    };
    let keys = [scenario.key.clone()];
    let windows = WindowsToCheck { keys: &keys, handled_up_to: 0 };
    assert_eq!(database.one.count_runs(&[], windows, &unknown).await.expect("counting"), []);
    scenario.policy.threshold_runs = 3;
    scenario.count_runs(&["a", "b"]).await;
    scenario.policy.threshold_runs = 2;
    assert_eq!(scenario.count_batch(&[], time_at(5)).await, []);
    assert_eq!(scenario.latest_retrospective().await.as_of, time_at(5));
}

/// Checks that the database itself rejects a second open retrospective of a workflow (law 2).
pub async fn the_database_refuses_a_second_open_retrospective(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    scenario.count_runs(&["a", "b"]).await;
    let first = scenario.latest_retrospective().await;
    let wrong = |mut facts: CountingFacts, _: &[_]| {
        let mut state = facts.workflows.remove(&scenario.key).expect("the workflow is part of the batch");
        state.open = false;
        state.claimed = 0;
        let opened = state.open_if_due(&scenario.key, &scenario.policy, time_at(1), 0).into_iter().collect();
        CountingEffects {
            workflows: [(scenario.key.clone(), state)].into(),
            opened,
            ..CountingEffects::default()
        }
    };
    let keys = [scenario.key.clone()];
    let windows = WindowsToCheck { keys: &keys, handled_up_to: 0 };
    let error = database.two.count_runs(&[], windows, &wrong).await.expect_err("one is open");
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    assert_eq!(scenario.latest_retrospective().await, first);
    assert_eq!(scenario.workflow_state().await.epoch, 1);
}

/// Checks that a panicking decision or a call cancelled at any point leaves either the previous state or the
/// complete result.
pub async fn an_interrupted_count_leaves_nothing_or_all_of_it(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let batch = [scenario.new_run("a"), scenario.new_run("b")];
    let panics = |_: CountingFacts, _: &[_]| -> CountingEffects { panic!("the decision panics on purpose") };
    let counting =
        AssertUnwindSafe(database.one.count_runs(&batch, WindowsToCheck::default(), &panics)).catch_unwind();
    assert!(counting.await.is_err());
    assert_eq!(database.two.list_ordinals(&scenario.key).await.expect("ordinals").len(), 0);
    for polls in 0..40 {
        let names = [format!("left {polls}"), format!("right {polls}")];
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut left = Box::pin(scenario.count_runs(&names));
        for _ in 0..polls {
            if futures::poll!(&mut left).is_ready() {
                break;
            }
            // Run another query in between, so the interrupted call makes progress.
            database.two.load_health().await.expect("health");
        }
        drop(left);
        let counted = scenario.count_runs(&names).await;
        assert!(counted == [Duplicate, Duplicate] || matches!(&counted[..], [Now(_), Now(_)]), "{counted:?}");
    }
    let ordinals: Vec<u64> = (1..=80).collect();
    assert_eq!(database.one.list_ordinals(&scenario.key).await.expect("ordinals"), ordinals);
}

pub(super) fn dispositions_of(counted: Vec<ArrivalDecision>) -> Vec<Disposition> {
    counted.into_iter().map(|one| one.disposition).collect()
}

fn run_attempt(scenario: &Scenario<'_>, name: &str, attempt: u32) -> IncomingRun {
    let mut run = scenario.new_run(name);
    run.arrival.event.id = format!("{name}, attempt {attempt}");
    run.arrival.run.attempt = attempt;
    run
}

async fn stored_attempt(scenario: &Scenario<'_>, name: &str) -> u32 {
    let only = RunFilter { run: Some(run_id(name)), limit: 9, ..Default::default() };
    let rows = scenario.store.list_runs(&scenario.key.tenant, &only).await.expect("runs");
    rows[0].facts.attempt
}
