//! Conformance cases for retention.

use futures::future::join;
use retro_core::count::{CountingEffects, CountingFacts, Disposition};
use retro_core::id::{EventKey, RetrospectiveId};
use retro_core::manual::DecideError;
use retro_core::memory::ChangeCause;
use retro_core::retrospective::RetrospectiveState;
use retro_core::run::{BodyRef, RunKind};

use super::Database;
use super::close::closing_facts;
use super::delivery::begin_next_attempt;
use super::scenario::{LONG_S, Scenario, empty_result, failed_result, result_with_finding, run_id, time_at};
use super::summaries;
use crate::retention::RetentionStage;
use crate::{
    AppliedPresentations, CommitResult, DeliveryPosition, IncomingRun, JournalEntry,
    JournalStage as Journalled, Presentation, PurgeResult, RunFilter, StoredBody,
};

use Disposition::{Counted as Now, Duplicate, Recorded, Superseded};

/// Limit above the number of rows in any case.
const ALL: u32 = 1000;

/// Checks that after a purge a run is still counted once (law 1): for the same event, another event, a higher
/// attempt and changed content.
pub async fn an_event_that_comes_again_after_its_details_were_purged_is_not_counted(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let odd = ["x", "x\0", "x\0a", r"x\0"]
        .map(|id| run_with_event_id(&scenario, id, &format!("run of {}", id.len())));
    scenario.count_runs(&["a", "b"]).await;
    scenario.draw_sample().await;
    scenario.investigate_all(&|_| empty_result()).await;
    scenario.close_retrospective(scenario.latest_retrospective().await.id).await;
    scenario.count_batch(&odd[..1], time_at(0)).await;
    let before =
        (scenario.workflow_state().await, database.one.load_health().await.expect("health").events_seen);
    assert_eq!(purge_all(database, RetentionStage::Events, 3600).await, 0, "they are young");
    assert_eq!(purge_all(database, RetentionStage::Events, 0).await, 3);
    let repeated: Vec<_> =
        ["a", "b"].map(|name| scenario.new_run(name)).into_iter().chain([odd[0].clone()]).collect();
    assert_eq!(count_dispositions(&scenario, &repeated).await, [Duplicate, Duplicate, Duplicate]);
    let mut higher = run_with_event_id(&scenario, "another event", "a");
    higher.arrival.run.attempt = 9;
    assert_eq!(count_dispositions(&scenario, &[higher]).await, [Superseded]);
    let mut changed = scenario.new_run("b");
    changed.arrival.content_hash = "other content".to_owned();
    let result = count_dispositions(&scenario, &[changed]).await;
    assert!(matches!(&result[..], [Disposition::Conflict(_)]), "{result:?}");
    let after =
        (scenario.workflow_state().await, database.one.load_health().await.expect("health").events_seen);
    assert_eq!((after.0, after.1), (before.0, before.1 + 1), "only the new event was seen");
    // The digests also distinguish ids that differ only after a NUL.
    assert_eq!(count_dispositions(&scenario, &odd[1..2]).await.len(), 1);
    purge_all(database, RetentionStage::Events, 0).await;
    assert_eq!(count_dispositions(&scenario, &odd[..2]).await, [Duplicate, Duplicate]);
    assert_ne!(count_dispositions(&scenario, &odd[2..3]).await, [Duplicate]);
    assert_ne!(count_dispositions(&scenario, &odd[3..]).await, [Duplicate]);
}

