//! Dead letters that are sent again, alone and in batches.

use futures::future::join;
use jiff::{SignedDuration, Timestamp};
use retro_core::dead_letter::{Code, Rejection};
use retro_core::id::{BatchId, DeadLetterId, ReplayId};
use retro_core::replay::{Next, Outcome, Pace, Progress, Stop, next};
use retro_core::retrospective::{Retrospective, WorkflowState};

use super::Database;
use super::delivery::letter;
use super::steer::{act, fail};
use super::story::{Story, tenant};
use crate::{
    BatchCancelled, BatchRow, BatchState, Content, DeadLetter, DeadLetterFilter, Deed, Discarded,
    LetterStatus, NewBatch, NewDeadLetter, ReplayRow, ReplayState, Replayed, Resent, Sending, Store,
};

/// So long that nothing is taken for lost.
const NEVER_S: u64 = 1_000_000;

/// Its bytes and headers, without the broker's own, to where it came from.
pub async fn a_letter_is_sent_again_as_it_came_under_another_id(database: &Database) {
    let mut came = letter(1);
    came.headers.insert(0, ("Nats-Msg-Id".to_owned(), "first".to_owned()));
    came.headers.push(("traceparent".to_owned(), "00-1-2-01".to_owned()));
    came.headers.push(("retro-replay".to_owned(), "a forged one".to_owned()));
    let id = database.one.bury(&came).await.expect("burying");
    let replay = replay(database, id, "ann").await;
    assert_eq!((replay.number, replay.version, replay.state), (1, 0, ReplayState::Waiting));
    let sendings = database.two.due_replays(9, NEVER_S).await.expect("reading");
    let [sending] = &sendings[..] else { panic!("one is due: {sendings:?}") };
    assert_eq!((sending.id, &sending.subject, &sending.payload), (replay.id, &came.subject, &came.payload));
    let mut headers = letter(1).headers;
    headers.push(("traceparent".to_owned(), "00-1-2-01".to_owned()));
    headers.push(("Retro-Replay".to_owned(), replay.id.to_string()));
    headers.push(("Retro-Original-Msg-Id".to_owned(), "first".to_owned()));
    assert_eq!(sending.headers, headers);
    let stored = stored(database, id).await;
    assert_eq!((stored.status, stored.replays, stored.letter), (LetterStatus::Replaying, 1, came));
    let acts = database.two.acts(&tenant("t"), id.0).await.expect("reading");
    assert_eq!((acts.len(), acts[0].deed, &acts[0].act), (1, Deed::Replayed, &act("ann")));
    database.two.mark_replay_sent(replay.id).await.expect("marking");
    assert_eq!(database.one.due_replays(9, NEVER_S).await.expect("reading"), []);
    let rows = database.one.replays(&tenant("t"), id).await.expect("reading");
    assert_eq!((rows[0].state, rows[0].sendings), (ReplayState::Sent, 1));
}

/// The second person is told who was first.
pub async fn of_two_who_replay_a_letter_at_once_one_does(database: &Database) {
    let id = database.one.bury(&letter(1)).await.expect("burying");
    let (t, ann, bob) = (tenant("t"), act("ann"), act("bob"));
    let (one, two) =
        join(database.one.replay(&t, id, None, &ann), database.two.replay(&t, id, None, &bob)).await;
    let (one, two) = (one.expect("replaying"), two.expect("replaying"));
    let (now, before) = if matches!(one, Replayed::Now(_)) { (one, two) } else { (two, one) };
    let (Replayed::Now(now), Replayed::Before(before)) = (now, before) else { panic!("one effect") };
    assert_eq!(now, before);
    assert_eq!(database.one.replays(&t, id).await.expect("reading"), [now]);
    assert_eq!(database.one.acts(&t, id.0).await.expect("reading").len(), 1);
}

/// Whoever asks again is told what came of it.
pub async fn what_came_of_a_replay_stands_with_its_letter(database: &Database) {
    for (number, known) in [(1, false), (2, true)] {
        let id = database.one.bury(&letter(number)).await.expect("burying");
        let row = replay(database, id, "ann").await;
        let sending = sent(database, &row).await;
        assert!(settle(database, &sending, known).await, "it is the one that was sent");
        assert!(!settle(database, &sending, false).await, "nothing comes of it twice");
        assert_eq!(stored(database, id).await.status, LetterStatus::Handled);
        let Replayed::Before(row) =
            database.two.replay(&tenant("t"), id, None, &act("bob")).await.expect("replaying")
        else {
            panic!("it was handled")
        };
        let outcome = if known { Outcome::Known } else { Outcome::Handled };
        assert_eq!(
            (row.act.by.as_str(), row.state, row.outcome),
            ("ann", ReplayState::Handled, Some(outcome))
        );
        assert!(row.ended_at.is_some());
        let aside = database.one.discard(&tenant("t"), &[id], &act("bob")).await.expect("discarding");
        assert!(matches!(aside[..], [Discarded::Replayed(_)]), "{aside:?}");
    }
}

