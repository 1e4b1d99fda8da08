//! Cases of closing a retrospective.

use std::collections::BTreeMap;
use std::sync::Mutex;

use futures::future::join;
use retro_core::dead_letter::Code;
use retro_core::finding::LessonCue;
use retro_core::id::MemoryId;
use retro_core::learn::ClosingFacts;
use retro_core::memory::{ChangeCause, Memory, MemoryStatus, fold_change};
use retro_core::message::Notice;
use retro_core::retrospective::{InvestigationResult, PresentedMemory, RetrospectiveState};
use retro_core::run::{RunOutcome, Usage};
use retro_core::time::add_seconds;

use super::Database;
use super::scenario::{
    LONG_S, Scenario, empty_result, failed_result, result_about, result_with_finding, run_id, time_at,
};
use crate::{Claim, CommitResult, DeadLetterFilter, StoreError};

/// Closing is one transaction, which stores all effects or none.
pub async fn closing_stores_changes_memories_report_and_messages_together(database: &Database) {
    let story = Scenario::new(&*database.one, "t", "w");
    let id = story.settle_window(["a", "b"], &|_| result_with_finding("a lesson")).await;
    story.mark_all_sent().await;
    assert_eq!(story.close_retrospective(id).await, CommitResult::Done);
    let changes = database.two.list_workflow_changes(&story.key).await.expect("changes");
    let kinds: Vec<_> = changes.iter().map(|change| change.effect.kind()).collect();
    assert_eq!(kinds, ["created", "promoted"]);
    let memories = story.list_memories().await;
    assert_eq!(
        (memories.len(), memories[0].status, memories[0].weight.get()),
        (1, MemoryStatus::Active, 300)
    );
    assert_eq!(
        database.two.list_memory_changes(&story.key.tenant, memories[0].id).await.expect("history"),
        changes
    );
    let report = database
        .two
        .find_report(&story.key.tenant, id)
        .await
        .expect("reading")
        .expect("the report is stored");
    assert_eq!((report.ended, &report.changes), (RetrospectiveState::Closed, &changes));
    assert_eq!(story.latest_retrospective().await.state, RetrospectiveState::Closed);
    let state = story.workflow_state().await;
    assert_eq!((state.open, state.claimed, state.epoch), (false, 2, 1));
    let kinds: Vec<_> = story.list_notices().await.iter().map(Notice::kind).collect();
    assert_eq!(kinds, ["memory.changed", "memory.changed", "report.ready"]);
}

/// Law 5, over creation, promotion, archiving of contradicted memories, deletion and suppression.
pub async fn the_memories_are_the_fold_of_the_changes(database: &Database) {
    let story = Scenario::new(&*database.one, "t", "w");
    let wrong = story.learn_lesson("Retry at once").await;
    story.learn_lesson("List the tables before anything else").await;
    let contradicted =
        |claim: &Claim| result_about(&format!("finding {}", claim.number), Some(wrong.id), vec![]);
    let id = story.settle_window(["c1", "c2"], &contradicted).await;
    story.close_retrospective(id).await;
    let id = story.settle_window(["d1", "d2"], &|_| result_with_finding("Retry at once")).await;
    story.close_retrospective(id).await;
    let changes = database.one.list_workflow_changes(&story.key).await.expect("changes");
    let mut folded: BTreeMap<MemoryId, Memory> = BTreeMap::new();
    for change in &changes {
        let before = folded.remove(&change.memory);
        folded.extend(fold_change(before, change).expect("legal").map(|memory| (memory.id, memory)));
    }
    let stored: BTreeMap<MemoryId, Memory> =
        story.list_memories().await.into_iter().map(|memory| (memory.id, memory)).collect();
    assert_eq!(stored, folded);
    assert_eq!(stored[&wrong.id].status, MemoryStatus::Deleted);
    assert!(changes.iter().any(|change| change.effect.kind() == "suppressed"), "its tombstone holds");
}

