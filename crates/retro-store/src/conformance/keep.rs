//! Retention: details go by age, what is still needed stays, and nothing is ever counted again.

use futures::future::join;
use retro_core::count::{Disposition, Effects, Facts};
use retro_core::id::{EventKey, RetrospectiveId};
use retro_core::manual::Undecided;
use retro_core::memory::Cause;
use retro_core::retrospective::State;
use retro_core::run::{BodyRef, RunKind};

use super::Database;
use super::close::closing_facts;
use super::delivery::begin;
use super::story::{LONG_S, Story, failed, found, moment, nothing, run_id};
use crate::keep::Stage;
use crate::{IncomingRun, JournalEntry, Position, Purged, RunFilter, Stage as Journalled, Step, StoredBody};

use Disposition::{Counted as Now, Duplicate, Recorded, Superseded};

/// More rows than any case has.
const ALL: u32 = 1000;

/// Law 1, for ever: the same event, the run under another event, a higher attempt, and changed content.
pub async fn an_event_that_comes_again_after_its_details_were_purged_is_not_counted(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let odd = ["x", "x\0", "x\0a", r"x\0"].map(|id| under(&story, id, &format!("run of {}", id.len())));
    story.count(&["a", "b"]).await;
    story.sample().await;
    story.investigate(&|_| nothing()).await;
    story.close(story.retrospective().await.id).await;
    story.count_batch(&odd[..1], moment(0)).await;
    let before = (story.state().await, database.one.health().await.expect("health").events_seen);
    assert_eq!(purge(database, Stage::Events, 3600).await, 0, "they are young");
    assert_eq!(purge(database, Stage::Events, 0).await, 3);
    let again: Vec<_> = ["a", "b"].map(|name| story.run(name)).into_iter().chain([odd[0].clone()]).collect();
    assert_eq!(dispositions(&story, &again).await, [Duplicate, Duplicate, Duplicate]);
    let mut higher = under(&story, "another event", "a");
    higher.arrival.run.attempt = 9;
    assert_eq!(dispositions(&story, &[higher]).await, [Superseded]);
    let mut changed = story.run("b");
    changed.arrival.content_hash = "other content".to_owned();
    let told = dispositions(&story, &[changed]).await;
    assert!(matches!(&told[..], [Disposition::Conflict(_)]), "{told:?}");
    let after = (story.state().await, database.one.health().await.expect("health").events_seen);
    assert_eq!((after.0, after.1), (before.0, before.1 + 1), "only the new event was seen");
    // What differs behind a NUL is another event there, too.
    assert_eq!(dispositions(&story, &odd[1..2]).await.len(), 1);
    purge(database, Stage::Events, 0).await;
    assert_eq!(dispositions(&story, &odd[..2]).await, [Duplicate, Duplicate]);
    assert_ne!(dispositions(&story, &odd[2..3]).await, [Duplicate]);
    assert_ne!(dispositions(&story, &odd[3..]).await, [Duplicate]);
}

/// Neither what waits in a window nor what an open retrospective looks at, nor what a failed one released.
pub async fn bodies_are_kept_until_their_retrospective_has_closed(database: &Database) {
    let mut story = Story::new(&*database.one, "t", "w");
    story.policy.failure_pause_s = 0;
    story.count(&["a"]).await;
    assert_eq!(purge(database, Stage::Bodies, 0).await, 0, "it waits in the window");
    story.count(&["b"]).await;
    assert_eq!(purge(database, Stage::Bodies, 0).await, 0, "one is open");
    story.sample().await;
    assert_eq!(purge(database, Stage::Bodies, 0).await, 0, "it is being looked into");
    story.investigate(&|_| failed()).await;
    story.close(story.retrospective().await.id).await;
    assert_eq!(
        purge(database, Stage::Bodies, 0).await,
        0,
        "its runs were released, and the next one has them"
    );
    story.sample().await;
    story.investigate(&|_| nothing()).await;
    story.close(story.retrospective().await.id).await;
    assert_eq!(story.retrospective().await.state, State::Closed);
    story.count(&["c"]).await;
    assert_eq!(purge(database, Stage::Bodies, 3600).await, 0, "it has only just closed");
    assert_eq!(purge(database, Stage::Bodies, 0).await, 2);
    assert_eq!(purge(database, Stage::Bodies, 0).await, 0);
    assert_eq!(body(&story, "a").await, Some(BodyRef::Dropped));
    assert_eq!(body(&story, "c").await, Some(BodyRef::Stored), "it waits in the window");
}

/// Whoever asks for it later is told so, and has an answer to it.
pub async fn a_body_that_was_dropped_and_is_asked_for_again_is_gone(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let id = story.settle(["a", "b"], &|_| nothing()).await;
    story.close(id).await;
    assert_eq!(purge(database, Stage::Bodies, 0).await, 2);
    let over_it_again = |mut facts: Facts, _: &[_]| {
        let mut state = facts.workflows.remove(&story.key).expect("it is looked at");
        state.claimed = 0;
        let opened = state.open_if_due(&story.key, &story.policy, moment(1)).into_iter().collect();
        Effects { workflows: [(story.key.clone(), state)].into(), opened, ..Effects::default() }
    };
    let keys = [story.key.clone()];
    database.one.count(&[], &keys, &over_it_again).await.expect("counting");
    assert_eq!(story.sample().await, Step::Done);
    let StoredBody::Gone(why) = story.claim(LONG_S).await.body else { panic!("it was dropped") };
    assert!(why.contains("dropped on purpose"), "{why}");
}

