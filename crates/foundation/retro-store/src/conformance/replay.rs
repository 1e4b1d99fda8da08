//! Conformance cases for replaying dead letters, singly and in batches.

use futures::future::join;
use jiff::{SignedDuration, Timestamp};
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::{DeadLetterId, ReplayBatchId, ReplayId};
use retro_core::replay::{
    BatchAction, BatchProgress, ReplayOutcome, ReplayPace, StopReason, decide_batch_action,
};
use retro_core::retrospective::{Retrospective, WorkflowState};

use super::Database;
use super::cancel::{fail_retrospective, new_act};
use super::delivery::new_dead_letter;
use super::scenario::{Scenario, test_tenant};
use crate::{
    AuditAction, CancelBatchResult, DeadLetter, DeadLetterFilter, DeadLetterStatus, DiscardResult,
    IncomingReplay, MessageContent, NewDeadLetter, NewReplayBatch, OutgoingReplay, ReplayBatchRow,
    ReplayBatchState, ReplayRow, ReplayState, RequestReplayResult, Store,
};

/// Timeout, in seconds, after which a replay is presumed lost; too long to expire during a case.
const NEVER_S: u64 = 1_000_000;

/// Checks that a replay has the payload, subject and headers of the original message, except broker headers,
/// and its own message id.
pub async fn a_dead_letter_is_replayed_unchanged_under_another_id(database: &Database) {
    let mut original = new_dead_letter(1);
    original.headers.insert(0, ("Nats-Msg-Id".to_owned(), "first".to_owned()));
    original.headers.push(("traceparent".to_owned(), "00-1-2-01".to_owned()));
    original.headers.push(("retro-replay".to_owned(), "a forged one".to_owned()));
    let id = database.one.store_dead_letter(&original).await.expect("storing");
    let replay = request_replay(database, id, "ann").await;
    assert_eq!((replay.number, replay.version, replay.state), (1, 0, ReplayState::Waiting));
    let sendings = database.two.list_due_replays(9, NEVER_S).await.expect("reading");
    let [sending] = &sendings[..] else { panic!("one is due: {sendings:?}") };
    assert_eq!(
        (sending.id, &sending.subject, &sending.payload),
        (replay.id, &original.subject, &original.payload)
    );
    let mut headers = new_dead_letter(1).headers;
    headers.push(("traceparent".to_owned(), "00-1-2-01".to_owned()));
    headers.push(("Retro-Replay".to_owned(), replay.id.to_string()));
    headers.push(("Retro-Original-Msg-Id".to_owned(), "first".to_owned()));
    assert_eq!(sending.headers, headers);
    let stored = load_dead_letter(database, id).await;
    assert_eq!((stored.status, stored.replays, stored.message), (DeadLetterStatus::Replaying, 1, original));
    let audit_rows = database.two.list_audit_rows(&test_tenant("t"), id.0).await.expect("reading");
    assert_eq!(
        (audit_rows.len(), audit_rows[0].action, &audit_rows[0].act),
        (1, AuditAction::Replayed, &new_act("ann"))
    );
    database.two.mark_replay_sent(replay.id).await.expect("marking");
    assert_eq!(database.one.list_due_replays(9, NEVER_S).await.expect("reading"), []);
    let rows = database.one.list_replays(&test_tenant("t"), id).await.expect("reading");
    assert_eq!((rows[0].state, rows[0].publications), (ReplayState::Sent, 1));
}

/// Checks that only one of two concurrent requests schedules a replay, and that the other returns it.
pub async fn of_two_concurrent_replay_requests_one_takes_effect(database: &Database) {
    let id = database.one.store_dead_letter(&new_dead_letter(1)).await.expect("storing");
    let (t, ann, bob) = (test_tenant("t"), new_act("ann"), new_act("bob"));
    let (one, two) = join(
        database.one.replay_dead_letter(&t, id, None, &ann),
        database.two.replay_dead_letter(&t, id, None, &bob),
    )
    .await;
    let (one, two) = (one.expect("replaying"), two.expect("replaying"));
    let (now, before) =
        if matches!(one, RequestReplayResult::Scheduled(_)) { (one, two) } else { (two, one) };
    let (RequestReplayResult::Scheduled(now), RequestReplayResult::AlreadyRequested(before)) = (now, before)
    else {
        panic!("one effect")
    };
    assert_eq!(now, before);
    assert_eq!(database.one.list_replays(&t, id).await.expect("reading"), [now]);
    assert_eq!(database.one.list_audit_rows(&t, id.0).await.expect("reading").len(), 1);
}