/// A replayed message changes nothing.
pub async fn closing_twice_changes_nothing(database: &Database) {
    let story = Scenario::new(&*database.one, "t", "w");
    let id = story.settle_window(["a", "b"], &|_| result_with_finding("a lesson")).await;
    assert_eq!(story.close_retrospective(id).await, CommitResult::Done);
    let (changes, notices) =
        (database.one.list_workflow_changes(&story.key).await.expect("changes"), story.list_notices().await);
    assert_eq!(story.with_store(&*database.two).close_retrospective(id).await, CommitResult::AlreadyDone);
    assert_eq!(database.one.list_workflow_changes(&story.key).await.expect("changes"), changes);
    assert_eq!(story.list_notices().await, notices);
    let nobody = retro_core::id::RetrospectiveId::of_epoch(&story.key, 99);
    assert_eq!(story.close_retrospective(nobody).await, CommitResult::NotFound);
}

/// Law 13: two processes do it at once.
pub async fn two_writers_at_once_close_once(database: &Database) {
    let story = Scenario::new(&*database.one, "t", "w");
    let id = story.settle_window(["a", "b"], &|_| result_with_finding("a lesson")).await;
    let other = story.with_store(&*database.two);
    let both = join(story.close_retrospective(id), other.close_retrospective(id)).await;
    assert!(
        both == (CommitResult::Done, CommitResult::AlreadyDone)
            || both == (CommitResult::AlreadyDone, CommitResult::Done),
        "{both:?}"
    );
    assert_eq!(database.one.list_workflow_changes(&story.key).await.expect("changes").len(), 2);
}

/// A change made before would be applied to its memory twice, so the whole closing is refused.
pub async fn a_closing_that_cannot_be_stored_leaves_nothing(database: &Database) {
    let story = Scenario::new(&*database.one, "t", "w");
    story.learn_lesson("the first lesson").await;
    let earlier = database.one.list_workflow_changes(&story.key).await.expect("changes");
    let id = story.settle_window(["a", "b"], &|_| result_with_finding("quite another thing to know")).await;
    story.mark_all_sent().await;
    let (memories, state) = (story.list_memories().await, story.workflow_state().await);
    let repeating = |facts: ClosingFacts| {
        let mut closing = story.decide_closing(facts, time_at(10));
        closing.applied.changes.push(earlier[0].clone());
        Ok(closing)
    };
    let error = database.one.close_retrospective(&story.key.tenant, id, time_at(10), &repeating).await;
    assert!(matches!(error, Err(StoreError::Damaged { .. })), "{error:?}");
    assert_eq!(database.two.list_workflow_changes(&story.key).await.expect("changes"), earlier);
    assert_eq!((story.list_memories().await, story.workflow_state().await), (memories, state));
    assert!(database.two.find_report(&story.key.tenant, id).await.expect("reading").is_none());
    assert_eq!(story.list_notices().await, []);
    assert_eq!(story.latest_retrospective().await.state, RetrospectiveState::Settling);
    assert_eq!(story.close_retrospective(id).await, CommitResult::Done, "nothing blocks it");
}

/// Changes caused by this retrospective or its runs are never repeated; those of others are not loaded.
pub async fn what_was_applied_is_told_to_whoever_closes(database: &Database) {
    let story = Scenario::new(&*database.one, "t", "w");
    let lessons = ["Retry at once", "List the tables before anything else", "Wait 5 seconds"];
    let mut memories = Vec::new();
    for lesson in lessons {
        memories.push(story.learn_lesson(lesson).await.id);
    }
    let id = story.settle_window(["a", "b"], &|_| result_with_finding("quite another thing to know")).await;
    let run = |name| ChangeCause::Run { workflow: story.key.workflow.clone(), run: run_id(name) };
    let causes = [run("a"), ChangeCause::Retrospective { id }, run("Retry at once 1")];
    let mut changes = Vec::new();
    for (memory, cause) in memories.iter().zip(causes) {
        changes.push(super::write::delete_because_of(&story, *memory, cause).await);
    }
    let told = closing_facts(&story, id).await;
    assert_eq!(told.writer.applied, changes[..2].iter().copied().collect());
    assert_eq!((told.window.len(), told.investigations.len(), told.timings.len()), (2, 2, 2));
    assert_eq!(told.state, story.workflow_state().await);
    let mut changed = memories[..2].to_vec();
    changed.sort_unstable();
    let loaded: Vec<_> = told.writer.memories.iter().map(|memory| memory.id).collect();
    assert_eq!(loaded, changed, "with the memories concerned, whatever their status");
    assert_eq!(told.writer.tombstones.len(), 3);
}

