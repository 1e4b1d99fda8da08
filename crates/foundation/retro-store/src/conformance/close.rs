//! Conformance cases for closing retrospectives.

use std::collections::BTreeMap;
use std::sync::Mutex;

use futures::future::join;
use retro_core::dead_letter::DeadLetterCode;
use retro_core::finding::LessonCue;
use retro_core::id::{MemoryId, RetrospectiveId};
use retro_core::learn::{ClosedRetrospective, ClosingFacts};
use retro_core::memory::{ChangeCause, Memory, MemoryStatus, fold_change};
use retro_core::message::Notice;
use retro_core::retrospective::{InvestigationResult, PresentedMemory, RetrospectiveState};
use retro_core::run::{RunOutcome, Usage};
use retro_core::similarity::{ComparesTexts, ScopeChanged};
use retro_core::time::add_seconds;

use super::Database;
use super::scenario::{
    LONG_S, Scenario, empty_result, failed_result, result_about, result_with_finding, run_id, time_at,
};
use crate::{Claim, CommitResult, DeadLetterFilter, Decision, StoreError};

/// Checks that closing stores all effects in one transaction.
pub async fn closing_stores_changes_memories_report_and_messages_together(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let id = scenario.settle_window(["a", "b"], &|_| result_with_finding("a lesson")).await;
    scenario.mark_all_sent().await;
    assert_eq!(scenario.close_retrospective(id).await, CommitResult::Done);
    let changes = database.two.list_workflow_changes(&scenario.key).await.expect("changes");
    let kinds: Vec<_> = changes.iter().map(|change| change.effect.kind()).collect();
    assert_eq!(kinds, ["created", "promoted"]);
    let memories = scenario.list_memories().await;
    assert_eq!(
        (memories.len(), memories[0].status, memories[0].weight.get()),
        (1, MemoryStatus::Active, 300)
    );
    assert_eq!(
        database.two.list_memory_changes(&scenario.key.tenant, memories[0].id).await.expect("history"),
        changes
    );
    let report = database
        .two
        .find_report(&scenario.key.tenant, id)
        .await
        .expect("reading")
        .expect("the report is stored");
    assert_eq!((report.ended, &report.changes), (RetrospectiveState::Closed, &changes));
    assert_eq!(scenario.latest_retrospective().await.state, RetrospectiveState::Closed);
    let state = scenario.workflow_state().await;
    assert_eq!((state.open, state.claimed, state.epoch), (false, 2, 1));
    let kinds: Vec<_> = scenario.list_notices().await.iter().map(Notice::kind).collect();
    assert_eq!(kinds, ["memory.changed", "memory.changed", "report.ready"]);
}

/// Checks that memories equal the fold of their changes (law 5) after creating, promoting, archiving,
/// deleting and suppressing.
pub async fn the_memories_are_the_fold_of_the_changes(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let wrong = scenario.learn_lesson("Retry at once").await;
    scenario.learn_lesson("List the tables before anything else").await;
    let contradicted =
        |claim: &Claim| result_about(&format!("finding {}", claim.number), Some(wrong.id), vec![]);
    let id = scenario.settle_window(["c1", "c2"], &contradicted).await;
    scenario.close_retrospective(id).await;
    let id = scenario.settle_window(["d1", "d2"], &|_| result_with_finding("Retry at once")).await;
    scenario.close_retrospective(id).await;
    let changes = database.one.list_workflow_changes(&scenario.key).await.expect("changes");
    let mut folded: BTreeMap<MemoryId, Memory> = BTreeMap::new();
    for change in &changes {
        let before = folded.remove(&change.memory);
        folded.extend(fold_change(before, change).expect("legal").map(|memory| (memory.id, memory)));
    }
    let stored: BTreeMap<MemoryId, Memory> =
        scenario.list_memories().await.into_iter().map(|memory| (memory.id, memory)).collect();
    assert_eq!(stored, folded);
    assert_eq!(stored[&wrong.id].status, MemoryStatus::Deleted);
    assert!(changes.iter().any(|change| change.effect.kind() == "suppressed"), "its tombstone holds");
}