/// Checks that bodies are kept while their runs are unclaimed, in an open retrospective, or released by a
/// failed one.
pub async fn bodies_are_kept_until_their_retrospective_has_closed(database: &Database) {
    let mut scenario = Scenario::new(&*database.one, "t", "w");
    scenario.policy.failure_pause_s = 0;
    scenario.count_runs(&["a"]).await;
    assert_eq!(purge_all(database, RetentionStage::Bodies, 0).await, 0, "it waits in the window");
    scenario.count_runs(&["b"]).await;
    assert_eq!(purge_all(database, RetentionStage::Bodies, 0).await, 0, "one is open");
    scenario.draw_sample().await;
    assert_eq!(purge_all(database, RetentionStage::Bodies, 0).await, 0, "it is being looked into");
    scenario.investigate_all(&|_| failed_result()).await;
    scenario.close_retrospective(scenario.latest_retrospective().await.id).await;
    assert_eq!(
        purge_all(database, RetentionStage::Bodies, 0).await,
        0,
        "its runs were released, and the next one has them"
    );
    scenario.draw_sample().await;
    scenario.investigate_all(&|_| empty_result()).await;
    scenario.close_retrospective(scenario.latest_retrospective().await.id).await;
    assert_eq!(scenario.latest_retrospective().await.state, RetrospectiveState::Closed);
    scenario.count_runs(&["c"]).await;
    assert_eq!(purge_all(database, RetentionStage::Bodies, 3600).await, 0, "it has only just closed");
    assert_eq!(purge_all(database, RetentionStage::Bodies, 0).await, 2);
    assert_eq!(purge_all(database, RetentionStage::Bodies, 0).await, 0);
    assert_eq!(find_body(&scenario, "a").await, Some(BodyRef::Dropped));
    assert_eq!(find_body(&scenario, "c").await, Some(BodyRef::Stored), "it waits in the window");
}

/// Checks that a claim after the purge reports the body as gone.
pub async fn a_dropped_body_is_gone(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let id = scenario.settle_window(["a", "b"], &|_| empty_result()).await;
    scenario.close_retrospective(id).await;
    assert_eq!(purge_all(database, RetentionStage::Bodies, 0).await, 2);
    let over_it_again = |mut facts: CountingFacts, _: &[_]| {
        let mut state = facts.workflows.remove(&scenario.key).expect("the workflow is part of the batch");
        state.claimed = 0;
        let opened = state.open_if_due(&scenario.key, &scenario.policy, time_at(1), 0).into_iter().collect();
        CountingEffects {
            workflows: [(scenario.key.clone(), state)].into(),
            opened,
            ..CountingEffects::default()
        }
    };
    let keys = [scenario.key.clone()];
    let windows = crate::WindowsToCheck { keys: &keys, handled_up_to: 0 };
    database.one.count_runs(&[], windows, &over_it_again).await.expect("counting");
    assert_eq!(scenario.draw_sample().await, CommitResult::Done);
    let StoredBody::Gone(why) = scenario.claim_next(LONG_S).await.body else { panic!("it was dropped") };
    assert!(why.contains("dropped on purpose"), "{why}");
}

/// Checks that facts are purged only after bodies, and that identities and ordinals are kept.
pub async fn facts_are_purged_after_bodies_and_identities_stay(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let memory = scenario.learn_lesson("Retry at once").await;
    let run = run_id("Retry at once 1");
    database.one.record_presented(&scenario.key, &run, &[memory.id], &[]).await.expect("recording");
    scenario.count_runs(&["c"]).await;
    assert_eq!(purge_all(database, RetentionStage::Runs, 0).await, 0, "their bodies come first");
    purge_all(database, RetentionStage::Bodies, 0).await;
    assert_eq!(purge_all(database, RetentionStage::Runs, 3600).await, 0, "it has only just closed");
    assert_eq!(purge_all(database, RetentionStage::Runs, 0).await, 2);
    assert_eq!(purge_all(database, RetentionStage::Runs, 0).await, 0);
    assert_eq!(find_body(&scenario, run.as_str()).await, None);
    assert_eq!(find_body(&scenario, "c").await, Some(BodyRef::Stored));
    assert_eq!(database.one.list_ordinals(&scenario.key).await.expect("ordinals"), [1, 2, 3]);
    let mut higher = run_with_event_id(&scenario, "another event", run.as_str());
    higher.arrival.run.attempt = 9;
    assert_eq!(count_dispositions(&scenario, &[higher]).await, [Superseded]);
    assert_eq!(scenario.list_memories().await, [memory], "what was learnt stays");
    // The next retrospective claims newer runs as if nothing was purged.
    scenario.count_runs(&["d"]).await;
    let next = scenario.latest_retrospective().await;
    assert_eq!((next.first, next.last), (3, 4));
    assert_eq!(scenario.draw_sample().await, CommitResult::Done);
}