/// Checks that the outcome of a replay is stored, and that a repeated request returns it.
pub async fn the_outcome_of_a_replay_is_stored_with_its_dead_letter(database: &Database) {
    for (number, known) in [(1, false), (2, true)] {
        let id = database.one.store_dead_letter(&new_dead_letter(number)).await.expect("storing");
        let row = request_replay(database, id, "ann").await;
        let sending = send_replay(database, &row).await;
        assert!(end_replay(database, &sending, known).await, "it is the one that was sent");
        assert!(!end_replay(database, &sending, false).await, "a replay ends only once");
        assert_eq!(load_dead_letter(database, id).await.status, DeadLetterStatus::Handled);
        let RequestReplayResult::AlreadyRequested(row) = database
            .two
            .replay_dead_letter(&test_tenant("t"), id, None, &new_act("bob"))
            .await
            .expect("replaying")
        else {
            panic!("it was handled")
        };
        let outcome = if known { ReplayOutcome::Known } else { ReplayOutcome::Handled };
        assert_eq!(
            (row.act.by.as_str(), row.state, row.outcome),
            ("ann", ReplayState::Handled, Some(outcome))
        );
        assert!(row.ended_at.is_some());
        let discarded = database
            .one
            .discard_dead_letters(&test_tenant("t"), &[id], &new_act("bob"))
            .await
            .expect("discarding");
        assert!(matches!(discarded[..], [DiscardResult::Replayed(_)]), "{discarded:?}");
    }
}

/// Checks that a failed replay reopens its dead letter instead of creating a second one, and that each replay
/// counts its attempts from 1.
pub async fn a_failed_replay_reopens_its_dead_letter_without_a_second_one(database: &Database) {
    let id = database.one.store_dead_letter(&new_dead_letter(1)).await.expect("storing");
    for number in 1..=2 {
        let row = request_replay(database, id, "ann").await;
        assert_eq!(row.number, number);
        let repeated = fail_again(&send_replay(database, &row).await, 10 + u64::from(number));
        assert_eq!(database.two.store_dead_letter(&repeated).await.expect("storing"), id);
        assert_eq!(database.two.store_dead_letter(&repeated).await.expect("it comes again"), id);
        let stored = load_dead_letter(database, id).await;
        assert_eq!((stored.status, stored.replays), (DeadLetterStatus::Open, number));
        assert_eq!(stored.message, new_dead_letter(1), "it is as it came");
    }
    let rows = database.one.list_replays(&test_tenant("t"), id).await.expect("reading");
    let rejection = Rejection::of_message(DeadLetterCode::AttemptsExhausted, "once more");
    let failed = ReplayOutcome::Failed { rejection, attempts: 5 };
    assert!(rows.iter().all(|row| row.outcome.as_ref() == Some(&failed)), "{rows:?}");
    let history = database.one.list_attempts(&test_tenant("t"), id).await.expect("reading");
    let last: Vec<_> = history.iter().filter_map(|attempt| attempt.code).collect();
    assert_eq!(
        last,
        [DeadLetterCode::FieldInvalid, DeadLetterCode::AttemptsExhausted, DeadLetterCode::AttemptsExhausted],
        "{history:?}"
    );
    let filter = DeadLetterFilter { limit: 9, ..Default::default() };
    assert_eq!(database.one.list_dead_letters(&test_tenant("t"), &filter).await.expect("listing").len(), 1);
}

/// Checks that a message is accepted as a replay only if it is identical to the one sent, because any
/// publisher can forge the replay header.
pub async fn a_message_is_accepted_as_a_replay_only_if_it_equals_what_was_sent(database: &Database) {
    let id = database.one.store_dead_letter(&new_dead_letter(1)).await.expect("storing");
    let row = request_replay(database, id, "ann").await;
    let sending = send_replay(database, &row).await;
    let other = "retro.run.completed.other.w".to_owned();
    let mut header = sending.clone();
    header.headers.push(("ce-source".to_owned(), "/another".to_owned()));
    let unknown = OutgoingReplay::from_dead_letter(
        ReplayId::of_dead_letter(id, 7),
        &new_dead_letter(1),
        MessageContent::from(&new_dead_letter(1)),
    );
    let forged = [
        OutgoingReplay { subject: other, ..sending.clone() },
        OutgoingReplay { payload: b"another".to_vec(), ..sending.clone() },
        header,
        unknown,
    ];
    for (place, forged) in forged.iter().enumerate() {
        assert!(!end_replay(database, forged, false).await, "{forged:?}");
        let stored_row =
            database.one.store_dead_letter(&fail_again(forged, 20 + place as u64)).await.expect("storing");
        assert_ne!(stored_row, id, "it is a letter of its own: {forged:?}");
    }
    let elsewhere =
        IncomingReplay::from_message("writer", &sending.subject, &sending.headers, &sending.payload);
    assert!(!database.one.end_replay(&elsewhere.expect("it names one"), false).await.expect("settling"));
    assert_eq!(load_dead_letter(database, id).await.status, DeadLetterStatus::Replaying);
    assert!(end_replay(database, &sending, false).await, "the genuine replay is accepted");
}

