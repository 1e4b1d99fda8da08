//! A person's hand: each act once, all of it or nothing.

use futures::future::join;
use retro_core::dead_letter::Code;
use retro_core::id::DeadLetterId;
use retro_core::message::Notice;
use retro_core::retrospective::{Retrospective, State};
use retro_core::steer::{Act, NotReopened};
use retro_core::time::after;

use super::Database;
use super::delivery::letter;
use super::story::{LONG_S, Story, failed, moment, nothing};
use crate::{
    ActRow, Cancelled, DeadLetterFilter, Deed, JournalEntry, LetterStatus, Reopened, Stage, Step, StoreError,
};

/// Ordinals are kept, the epoch is spent, and who did it and why stands beside it.
pub async fn cancelling_releases_the_runs_and_keeps_who_and_why(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    story.count(&["a", "b"]).await;
    let opened = story.retrospective().await;
    let Cancelled::Now { retrospective, state } = cancel(&story, &opened, "ann").await else {
        panic!("it was open")
    };
    assert_eq!(retrospective, Retrospective { state: State::Cancelled, ..opened.clone() });
    assert_eq!(story.retrospective().await, retrospective);
    assert_eq!(story.state().await, state);
    assert_eq!((state.open, state.claimed, state.counted, state.epoch, state.failures), (false, 0, 2, 1, 0));
    let pause = after(moment(20), story.policy.failure_pause_s);
    assert_eq!(state.paused_until, Some(pause), "stored exactly");
    let acts = database.two.acts(&story.key.tenant, opened.id.0).await.expect("reading");
    assert_eq!(acts, [ActRow { deed: Deed::Cancelled, act: act("ann"), opened: None, detail: None }]);
    assert_eq!(database.two.report(&story.key.tenant, opened.id).await.expect("reading"), None);
    story.count_batch(&[], pause).await;
    let next = story.retrospective().await;
    assert_eq!((next.epoch, next.first, next.last), (2, 1, 2), "its runs are in the next one");
}

/// The second person is told by whom and why.
pub async fn a_retrospective_that_has_ended_cannot_be_cancelled(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    story.count(&["a", "b"]).await;
    let opened = story.retrospective().await;
    let other = story.by(&*database.two);
    let (one, two) = join(cancel(&story, &opened, "ann"), cancel(&other, &opened, "bob")).await;
    let now = |answer: &Cancelled| matches!(answer, Cancelled::Now { .. });
    let (first, second, name) = if now(&one) { (one, two, "ann") } else { (two, one, "bob") };
    assert!(now(&first), "{first:?}");
    let Cancelled::Ended { retrospective, act: told } = second else { panic!("one act: {second:?}") };
    assert_eq!((retrospective.state, told), (State::Cancelled, Some(act(name))));
    assert_eq!(database.one.acts(&story.key.tenant, opened.id.0).await.expect("reading").len(), 1);
    let story = Story::new(&*database.one, "t", "v");
    let id = story.settle(["a", "b"], &|_| nothing()).await;
    story.close(id).await;
    let closed = story.retrospective().await;
    let state = story.state().await;
    let expected = Cancelled::Ended { retrospective: closed.clone(), act: None };
    assert_eq!(cancel(&story, &closed, "ann").await, expected);
    assert_eq!(story.state().await, state);
    let nobody = Retrospective { id: retro_core::id::RetrospectiveId::automatic(&story.key, 9), ..closed };
    assert_eq!(cancel(&story, &nobody, "ann").await, Cancelled::Unknown);
}