/// One message, one letter, however often it fails; its attempts begin anew.
pub async fn a_replay_that_fails_leaves_its_letter_open_and_no_second_one(database: &Database) {
    let id = database.one.bury(&letter(1)).await.expect("burying");
    for number in 1..=2 {
        let row = replay(database, id, "ann").await;
        assert_eq!(row.number, number);
        let again = given_up(&sent(database, &row).await, 10 + u64::from(number));
        assert_eq!(database.two.bury(&again).await.expect("burying"), id);
        assert_eq!(database.two.bury(&again).await.expect("it comes again"), id);
        let stored = stored(database, id).await;
        assert_eq!((stored.status, stored.replays), (LetterStatus::Open, number));
        assert_eq!(stored.letter, letter(1), "it is as it came");
    }
    let rows = database.one.replays(&tenant("t"), id).await.expect("reading");
    let rejection = Rejection::whole(Code::AttemptsExhausted, "once more");
    let failed = Outcome::Failed { rejection, attempts: 5 };
    assert!(rows.iter().all(|row| row.outcome.as_ref() == Some(&failed)), "{rows:?}");
    let history = database.one.attempts(&tenant("t"), id).await.expect("reading");
    let last: Vec<_> = history.iter().filter_map(|attempt| attempt.code).collect();
    assert_eq!(last, [Code::FieldInvalid, Code::AttemptsExhausted, Code::AttemptsExhausted], "{history:?}");
    let filter = DeadLetterFilter { limit: 9, ..Default::default() };
    assert_eq!(database.one.dead_letters(&tenant("t"), &filter).await.expect("listing").len(), 1);
}

/// Anybody who may publish can write a header.
pub async fn a_message_is_believed_to_be_a_replay_when_it_is_what_was_sent(database: &Database) {
    let id = database.one.bury(&letter(1)).await.expect("burying");
    let row = replay(database, id, "ann").await;
    let sending = sent(database, &row).await;
    let other = "retro.run.completed.other.w".to_owned();
    let mut header = sending.clone();
    header.headers.push(("ce-source".to_owned(), "/another".to_owned()));
    let unknown = Sending::of(ReplayId::of(id, 7), &letter(1), Content::from(&letter(1)));
    let forged = [
        Sending { subject: other, ..sending.clone() },
        Sending { payload: b"another".to_vec(), ..sending.clone() },
        header,
        unknown,
    ];
    for (place, forged) in forged.iter().enumerate() {
        assert!(!settle(database, forged, false).await, "{forged:?}");
        let buried = database.one.bury(&given_up(forged, 20 + place as u64)).await.expect("burying");
        assert_ne!(buried, id, "it is a letter of its own: {forged:?}");
    }
    let elsewhere = Resent::of("writer", &sending.subject, &sending.headers, &sending.payload);
    assert!(!database.one.settle(&elsewhere.expect("it names one"), false).await.expect("settling"));
    assert_eq!(stored(database, id).await.status, LetterStatus::Replaying);
    assert!(settle(database, &sending, false).await, "the true one is believed");
}

/// The relay may die between sending and marking, and the broker may lose what it had.
pub async fn a_replay_that_nothing_came_of_is_sent_again_under_its_id(database: &Database) {
    let id = database.one.bury(&letter(1)).await.expect("burying");
    let row = replay(database, id, "ann").await;
    let first = sent(database, &row).await;
    let again = database.two.due_replays(9, 0).await.expect("reading");
    assert_eq!(again, std::slice::from_ref(&first), "lost at once");
    database.two.mark_replay_sent(row.id).await.expect("marking");
    assert!(settle(database, &first, false).await);
    database.two.mark_replay_sent(row.id).await.expect("a late mark is harmless");
    assert_eq!(database.one.due_replays(9, 0).await.expect("reading"), []);
    let rows = database.one.replays(&tenant("t"), id).await.expect("reading");
    assert_eq!((rows[0].state, rows[0].sendings), (ReplayState::Handled, 3));
}