/// Checks that a replay without a result is sent again with the same id, because the relay may crash before
/// marking it and the broker may lose it.
pub async fn a_replay_without_a_result_is_sent_again_under_its_id(database: &Database) {
    let id = database.one.store_dead_letter(&new_dead_letter(1)).await.expect("storing");
    let row = request_replay(database, id, "ann").await;
    let first = send_replay(database, &row).await;
    let repeated = database.two.list_due_replays(9, 0).await.expect("reading");
    assert_eq!(repeated, std::slice::from_ref(&first), "lost at once");
    database.two.mark_replay_sent(row.id).await.expect("marking");
    assert!(end_replay(database, &first, false).await);
    database.two.mark_replay_sent(row.id).await.expect("a late mark is harmless");
    assert_eq!(database.one.list_due_replays(9, 0).await.expect("reading"), []);
    let rows = database.one.list_replays(&test_tenant("t"), id).await.expect("reading");
    assert_eq!((rows[0].state, rows[0].publications), (ReplayState::Handled, 3));
}

/// Checks that a replay refused by the broker, for its subject or a header, reopens the dead letter.
pub async fn a_replay_refused_by_the_broker_leaves_its_dead_letter_open(database: &Database) {
    let id = database.one.store_dead_letter(&new_dead_letter(1)).await.expect("storing");
    let row = request_replay(database, id, "ann").await;
    for _ in 0..2 {
        database.two.refuse_replay(row.id, "no permission").await.expect("refusing");
    }
    assert_eq!(load_dead_letter(database, id).await.status, DeadLetterStatus::Open);
    let rows = database.one.list_replays(&test_tenant("t"), id).await.expect("reading");
    let unknown = ReplayId::of_dead_letter(id, 7);
    let ended = database.one.find_ended_replays(&[unknown, row.id]).await.expect("reading");
    assert_eq!(ended, [row.id], "the other one does not exist");
    assert_eq!(rows[0].outcome, Some(ReplayOutcome::Refused { error: "no permission".to_owned() }));
    assert_eq!(database.one.list_due_replays(9, 0).await.expect("reading"), []);
}

/// Checks that replays are due at intervals, whoever requested them.
pub async fn replays_are_spaced(database: &Database) {
    let mut due = Vec::new();
    for number in 1..=3 {
        let id = database.one.store_dead_letter(&new_dead_letter(number)).await.expect("storing");
        due.push(request_replay(database, id, "ann").await.due_at);
    }
    let gap = ReplayPace::default().send_interval();
    assert!(due.windows(2).all(|two| two[1].duration_since(two[0]) >= gap), "{due:?}");
}

/// Checks that the first replay of a slow batch is due immediately, and that it delays no replay requested
/// after it.
pub async fn a_slow_batch_delays_no_other_replay(database: &Database) {
    let ids = store_dead_letters(database, 4).await;
    let before = request_replay(database, ids[0], "ann").await.due_at;
    let slow = ReplayPace { rate_milli: 1, ..ReplayPace::default() };
    let batch = start_batch(database, &ids[1..3], slow).await;
    assert_eq!(step_batch(&*database.one, batch).await, Some(BatchAction::Release(1)));
    assert_eq!(
        step_batch(&*database.one, batch).await,
        Some(BatchAction::Wait),
        "the other one keeps to the pace"
    );
    let after = request_replay(database, ids[3], "bob").await.due_at;
    assert!(after.duration_since(before) < slow.send_interval() / 2, "{before} and then {after}");
}