/// A worker under way stores nothing more, and nobody takes over.
pub async fn cancelling_fences_the_investigator_and_makes_every_message_harmless(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    story.count(&["a", "b"]).await;
    let opened = story.retrospective().await;
    story.sample().await;
    let claim = story.claim(LONG_S).await;
    cancel(&story.by(&*database.two), &opened, "ann").await;
    let fenced = |answer: crate::Result<()>| matches!(answer, Err(StoreError::Fenced { .. }));
    let entry = JournalEntry { stage: Stage::Briefed, body: "late".into() };
    assert!(fenced(database.one.heartbeat(&claim, LONG_S).await));
    assert!(fenced(database.one.journal(&claim, &entry).await));
    assert!(fenced(database.one.retry_later(&claim, 0, "late").await));
    assert!(fenced(story.finish(&claim, &nothing()).await));
    assert!(database.one.claim("another", LONG_S).await.expect("claiming").is_none());
    assert_eq!(database.one.claimable().await.expect("counting"), 0);
    assert_eq!(story.sample().await, Step::AlreadyDone);
    assert_eq!(story.close(opened.id).await, Step::AlreadyDone);
    assert_eq!(database.one.overdue_samples(0, 9).await.expect("overdue"), []);
    assert_eq!(database.one.overdue_closings(0, 9).await.expect("overdue"), []);
    let detail = database.one.retrospective(&story.key.tenant, opened.id).await.expect("reading");
    assert_eq!(detail.expect("it is there").investigations[0].result, None);
}

/// One of both wins, and what stands is the winner's alone.
pub async fn a_cancel_and_a_closing_at_once_leave_one_end(database: &Database) {
    for round in 0..10 {
        let story = Story::new(&*database.one, "t", &format!("w{round}"));
        let id = story.settle(["a", "b"], &|_| super::story::found("a lesson")).await;
        let settling = story.retrospective().await;
        let other = story.by(&*database.two);
        let (closed, cancelled) = join(story.close(id), cancel(&other, &settling, "ann")).await;
        let (state, claimed) = (story.retrospective().await.state, story.state().await.claimed);
        let report = database.one.report(&story.key.tenant, id).await.expect("reading");
        let acts = database.one.acts(&story.key.tenant, id.0).await.expect("reading").len();
        let learnt = story.memories().await.len();
        match closed {
            Step::Done => {
                assert!(
                    matches!(&cancelled, Cancelled::Ended { retrospective, act: None } if retrospective.state == State::Closed)
                );
                assert_eq!((state, claimed, acts, learnt), (State::Closed, 2, 0, 1));
                assert!(report.is_some());
            }
            _ => {
                assert!(matches!(cancelled, Cancelled::Now { .. }), "{cancelled:?}");
                assert_eq!((state, claimed, acts, learnt), (State::Cancelled, 0, 1, 0));
                assert!(report.is_none());
            }
        }
    }
}

/// Whatever pause runs, over everything released and what came since, with a seed of its own.
pub async fn replaying_a_failure_opens_the_next_epoch_at_once(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let letter = fail(&story, ["a", "b"]).await;
    story.count(&["c"]).await;
    story.everything_sent().await;
    let failed = story.retrospective().await;
    let Reopened::Now(opened) = reopen(&story, letter, "ann").await else { panic!("nothing is in its way") };
    assert_eq!((opened.epoch, opened.first, opened.last, opened.state), (2, 1, 3, State::Due));
    assert_eq!(story.retrospective().await, opened);
    assert_ne!(opened.id, failed.id);
    let state = story.state().await;
    assert_eq!((state.open, state.claimed, state.failures, state.paused_until), (true, 3, 1, None));
    assert_eq!(story.notices().await, [Notice::RetrospectiveDue { retrospective: opened.id }]);
    assert_eq!(status(&story, letter).await, LetterStatus::Replayed);
    let acts = database.two.acts(&story.key.tenant, letter.0).await.expect("reading");
    assert_eq!(
        acts,
        [ActRow { deed: Deed::Replayed, act: act("ann"), opened: Some(opened.id), detail: None }]
    );
    assert_eq!(database.one.health().await.expect("health").dead_letters_open, 0);
    assert_eq!(story.sample().await, Step::Done);
    story.investigate(&|_| super::story::failed()).await;
    story.close(opened.id).await;
    let until = after(moment(20), 2 * story.policy.failure_pause_s);
    assert_eq!(story.state().await.paused_until, Some(until), "the pause goes on growing");
}