/// Checks that closing a retrospective again, as after a redelivered message, changes nothing.
pub async fn closing_twice_changes_nothing(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let id = scenario.settle_window(["a", "b"], &|_| result_with_finding("a lesson")).await;
    assert_eq!(scenario.close_retrospective(id).await, CommitResult::Done);
    let (changes, notices) = (
        database.one.list_workflow_changes(&scenario.key).await.expect("changes"),
        scenario.list_notices().await,
    );
    assert_eq!(scenario.with_store(&*database.two).close_retrospective(id).await, CommitResult::AlreadyDone);
    assert_eq!(database.one.list_workflow_changes(&scenario.key).await.expect("changes"), changes);
    assert_eq!(scenario.list_notices().await, notices);
    let nobody = retro_core::id::RetrospectiveId::of_epoch(&scenario.key, 99);
    assert_eq!(scenario.close_retrospective(nobody).await, CommitResult::NotFound);
}

/// Checks that two concurrent writers close a retrospective once (law 13).
pub async fn two_writers_at_once_close_once(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let id = scenario.settle_window(["a", "b"], &|_| result_with_finding("a lesson")).await;
    let other = scenario.with_store(&*database.two);
    let both = join(scenario.close_retrospective(id), other.close_retrospective(id)).await;
    assert!(
        both == (CommitResult::Done, CommitResult::AlreadyDone)
            || both == (CommitResult::AlreadyDone, CommitResult::Done),
        "{both:?}"
    );
    assert_eq!(database.one.list_workflow_changes(&scenario.key).await.expect("changes").len(), 2);
}

/// Checks that a closing fails as a whole if a change with the same id is already stored, because the change
/// would apply to its memory twice.
pub async fn a_closing_that_cannot_be_stored_leaves_nothing(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    scenario.learn_lesson("the first lesson").await;
    let earlier = database.one.list_workflow_changes(&scenario.key).await.expect("changes");
    let id =
        scenario.settle_window(["a", "b"], &|_| result_with_finding("quite another thing to know")).await;
    scenario.mark_all_sent().await;
    let (memories, state) = (scenario.list_memories().await, scenario.workflow_state().await);
    let repeating = |facts: ClosingFacts| {
        let mut closing = scenario.decide_closing(facts, time_at(10));
        closing.applied.changes.push(earlier[0].clone());
        Ok(closing)
    };
    let error = database.one.close_retrospective(&scenario.key.tenant, id, time_at(10), &repeating).await;
    assert!(matches!(error, Err(StoreError::Damaged { .. })), "{error:?}");
    assert_eq!(database.two.list_workflow_changes(&scenario.key).await.expect("changes"), earlier);
    assert_eq!((scenario.list_memories().await, scenario.workflow_state().await), (memories, state));
    assert!(database.two.find_report(&scenario.key.tenant, id).await.expect("reading").is_none());
    assert_eq!(scenario.list_notices().await, []);
    assert_eq!(scenario.latest_retrospective().await.state, RetrospectiveState::Settling);
    assert_eq!(scenario.close_retrospective(id).await, CommitResult::Done, "nothing blocks it");
}

/// Checks that the closing facts include the changes already caused by the retrospective or its runs, which
/// must not be repeated, and no others.
pub async fn closing_facts_have_earlier_changes(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let lessons = ["Retry at once", "List the tables before anything else", "Wait 5 seconds"];
    let mut memories = Vec::new();
    for lesson in lessons {
        memories.push(scenario.learn_lesson(lesson).await.id);
    }
    let id =
        scenario.settle_window(["a", "b"], &|_| result_with_finding("quite another thing to know")).await;
    let run = |name| ChangeCause::Run { workflow: scenario.key.workflow.clone(), run: run_id(name) };
    let causes = [run("a"), ChangeCause::Retrospective { id }, run("Retry at once 1")];
    let mut changes = Vec::new();
    for (memory, cause) in memories.iter().zip(causes) {
        changes.push(super::write::delete_because_of(&scenario, *memory, cause).await);
    }
    let result = closing_facts(&scenario, id).await;
    assert_eq!(result.writer.applied, changes[..2].iter().copied().collect());
    assert_eq!((result.window.len(), result.investigations.len(), result.timings.len()), (2, 2, 2));
    assert_eq!(result.state, scenario.workflow_state().await);
    let mut changed = memories[..2].to_vec();
    changed.sort_unstable();
    let loaded: Vec<_> = result.writer.memories.iter().map(|memory| memory.id).collect();
    assert_eq!(loaded, changed, "with the memories concerned, whatever their status");
    assert_eq!(result.writer.tombstones.len(), 3);
}