/// What said who ran and how it ended goes, too; identities and ordinals stay.
pub async fn facts_go_after_their_bodies_and_identities_stay(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let memory = story.learn("Retry at once").await;
    let run = run_id("Retry at once 1");
    database.one.record_presented(&story.key, &run, &[memory.id]).await.expect("recording");
    story.count(&["c"]).await;
    assert_eq!(purge(database, Stage::Runs, 0).await, 0, "their bodies come first");
    purge(database, Stage::Bodies, 0).await;
    assert_eq!(purge(database, Stage::Runs, 3600).await, 0, "it has only just closed");
    assert_eq!(purge(database, Stage::Runs, 0).await, 2);
    assert_eq!(purge(database, Stage::Runs, 0).await, 0);
    assert_eq!(body(&story, run.as_str()).await, None);
    assert_eq!(body(&story, "c").await, Some(BodyRef::Stored));
    assert_eq!(database.one.ordinals(&story.key).await.expect("ordinals"), [1, 2, 3]);
    let mut higher = under(&story, "another event", run.as_str());
    higher.arrival.run.attempt = 9;
    assert_eq!(dispositions(&story, &[higher]).await, [Superseded]);
    assert_eq!(story.memories().await, [memory], "what was learnt stays");
    // The next retrospective claims what came since, as if nothing had gone.
    story.count(&["d"]).await;
    let next = story.retrospective().await;
    assert_eq!((next.first, next.last), (3, 4));
    assert_eq!(story.sample().await, Step::Done);
}

/// No retrospective claims it, so its age alone decides; when it counts after all, its details are as new.
pub async fn a_run_that_was_not_counted_keeps_its_details_as_long_as_a_body(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let mut internal = story.run("internal");
    internal.arrival.run.kind = RunKind::Internal;
    assert_eq!(dispositions(&story, &[internal.clone()]).await, [Recorded]);
    assert_eq!(purge(database, Stage::Bodies, 3600).await, 0);
    assert_eq!(purge(database, Stage::Bodies, 0).await, 1);
    assert_eq!(body(&story, "internal").await, None);
    assert_eq!(dispositions(&story, &[internal]).await, [Duplicate]);
    let mut counts = under(&story, "another event", "internal");
    counts.arrival.run.attempt = 2;
    assert_eq!(dispositions(&story, &[counts]).await, [Now(1)]);
    assert_eq!(purge(database, Stage::Bodies, 0).await, 0, "it waits in the window");
    assert_eq!(body(&story, "internal").await, Some(BodyRef::Stored));
    assert_eq!(database.one.workflows(&story.key.tenant).await.expect("listing")[0].recorded, 1);
}

/// Law 4, for ever: what a replay is held against is never purged, so neither a run that is looked into again nor a
/// person's request that comes again finds its effects forgotten.
pub async fn effects_are_known_after_everything_was_purged(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let wrong = story.learn("Retry at once").await;
    let kept = story.learn("List the tables before anything else").await;
    super::write::delete(&story, wrong.id, "request 1").await.expect("it lives");
    let proposal = super::manual::proposed(&story, "Wait 5 seconds").await;
    super::manual::accepted(&story, proposal).await.expect("it is open");
    // A run that is looked into now has caused something before.
    let id = story.settle(["c", "d"], &|_| nothing()).await;
    let cause = Cause::Run { workflow: story.key.workflow.clone(), run: run_id("c") };
    let caused = super::write::delete_because_of(&story, kept.id, cause).await;
    let before = closing_facts(&story, id).await.writer;
    let history = database.one.changes(&story.key).await.expect("changes");
    story.everything_sent().await;
    for stage in Stage::ALL.into_iter().filter(|stage| *stage != Stage::Attempts) {
        assert!(purge(database, stage, 0).await > 0, "nothing to purge of {}", stage.as_str());
    }
    let after = closing_facts(&story, id).await.writer;
    assert_eq!(after.applied, [caused].into());
    assert_eq!((&after.memories, &after.tombstones), (&before.memories, &before.tombstones));
    assert_eq!(super::write::delete(&story, wrong.id, "request 1").await, Ok(Step::AlreadyDone));
    let again = super::manual::accepted(&story, proposal).await;
    assert!(matches!(again, Err(Undecided::Before(_))), "{again:?}");
    let first = RetrospectiveId::automatic(&story.key, 1);
    assert_eq!(story.close(first).await, Step::AlreadyDone);
    assert_eq!(story.close(id).await, Step::Done);
    assert_eq!(database.one.changes(&story.key).await.expect("changes"), history);
}