/// Checks that a discarded dead letter keeps its content and can still be replayed.
pub async fn a_discarded_dead_letter_is_kept_and_can_be_replayed(database: &Database) {
    let ids = [
        database.one.store_dead_letter(&new_dead_letter(1)).await.expect("storing"),
        database.one.store_dead_letter(&new_dead_letter(2)).await.expect("storing"),
    ];
    let missing = DeadLetterId(retro_core::id::derive_uuid("nothing", &[]));
    let t = test_tenant("t");
    let answers =
        database.one.discard_dead_letters(&t, &[ids[0], missing], &new_act("ann")).await.expect("discarding");
    assert_eq!(answers, [DiscardResult::Discarded, DiscardResult::NotFound]);
    let answers = database.two.discard_dead_letters(&t, &ids, &new_act("bob")).await.expect("discarding");
    assert_eq!(answers, [DiscardResult::AlreadyDiscarded(new_act("ann")), DiscardResult::Discarded]);
    assert_eq!(load_dead_letter(database, ids[0]).await.status, DeadLetterStatus::Discarded);
    assert_eq!(load_dead_letter(database, ids[0]).await.message, new_dead_letter(1));
    assert_eq!(database.one.load_health().await.expect("health").dead_letters_open, 0);
    let row = request_replay(database, ids[0], "cem").await;
    assert!(end_replay(database, &send_replay(database, &row).await, false).await);
    assert_eq!(load_dead_letter(database, ids[0]).await.status, DeadLetterStatus::Handled);
    let content = database.one.find_replay_content(&t, ids[0], None).await.expect("reading");
    assert_eq!(content, Some((0, MessageContent::from(&new_dead_letter(1)))));
    assert_eq!(database.one.find_replay_content(&t, ids[0], Some(9)).await.expect("reading"), None);
    let none =
        database.one.replay_dead_letter(&t, ids[1], Some(9), &new_act("ann")).await.expect("replaying");
    assert_eq!(none, RequestReplayResult::UnknownVersion);
}

/// Checks that a batch replays its first few dead letters alone, and starts no more replays if one of them
/// fails.
pub async fn a_batch_stops_when_one_of_its_first_replays_fails(database: &Database) {
    let ids = store_dead_letters(database, 5).await;
    let pace = ReplayPace { canary: 2, ..ReplayPace::default() };
    let batch = start_batch(database, &ids, pace).await;
    assert_eq!(start_batch(database, &ids, pace).await, batch, "the same request is one batch");
    assert_eq!(database.two.list_open_batches().await.expect("reading"), [batch]);
    assert_eq!(step_batch(&*database.one, batch).await, Some(BatchAction::Release(2)));
    assert_eq!(step_batch(&*database.two, batch).await, Some(BatchAction::Wait));
    assert_eq!(load_batch(database, batch).await.progress, new_progress(3, 2, 0, 0, 0));
    for (place, id) in ids[..2].iter().enumerate() {
        let replay = database.one.list_replays(&test_tenant("t"), *id).await.expect("reading").remove(0);
        assert_eq!(replay.batch, Some(batch));
        let sending = send_replay(database, &replay).await;
        match place {
            0 => assert!(end_replay(database, &sending, false).await),
            _ => assert_eq!(
                database.one.store_dead_letter(&fail_again(&sending, 20)).await.expect("storing"),
                *id
            ),
        }
    }
    assert_eq!(
        step_batch(&*database.one, batch).await,
        Some(BatchAction::Stop(StopReason::CanaryFailed { failed: 1, of: 2 }))
    );
    assert_eq!(step_batch(&*database.one, batch).await, None, "it has ended");
    let stopped = load_batch(database, batch).await;
    assert_eq!((stopped.state, stopped.progress), (ReplayBatchState::Stopped, new_progress(3, 0, 1, 1, 0)));
    assert_eq!(stopped.end_reason.as_deref(), Some("1 of the 2 that went first failed again"));
    assert_eq!(load_dead_letter(database, ids[2]).await.status, DeadLetterStatus::Open, "it was not touched");
    assert_eq!(database.two.list_open_batches().await.expect("reading"), []);
    let (_, dead_letters) = database
        .two
        .find_replay_batch(&test_tenant("t"), batch, 2)
        .await
        .expect("reading")
        .expect("the row exists");
    let result: Vec<_> = dead_letters.iter().map(|one| (one.dead_letter, one.state.as_str())).collect();
    assert_eq!(result, [(ids[0], "handled"), (ids[1], "failed")]);
}