/// Checks that the closing facts include the spending of each run and the findings of earlier retrospectives,
/// newest first.
pub async fn closing_facts_have_spending_and_earlier_findings(database: &Database) {
    let (scenario, other) =
        (Scenario::new(&*database.one, "t", "w"), Scenario::new(&*database.one, "t", "v"));
    other.learn_lesson("elsewhere").await;
    let mut slow = scenario.new_run("slow");
    slow.arrival.run.outcome = RunOutcome::Failure;
    slow.arrival.run.usage = Some(Usage { cost_usd: Some(0.25), ..Usage::default() });
    scenario.count_batch(&[slow, scenario.new_run("quick")], time_at(0)).await;
    scenario.draw_sample().await;
    scenario
        .investigate_all(&|claim| match claim.run.run_id.as_str() {
            "slow" => with_error("no table"),
            _ => failed_result(),
        })
        .await;
    let first = scenario.latest_retrospective().await.id;
    let result = closing_facts(&scenario, first).await.history;
    assert_eq!(
        (result.spending.len(), result.investigated_runs.len()),
        (2, 0),
        "its own investigations are no history"
    );
    scenario.close_retrospective(first).await;
    let second = scenario.settle_window(["a", "b"], &|_| empty_result()).await;
    scenario.count_runs(&["later"]).await;
    let result = closing_facts(&scenario, second).await.history;
    let spent: Vec<_> =
        result.spending.iter().map(|one| (one.ordinal, one.cost_usd_micros, one.duration_ms)).collect();
    let took = Some(59_000);
    assert_eq!(spent, [(4, None, took), (3, None, took), (2, None, took), (1, Some(250_000), took)]);
    let [seen] = &result.investigated_runs[..] else {
        panic!("one had an answer: {:?}", result.investigated_runs)
    };
    let errors: Vec<_> = seen.errors.iter().map(|error| error.error.as_str()).collect();
    assert_eq!((seen.run.as_str(), seen.succeeded, errors), ("slow", false, vec!["no table"]));
}

/// Creates a result with one finding about a tool error.
fn with_error(error: &str) -> InvestigationResult {
    let InvestigationResult::Found { mut checked, presented } = result_with_finding("a lesson") else {
        panic!("it has a finding")
    };
    let cue =
        LessonCue { tool: Some("sh".to_owned()), error: Some(error.to_owned()), ..LessonCue::default() };
    checked.findings[0].cue = cue;
    InvestigationResult::Found { checked, presented }
}

/// Checks that closing opens the next retrospective if the window is already full again; otherwise the window
/// would wait for the next event.
pub async fn closing_opens_the_next_when_the_window_is_full_again(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let id = scenario.settle_window(["a", "b"], &|_| empty_result()).await;
    scenario.count_runs(&["c", "d", "e"]).await;
    scenario.mark_all_sent().await;
    scenario.close_at(id, time_at(77)).await;
    let next = scenario.latest_retrospective().await;
    assert_eq!((next.epoch, next.first, next.last, next.state), (2, 3, 5, RetrospectiveState::Due));
    assert_eq!(next.as_of, time_at(77));
    assert!(scenario.list_notices().await.contains(&Notice::RetrospectiveDue { retrospective: next.id }));
    assert!(scenario.workflow_state().await.open);
}