/// A missing right, or a header that the broker cannot carry.
pub async fn a_replay_that_the_broker_refuses_leaves_its_letter_open(database: &Database) {
    let id = database.one.bury(&letter(1)).await.expect("burying");
    let row = replay(database, id, "ann").await;
    for _ in 0..2 {
        database.two.refuse_replay(row.id, "no right").await.expect("refusing");
    }
    assert_eq!(stored(database, id).await.status, LetterStatus::Open);
    let rows = database.one.replays(&tenant("t"), id).await.expect("reading");
    let unknown = ReplayId::of(id, 7);
    let ended = database.one.ended_replays(&[unknown, row.id]).await.expect("reading");
    assert_eq!(ended, [row.id], "the other one is nobody's");
    assert_eq!(rows[0].outcome, Some(Outcome::Refused { problem: "no right".to_owned() }));
    assert_eq!(database.one.due_replays(9, 0).await.expect("reading"), []);
}

/// Whoever asks, and however many.
pub async fn replays_are_due_one_after_the_other(database: &Database) {
    let mut due = Vec::new();
    for number in 1..=3 {
        let id = database.one.bury(&letter(number)).await.expect("burying");
        due.push(replay(database, id, "ann").await.due_at);
    }
    let gap = Pace::default().gap();
    assert!(due.windows(2).all(|two| two[1].duration_since(two[0]) >= gap), "{due:?}");
}

/// A letter of a batch that takes one in twenty minutes is due at once, and so is another person's behind it.
pub async fn a_slow_batch_keeps_nobody_waiting(database: &Database) {
    let ids = bury(database, 4).await;
    let before = replay(database, ids[0], "ann").await.due_at;
    let slow = Pace { rate_milli: 1, ..Pace::default() };
    let batch = start(database, &ids[1..3], slow).await;
    assert_eq!(step(&*database.one, batch).await, Some(Next::Release(1)));
    assert_eq!(step(&*database.one, batch).await, Some(Next::Wait), "the other one keeps to the pace");
    let behind = replay(database, ids[3], "bob").await.due_at;
    assert!(behind.duration_since(before) < slow.gap() / 2, "{before} and then {behind}");
}

/// Kept whole, and shown as what it is.
pub async fn a_letter_that_was_put_aside_is_kept_and_can_be_replayed(database: &Database) {
    let ids = [
        database.one.bury(&letter(1)).await.expect("burying"),
        database.one.bury(&letter(2)).await.expect("burying"),
    ];
    let missing = DeadLetterId(retro_core::id::derive("nothing", &[]));
    let t = tenant("t");
    let answers = database.one.discard(&t, &[ids[0], missing], &act("ann")).await.expect("discarding");
    assert_eq!(answers, [Discarded::Now, Discarded::Unknown]);
    let answers = database.two.discard(&t, &ids, &act("bob")).await.expect("discarding");
    assert_eq!(answers, [Discarded::Before(act("ann")), Discarded::Now]);
    assert_eq!(stored(database, ids[0]).await.status, LetterStatus::Discarded);
    assert_eq!(stored(database, ids[0]).await.letter, letter(1));
    assert_eq!(database.one.health().await.expect("health").dead_letters_open, 0);
    let row = replay(database, ids[0], "cem").await;
    assert!(settle(database, &sent(database, &row).await, false).await);
    assert_eq!(stored(database, ids[0]).await.status, LetterStatus::Handled);
    let content = database.one.content(&t, ids[0], None).await.expect("reading");
    assert_eq!(content, Some((0, Content::from(&letter(1)))));
    assert_eq!(database.one.content(&t, ids[0], Some(9)).await.expect("reading"), None);
    let none = database.one.replay(&t, ids[1], Some(9), &act("ann")).await.expect("replaying");
    assert_eq!(none, Replayed::NoVersion);
}

