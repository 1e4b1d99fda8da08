//! Closing: everything or nothing, and once.

use std::collections::BTreeMap;
use std::sync::Mutex;

use futures::future::join;
use retro_core::dead_letter::Code;
use retro_core::finding::Cue;
use retro_core::id::MemoryId;
use retro_core::learn::ClosingFacts;
use retro_core::memory::{Cause, Memory, Status, fold};
use retro_core::message::Notice;
use retro_core::retrospective::{InvestigationResult, Presented, State};
use retro_core::run::{Outcome, Usage};
use retro_core::time::after;

use super::Database;
use super::story::{LONG_S, Story, failed, found, found_about, moment, nothing, run_id};
use crate::{Claim, DeadLetterFilter, Step, StoreError};

/// One transaction: the writer's whole answer stands, or none of it.
pub async fn closing_stores_changes_memories_report_and_messages_together(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let id = story.settle(["a", "b"], &|_| found("a lesson")).await;
    story.everything_sent().await;
    assert_eq!(story.close(id).await, Step::Done);
    let changes = database.two.changes(&story.key).await.expect("changes");
    let kinds: Vec<_> = changes.iter().map(|change| change.effect.kind()).collect();
    assert_eq!(kinds, ["created", "promoted"]);
    let memories = story.memories().await;
    assert_eq!((memories.len(), memories[0].status, memories[0].weight.get()), (1, Status::Active, 300));
    assert_eq!(database.two.history(&story.key.tenant, memories[0].id).await.expect("history"), changes);
    let report = database.two.report(&story.key.tenant, id).await.expect("reading").expect("it stands");
    assert_eq!((report.ended, &report.changes), (State::Closed, &changes));
    assert_eq!(story.retrospective().await.state, State::Closed);
    let state = story.state().await;
    assert_eq!((state.open, state.claimed, state.epoch), (false, 2, 1));
    let kinds: Vec<_> = story.notices().await.iter().map(Notice::kind).collect();
    assert_eq!(kinds, ["memory.changed", "memory.changed", "report.ready"]);
}

/// Law 5, over creation, promotion, archiving of the contradicted, deletion and suppression.
pub async fn the_memories_are_the_fold_of_the_changes(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let wrong = story.learn("Retry at once").await;
    story.learn("List the tables before anything else").await;
    let contradicted =
        |claim: &Claim| found_about(&format!("finding {}", claim.number), Some(wrong.id), vec![]);
    let id = story.settle(["c1", "c2"], &contradicted).await;
    story.close(id).await;
    let id = story.settle(["d1", "d2"], &|_| found("Retry at once")).await;
    story.close(id).await;
    let changes = database.one.changes(&story.key).await.expect("changes");
    let mut folded: BTreeMap<MemoryId, Memory> = BTreeMap::new();
    for change in &changes {
        let before = folded.remove(&change.memory);
        folded.extend(fold(before, change).expect("legal").map(|memory| (memory.id, memory)));
    }
    let stored: BTreeMap<MemoryId, Memory> =
        story.memories().await.into_iter().map(|memory| (memory.id, memory)).collect();
    assert_eq!(stored, folded);
    assert_eq!(stored[&wrong.id].status, Status::Deleted);
    assert!(changes.iter().any(|change| change.effect.kind() == "suppressed"), "its tombstone holds");
}

/// Replaying its message changes nothing.
pub async fn closing_twice_changes_nothing(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let id = story.settle(["a", "b"], &|_| found("a lesson")).await;
    assert_eq!(story.close(id).await, Step::Done);
    let (changes, notices) =
        (database.one.changes(&story.key).await.expect("changes"), story.notices().await);
    assert_eq!(story.by(&*database.two).close(id).await, Step::AlreadyDone);
    assert_eq!(database.one.changes(&story.key).await.expect("changes"), changes);
    assert_eq!(story.notices().await, notices);
    let nobody = retro_core::id::RetrospectiveId::automatic(&story.key, 99);
    assert_eq!(story.close(nobody).await, Step::Unknown);
}

/// Law 13.
pub async fn two_writers_at_once_close_once(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let id = story.settle(["a", "b"], &|_| found("a lesson")).await;
    let other = story.by(&*database.two);
    let both = join(story.close(id), other.close(id)).await;
    assert!(both == (Step::Done, Step::AlreadyDone) || both == (Step::AlreadyDone, Step::Done), "{both:?}");
    assert_eq!(database.one.changes(&story.key).await.expect("changes").len(), 2);
}