/// Checks that a batch skips dead letters on which another operator has acted, and replays all others.
pub async fn a_batch_skips_dead_letters_that_changed_meanwhile(database: &Database) {
    let ids = store_dead_letters(database, 3).await;
    let others = NewDeadLetter { tenant: Some(test_tenant("other")), ..new_dead_letter(9) };
    let theirs = database.one.store_dead_letter(&others).await.expect("storing");
    let batch = start_batch(database, &[&ids[..], &[theirs]].concat(), ReplayPace::default()).await;
    database
        .one
        .discard_dead_letters(&test_tenant("t"), &ids[..1], &new_act("bob"))
        .await
        .expect("discarding");
    assert_eq!(step_batch(&*database.one, batch).await, Some(BatchAction::Release(3)));
    assert_eq!(load_batch(database, batch).await.progress, new_progress(0, 2, 0, 0, 1));
    for id in &ids[1..] {
        let replay = database.one.list_replays(&test_tenant("t"), *id).await.expect("reading").remove(0);
        assert!(end_replay(database, &send_replay(database, &replay).await, true).await);
    }
    assert_eq!(step_batch(&*database.two, batch).await, Some(BatchAction::Done));
    let done = load_batch(database, batch).await;
    assert_eq!((done.state, done.progress), (ReplayBatchState::Done, new_progress(0, 0, 2, 0, 1)));
    assert_eq!(load_dead_letter(database, ids[0]).await.status, DeadLetterStatus::Discarded);
    assert_eq!(
        load_dead_letter(database, theirs).await.status,
        DeadLetterStatus::Open,
        "another tenant's is not in it"
    );
}

/// Checks that replays in progress continue after a cancellation, and that a second cancellation finds the
/// batch ended.
pub async fn a_cancelled_batch_starts_no_more_replays(database: &Database) {
    let ids = store_dead_letters(database, 3).await;
    let pace = ReplayPace { canary: 1, ..ReplayPace::default() };
    let batch = start_batch(database, &ids, pace).await;
    step_batch(&*database.one, batch).await;
    let t = test_tenant("t");
    let cancel = |by: &'static str| {
        let (t, act) = (&t, new_act(by));
        async move { database.two.cancel_replay_batch(t, batch, &act).await.expect("cancelling") }
    };
    assert!(
        matches!(cancel("ann").await, CancelBatchResult::Cancelled(row) if row.state == ReplayBatchState::Stopped)
    );
    let CancelBatchResult::AlreadyEnded(row) = cancel("bob").await else { panic!("it had ended") };
    assert!(row.end_reason.is_some_and(|reason| reason.contains("ann")));
    assert_eq!(step_batch(&*database.one, batch).await, None);
    let replay = database.one.list_replays(&t, ids[0]).await.expect("reading").remove(0);
    assert!(end_replay(database, &send_replay(database, &replay).await, false).await);
    assert_eq!(self::load_batch(database, batch).await.progress, new_progress(2, 0, 1, 0, 0));
    let audit_rows = database.one.list_audit_rows(&t, batch.0).await.expect("reading");
    assert_eq!(
        (audit_rows.len(), audit_rows[0].action, audit_rows[0].act.by.as_str()),
        (1, AuditAction::Cancelled, "ann")
    );
}

/// Checks that a batch reopens the failed retrospective that a dead letter records, instead of sending a
/// message.
pub async fn a_failed_retrospective_in_a_batch_opens_the_next_one(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let dead_letter = fail_retrospective(&scenario, ["a", "b"]).await;
    let alone = database
        .one
        .replay_dead_letter(&test_tenant("t"), dead_letter, None, &new_act("ann"))
        .await
        .expect("replaying");
    assert_eq!(alone, RequestReplayResult::ReopenInstead);
    let batch = start_batch(database, &[dead_letter], ReplayPace::default()).await;
    assert_eq!(step_batch(&*database.two, batch).await, Some(BatchAction::Release(1)));
    assert_eq!(step_batch(&*database.two, batch).await, Some(BatchAction::Done));
    assert_eq!(load_batch(database, batch).await.progress, new_progress(0, 0, 1, 0, 0));
    assert_eq!(load_dead_letter(database, dead_letter).await.status, DeadLetterStatus::Replayed);
    assert_eq!(scenario.latest_retrospective().await.epoch, 2);
    let repeated = database
        .one
        .discard_dead_letters(&test_tenant("t"), &[dead_letter], &new_act("ann"))
        .await
        .expect("discarding");
    assert_eq!(repeated, [DiscardResult::Reopened]);
}