/// The first ones go alone; one of them fails, and nothing else goes.
pub async fn a_batch_stops_when_one_that_went_first_fails(database: &Database) {
    let ids = bury(database, 5).await;
    let pace = Pace { canary: 2, ..Pace::default() };
    let batch = start(database, &ids, pace).await;
    assert_eq!(start(database, &ids, pace).await, batch, "the same request is one batch");
    assert_eq!(database.two.open_batches().await.expect("reading"), [batch]);
    assert_eq!(step(&*database.one, batch).await, Some(Next::Release(2)));
    assert_eq!(step(&*database.two, batch).await, Some(Next::Wait));
    assert_eq!(row(database, batch).await.progress, progress(3, 2, 0, 0, 0));
    for (place, id) in ids[..2].iter().enumerate() {
        let replay = database.one.replays(&tenant("t"), *id).await.expect("reading").remove(0);
        assert_eq!(replay.batch, Some(batch));
        let sending = sent(database, &replay).await;
        match place {
            0 => assert!(settle(database, &sending, false).await),
            _ => assert_eq!(database.one.bury(&given_up(&sending, 20)).await.expect("burying"), *id),
        }
    }
    assert_eq!(step(&*database.one, batch).await, Some(Next::Stop(Stop::CanaryFailed { failed: 1, of: 2 })));
    assert_eq!(step(&*database.one, batch).await, None, "it has ended");
    let stopped = row(database, batch).await;
    assert_eq!((stopped.state, stopped.progress), (BatchState::Stopped, progress(3, 0, 1, 1, 0)));
    assert_eq!(stopped.ended.as_deref(), Some("1 of the 2 that went first failed again"));
    assert_eq!(stored(database, ids[2]).await.status, LetterStatus::Open, "it was not touched");
    assert_eq!(database.two.open_batches().await.expect("reading"), []);
    let (_, letters) =
        database.two.batch(&tenant("t"), batch, 2).await.expect("reading").expect("it is there");
    let told: Vec<_> = letters.iter().map(|one| (one.letter, one.state.as_str())).collect();
    assert_eq!(told, [(ids[0], "handled"), (ids[1], "failed")]);
}

/// What somebody else did meanwhile stands, and the others go to the end.
pub async fn a_batch_leaves_alone_what_somebody_acted_on_meanwhile(database: &Database) {
    let ids = bury(database, 3).await;
    let others = NewDeadLetter { tenant: Some(tenant("other")), ..letter(9) };
    let theirs = database.one.bury(&others).await.expect("burying");
    let batch = start(database, &[&ids[..], &[theirs]].concat(), Pace::default()).await;
    database.one.discard(&tenant("t"), &ids[..1], &act("bob")).await.expect("discarding");
    assert_eq!(step(&*database.one, batch).await, Some(Next::Release(3)));
    assert_eq!(row(database, batch).await.progress, progress(0, 2, 0, 0, 1));
    for id in &ids[1..] {
        let replay = database.one.replays(&tenant("t"), *id).await.expect("reading").remove(0);
        assert!(settle(database, &sent(database, &replay).await, true).await);
    }
    assert_eq!(step(&*database.two, batch).await, Some(Next::Done));
    let done = row(database, batch).await;
    assert_eq!((done.state, done.progress), (BatchState::Done, progress(0, 0, 2, 0, 1)));
    assert_eq!(stored(database, ids[0]).await.status, LetterStatus::Discarded);
    assert_eq!(stored(database, theirs).await.status, LetterStatus::Open, "another tenant's is not in it");
}

/// Those under way go on; the second person is told.
pub async fn a_batch_that_is_called_off_takes_up_no_more(database: &Database) {
    let ids = bury(database, 3).await;
    let pace = Pace { canary: 1, ..Pace::default() };
    let batch = start(database, &ids, pace).await;
    step(&*database.one, batch).await;
    let t = tenant("t");
    let cancel = |by: &'static str| {
        let (t, act) = (&t, act(by));
        async move { database.two.cancel_batch(t, batch, &act).await.expect("cancelling") }
    };
    assert!(matches!(cancel("ann").await, BatchCancelled::Now(row) if row.state == BatchState::Stopped));
    let BatchCancelled::Ended(row) = cancel("bob").await else { panic!("it had ended") };
    assert!(row.ended.is_some_and(|why| why.contains("ann")));
    assert_eq!(step(&*database.one, batch).await, None);
    let replay = database.one.replays(&t, ids[0]).await.expect("reading").remove(0);
    assert!(settle(database, &sent(database, &replay).await, false).await);
    assert_eq!(self::row(database, batch).await.progress, progress(2, 0, 1, 0, 0));
    let acts = database.one.acts(&t, batch.0).await.expect("reading");
    assert_eq!((acts.len(), acts[0].deed, acts[0].act.by.as_str()), (1, Deed::Cancelled, "ann"));
}

/// It is followed and not sent; the batch is done with it at once.
pub async fn a_failed_retrospective_in_a_batch_opens_the_next_one(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let letter = fail(&story, ["a", "b"]).await;
    let alone = database.one.replay(&tenant("t"), letter, None, &act("ann")).await.expect("replaying");
    assert_eq!(alone, Replayed::OtherWay);
    let batch = start(database, &[letter], Pace::default()).await;
    assert_eq!(step(&*database.two, batch).await, Some(Next::Release(1)));
    assert_eq!(step(&*database.two, batch).await, Some(Next::Done));
    assert_eq!(row(database, batch).await.progress, progress(0, 0, 1, 0, 0));
    assert_eq!(stored(database, letter).await.status, LetterStatus::Replayed);
    assert_eq!(story.retrospective().await.epoch, 2);
    let again = database.one.discard(&tenant("t"), &[letter], &act("ann")).await.expect("discarding");
    assert_eq!(again, [Discarded::Reopened]);
}