/// Checks that no age purges call summaries.
pub async fn call_summaries_outlive_bodies_and_facts(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let claim = summaries::claim_window(&scenario, &["a", "b"]).await;
    let writes = ["a", "b"].map(|name| summaries::readable(name, "read"));
    summaries::store(&scenario, &claim, &writes).await.expect("storing");
    scenario.finish_claim(&claim, &empty_result()).await.expect("finishing");
    scenario.investigate_all(&|_| empty_result()).await;
    scenario.close_retrospective(claim.retrospective.id).await;
    scenario.mark_all_sent().await;
    let before = summaries::list_summaries(&scenario).await;
    assert_eq!(before.len(), 2);
    for &stage in RetentionStage::ALL.iter().filter(|stage| **stage != RetentionStage::Attempts) {
        assert!(purge_all(database, stage, 0).await > 0, "nothing to purge of {}", stage.as_str());
    }
    assert_eq!(find_body(&scenario, "a").await, None, "its facts are gone");
    assert_eq!(summaries::list_summaries(&scenario).await, before);
}

/// Checks that an uncounted run's details are purged by age, and stored again if the run is counted later.
pub async fn a_run_that_was_not_counted_keeps_its_details_as_long_as_a_body(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let mut internal = scenario.new_run("internal");
    internal.arrival.run.kind = RunKind::Internal;
    assert_eq!(count_dispositions(&scenario, &[internal.clone()]).await, [Recorded]);
    assert_eq!(purge_all(database, RetentionStage::Bodies, 3600).await, 0);
    assert_eq!(purge_all(database, RetentionStage::Bodies, 0).await, 1);
    assert_eq!(find_body(&scenario, "internal").await, None);
    assert_eq!(count_dispositions(&scenario, &[internal]).await, [Duplicate]);
    let mut counts = run_with_event_id(&scenario, "another event", "internal");
    counts.arrival.run.attempt = 2;
    assert_eq!(count_dispositions(&scenario, &[counts]).await, [Now(1)]);
    assert_eq!(purge_all(database, RetentionStage::Bodies, 0).await, 0, "it waits in the window");
    assert_eq!(find_body(&scenario, "internal").await, Some(BodyRef::Stored));
    assert_eq!(database.one.list_workflows(&scenario.key.tenant).await.expect("listing")[0].recorded, 1);
}

/// Checks that after a purge neither a second investigation of a run nor a repeated request has a second
/// effect (law 4), because changes are never purged.
pub async fn effects_are_known_after_everything_was_purged(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let wrong = scenario.learn_lesson("Retry at once").await;
    let stored = scenario.learn_lesson("List the tables before anything else").await;
    super::write::delete_memory(&scenario, wrong.id, "request 1").await.expect("the memory is living");
    let proposal = super::manual::create_proposal(&scenario, "Wait 5 seconds").await;
    super::manual::accept_proposal(&scenario, proposal).await.expect("the proposal is open");
    // A run under investigation has already caused a change.
    let id = scenario.settle_window(["c", "d"], &|_| empty_result()).await;
    let cause = ChangeCause::Run { workflow: scenario.key.workflow.clone(), run: run_id("c") };
    let caused = super::write::delete_because_of(&scenario, stored.id, cause).await;
    let before = closing_facts(&scenario, id).await.writer;
    let history = database.one.list_workflow_changes(&scenario.key).await.expect("changes");
    scenario.mark_all_sent().await;
    for &stage in RetentionStage::ALL.iter().filter(|stage| **stage != RetentionStage::Attempts) {
        assert!(purge_all(database, stage, 0).await > 0, "nothing to purge of {}", stage.as_str());
    }
    let after = closing_facts(&scenario, id).await.writer;
    assert_eq!(after.applied, [caused].into());
    assert_eq!((&after.memories, &after.tombstones), (&before.memories, &before.tombstones));
    assert_eq!(
        super::write::delete_memory(&scenario, wrong.id, "request 1").await,
        Ok(CommitResult::AlreadyDone)
    );
    let repeated = super::manual::accept_proposal(&scenario, proposal).await;
    assert!(matches!(repeated, Err(DecideError::AlreadyDecided(_))), "{repeated:?}");
    let first = RetrospectiveId::of_epoch(&scenario.key, 1);
    assert_eq!(scenario.close_retrospective(first).await, CommitResult::AlreadyDone);
    assert_eq!(scenario.close_retrospective(id).await, CommitResult::Done);
    assert_eq!(database.one.list_workflow_changes(&scenario.key).await.expect("changes"), history);
}