/// A change that has happened before would stand twice in its memory: the whole closing is refused.
pub async fn a_closing_that_cannot_be_stored_leaves_nothing(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    story.learn("the first lesson").await;
    let earlier = database.one.changes(&story.key).await.expect("changes");
    let id = story.settle(["a", "b"], &|_| found("quite another thing to know")).await;
    story.everything_sent().await;
    let (memories, state) = (story.memories().await, story.state().await);
    let repeating = |facts: ClosingFacts| {
        let mut closing = story.closing(facts, moment(10));
        closing.applied.changes.push(earlier[0].clone());
        closing
    };
    let error = database.one.close(&story.key.tenant, id, moment(10), &repeating).await;
    assert!(matches!(error, Err(StoreError::Damaged { .. })), "{error:?}");
    assert_eq!(database.two.changes(&story.key).await.expect("changes"), earlier);
    assert_eq!((story.memories().await, story.state().await), (memories, state));
    assert!(database.two.report(&story.key.tenant, id).await.expect("reading").is_none());
    assert_eq!(story.notices().await, []);
    assert_eq!(story.retrospective().await.state, State::Settling);
    assert_eq!(story.close(id).await, Step::Done, "nothing stood in the way");
}

/// What this retrospective or one of its runs has caused never happens again; what others did is of no concern.
pub async fn what_was_applied_is_told_to_whoever_closes(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let lessons = ["Retry at once", "List the tables before anything else", "Wait 5 seconds"];
    let mut memories = Vec::new();
    for lesson in lessons {
        memories.push(story.learn(lesson).await.id);
    }
    let id = story.settle(["a", "b"], &|_| found("quite another thing to know")).await;
    let run = |name| Cause::Run { workflow: story.key.workflow.clone(), run: run_id(name) };
    let causes = [run("a"), Cause::Retrospective { id }, run("Retry at once 1")];
    let mut changes = Vec::new();
    for (memory, cause) in memories.iter().zip(causes) {
        changes.push(super::write::delete_because_of(&story, *memory, cause).await);
    }
    let told = closing_facts(&story, id).await;
    assert_eq!(told.writer.applied, changes[..2].iter().copied().collect());
    assert_eq!((told.window.len(), told.investigations.len(), told.timings.len()), (2, 2, 2));
    assert_eq!(told.state, story.state().await);
    let mut changed = memories[..2].to_vec();
    changed.sort_unstable();
    let loaded: Vec<_> = told.writer.memories.iter().map(|memory| memory.id).collect();
    assert_eq!(loaded, changed, "with the memories that this was about, whatever became of them");
    assert_eq!(told.writer.tombstones.len(), 3);
}

/// What its runs took, its window's included, and what earlier retrospectives of it saw; the newest first.
pub async fn what_went_before_is_told_to_whoever_closes(database: &Database) {
    let (story, other) = (Story::new(&*database.one, "t", "w"), Story::new(&*database.one, "t", "v"));
    other.learn("elsewhere").await;
    let mut slow = story.run("slow");
    slow.arrival.run.outcome = Outcome::Failure;
    slow.arrival.run.usage = Some(Usage { cost_usd: Some(0.25), ..Usage::default() });
    story.count_batch(&[slow, story.run("quick")], moment(0)).await;
    story.sample().await;
    story
        .investigate(&|claim| match claim.run.run_id.as_str() {
            "slow" => with_error("no table"),
            _ => failed(),
        })
        .await;
    let first = story.retrospective().await.id;
    let told = closing_facts(&story, first).await.history;
    assert_eq!((told.spent.len(), told.sightings.len()), (2, 0), "its own investigations are no history");
    story.close(first).await;
    let second = story.settle(["a", "b"], &|_| nothing()).await;
    story.count(&["later"]).await;
    let told = closing_facts(&story, second).await.history;
    let spent: Vec<_> =
        told.spent.iter().map(|one| (one.ordinal, one.cost_usd_micros, one.took_ms)).collect();
    let took = Some(59_000);
    assert_eq!(spent, [(4, None, took), (3, None, took), (2, None, took), (1, Some(250_000), took)]);
    let [seen] = &told.sightings[..] else { panic!("one had an answer: {:?}", told.sightings) };
    let errors: Vec<_> = seen.errors.iter().map(|error| error.error.as_str()).collect();
    assert_eq!((seen.run.as_str(), seen.succeeded, errors), ("slow", false, vec!["no table"]));
}

/// A result with one finding about an error of a tool.
fn with_error(error: &str) -> InvestigationResult {
    let InvestigationResult::Found { mut checked, presented } = found("a lesson") else {
        panic!("it has a finding")
    };
    let cue = Cue { tool: Some("sh".to_owned()), error: Some(error.to_owned()), ..Cue::default() };
    checked.findings[0].cue = cue;
    InvestigationResult::Found { checked, presented }
}