/// Checks that two processes that advance a batch concurrently have the same result as one (law 13).
pub async fn two_processes_advancing_a_batch_leave_what_one_would_have_left(database: &Database) {
    let ids = store_dead_letters(database, 8).await;
    let batch = start_batch(database, &ids, ReplayPace { rate_milli: 1, ..ReplayPace::default() }).await;
    let (one, two) = join(step_batch(&*database.one, batch), step_batch(&*database.two, batch)).await;
    let mut both = [one, two];
    both.sort_by_key(|next| matches!(next, Some(BatchAction::Wait)));
    assert_eq!(both, [Some(BatchAction::Release(1)), Some(BatchAction::Wait)]);
    assert_eq!(load_batch(database, batch).await.progress, new_progress(7, 1, 0, 0, 0));
}

async fn store_dead_letters(database: &Database, count: u64) -> Vec<DeadLetterId> {
    let mut ids = Vec::new();
    for number in 1..=count {
        ids.push(database.one.store_dead_letter(&new_dead_letter(number)).await.expect("storing"));
    }
    ids
}

pub(super) async fn start_batch(
    database: &Database,
    ids: &[DeadLetterId],
    pace: ReplayPace,
) -> ReplayBatchId {
    let dead_letters = ids.iter().map(|id| (*id, DeadLetterStatus::Open)).collect();
    let new = NewReplayBatch { filter_text: "all".to_owned(), dead_letters, pace, act: new_act("ann") };
    database.one.start_replay_batch(&test_tenant("t"), &new).await.expect("starting")
}

async fn step_batch(store: &dyn Store, batch: ReplayBatchId) -> Option<BatchAction> {
    let reopen = |failed: &Retrospective, mut state: WorkflowState| {
        let opening = state.reopen_after(failed, &failed.policy, super::scenario::time_at(20))?;
        Ok((state, opening))
    };
    let decide = |pace: &ReplayPace, progress: &BatchProgress, due: Timestamp, now: Timestamp| {
        assert!(
            now.duration_since(due).abs() < SignedDuration::from_hours(1),
            "both times come from the same clock"
        );
        decide_batch_action(pace, progress, due, now)
    };
    store.step_replay_batch(batch, &decide, &reopen).await.expect("advancing")
}

async fn load_batch(database: &Database, batch: ReplayBatchId) -> ReplayBatchRow {
    let rows = database.two.list_replay_batches(&test_tenant("t"), 9).await.expect("listing");
    rows.into_iter().find(|row| row.id == batch).expect("the row exists")
}

const fn new_progress(
    waiting: u32,
    under_way: u32,
    handled: u32,
    failed: u32,
    skipped: u32,
) -> BatchProgress {
    BatchProgress { waiting, under_way, handled, failed, skipped }
}

pub(super) async fn request_replay(database: &Database, id: DeadLetterId, by: &str) -> ReplayRow {
    match database.one.replay_dead_letter(&test_tenant("t"), id, None, &new_act(by)).await.expect("replaying")
    {
        RequestReplayResult::Scheduled(row) => row,
        other => panic!("nothing blocks it: {other:?}"),
    }
}

/// Marks a replay as sent and returns its message. Ignores the due time, so no case waits for it.
async fn send_replay(database: &Database, row: &ReplayRow) -> OutgoingReplay {
    let dead_letter = load_dead_letter(database, row.dead_letter).await.message;
    database.one.mark_replay_sent(row.id).await.expect("marking");
    OutgoingReplay::from_dead_letter(row.id, &dead_letter, MessageContent::from(&dead_letter))
}

async fn end_replay(database: &Database, sending: &OutgoingReplay, known: bool) -> bool {
    let resent =
        IncomingReplay::from_message("counter", &sending.subject, &sending.headers, &sending.payload);
    database.two.end_replay(&resent.expect("it names a replay"), known).await.expect("settling")
}

/// Creates the dead letter of a failed replay, at another position of the stream.
fn fail_again(sending: &OutgoingReplay, sequence: u64) -> NewDeadLetter {
    let mut headers = sending.headers.clone();
    headers.push(("Nats-Msg-Id".to_owned(), sending.id.to_string()));
    headers.reverse();
    NewDeadLetter {
        subject: sending.subject.clone(),
        headers,
        payload: sending.payload.clone(),
        rejection: Rejection::of_message(DeadLetterCode::AttemptsExhausted, "once more"),
        attempts: 5,
        ..new_dead_letter(sequence)
    }
}

async fn load_dead_letter(database: &Database, id: DeadLetterId) -> DeadLetter {
    for name in ["t", "other"] {
        if let Some(dead_letter) =
            database.two.find_dead_letter(&test_tenant(name), id).await.expect("reading")
        {
            return dead_letter;
        }
    }
    panic!("the dead letter {id} is missing")
}