/// Checks that journals are kept until the retrospective ends, because another worker may need them to take
/// over.
pub async fn journals_are_kept_until_their_retrospective_has_ended(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    scenario.count_runs(&["a", "b"]).await;
    scenario.draw_sample().await;
    let claim = scenario.claim_next(LONG_S).await;
    let entry = JournalEntry { stage: Journalled::Answered, body: "an answer".into() };
    database.one.append_journal(&claim, &entry).await.expect("journalling");
    scenario.finish_claim(&claim, &result_with_finding("a lesson")).await.expect("finishing");
    assert_eq!(purge_all(database, RetentionStage::Journals, 0).await, 0, "it is open");
    scenario.investigate_all(&|_| empty_result()).await;
    assert_eq!(purge_all(database, RetentionStage::Journals, 0).await, 0, "its batch waits for the writer");
    assert_eq!(
        scenario.close_retrospective(scenario.latest_retrospective().await.id).await,
        CommitResult::Done
    );
    assert_eq!(purge_all(database, RetentionStage::Journals, 3600).await, 0, "it has only just ended");
    assert_eq!(purge_all(database, RetentionStage::Journals, 0).await, 2, "one entry and one batch");
}

/// Checks that messages are purged by age, and only after they were sent.
pub async fn messages_are_purged_only_after_they_were_sent(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let id = scenario.settle_window(["a", "b"], &|_| empty_result()).await;
    let waiting = database.one.list_unsent_messages(ALL).await.expect("reading");
    assert_eq!(purge_all(database, RetentionStage::Messages, 0).await, 0);
    database.one.mark_sent(&[waiting[0].id]).await.expect("marking");
    assert_eq!(purge_all(database, RetentionStage::Messages, 3600).await, 0, "it was only just sent");
    assert_eq!(purge_all(database, RetentionStage::Messages, 0).await, 1);
    assert_eq!(database.one.list_unsent_messages(ALL).await.expect("reading"), waiting[1..]);
    scenario.mark_all_sent().await;
    assert_eq!(purge_all(database, RetentionStage::Messages, 0).await, waiting.len() as u64 - 1);
    assert_eq!(scenario.close_retrospective(id).await, CommitResult::Done);
}

/// Checks that attempts are purged by age: a message that was not redelivered for that long was handled.
pub async fn attempts_are_purged_by_age(database: &Database) {
    let at =
        |sequence| DeliveryPosition { consumer: "counter".to_owned(), stream: "RUNS".to_owned(), sequence };
    for sequence in [1, 2] {
        begin_next_attempt(&*database.one, &at(sequence)).await;
    }
    assert_eq!(purge_all(database, RetentionStage::Attempts, 3600).await, 0);
    assert_eq!(begin_next_attempt(&*database.one, &at(1)).await, 3);
    assert_eq!(
        purge_all(database, RetentionStage::Attempts, 0).await,
        2 + 3,
        "two counts, and what is known of three attempts"
    );
    assert_eq!(begin_next_attempt(&*database.one, &at(1)).await, 2);
}