/// The spending of its runs and window, and the findings of earlier retrospectives, the newest first.
pub async fn what_went_before_is_told_to_whoever_closes(database: &Database) {
    let (story, other) = (Scenario::new(&*database.one, "t", "w"), Scenario::new(&*database.one, "t", "v"));
    other.learn_lesson("elsewhere").await;
    let mut slow = story.new_run("slow");
    slow.arrival.run.outcome = RunOutcome::Failure;
    slow.arrival.run.usage = Some(Usage { cost_usd: Some(0.25), ..Usage::default() });
    story.count_batch(&[slow, story.new_run("quick")], time_at(0)).await;
    story.draw_sample().await;
    story
        .investigate_all(&|claim| match claim.run.run_id.as_str() {
            "slow" => with_error("no table"),
            _ => failed_result(),
        })
        .await;
    let first = story.latest_retrospective().await.id;
    let told = closing_facts(&story, first).await.history;
    assert_eq!(
        (told.spending.len(), told.investigated_runs.len()),
        (2, 0),
        "its own investigations are no history"
    );
    story.close_retrospective(first).await;
    let second = story.settle_window(["a", "b"], &|_| empty_result()).await;
    story.count_runs(&["later"]).await;
    let told = closing_facts(&story, second).await.history;
    let spent: Vec<_> =
        told.spending.iter().map(|one| (one.ordinal, one.cost_usd_micros, one.took_ms)).collect();
    let took = Some(59_000);
    assert_eq!(spent, [(4, None, took), (3, None, took), (2, None, took), (1, Some(250_000), took)]);
    let [seen] = &told.investigated_runs[..] else {
        panic!("one had an answer: {:?}", told.investigated_runs)
    };
    let errors: Vec<_> = seen.errors.iter().map(|error| error.error.as_str()).collect();
    assert_eq!((seen.run.as_str(), seen.succeeded, errors), ("slow", false, vec!["no table"]));
}

/// Creates a result with one finding about a tool's error.
fn with_error(error: &str) -> InvestigationResult {
    let InvestigationResult::Found { mut checked, presented } = result_with_finding("a lesson") else {
        panic!("it has a finding")
    };
    let cue =
        LessonCue { tool: Some("sh".to_owned()), error: Some(error.to_owned()), ..LessonCue::default() };
    checked.findings[0].cue = cue;
    InvestigationResult::Found { checked, presented }
}

/// The closing transaction checks the threshold again. Otherwise a full window would wait for the next event.
pub async fn closing_opens_the_next_when_the_window_is_full_again(database: &Database) {
    let story = Scenario::new(&*database.one, "t", "w");
    let id = story.settle_window(["a", "b"], &|_| empty_result()).await;
    story.count_runs(&["c", "d", "e"]).await;
    story.mark_all_sent().await;
    story.close_at(id, time_at(77)).await;
    let next = story.latest_retrospective().await;
    assert_eq!((next.epoch, next.first, next.last, next.state), (2, 3, 5, RetrospectiveState::Due));
    assert_eq!(next.as_of, time_at(77));
    assert!(story.list_notices().await.contains(&Notice::RetrospectiveDue { retrospective: next.id }));
    assert!(story.workflow_state().await.open);
}

/// The epoch is spent, a report is marked failed, and the dead letter informs people.
pub async fn a_failed_retrospective_releases_pauses_and_leaves_a_dead_letter(database: &Database) {
    let story = Scenario::new(&*database.one, "t", "w");
    let id = story.settle_window(["a", "b"], &|_| failed_result()).await;
    story.mark_all_sent().await;
    assert_eq!(story.close_retrospective(id).await, CommitResult::Done);
    let state = story.workflow_state().await;
    assert_eq!((state.open, state.claimed, state.epoch, state.failures), (false, 0, 1, 1));
    assert_eq!(
        state.paused_until,
        Some(add_seconds(time_at(0), story.policy.failure_pause_s)),
        "stored exactly"
    );
    assert_eq!(story.latest_retrospective().await.state, RetrospectiveState::Failed);
    let report = database
        .two
        .find_report(&story.key.tenant, id)
        .await
        .expect("reading")
        .expect("the report is stored");
    assert_eq!(report.ended, RetrospectiveState::Failed);
    let filter = DeadLetterFilter { limit: 9, ..Default::default() };
    let letters = database.two.list_dead_letters(&story.key.tenant, &filter).await.expect("listing");
    assert_eq!(letters.len(), 1);
    let (id_of_letter, letter) = (letters[0].id, &letters[0].message);
    assert_eq!(letter.rejection.code, Code::RetrospectiveFailed);
    assert_eq!((letter.position.consumer.as_str(), letter.position.sequence), ("writer", 1));
    assert_eq!(letter.workflow.as_ref(), Some(&story.key.workflow));
    let payload = String::from_utf8(letter.payload.clone()).expect("JSON");
    assert!(payload.contains(&id.to_string()), "{payload}");
    let notice = Notice::DeadLettered { letter: id_of_letter, code: Code::RetrospectiveFailed };
    assert!(story.list_notices().await.contains(&notice));
}

