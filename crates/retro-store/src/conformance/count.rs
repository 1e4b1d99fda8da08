//! Counting: once, whatever comes again.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use futures::future::join;
use retro_core::count::{Counted, Disposition, Effects, Facts};
use retro_core::message::Notice;
use retro_core::retrospective::{InvestigationResult, State};
use retro_core::run::{Outcome, RunKind};

use super::Database;
use super::story::{LONG_S, Story, key, moment, run, run_id};
use crate::{IncomingBody, IncomingRun, RunFilter, Step as Done, StoreError, StoredBody};

use Disposition::{Counted as Now, Duplicate, Recorded, Superseded, Updated};

/// Law 1: redelivery changes nothing, within a batch and across batches.
pub async fn a_run_is_counted_once_though_its_event_comes_again(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    assert_eq!(story.count(&["a", "a"]).await, [Now(1), Duplicate]);
    assert_eq!(story.by(&*database.two).count(&["a"]).await, [Duplicate]);
    assert_eq!(story.state().await.counted, 1);
    assert_eq!(database.one.health().await.expect("health").events_seen, 1);
}

/// Law 1: re-emitting a run under another event id changes its facts, never the count.
pub async fn a_run_is_counted_once_though_it_comes_under_new_event_ids(database: &Database) {
    let mut story = Story::new(&*database.one, "t", "w");
    story.policy.threshold_runs = 10;
    let named = |event: &str| {
        let mut run = story.run("a");
        run.arrival.event.id = event.to_owned();
        run
    };
    let batch = [named("first"), named("second")];
    let counted: Vec<_> = dispositions(story.count_batch(&batch, moment(0)).await);
    assert_eq!(counted, [Now(1), Updated]);
    assert_eq!(dispositions(story.count_batch(&[named("third")], moment(0)).await), [Updated]);
    assert_eq!(database.one.ordinals(&story.key).await.expect("ordinals"), [1]);
    let all = database.one.runs(&story.key.tenant, &RunFilter { limit: 9, ..Default::default() }).await;
    assert_eq!(all.expect("runs").len(), 1);
}