/// Checks that each call purges at most `limit` rows, and that concurrent calls purge different rows.
pub async fn purging_is_bounded_and_two_at_once_purge_what_one_would_have(database: &Database) {
    let mut scenario = Scenario::new(&*database.one, "t", "w");
    scenario.policy.threshold_runs = 100;
    let names: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    scenario.count_runs(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let first = database.one.purge_stage(RetentionStage::Events, 0, 3).await.expect("purging");
    assert_eq!(first, PurgeResult { rows: 3, has_more: true });
    let mut rows = first.rows;
    for _ in 0..20 {
        let (one, two) = join(
            database.one.purge_stage(RetentionStage::Events, 0, 2),
            database.two.purge_stage(RetentionStage::Events, 0, 2),
        )
        .await;
        rows += one.expect("purging").rows + two.expect("purging").rows;
    }
    assert_eq!(rows, 20);
    assert_eq!(
        database.two.purge_stage(RetentionStage::Events, 0, 3).await.expect("purging"),
        PurgeResult::default()
    );
    let repeated: Vec<_> = names.iter().map(|name| scenario.new_run(name)).collect();
    assert!(count_dispositions(&scenario, &repeated).await.iter().all(|one| *one == Duplicate));
    let result = database.one.list_retention_totals().await.expect("reading");
    let result: Vec<_> = result.iter().map(|row| (row.stage, row.purged)).collect();
    assert_eq!(result, [(RetentionStage::Events, 20)]);
}

/// Checks that a presentation that no gateway has applied is counted for its memory before what is stored of its run is
/// purged, and leaves nothing behind.
pub async fn what_waits_is_applied_before_its_run_is_purged(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let memory = scenario.learn_lesson("Retry at once").await.id;
    let run = run_id("Retry at once 1");
    let waiting = Presentation {
        key: scenario.key.clone(),
        run: run.clone(),
        memories: vec![memory],
        assignments: Vec::new(),
    };
    database.one.record_presentations(&[waiting]).await.expect("recording");
    purge_all(database, RetentionStage::Bodies, 0).await;
    let handed = async || database.two.was_handed(&scenario.key, &run, memory).await.expect("looking it up");
    assert!(handed().await);
    assert_eq!(purge_all(database, RetentionStage::Runs, 3600).await, 0, "it waits since a moment only");
    assert!(handed().await);
    assert_eq!(purge_all(database, RetentionStage::Runs, 0).await, 2);
    assert!(!handed().await);
    let usage = database.two.count_memory_usage(&scenario.key.tenant, &[memory]).await.expect("counting");
    assert_eq!(usage[0].presented, 1);
    let left = database.one.apply_presentations(9).await.expect("applying");
    assert_eq!(left, AppliedPresentations::default());
}

/// Purges a stage until nothing is due, and returns the number of purged rows.
pub(super) async fn purge_all(database: &Database, stage: RetentionStage, age_s: u64) -> u64 {
    let mut rows = 0;
    for _ in 0..20 {
        let purged = database.two.purge_stage(stage, age_s, ALL).await.expect("purging");
        rows += purged.rows;
        if !purged.has_more {
            return rows;
        }
    }
    panic!("not finished after twenty calls");
}

/// Creates a run with the given event id.
fn run_with_event_id(scenario: &Scenario<'_>, event: &str, name: &str) -> IncomingRun {
    let mut run = scenario.new_run(name);
    run.arrival.event = EventKey { id: event.to_owned(), ..run.arrival.event };
    run
}

async fn count_dispositions(scenario: &Scenario<'_>, batch: &[IncomingRun]) -> Vec<Disposition> {
    scenario.count_batch(batch, time_at(0)).await.into_iter().map(|one| one.disposition).collect()
}

async fn find_body(scenario: &Scenario<'_>, name: &str) -> Option<BodyRef> {
    let only = RunFilter { run: Some(run_id(name)), limit: 1, ..Default::default() };
    let mut rows = scenario.store.list_runs(&scenario.key.tenant, &only).await.expect("runs");
    rows.pop().map(|row| row.body)
}