/// The threshold is looked at again in the closing transaction, or a full window would wait for the next event.
pub async fn closing_opens_the_next_when_the_window_is_full_again(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let id = story.settle(["a", "b"], &|_| nothing()).await;
    story.count(&["c", "d", "e"]).await;
    story.everything_sent().await;
    story.close_at(id, moment(77)).await;
    let next = story.retrospective().await;
    assert_eq!((next.epoch, next.first, next.last, next.state), (2, 3, 5, State::Due));
    assert_eq!(next.as_of, moment(77));
    assert!(story.notices().await.contains(&Notice::RetrospectiveDue { retrospective: next.id }));
    assert!(story.state().await.open);
}

/// Its epoch is spent, a report says so, and a person is told.
pub async fn a_failed_retrospective_releases_pauses_and_leaves_a_dead_letter(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let id = story.settle(["a", "b"], &|_| failed()).await;
    story.everything_sent().await;
    assert_eq!(story.close(id).await, Step::Done);
    let state = story.state().await;
    assert_eq!((state.open, state.claimed, state.epoch, state.failures), (false, 0, 1, 1));
    assert_eq!(state.paused_until, Some(after(moment(0), story.policy.failure_pause_s)), "stored exactly");
    assert_eq!(story.retrospective().await.state, State::Failed);
    let report = database.two.report(&story.key.tenant, id).await.expect("reading").expect("it stands");
    assert_eq!(report.ended, State::Failed);
    let filter = DeadLetterFilter { limit: 9, ..Default::default() };
    let letters = database.two.dead_letters(&story.key.tenant, &filter).await.expect("listing");
    assert_eq!(letters.len(), 1);
    let (id_of_letter, letter) = (letters[0].id, &letters[0].letter);
    assert_eq!(letter.rejection.code, Code::RetrospectiveFailed);
    assert_eq!((letter.position.consumer.as_str(), letter.position.sequence), ("writer", 1));
    assert_eq!(letter.workflow.as_ref(), Some(&story.key.workflow));
    let payload = String::from_utf8(letter.payload.clone()).expect("JSON");
    assert!(payload.contains(&id.to_string()), "{payload}");
    let notice = Notice::DeadLettered { letter: id_of_letter, code: Code::RetrospectiveFailed };
    assert!(story.notices().await.contains(&notice));
}

/// Law 2: a released window is claimed again from its first run on, with whatever came since.
pub async fn windows_stay_contiguous_after_a_release(database: &Database) {
    let mut story = Story::new(&*database.one, "t", "w");
    let id = story.settle(["a", "b"], &|_| nothing()).await;
    story.close(id).await;
    let id = story.settle(["c", "d"], &|_| failed()).await;
    story.close(id).await;
    story.count(&["e"]).await;
    assert_eq!(story.retrospective().await.epoch, 2, "the workflow pauses");
    let until = story.state().await.paused_until.expect("a pause");
    story.count_batch(&[], until).await;
    let third = story.retrospective().await;
    assert_eq!((third.epoch, third.first, third.last), (3, 3, 5));
    assert_eq!(
        database.one.ordinals(&story.key).await.expect("ordinals"),
        [1, 2, 3, 4, 5],
        "ordinals are kept"
    );
    story.policy.sample_runs_max = 1;
    story.sample().await;
    story.investigate(&|_| nothing()).await;
    assert_eq!(story.close(third.id).await, Step::Done);
    assert_eq!(story.state().await.failures, 0);
}

/// Contradictions of two retrospectives in a row count together; a failed one between them does not matter.
pub async fn the_previous_epoch_is_the_last_that_succeeded(database: &Database) {
    let mut story = Story::new(&*database.one, "t", "w");
    story.policy.failure_pause_s = 0;
    let first = story.settle(["a", "b"], &|_| nothing()).await;
    assert_eq!(closing_facts(&story, first).await.writer.previous_epoch, None);
    story.close(first).await;
    // Without a pause the same window opens again as soon as the failed one has closed.
    let second = story.settle(["c", "d"], &|_| failed()).await;
    assert_eq!(closing_facts(&story, second).await.writer.previous_epoch, Some(1));
    story.close(second).await;
    story.sample().await;
    story.investigate(&|_| nothing()).await;
    let third = story.retrospective().await;
    assert_eq!(third.epoch, 3);
    assert_eq!(closing_facts(&story, third.id).await.writer.previous_epoch, Some(1), "the second one failed");
    assert_eq!(database.one.overdue_closings(0, 9).await.expect("overdue").len(), 1);
}