/// Law 13: two workers handed the same thing at once.
pub async fn two_workers_with_the_same_batch_leave_what_one_would_have_left(database: &Database) {
    let (one, two) = (Story::new(&*database.one, "t", "w"), Story::new(&*database.two, "t", "w"));
    for round in 0..10 {
        let names: Vec<String> = (0..5).map(|index| format!("run {round}.{index}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (by_one, by_two) = join(one.count(&names), two.count(&names)).await;
        let duplicates = |all: &[Disposition]| all.iter().filter(|one| **one == Duplicate).count();
        assert_eq!(duplicates(&by_one) + duplicates(&by_two), 5, "{by_one:?} {by_two:?}");
    }
    let ordinals: Vec<u64> = (1..=50).collect();
    assert_eq!(database.one.ordinals(&one.key).await.expect("ordinals"), ordinals);
    let opened = database.one.retrospectives(&one.key.tenant, None, 10).await.expect("listing");
    assert_eq!(opened.len(), 1, "one is open, so no other opens");
}

/// Law 3 rests on this: of several counters another is quicker each time, and the window is the same.
pub async fn a_window_is_claimed_in_the_order_of_the_stream_whoever_was_quicker(database: &Database) {
    let mut one = Story::new(&*database.one, "t", "w");
    one.policy.threshold_runs = 4;
    let two = one.by(&*database.two);
    let key = &one.key;
    let at = |name: &str, position| IncomingRun { position, ..run(key, name) };
    let order = async || {
        let filter = RunFilter { limit: 9, ..Default::default() };
        let mut rows = database.one.runs(&key.tenant, &filter).await.expect("runs");
        rows.sort_by_key(|row| row.ordinal);
        rows.iter().map(|row| row.facts.run_id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(dispositions(one.count_batch(&[at("d", 14)], moment(0)).await), [Now(1)]);
    assert_eq!(dispositions(two.count_batch(&[at("a", 11), at("c", 13)], moment(0)).await), [Now(2), Now(3)]);
    assert_eq!(order().await, ["d", "a", "c"], "while it waits, the order of counting");
    assert_eq!(dispositions(one.count_batch(&[at("b", 12)], moment(0)).await), [Now(4)]);
    assert_eq!(order().await, ["a", "b", "c", "d"], "claimed in the order of the stream");

    // A late one does not stand before what was claimed, also when that is released.
    let id = one.retrospective().await.id;
    assert_eq!(one.sample().await, Done::Done);
    one.investigate(&|_| InvestigationResult::Failed { reason: "no".to_owned() }).await;
    assert_eq!(one.close(id).await, Done::Done);
    assert_eq!(one.state().await.window(), 4, "it is released");
    one.count_batch(&[at("y", 9), at("x", 8)], moment(20)).await;
    assert_eq!(one.state().await.window(), 6, "a pause runs");
    one.count_batch(&[], moment(48 * 3600)).await;
    assert_eq!(one.retrospective().await.window_runs(), 6);
    assert_eq!(order().await, ["a", "b", "c", "d", "x", "y"]);
}

/// Law 2 rests on this: no ordinal is given twice, none is left out.
pub async fn two_workers_with_different_batches_give_each_run_its_own_ordinal(database: &Database) {
    let (one, two) = (Story::new(&*database.one, "t", "w"), Story::new(&*database.two, "t", "w"));
    for round in 0..10 {
        let (left, right) = (format!("left {round}"), format!("right {round}"));
        join(one.count(&[&left]), two.count(&[&right])).await;
    }
    let ordinals: Vec<u64> = (1..=20).collect();
    assert_eq!(database.two.ordinals(&one.key).await.expect("ordinals"), ordinals);
}

/// An event's identity is its tenant's, whatever workflow it names: the lock of a workflow does not cover it.
pub async fn an_event_that_comes_in_two_workflows_at_once_is_counted_in_one(database: &Database) {
    let (one, two) = (Story::new(&*database.one, "t", "v"), Story::new(&*database.two, "t", "w"));
    let batch = |story: &Story<'_>, round: u64| {
        let named = |index| {
            let mut run = story.run(&format!("run {round}.{index}"));
            run.arrival.event.source = "tests of both".to_owned();
            run
        };
        // In other orders, so that each may wait for an event of the other's.
        let mut batch = [named(0), named(1), named(2)];
        if story.key.workflow.as_str() == "w" {
            batch.reverse();
        }
        batch
    };
    for round in 0..10 {
        let (left, right) = (batch(&one, round), batch(&two, round));
        let both = join(one.count_batch(&left, moment(0)), two.count_batch(&right, moment(0))).await;
        let all: Vec<Disposition> = dispositions(both.0).into_iter().chain(dispositions(both.1)).collect();
        assert_eq!(all.iter().filter(|one| **one == Duplicate).count(), 3, "{all:?}");
        assert_eq!(all.iter().filter(|one| matches!(one, Now(_))).count(), 3, "{all:?}");
    }
    assert_eq!(database.one.health().await.expect("health").events_seen, 30);
}

/// Neither waits for what the other holds while it holds what the other waits for; also when nobody has seen them yet.
pub async fn two_batches_over_the_same_workflows_in_other_orders_both_go_through(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let other = story.by(&*database.two);
    for round in 0..10 {
        let keys: Vec<_> = (0..5).map(|index| key("t", &format!("w{round}.{index}"))).collect();
        let mut left: Vec<_> = keys.iter().map(|key| run(key, "left")).collect();
        let right: Vec<_> = keys.iter().map(|key| run(key, "right")).collect();
        left.reverse();
        let both = join(story.count_batch(&left, moment(0)), other.count_batch(&right, moment(0))).await;
        let all = dispositions(both.0).into_iter().chain(dispositions(both.1));
        assert_eq!(all.filter(|one| matches!(one, Now(1 | 2))).count(), 10);
        for key in &keys {
            assert_eq!(database.one.ordinals(key).await.expect("ordinals"), [1, 2], "{key}");
        }
    }
}

/// A conflict leaves neither an inbox row nor new facts.
pub async fn the_same_event_id_with_other_content_is_a_conflict_and_changes_nothing(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    story.count(&["a"]).await;
    let mut other = story.run("b");
    other.arrival.event.id = "a".to_owned();
    let counted = dispositions(story.count_batch(std::slice::from_ref(&other), moment(0)).await);
    assert!(matches!(&counted[..], [Disposition::Conflict(_)]), "{counted:?}");
    assert_eq!(database.one.ordinals(&story.key).await.expect("ordinals"), [1]);
    let only = RunFilter { run: Some(run_id("b")), limit: 9, ..Default::default() };
    assert_eq!(database.one.runs(&story.key.tenant, &only).await.expect("runs"), []);
    // The first content is still the one that is known.
    assert_eq!(story.count(&["a"]).await, [Duplicate]);
    // A workflow of which no run was ever stored is not there.
    let nowhere = Story::new(&*database.two, "t", "nowhere");
    let mut other = nowhere.run("a");
    other.arrival.event = story.run("a").arrival.event;
    other.arrival.content_hash = "other content".to_owned();
    assert!(matches!(
        nowhere.count_batch(&[other], moment(0)).await[0].disposition,
        Disposition::Conflict(_)
    ));
    let rows = database.one.workflows(&story.key.tenant).await.expect("listing");
    assert_eq!(rows.iter().map(|row| &row.key).collect::<Vec<_>>(), [&story.key]);
    assert_eq!(nowhere.count(&["b"]).await, [Now(1)]);
}

/// Some databases end a text at a NUL; two events must not become one there.
pub async fn event_ids_that_differ_behind_a_nul_are_two_events(database: &Database) {
    let mut story = Story::new(&*database.one, "t", "w");
    story.policy.threshold_runs = 10;
    let ids = ["x", "x\0", "x\0a", "x\0b", r"x\0b", r"x\\0b", "'; DROP TABLE runs; --"];
    for (number, id) in (1..).zip(ids) {
        let mut run = story.run(&format!("run {number}"));
        run.arrival.event.id = id.to_owned();
        let again = [run.clone()];
        assert_eq!(dispositions(story.count_batch(&[run], moment(0)).await), [Now(number)], "{id:?}");
        assert_eq!(dispositions(story.count_batch(&again, moment(0)).await), [Duplicate], "{id:?}");
    }
}

/// Internal and cancelled runs are kept and never counted; another attempt that counts gets its ordinal then.
pub async fn a_run_that_does_not_count_is_recorded_and_counts_once_it_does(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let (mut internal, mut cancelled) = (story.run("internal"), story.run("cancelled"));
    internal.arrival.run.kind = RunKind::Internal;
    cancelled.arrival.run.outcome = Outcome::Cancellation;
    let batch = [internal, cancelled, story.run("a")];
    assert_eq!(dispositions(story.count_batch(&batch, moment(0)).await), [Recorded, Recorded, Now(1)]);
    let rows = database.one.workflows(&story.key.tenant).await.expect("listing");
    assert_eq!((rows[0].recorded, rows[0].state.counted), (3, 1));
    let mut tried_again = attempt(&story, "cancelled", 2);
    tried_again.arrival.run.outcome = Outcome::Failure;
    assert_eq!(dispositions(story.count_batch(&[tried_again], moment(0)).await), [Now(2)]);
    let only = RunFilter { run: Some(run_id("cancelled")), limit: 9, ..Default::default() };
    let rows = database.one.runs(&story.key.tenant, &only).await.expect("runs");
    assert_eq!((rows[0].ordinal, rows[0].facts.outcome), (Some(2), Outcome::Failure));
}

/// The facts and the body are those of the highest attempt.
pub async fn a_higher_attempt_replaces_facts_and_body_and_a_lower_one_does_not(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let counted = |batch: Vec<IncomingRun>| {
        let story = &story;
        async move { dispositions(story.count_batch(&batch, moment(0)).await) }
    };
    assert_eq!(counted(vec![attempt(&story, "a", 2)]).await, [Now(1)]);
    assert_eq!(counted(vec![attempt(&story, "a", 1)]).await, [Superseded]);
    assert_eq!(stored_attempt(&story, "a").await, 2);
    let mut third = attempt(&story, "a", 3);
    third.body = IncomingBody::Inline(b"the third".to_vec());
    assert_eq!(counted(vec![third]).await, [Updated]);
    assert_eq!(stored_attempt(&story, "a").await, 3);
    let mut without = attempt(&story, "b", 1);
    assert_eq!(counted(vec![without.clone()]).await, [Now(2)]);
    // The retrospective has claimed both by now, so what follows changes nothing.
    without.body = IncomingBody::None;
    without.arrival.event.id = "later".to_owned();
    without.arrival.run.attempt = 9;
    assert_eq!(counted(vec![without]).await, [Superseded]);
    story.sample().await;
    for _ in 0..2 {
        let claim = story.claim(LONG_S).await;
        let expected = match claim.run.run_id.as_str() {
            "a" => b"the third".to_vec(),
            _ => br#"{"turns":[],"of":"t/w/b"}"#.to_vec(),
        };
        assert_eq!(claim.body, StoredBody::Inline(expected));
        story.finish(&claim, &super::story::nothing()).await.expect("finishing");
    }
}

/// Also when the run was not known before the batch.
pub async fn of_several_attempts_in_one_batch_the_last_stays(database: &Database) {
    let mut story = Story::new(&*database.one, "t", "w");
    story.policy.threshold_runs = 10;
    let batch = [attempt(&story, "a", 1), attempt(&story, "a", 3), attempt(&story, "a", 2), story.run("b")];
    let counted = dispositions(story.count_batch(&batch, moment(0)).await);
    assert_eq!(counted, [Now(1), Updated, Superseded, Now(2)]);
    assert_eq!(stored_attempt(&story, "a").await, 3);
    assert_eq!(
        database.one.health().await.expect("health").events_seen,
        4,
        "a superseded event was seen, too"
    );
}

/// What a retrospective looks at does not change under it.
pub async fn a_run_that_a_retrospective_has_claimed_keeps_its_facts(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    story.count(&["a", "b"]).await;
    let late = [attempt(&story, "a", 7)];
    assert_eq!(dispositions(story.count_batch(&late, moment(0)).await), [Superseded]);
    assert_eq!(stored_attempt(&story, "a").await, 1);
}

/// Law 2, with the message that tells the sampler, in the transaction that counts.
pub async fn a_full_window_opens_exactly_one_retrospective(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    story.count(&["a"]).await;
    assert_eq!(story.notices().await, []);
    story.count(&["b", "c"]).await;
    let opened = story.retrospective().await;
    assert_eq!((opened.epoch, opened.first, opened.last, opened.state), (1, 1, 2, State::Due));
    assert_eq!((opened.as_of, &opened.policy), (moment(0), &story.policy), "stored exactly");
    assert_eq!(story.notices().await, [Notice::RetrospectiveDue { retrospective: opened.id }]);
    story.count(&["d", "e", "f"]).await;
    let all = database.one.retrospectives(&story.key.tenant, None, 10).await.expect("listing");
    assert_eq!(all.len(), 1, "one at a time");
    assert_eq!(story.state().await.window(), 4);
}

/// Nothing comes to wake a window after a pause: the counter has to find it.
pub async fn a_window_is_waiting_only_while_none_is_open_and_no_pause_runs(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let waiting = |seconds| database.two.waiting_windows(moment(seconds), 10);
    assert_eq!(waiting(0).await.expect("waiting"), []);
    story.count(&["a"]).await;
    assert_eq!(waiting(0).await.expect("waiting"), std::slice::from_ref(&story.key));
    story.count(&["b", "c"]).await;
    assert_eq!(waiting(0).await.expect("waiting"), [], "one is open");
    story.sample().await;
    story.investigate(&|_| super::story::failed()).await;
    story.close(story.retrospective().await.id).await;
    let until = story.state().await.paused_until.expect("a failure pauses");
    assert_eq!(
        database.one.waiting_windows(until, 10).await.expect("waiting"),
        std::slice::from_ref(&story.key)
    );
    let before = until - jiff::SignedDuration::from_nanos(1);
    assert_eq!(database.one.waiting_windows(before, 10).await.expect("waiting"), [], "to the nanosecond");
    Story::new(&*database.one, "t", "another").count(&["a"]).await;
    assert_eq!(database.one.waiting_windows(until, 1).await.expect("waiting").len(), 1, "at most so many");
}

/// One transaction for all of it.
pub async fn a_batch_may_span_tenants_and_workflows(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let keys = [key("t", "w"), key("t", "v"), key("u", "w")];
    let batch: Vec<_> =
        ["a", "b"].into_iter().flat_map(|name| keys.iter().map(move |key| run(key, name))).collect();
    let counted = dispositions(story.count_batch(&batch, moment(0)).await);
    assert_eq!(counted, [Now(1), Now(1), Now(1), Now(2), Now(2), Now(2)]);
    for key in &keys {
        assert_eq!(database.one.ordinals(key).await.expect("ordinals"), [1, 2], "{key}");
        let rows = database.one.retrospectives(&key.tenant, Some(&key.workflow), 9).await.expect("listing");
        assert_eq!(rows.len(), 1, "{key}");
    }
}

/// This is how a window opens after a pause. A workflow that is not known is not there.
pub async fn an_empty_batch_only_looks_at_windows(database: &Database) {
    let mut story = Story::new(&*database.one, "t", "w");
    let unknown = |facts: Facts, _: &[_]| {
        assert!(facts.workflows.is_empty());
        Effects::default()
    };
    let keys = [story.key.clone()];
    assert_eq!(database.one.count(&[], &keys, &unknown).await.expect("counting"), []);
    story.policy.threshold_runs = 3;
    story.count(&["a", "b"]).await;
    story.policy.threshold_runs = 2;
    assert_eq!(story.count_batch(&[], moment(5)).await, []);
    assert_eq!(story.retrospective().await.as_of, moment(5));
}

/// Law 2 is the database's own rule, too.
pub async fn a_second_open_retrospective_is_refused_whatever_a_decision_says(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    story.count(&["a", "b"]).await;
    let first = story.retrospective().await;
    let wrong = |mut facts: Facts, _: &[_]| {
        let mut state = facts.workflows.remove(&story.key).expect("it is looked at");
        state.open = false;
        state.claimed = 0;
        let opened = state.open_if_due(&story.key, &story.policy, moment(1)).into_iter().collect();
        Effects { workflows: [(story.key.clone(), state)].into(), opened, ..Effects::default() }
    };
    let keys = [story.key.clone()];
    let error = database.two.count(&[], &keys, &wrong).await.expect_err("one is open");
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    assert_eq!(story.retrospective().await, first);
    assert_eq!(story.state().await.epoch, 1);
}

/// A decision that panics, and a caller that goes away at any point, leave what was there, or all of it.
pub async fn a_count_that_is_cut_short_leaves_nothing_or_all_of_it(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let batch = [story.run("a"), story.run("b")];
    let panics = |_: Facts, _: &[_]| -> Effects { panic!("the decision panics, as the test wants it") };
    let counting = AssertUnwindSafe(database.one.count(&batch, &[], &panics)).catch_unwind();
    assert!(counting.await.is_err());
    assert_eq!(database.two.ordinals(&story.key).await.expect("ordinals").len(), 0);
    for polls in 0..40 {
        let names = [format!("left {polls}"), format!("right {polls}")];
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut left = Box::pin(story.count(&names));
        for _ in 0..polls {
            if futures::poll!(&mut left).is_ready() {
                break;
            }
            // Something else gets done meanwhile, so that the call really gets further.
            database.two.health().await.expect("health");
        }
        drop(left);
        let counted = story.count(&names).await;
        assert!(counted == [Duplicate, Duplicate] || matches!(&counted[..], [Now(_), Now(_)]), "{counted:?}");
    }
    let ordinals: Vec<u64> = (1..=80).collect();
    assert_eq!(database.one.ordinals(&story.key).await.expect("ordinals"), ordinals);
}

fn dispositions(counted: Vec<Counted>) -> Vec<Disposition> {
    counted.into_iter().map(|one| one.disposition).collect()
}

fn attempt(story: &Story<'_>, name: &str, attempt: u32) -> IncomingRun {
    let mut run = story.run(name);
    run.arrival.event.id = format!("{name}, attempt {attempt}");
    run.arrival.run.attempt = attempt;
    run
}

async fn stored_attempt(story: &Story<'_>, name: &str) -> u32 {
    let only = RunFilter { run: Some(run_id(name)), limit: 9, ..Default::default() };
    let rows = story.store.runs(&story.key.tenant, &only).await.expect("runs");
    rows[0].facts.attempt
}