/// Law 2: a released window is claimed again from its first run, together with newer runs.
pub async fn windows_stay_contiguous_after_a_release(database: &Database) {
    let mut story = Scenario::new(&*database.one, "t", "w");
    let id = story.settle_window(["a", "b"], &|_| empty_result()).await;
    story.close_retrospective(id).await;
    let id = story.settle_window(["c", "d"], &|_| failed_result()).await;
    story.close_retrospective(id).await;
    story.count_runs(&["e"]).await;
    assert_eq!(story.latest_retrospective().await.epoch, 2, "the workflow pauses");
    let until = story.workflow_state().await.paused_until.expect("a pause");
    story.count_batch(&[], until).await;
    let third = story.latest_retrospective().await;
    assert_eq!((third.epoch, third.first, third.last), (3, 3, 5));
    assert_eq!(
        database.one.list_ordinals(&story.key).await.expect("ordinals"),
        [1, 2, 3, 4, 5],
        "ordinals are kept"
    );
    story.policy.sample_runs_max = 1;
    story.draw_sample().await;
    story.investigate_all(&|_| empty_result()).await;
    assert_eq!(story.close_retrospective(third.id).await, CommitResult::Done);
    assert_eq!(story.workflow_state().await.failures, 0);
}

/// Contradictions of two consecutive retrospectives are added up; a failed one between them is ignored.
pub async fn the_previous_epoch_is_the_last_that_succeeded(database: &Database) {
    let mut story = Scenario::new(&*database.one, "t", "w");
    story.policy.failure_pause_s = 0;
    let first = story.settle_window(["a", "b"], &|_| empty_result()).await;
    assert_eq!(closing_facts(&story, first).await.writer.previous_epoch, None);
    story.close_retrospective(first).await;
    // Without a pause the same window opens again as soon as the failed retrospective has closed.
    let second = story.settle_window(["c", "d"], &|_| failed_result()).await;
    assert_eq!(closing_facts(&story, second).await.writer.previous_epoch, Some(1));
    story.close_retrospective(second).await;
    story.draw_sample().await;
    story.investigate_all(&|_| empty_result()).await;
    let third = story.latest_retrospective().await;
    assert_eq!(third.epoch, 3);
    assert_eq!(closing_facts(&story, third.id).await.writer.previous_epoch, Some(1), "the second one failed");
    assert_eq!(database.one.list_overdue_closings(0, 9).await.expect("overdue").len(), 1);
}

/// A run may name a memory that was deleted since. Other deleted memories are not loaded.
pub async fn memories_that_the_batch_names_are_loaded_whatever_their_status(database: &Database) {
    let story = Scenario::new(&*database.one, "t", "w");
    let gone = [story.learn_lesson("Retry at once").await.id, story.learn_lesson("Wait 5 seconds").await.id];
    let lives = story.learn_lesson("List the tables before anything else").await.id;
    for id in gone {
        super::write::delete_memory(&story, id, "gone").await.expect("the memory is living");
    }
    let presented = vec![PresentedMemory::from_own_workflow(gone[0], false)];
    let id = story.settle_window(["a", "b"], &|_| result_about("finding", None, presented.clone())).await;
    let told = closing_facts(&story, id).await;
    let mut expected = [gone[0], lives];
    expected.sort_unstable();
    let ids: Vec<_> = told.writer.memories.iter().map(|memory| memory.id).collect();
    assert_eq!(ids, expected);
    assert_eq!(told.writer.tombstones.len(), 2);
    assert!(database.one.list_unsent_messages(1).await.is_ok());
}