/// Two processes drive the same batch at the same moment.
pub async fn two_that_drive_a_batch_at_once_leave_what_one_would_have_left(database: &Database) {
    let ids = bury(database, 8).await;
    let batch = start(database, &ids, Pace { rate_milli: 1, ..Pace::default() }).await;
    let (one, two) = join(step(&*database.one, batch), step(&*database.two, batch)).await;
    let mut both = [one, two];
    both.sort_by_key(|next| matches!(next, Some(Next::Wait)));
    assert_eq!(both, [Some(Next::Release(1)), Some(Next::Wait)]);
    assert_eq!(row(database, batch).await.progress, progress(7, 1, 0, 0, 0));
}

async fn bury(database: &Database, count: u64) -> Vec<DeadLetterId> {
    let mut ids = Vec::new();
    for number in 1..=count {
        ids.push(database.one.bury(&letter(number)).await.expect("burying"));
    }
    ids
}

pub(super) async fn start(database: &Database, ids: &[DeadLetterId], pace: Pace) -> BatchId {
    let letters = ids.iter().map(|id| (*id, LetterStatus::Open)).collect();
    let new = NewBatch { asked: "all".to_owned(), letters, pace, act: act("ann") };
    database.one.start_batch(&tenant("t"), &new).await.expect("starting")
}

async fn step(store: &dyn Store, batch: BatchId) -> Option<Next> {
    let reopen = |failed: &Retrospective, mut state: WorkflowState| {
        let opening = state.reopen(failed, &failed.policy, super::story::moment(20))?;
        Ok((state, opening))
    };
    let decide = |pace: &Pace, progress: &Progress, due: Timestamp, now: Timestamp| {
        assert!(now.duration_since(due).abs() < SignedDuration::from_hours(1), "both are of one clock");
        next(pace, progress, due, now)
    };
    store.step_batch(batch, &decide, &reopen).await.expect("driving")
}

async fn row(database: &Database, batch: BatchId) -> BatchRow {
    let rows = database.two.batches(&tenant("t"), 9).await.expect("listing");
    rows.into_iter().find(|row| row.id == batch).expect("it is there")
}

const fn progress(waiting: u32, under_way: u32, handled: u32, failed: u32, skipped: u32) -> Progress {
    Progress { waiting, under_way, handled, failed, skipped }
}

pub(super) async fn replay(database: &Database, id: DeadLetterId, by: &str) -> ReplayRow {
    match database.one.replay(&tenant("t"), id, None, &act(by)).await.expect("replaying") {
        Replayed::Now(row) => row,
        other => panic!("nothing is in its way: {other:?}"),
    }
}

/// What the relay sends of a replay, marked as sent. Due or not, so that nobody waits for the pace.
async fn sent(database: &Database, row: &ReplayRow) -> Sending {
    let letter = stored(database, row.letter).await.letter;
    database.one.mark_replay_sent(row.id).await.expect("marking");
    Sending::of(row.id, &letter, Content::from(&letter))
}

async fn settle(database: &Database, sending: &Sending, known: bool) -> bool {
    let resent = Resent::of("counter", &sending.subject, &sending.headers, &sending.payload);
    database.two.settle(&resent.expect("it names a replay"), known).await.expect("settling")
}

/// The message that was sent, given up at another place in the stream.
fn given_up(sending: &Sending, sequence: u64) -> NewDeadLetter {
    let mut headers = sending.headers.clone();
    headers.push(("Nats-Msg-Id".to_owned(), sending.id.to_string()));
    headers.reverse();
    NewDeadLetter {
        subject: sending.subject.clone(),
        headers,
        payload: sending.payload.clone(),
        rejection: Rejection::whole(Code::AttemptsExhausted, "once more"),
        attempts: 5,
        ..letter(sequence)
    }
}

async fn stored(database: &Database, id: DeadLetterId) -> DeadLetter {
    for name in ["t", "other"] {
        if let Some(letter) = database.two.dead_letter(&tenant(name), id).await.expect("reading") {
            return letter;
        }
    }
    panic!("the letter {id} is not there")
}