/// A run may speak of a memory that has been deleted since; others that are gone are no concern.
pub async fn memories_that_the_batch_names_are_loaded_whatever_their_status(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let gone = [story.learn("Retry at once").await.id, story.learn("Wait 5 seconds").await.id];
    let lives = story.learn("List the tables before anything else").await.id;
    for id in gone {
        super::write::delete(&story, id, "gone").await.expect("it lives");
    }
    let presented = vec![Presented::own(gone[0], false)];
    let id = story.settle(["a", "b"], &|_| found_about("finding", None, presented.clone())).await;
    let told = closing_facts(&story, id).await;
    let mut expected = [gone[0], lives];
    expected.sort_unstable();
    let ids: Vec<_> = told.writer.memories.iter().map(|memory| memory.id).collect();
    assert_eq!(ids, expected);
    assert_eq!(told.writer.tombstones.len(), 2);
    assert!(database.one.unsent(1).await.is_ok());
}

/// The change that left one stays.
pub async fn expired_tombstones_are_purged(database: &Database) {
    let mut story = Story::new(&*database.one, "t", "w");
    let gone = story.learn("Retry at once").await;
    super::write::delete(&story, gone.id, "gone").await.expect("it lives");
    assert_eq!(database.one.tombstones(&story.key).await.expect("tombstones").len(), 1);
    story.policy.threshold_runs = 3;
    let late = after(moment(0), story.policy.tombstone_s + LONG_S);
    let batch = ["a", "b", "c"].map(|name| story.run(name));
    story.count_batch(&batch, late).await;
    story.sample().await;
    story.investigate(&|_| nothing()).await;
    story.close_at(story.retrospective().await.id, late).await;
    assert_eq!(database.two.tombstones(&story.key).await.expect("tombstones"), []);
    let history = database.two.history(&story.key.tenant, gone.id).await.expect("history");
    assert_eq!(history.last().map(|change| change.effect.kind()), Some("deleted"));
}

/// Attempts and durations are the database's; the cost is what the worker said.
pub async fn a_report_tells_what_the_database_saw(database: &Database) {
    let mut story = Story::new(&*database.one, "t", "w");
    story.policy.sample_runs_max = 1;
    story.count(&["a", "b"]).await;
    story.sample().await;
    story.claim(0).await;
    let claim = story.claim(LONG_S).await;
    story.finish(&claim, &nothing()).await.expect("finishing");
    let id = story.retrospective().await.id;
    story.close(id).await;
    let report = database.two.report(&story.key.tenant, id).await.expect("reading").expect("it stands");
    let timing = report.investigations[0].timing;
    assert_eq!((timing.attempts, timing.cost_usd), (2, 0.25));
    assert!(timing.duration_ms < 60_000, "{timing:?}");
}

/// For the sweep that finds what a lost wake-up left.
pub async fn a_retrospective_is_overdue_only_while_it_settles(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let overdue = |age_s| database.two.overdue_closings(age_s, 10);
    assert_eq!(overdue(0).await.expect("overdue"), []);
    let id = story.settle(["a", "b"], &|_| nothing()).await;
    assert_eq!(overdue(0).await.expect("overdue"), [(story.key.tenant.clone(), id)]);
    assert_eq!(overdue(3600).await.expect("overdue"), [], "it has only just settled");
    story.close(id).await;
    assert_eq!(overdue(0).await.expect("overdue"), []);
}

/// What a writer is told about a retrospective; its closing is not stored.
pub(super) async fn closing_facts(story: &Story<'_>, id: retro_core::id::RetrospectiveId) -> ClosingFacts {
    let told = Mutex::new(None);
    let earlier = story.store.changes(&story.key).await.expect("changes");
    // A change that stands already makes the store refuse the closing; where there is none, one is made up twice.
    let refused = |facts: ClosingFacts| {
        *told.lock().expect("no panic") = Some(facts.clone());
        let mut closing = story.closing(facts, moment(10));
        let twice = earlier.first().cloned().unwrap_or_else(|| made_up(id));
        closing.applied.changes = vec![twice.clone(), twice];
        closing
    };
    let refusal = story.store.close(&story.key.tenant, id, moment(10), &refused).await;
    assert!(refusal.is_err(), "{refusal:?}");
    told.into_inner().expect("no panic").expect("it settles")
}

fn made_up(id: retro_core::id::RetrospectiveId) -> retro_core::memory::Change {
    retro_core::memory::Change {
        id: retro_core::id::ChangeId(id.0),
        memory: MemoryId(id.0),
        cause: retro_core::memory::Cause::Retrospective { id },
        effect: retro_core::memory::Effect::Refused { asked: "nothing".to_owned() },
        mutation: None,
        retrospective: Some(id),
        epoch: None,
        at: moment(0),
        reason: "made up".to_owned(),
    }
}