/// A takeover resumes from it until the very end.
pub async fn journals_are_kept_until_their_retrospective_has_ended(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    story.count(&["a", "b"]).await;
    story.sample().await;
    let claim = story.claim(LONG_S).await;
    let entry = JournalEntry { stage: Journalled::Answered, body: "an answer".into() };
    database.one.journal(&claim, &entry).await.expect("journalling");
    story.finish(&claim, &found("a lesson")).await.expect("finishing");
    assert_eq!(purge(database, Stage::Journals, 0).await, 0, "it is open");
    story.investigate(&|_| nothing()).await;
    assert_eq!(purge(database, Stage::Journals, 0).await, 0, "its batch waits for the writer");
    assert_eq!(story.close(story.retrospective().await.id).await, Step::Done);
    assert_eq!(purge(database, Stage::Journals, 3600).await, 0, "it has only just ended");
    assert_eq!(purge(database, Stage::Journals, 0).await, 2, "one entry and one batch");
}

/// A lost broker is fed again from those that were sent; those that were not have to be sent yet.
pub async fn messages_are_purged_only_after_they_were_sent(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let id = story.settle(["a", "b"], &|_| nothing()).await;
    let waiting = database.one.unsent(ALL).await.expect("reading");
    assert_eq!(purge(database, Stage::Messages, 0).await, 0);
    database.one.mark_sent(&[waiting[0].id]).await.expect("marking");
    assert_eq!(purge(database, Stage::Messages, 3600).await, 0, "it was only just sent");
    assert_eq!(purge(database, Stage::Messages, 0).await, 1);
    assert_eq!(database.one.unsent(ALL).await.expect("reading"), waiting[1..]);
    story.everything_sent().await;
    assert_eq!(purge(database, Stage::Messages, 0).await, waiting.len() as u64 - 1);
    assert_eq!(story.close(id).await, Step::Done);
}

/// A message of which nothing was heard for so long was handled in the end.
pub async fn attempts_are_forgotten_by_age(database: &Database) {
    let at = |sequence| Position { consumer: "counter".to_owned(), stream: "RUNS".to_owned(), sequence };
    for sequence in [1, 2] {
        begin(&*database.one, &at(sequence)).await;
    }
    assert_eq!(purge(database, Stage::Attempts, 3600).await, 0);
    assert_eq!(begin(&*database.one, &at(1)).await, 3);
    assert_eq!(
        purge(database, Stage::Attempts, 0).await,
        2 + 3,
        "two counts, and what is known of three attempts"
    );
    assert_eq!(begin(&*database.one, &at(1)).await, 2);
}

/// The caller decides how long one transaction may be; two at once share the work.
pub async fn purging_is_bounded_and_two_at_once_purge_what_one_would_have(database: &Database) {
    let mut story = Story::new(&*database.one, "t", "w");
    story.policy.threshold_runs = 100;
    let names: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    story.count(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let first = database.one.purge(Stage::Events, 0, 3).await.expect("purging");
    assert_eq!(first, Purged { rows: 3, more: true });
    let mut rows = first.rows;
    for _ in 0..20 {
        let (one, two) =
            join(database.one.purge(Stage::Events, 0, 2), database.two.purge(Stage::Events, 0, 2)).await;
        rows += one.expect("purging").rows + two.expect("purging").rows;
    }
    assert_eq!(rows, 20);
    assert_eq!(database.two.purge(Stage::Events, 0, 3).await.expect("purging"), Purged::default());
    let again: Vec<_> = names.iter().map(|name| story.run(name)).collect();
    assert!(dispositions(&story, &again).await.iter().all(|one| *one == Duplicate));
    let told = database.one.purges().await.expect("reading");
    let told: Vec<_> = told.iter().map(|row| (row.stage, row.purged)).collect();
    assert_eq!(told, [(Stage::Events, 20)]);
}

/// Goes through a stage until nothing is left of it; returns how much went.
async fn purge(database: &Database, stage: Stage, age_s: u64) -> u64 {
    let mut rows = 0;
    for _ in 0..20 {
        let purged = database.two.purge(stage, age_s, ALL).await.expect("purging");
        rows += purged.rows;
        if !purged.more {
            return rows;
        }
    }
    panic!("twenty calls and no end");
}

/// A run whose event has this id.
fn under(story: &Story<'_>, event: &str, name: &str) -> IncomingRun {
    let mut run = story.run(name);
    run.arrival.event = EventKey { id: event.to_owned(), ..run.arrival.event };
    run
}

async fn dispositions(story: &Story<'_>, batch: &[IncomingRun]) -> Vec<Disposition> {
    story.count_batch(batch, moment(0)).await.into_iter().map(|one| one.disposition).collect()
}

async fn body(story: &Story<'_>, name: &str) -> Option<BodyRef> {
    let only = RunFilter { run: Some(run_id(name)), limit: 1, ..Default::default() };
    let mut rows = story.store.runs(&story.key.tenant, &only).await.expect("runs");
    rows.pop().map(|row| row.body)
}