/// The second person is told by whom, and what that opened.
pub async fn a_letter_is_replayed_once_by_however_many(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let letter = fail(&story, ["a", "b"]).await;
    let other = story.by(&*database.two);
    let (one, two) = join(reopen(&story, letter, "ann"), reopen(&other, letter, "bob")).await;
    let now = |answer: &Reopened| matches!(answer, Reopened::Now(_));
    let (first, second, name) = if now(&one) { (one, two, "ann") } else { (two, one, "bob") };
    let Reopened::Now(opened) = first else { panic!("one of them opens: {first:?}") };
    assert_eq!(second, Reopened::Before { act: act(name), opened: opened.clone() });
    assert_eq!(story.retrospective().await, opened);
    cancel(&story, &opened, "cem").await;
    let Reopened::Before { opened, .. } = reopen(&story, letter, "ann").await else {
        panic!("once for ever")
    };
    assert_eq!((opened.epoch, opened.state), (2, State::Cancelled));
    assert_eq!(story.retrospective().await.epoch, 2);
}

/// The letter stays as it is, and nothing else changes.
pub async fn a_letter_with_nothing_to_open_stays_open(database: &Database) {
    let mut story = Story::new(&*database.one, "t", "w");
    story.policy.failure_pause_s = 0;
    let letter = fail(&story, ["a", "b"]).await;
    // Without a pause the next one opened in the transaction that failed this one.
    let (open, state) = (story.retrospective().await, story.state().await);
    assert_eq!(open.epoch, 2);
    assert_eq!(reopen(&story, letter, "ann").await, Reopened::Not(NotReopened::OneIsOpen { epoch: 2 }));
    story.sample().await;
    story.investigate(&|_| nothing()).await;
    story.close(open.id).await;
    assert_eq!(
        reopen(&story, letter, "ann").await,
        Reopened::Not(NotReopened::ClaimedSince { claimed: state.claimed })
    );
    assert_eq!(status(&story, letter).await, LetterStatus::Open);
    assert_eq!(database.one.acts(&story.key.tenant, letter.0).await.expect("reading"), []);
    assert_eq!(story.retrospective().await.epoch, 2);
}

/// A message that could not be read is sent again by other means.
pub async fn only_the_letter_of_a_failed_retrospective_reopens(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let other = database.one.bury(&letter(7)).await.expect("burying");
    assert_eq!(reopen(&story, other, "ann").await, Reopened::OtherCode(Code::FieldInvalid));
    assert_eq!(status(&story, other).await, LetterStatus::Open);
    let nobody = DeadLetterId(retro_core::id::derive("nothing", &[]));
    assert_eq!(reopen(&story, nobody, "ann").await, Reopened::Unknown);
}

pub(super) fn act(by: &str) -> Act {
    Act::new(by, "the tests want it so", moment(20)).expect("it says who and why")
}

pub(super) async fn cancel(story: &Story<'_>, retrospective: &Retrospective, by: &str) -> Cancelled {
    let decide = |retrospective: &Retrospective, mut state: retro_core::retrospective::WorkflowState| {
        state.cancel(retrospective, moment(20));
        state
    };
    let done = story.store.cancel(&story.key.tenant, retrospective.id, &act(by), &decide).await;
    done.expect("cancelling")
}

pub(super) async fn reopen(story: &Story<'_>, letter: DeadLetterId, by: &str) -> Reopened {
    let decide = |failed: &Retrospective, mut state: retro_core::retrospective::WorkflowState| {
        let opening = state.reopen(failed, &story.policy, moment(20))?;
        Ok((state, opening))
    };
    story.store.reopen(&story.key.tenant, letter, &act(by), &decide).await.expect("replaying")
}

/// A failed retrospective over two fresh runs, and its letter.
pub(super) async fn fail(story: &Story<'_>, names: [&str; 2]) -> DeadLetterId {
    let id = story.settle(names, &|_| failed()).await;
    assert_eq!(story.close(id).await, Step::Done);
    let filter = DeadLetterFilter { code: Some(Code::RetrospectiveFailed), limit: 1, ..Default::default() };
    story.store.dead_letters(&story.key.tenant, &filter).await.expect("listing")[0].id
}

async fn status(story: &Story<'_>, letter: DeadLetterId) -> LetterStatus {
    let letter = story.store.dead_letter(&story.key.tenant, letter).await.expect("reading");
    letter.expect("it is there").status
}