/// The change that created the tombstone is kept.
pub async fn expired_tombstones_are_purged(database: &Database) {
    let mut story = Scenario::new(&*database.one, "t", "w");
    let gone = story.learn_lesson("Retry at once").await;
    super::write::delete_memory(&story, gone.id, "gone").await.expect("the memory is living");
    assert_eq!(database.one.list_tombstones(&story.key).await.expect("tombstones").len(), 1);
    story.policy.threshold_runs = 3;
    let late = add_seconds(time_at(0), story.policy.tombstone_s + LONG_S);
    let batch = ["a", "b", "c"].map(|name| story.new_run(name));
    story.count_batch(&batch, late).await;
    story.draw_sample().await;
    story.investigate_all(&|_| empty_result()).await;
    story.close_at(story.latest_retrospective().await.id, late).await;
    assert_eq!(database.two.list_tombstones(&story.key).await.expect("tombstones"), []);
    let history = database.two.list_memory_changes(&story.key.tenant, gone.id).await.expect("history");
    assert_eq!(history.last().map(|change| change.effect.kind()), Some("deleted"));
}

/// Attempts and durations come from the database, the cost from the worker.
pub async fn a_report_tells_what_the_database_saw(database: &Database) {
    let mut story = Scenario::new(&*database.one, "t", "w");
    story.policy.sample_runs_max = 1;
    story.count_runs(&["a", "b"]).await;
    story.draw_sample().await;
    story.claim_next(0).await;
    let claim = story.claim_next(LONG_S).await;
    story.finish_claim(&claim, &empty_result()).await.expect("finishing");
    let id = story.latest_retrospective().await.id;
    story.close_retrospective(id).await;
    let report = database
        .two
        .find_report(&story.key.tenant, id)
        .await
        .expect("reading")
        .expect("the report is stored");
    let timing = report.investigations[0].timing;
    assert_eq!((timing.attempts, timing.cost_usd), (2, 0.25));
    assert!(timing.duration_ms < 60_000, "{timing:?}");
}

/// The polling sweep finds retrospectives whose wake-up message was lost.
pub async fn a_retrospective_is_overdue_only_while_it_settles(database: &Database) {
    let story = Scenario::new(&*database.one, "t", "w");
    let overdue = |age_s| database.two.list_overdue_closings(age_s, 10);
    assert_eq!(overdue(0).await.expect("overdue"), []);
    let id = story.settle_window(["a", "b"], &|_| empty_result()).await;
    assert_eq!(overdue(0).await.expect("overdue"), [(story.key.tenant.clone(), id)]);
    assert_eq!(overdue(3600).await.expect("overdue"), [], "it has only just settled");
    story.close_retrospective(id).await;
    assert_eq!(overdue(0).await.expect("overdue"), []);
}

/// Returns the facts that a writer gets about a retrospective, without storing its closing.
pub(super) async fn closing_facts(story: &Scenario<'_>, id: retro_core::id::RetrospectiveId) -> ClosingFacts {
    let told = Mutex::new(None);
    let earlier = story.store.list_workflow_changes(&story.key).await.expect("changes");
    // An existing change makes the store refuse the closing. Where there is none, one is added twice.
    let refused = |facts: ClosingFacts| {
        *told.lock().expect("the task does not panic") = Some(facts.clone());
        let mut closing = story.decide_closing(facts, time_at(10));
        let twice = earlier.first().cloned().unwrap_or_else(|| made_up(id));
        closing.applied.changes = vec![twice.clone(), twice];
        Ok(closing)
    };
    let refusal = story.store.close_retrospective(&story.key.tenant, id, time_at(10), &refused).await;
    assert!(refusal.is_err(), "{refusal:?}");
    told.into_inner().expect("the task does not panic").expect("it settles")
}

fn made_up(id: retro_core::id::RetrospectiveId) -> retro_core::memory::Change {
    retro_core::memory::Change {
        id: retro_core::id::ChangeId(id.0),
        memory: MemoryId(id.0),
        cause: retro_core::memory::ChangeCause::Retrospective { id },
        effect: retro_core::memory::ChangeEffect::Refused { asked: "nothing".to_owned() },
        mutation: None,
        retrospective: Some(id),
        epoch: None,
        at: time_at(0),
        reason: "made up".to_owned(),
    }
}