/// Checks that a failed retrospective releases its runs, pauses its workflow, reports the failure and leaves
/// a dead letter, and that its epoch is not reused.
pub async fn a_failed_retrospective_releases_pauses_and_leaves_a_dead_letter(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let id = scenario.settle_window(["a", "b"], &|_| failed_result()).await;
    scenario.mark_all_sent().await;
    assert_eq!(scenario.close_retrospective(id).await, CommitResult::Done);
    let state = scenario.workflow_state().await;
    assert_eq!((state.open, state.claimed, state.epoch, state.failures), (false, 0, 1, 1));
    assert_eq!(
        state.paused_until,
        Some(add_seconds(time_at(0), scenario.policy.failure_pause_s)),
        "stored exactly"
    );
    assert_eq!(scenario.latest_retrospective().await.state, RetrospectiveState::Failed);
    let report = database
        .two
        .find_report(&scenario.key.tenant, id)
        .await
        .expect("reading")
        .expect("the report is stored");
    assert_eq!(report.ended, RetrospectiveState::Failed);
    let filter = DeadLetterFilter { limit: 9, ..Default::default() };
    let dead_letters = database.two.list_dead_letters(&scenario.key.tenant, &filter).await.expect("listing");
    assert_eq!(dead_letters.len(), 1);
    let (id_of_letter, letter) = (dead_letters[0].id, &dead_letters[0].message);
    assert_eq!(letter.rejection.code, DeadLetterCode::RetrospectiveFailed);
    assert_eq!((letter.position.consumer.as_str(), letter.position.sequence), ("writer", 1));
    assert_eq!(letter.workflow.as_ref(), Some(&scenario.key.workflow));
    let payload = String::from_utf8(letter.payload.clone()).expect("JSON");
    assert!(payload.contains(&id.to_string()), "{payload}");
    let notice = Notice::DeadLettered { letter: id_of_letter, code: DeadLetterCode::RetrospectiveFailed };
    assert!(scenario.list_notices().await.contains(&notice));
}

/// Checks that a released window is claimed again from its first run, together with newer runs, so windows
/// stay contiguous (law 2).
pub async fn windows_stay_contiguous_after_a_release(database: &Database) {
    let mut scenario = Scenario::new(&*database.one, "t", "w");
    let id = scenario.settle_window(["a", "b"], &|_| empty_result()).await;
    scenario.close_retrospective(id).await;
    let id = scenario.settle_window(["c", "d"], &|_| failed_result()).await;
    scenario.close_retrospective(id).await;
    scenario.count_runs(&["e"]).await;
    assert_eq!(scenario.latest_retrospective().await.epoch, 2, "the workflow pauses");
    let until = scenario.workflow_state().await.paused_until.expect("a pause");
    scenario.count_batch(&[], until).await;
    let third = scenario.latest_retrospective().await;
    assert_eq!((third.epoch, third.first, third.last), (3, 3, 5));
    assert_eq!(
        database.one.list_ordinals(&scenario.key).await.expect("ordinals"),
        [1, 2, 3, 4, 5],
        "ordinals are kept"
    );
    scenario.policy.sample_runs_max = 1;
    scenario.draw_sample().await;
    scenario.investigate_all(&|_| empty_result()).await;
    assert_eq!(scenario.close_retrospective(third.id).await, CommitResult::Done);
    assert_eq!(scenario.workflow_state().await.failures, 0);
}

/// Checks that the previous epoch skips failed retrospectives, because contradictions of two successive
/// retrospectives are added up even with a failed one between them.
pub async fn the_previous_epoch_is_the_last_that_succeeded(database: &Database) {
    let mut scenario = Scenario::new(&*database.one, "t", "w");
    scenario.policy.failure_pause_s = 0;
    let first = scenario.settle_window(["a", "b"], &|_| empty_result()).await;
    assert_eq!(closing_facts(&scenario, first).await.writer.previous_epoch, None);
    scenario.close_retrospective(first).await;
    // Without a pause, the same window opens again as soon as the failed retrospective has closed.
    let second = scenario.settle_window(["c", "d"], &|_| failed_result()).await;
    assert_eq!(closing_facts(&scenario, second).await.writer.previous_epoch, Some(1));
    scenario.close_retrospective(second).await;
    scenario.draw_sample().await;
    scenario.investigate_all(&|_| empty_result()).await;
    let third = scenario.latest_retrospective().await;
    assert_eq!(third.epoch, 3);
    assert_eq!(
        closing_facts(&scenario, third.id).await.writer.previous_epoch,
        Some(1),
        "the second one failed"
    );
    assert_eq!(database.one.list_overdue_closings(0, 9).await.expect("overdue").len(), 1);
}

/// Checks that a deleted memory is loaded only if the batch names it.
pub async fn memories_that_the_batch_names_are_loaded_whatever_their_status(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let deleted =
        [scenario.learn_lesson("Retry at once").await.id, scenario.learn_lesson("Wait 5 seconds").await.id];
    let lives = scenario.learn_lesson("List the tables before anything else").await.id;
    for id in deleted {
        super::write::delete_memory(&scenario, id, "gone").await.expect("the memory is living");
    }
    let presented = vec![PresentedMemory::from_own_workflow(deleted[0], false)];
    let id = scenario.settle_window(["a", "b"], &|_| result_about("finding", None, presented.clone())).await;
    let result = closing_facts(&scenario, id).await;
    let mut expected = [deleted[0], lives];
    expected.sort_unstable();
    let ids: Vec<_> = result.writer.memories.iter().map(|memory| memory.id).collect();
    assert_eq!(ids, expected);
    assert_eq!(result.writer.tombstones.len(), 2);
    assert!(database.one.list_unsent_messages(1).await.is_ok());
}

/// Checks that closing deletes expired tombstones but keeps the changes that created them.
pub async fn expired_tombstones_are_purged(database: &Database) {
    let mut scenario = Scenario::new(&*database.one, "t", "w");
    let deleted = scenario.learn_lesson("Retry at once").await;
    super::write::delete_memory(&scenario, deleted.id, "gone").await.expect("the memory is living");
    assert_eq!(database.one.list_tombstones(&scenario.key).await.expect("tombstones").len(), 1);
    scenario.policy.threshold_runs = 3;
    let late = add_seconds(time_at(0), scenario.policy.tombstone_s + LONG_S);
    let batch = ["a", "b", "c"].map(|name| scenario.new_run(name));
    scenario.count_batch(&batch, late).await;
    scenario.draw_sample().await;
    scenario.investigate_all(&|_| empty_result()).await;
    scenario.close_at(scenario.latest_retrospective().await.id, late).await;
    assert_eq!(database.two.list_tombstones(&scenario.key).await.expect("tombstones"), []);
    let history = database.two.list_memory_changes(&scenario.key.tenant, deleted.id).await.expect("history");
    assert_eq!(history.last().map(|change| change.effect.kind()), Some("deleted"));
}

/// Checks that the report takes attempts and durations from the database, and costs from the worker.
pub async fn a_report_has_attempts_and_durations_of_the_database(database: &Database) {
    let mut scenario = Scenario::new(&*database.one, "t", "w");
    scenario.policy.sample_runs_max = 1;
    scenario.count_runs(&["a", "b"]).await;
    scenario.draw_sample().await;
    scenario.claim_next(0).await;
    let claim = scenario.claim_next(LONG_S).await;
    scenario.finish_claim(&claim, &empty_result()).await.expect("finishing");
    let id = scenario.latest_retrospective().await.id;
    scenario.close_retrospective(id).await;
    let report = database
        .two
        .find_report(&scenario.key.tenant, id)
        .await
        .expect("reading")
        .expect("the report is stored");
    let timing = report.investigations[0].timing;
    assert_eq!((timing.attempts, timing.cost_usd), (2, 0.25));
    assert!(timing.duration_ms < 60_000, "{timing:?}");
}

/// Checks that the sweep finds settling retrospectives whose wake-up message was lost.
pub async fn a_retrospective_is_overdue_only_while_it_settles(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let overdue = |age_s| database.two.list_overdue_closings(age_s, 10);
    assert_eq!(overdue(0).await.expect("overdue"), []);
    let id = scenario.settle_window(["a", "b"], &|_| empty_result()).await;
    assert_eq!(overdue(0).await.expect("overdue"), [(scenario.key.tenant.clone(), id)]);
    assert_eq!(overdue(3600).await.expect("overdue"), [], "it has only just settled");
    scenario.close_retrospective(id).await;
    assert_eq!(overdue(0).await.expect("overdue"), []);
}

/// Returns the closing facts of a retrospective without closing it. Also checks that reading them without the lock
/// collects the texts that the decision gets to compare.
pub(super) async fn closing_facts(scenario: &Scenario<'_>, id: RetrospectiveId) -> ClosingFacts {
    let (tenant, result) = (&scenario.key.tenant, Mutex::new(None));
    let undecided = |facts: ClosingFacts| -> Decision<ClosedRetrospective> {
        *result.lock().expect("the task does not panic") = Some(facts);
        Err(ScopeChanged)
    };
    let answer = scenario.store.close_retrospective(tenant, id, time_at(10), &undecided).await;
    assert_eq!(answer.expect("closing"), Err(ScopeChanged));
    let facts = result.into_inner().expect("the task does not panic").expect("it settles");
    let collected = scenario.store.load_closing_facts(tenant, id).await.expect("reading");
    assert_eq!(collected.expect("it settles").texts_to_compare(), facts.texts_to_compare());
    facts
}
