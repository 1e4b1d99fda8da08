//! Conformance cases for the stream checks.

use futures::future::join;
use retro_core::attribution::Attribution;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::EventKey;
use retro_core::message::Notice;
use retro_core::retention::SeenContent;

use super::Database;
use super::delivery::begin_next_attempt;
use super::scenario::{Scenario, new_run, test_tenant, time_at};
use crate::broker::{
    Loss, LossKey, RepublishScope, StreamCheck, StreamObservation, StreamReplacement, WaitingMessage,
};
use crate::{DeliveryPosition, NewDeadLetter, Store, track};

const INTAKE: &str = "INTAKE";
const NOTHING: [u64; 0] = [];
/// Two consumers that record handled events in the inbox.
const READERS: [&str; 2] = ["counter", "tracker"];

/// Creates an observation, including the stored state that every process must read before it observes the
/// stream.
async fn new_observation(store: &dyn Store, made: &str, last: u64, handled: u64) -> StreamObservation {
    let known_before = store.load_stream(INTAKE).await.expect("reading");
    let (stream, made) = (INTAKE.to_owned(), made.to_owned());
    StreamObservation {
        stream,
        known_before,
        created: made,
        first: 1,
        last,
        anchor: None,
        anchor_before: None,
        handled,
    }
}

fn waiting_message(workflow: &str, id: &str) -> WaitingMessage {
    let event = new_run(&super::scenario::workflow_key("t", workflow), id).arrival.event;
    let consumers = vec!["counter".to_owned()];
    WaitingMessage { subject: format!("runs.t.{workflow}"), event: Some(event), consumers }
}

async fn check_stream(store: &dyn Store, made: &str, last: u64, handled: u64) -> StreamCheck {
    record_observation(store, &new_observation(store, made, last, handled).await).await
}

async fn record_observation(store: &dyn Store, observation: &StreamObservation) -> StreamCheck {
    store.record_observation(observation, &[], RepublishScope::Nothing).await.expect("checking")
}

const fn recognized_check(number: u64, named_to: u64) -> StreamCheck {
    StreamCheck::Recognized { number, named_up_to: named_to, lost: Vec::new() }
}

/// Performs the two checks that detect a replaced stream. Returns the incarnation of the new stream and the
/// consequences.
async fn replace_stream(
    store: &dyn Store,
    made: &str,
    last: u64,
    feed: RepublishScope,
) -> (u64, StreamReplacement) {
    let first = new_observation(store, made, last, 0).await;
    assert_eq!(store.record_observation(&first, &[], feed).await.expect("checking"), StreamCheck::Suspected);
    assert_eq!(
        store.record_observation(&first, &[], feed).await.expect("checking"),
        StreamCheck::Stale,
        "it is the same observation"
    );
    let second = new_observation(store, made, last, 0).await;
    match store.record_observation(&second, &[], feed).await.expect("checking") {
        StreamCheck::Replaced { number, replacement: anew } => (number, anew),
        other => panic!("two checks are enough: {other:?}"),
    }
}

async fn replace_with_now(store: &dyn Store, feed: RepublishScope) -> StreamReplacement {
    replace_stream(store, "now", 0, feed).await.1
}

/// Checks that a stream is recognised by its creation time and a last position that does not decrease.
pub async fn a_stream_with_the_same_creation_time_that_grows_is_recognized(database: &Database) {
    let (one, two) = (&*database.one, &*database.two);
    assert_eq!(check_stream(one, "then", 5, 3).await, recognized_check(1, 0));
    for (last, handled) in [(5, 3), (9, 9), (9, 4)] {
        assert_eq!(
            check_stream(two, "then", last, handled).await,
            recognized_check(1, 0),
            "{last} {handled}"
        );
    }
    let (number, shorter) = replace_stream(one, "then", 8, RepublishScope::Nothing).await;
    assert_eq!((number, shorter.lost), (2, vec![]), "an older copy of it, and everything in it was handled");
    let (number, other) = replace_stream(two, "now", 100, RepublishScope::Nothing).await;
    assert_eq!((number, other.previous_created_at.as_str()), (3, "then"));
}

/// Checks that a stream counts as replaced if its last known message has a different storage time, because it
/// is an older copy that has grown past that message.
pub async fn a_stream_is_another_when_the_message_at_its_end_was_stored_at_another_time(database: &Database) {
    let store = &*database.one;
    let first =
        StreamObservation { anchor: Some("noon".to_owned()), ..new_observation(store, "then", 5, 5).await };
    assert_eq!(record_observation(store, &first).await, recognized_check(1, 0));
    let checks = ["noon", "one", "one"].map(|stored| Some(stored.to_owned()));
    let mut shown = Vec::new();
    for anchor_before in checks {
        let anchor = Some("noon".to_owned());
        let observation =
            StreamObservation { anchor, anchor_before, ..new_observation(store, "then", 5, 5).await };
        shown.push(matches!(record_observation(store, &observation).await, StreamCheck::Replaced { .. }));
    }
    assert_eq!(shown, [false, false, true]);
}

/// Checks that the observation of a process that was delayed after reading the broker is ignored rather than
/// taken for a loss.
pub async fn an_overtaken_observation_is_stale(database: &Database) {
    let (one, two) = (&*database.one, &*database.two);
    let (begins, late) =
        (new_observation(one, "then", 90, 90).await, new_observation(two, "then", 80, 80).await);
    assert_eq!(record_observation(one, &begins).await, recognized_check(1, 0));
    assert_eq!(record_observation(two, &late).await, StreamCheck::Stale, "it had never seen the stream");
    let held_up = new_observation(one, "then", 95, 95).await;
    assert_eq!(check_stream(two, "then", 100, 97).await, recognized_check(1, 0));
    assert_eq!(record_observation(one, &held_up).await, StreamCheck::Stale);
    let known = one.load_stream(INTAKE).await.expect("reading").expect("it was seen");
    assert_eq!((known.number, known.seen_to, known.handled_to), (1, 100, 97));
    assert_eq!((known.suspected, one.list_losses().await.expect("reading")), (None, vec![]));
}

/// Checks that a stream suspected by one check and recognised by the next is not replaced.
pub async fn a_suspicion_is_cleared_when_the_stream_is_recognized(database: &Database) {
    let (one, two) = (&*database.one, &*database.two);
    check_stream(one, "then", 9, 9).await;
    let older = new_observation(two, "then", 12, 12).await;
    assert_eq!(check_stream(one, "now", 0, 0).await, StreamCheck::Suspected);
    assert_eq!(record_observation(two, &older).await, StreamCheck::Stale, "it was observed earlier");
    assert_eq!(check_stream(two, "then", 12, 12).await, recognized_check(1, 0));
    assert_eq!(check_stream(one, "now", 0, 0).await, StreamCheck::Suspected, "it begins anew");
}

/// Checks that messages of a suspected or ended stream are not recorded as waiting, because they may belong
/// to another stream.
pub async fn waiting_messages_of_a_suspected_or_ended_stream_are_not_recorded(database: &Database) {
    let store = &*database.one;
    check_stream(store, "then", 3, 0).await;
    assert_eq!(check_stream(store, "now", 2, 0).await, StreamCheck::Suspected);
    store
        .record_waiting_messages(INTAKE, 1, &[(1, waiting_message("w", "of the new one"))])
        .await
        .expect("recording");
    let StreamCheck::Replaced { replacement: anew, .. } = check_stream(&*database.two, "now", 2, 0).await
    else {
        panic!("it is another stream")
    };
    assert_eq!(anew.lost.iter().map(|loss| loss.message.is_some()).collect::<Vec<_>>(), [false]);
    store
        .record_waiting_messages(INTAKE, 1, &[(2, waiting_message("w", "too late"))])
        .await
        .expect("recording");
    assert_eq!(check_stream(store, "now", 2, 0).await, recognized_check(2, 0));
}

/// Checks that messages contained in the new stream are not lost. The stream may be an older copy, or the
/// events may have been emitted again.
pub async fn messages_held_by_the_new_stream_are_not_lost_and_wait_there(database: &Database) {
    let store = &*database.one;
    check_stream(store, "then", 3, 0).await;
    let names =
        [(1, waiting_message("w", "a")), (2, waiting_message("w", "b")), (3, waiting_message("w", "c"))];
    store.record_waiting_messages(INTAKE, 1, &names).await.expect("recording");
    assert_eq!(check_stream(store, "then", 2, 0).await, StreamCheck::Suspected);
    let older = new_observation(store, "then", 2, 0).await;
    let check =
        store.record_observation(&older, &names[..2], RepublishScope::Nothing).await.expect("checking");
    let StreamCheck::Replaced { replacement: anew, .. } = check else {
        panic!("it has lost its end: {check:?}")
    };
    assert_eq!(
        anew.lost.iter().map(|loss| loss.message.clone()).collect::<Vec<_>>(),
        [Some(waiting_message("w", "c"))]
    );
    assert_eq!(check_stream(store, "then", 2, 0).await, recognized_check(2, 2), "they wait there");
    let lost = replace_with_now(&*database.two, RepublishScope::Nothing).await.lost;
    let result: Vec<_> = lost.into_iter().filter_map(|loss| loss.message).collect();
    assert_eq!(result, [waiting_message("w", "a"), waiting_message("w", "b")]);
}

/// Checks that closing a loss stores its attribution, and that a closed loss is no longer listed as open and
/// cannot be closed again.
pub async fn a_loss_is_closed_once_with_person_and_reason(database: &Database) {
    let (one, two) = (&*database.one, &*database.two);
    check_stream(one, "then", 4, 0).await;
    one.record_waiting_messages(INTAKE, 1, &[(1, waiting_message("w", "a")), (2, waiting_message("w", "b"))])
        .await
        .expect("recording");
    let lost = replace_with_now(one, RepublishScope::Nothing).await.lost;
    let keys: Vec<_> = lost.iter().map(Loss::key).collect();
    assert_eq!(
        keys.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["INTAKE/1/1", "INTAKE/1/2", "INTAKE/1/3"]
    );
    let attribution = |by: &str| Attribution {
        by: by.to_owned(),
        with_token: None,
        reason: "nothing was lost".to_owned(),
        at: time_at(7),
    };
    let never = LossKey { first: 9, ..keys[0].clone() };
    let closed = two.close_losses(&[keys[0].clone(), keys[2].clone(), never], &attribution("ana")).await;
    assert_eq!(closed.expect("closing"), [keys[0].clone(), keys[2].clone()]);
    assert_eq!(one.list_losses().await.expect("reading"), lost[1..2]);
    assert_eq!(one.close_losses(&keys, &attribution("ben")).await.expect("closing"), keys[1..2]);
    let result = two.list_closed_losses().await.expect("reading");
    let who: Vec<_> = result.iter().map(|one| (one.loss.clone(), one.act.clone())).collect();
    let by = ["ana", "ben", "ana"].map(attribution);
    assert_eq!(who, lost.into_iter().zip(by).collect::<Vec<_>>());
    assert_eq!(one.list_losses().await.expect("reading"), []);
}

/// Checks that lost messages are reported with their identity if they were recorded as waiting, and as a
/// range of positions otherwise.
pub async fn messages_lost_with_a_stream_are_reported_unless_handled_or_dead_lettered(database: &Database) {
    let store = &*database.one;
    check_stream(store, "then", 9, 3).await;
    let waiting = [
        (4, waiting_message("w", "counted")),
        (5, waiting_message("w", "lost")),
        (6, waiting_message("w", "given up")),
    ];
    store.record_waiting_messages(INTAKE, 1, &waiting).await.expect("recording");
    database
        .two
        .record_waiting_messages(INTAKE, 1, &waiting[1..])
        .await
        .expect("recording again is harmless");
    assert_eq!(check_stream(store, "then", 9, 3).await, recognized_check(1, 6));
    Scenario::new(store, "t", "w").count_runs(&["counted"]).await;
    store.store_dead_letter(&new_dead_letter(6)).await.expect("storing");
    let lost = replace_with_now(&*database.two, RepublishScope::Nothing).await.lost;
    let result: Vec<_> = lost.iter().map(|loss| (loss.positions.clone(), loss.message.clone())).collect();
    assert_eq!(result, [(5..=5, Some(waiting_message("w", "lost"))), (7..=9, None)]);
    assert_eq!(store.list_losses().await.expect("reading"), lost, "it is kept");
    Scenario::new(store, "t", "w").count_runs(&["lost"]).await;
    let left = store.list_losses().await.expect("reading");
    assert_eq!(left, lost[1..], "a loss that was emitted again and counted is no longer lost");
}

/// Checks that a message with several consumers counts as handled only once every consumer has handled it.
pub async fn a_message_of_several_consumers_is_lost_until_each_has_handled_it(database: &Database) {
    let store = &*database.one;
    check_stream(store, "then", 3, 0).await;
    let read_by_both =
        |id| WaitingMessage { consumers: READERS.map(str::to_owned).into(), ..waiting_message("w", id) };
    let waiting = ["counted", "tracked", "both"].map(read_by_both);
    let positions: Vec<_> = (1..).zip(waiting.clone()).collect();
    store.record_waiting_messages(INTAKE, 1, &positions).await.expect("recording");
    let tracked = |one: &WaitingMessage| track::PullRequestEvent {
        event: one.event.clone().expect("it has a name"),
        content_hash: "a hash".to_owned(),
        pull_request: None,
        commits: Vec::new(),
        trailers: Vec::new(),
        reverts: Vec::new(),
    };
    Scenario::new(store, "t", "w").count_runs(&["counted", "both"]).await;
    for one in &waiting[1..] {
        store.record_pull_request_event(&tracked(one)).await.expect("tracking");
    }
    let lost = replace_with_now(&*database.two, RepublishScope::Nothing).await.lost;
    let result: Vec<_> = lost.iter().map(|loss| loss.message.clone()).collect();
    assert_eq!(result, [Some(waiting[0].clone()), Some(waiting[1].clone())]);
    Scenario::new(store, "t", "w").count_runs(&["tracked"]).await;
    assert_eq!(store.list_losses().await.expect("reading"), lost[..1]);
    store.record_pull_request_event(&tracked(&waiting[0])).await.expect("tracking");
    assert_eq!(store.list_losses().await.expect("reading"), []);
}

/// Checks that an acknowledged message is no longer recorded as waiting.
pub async fn an_acknowledged_message_does_not_wait(database: &Database) {
    let store = &*database.one;
    check_stream(store, "then", 5, 0).await;
    store
        .record_waiting_messages(INTAKE, 1, &[(1, waiting_message("w", "a")), (2, waiting_message("w", "b"))])
        .await
        .expect("recording");
    assert_eq!(check_stream(store, "then", 5, 1).await, recognized_check(1, 2));
    assert_eq!(check_stream(store, "then", 5, 2).await, recognized_check(1, 0));
    let lost: Vec<Loss> = replace_with_now(store, RepublishScope::Nothing).await.lost;
    assert_eq!(lost.iter().map(|loss| loss.positions.clone()).collect::<Vec<_>>(), [3..=5]);
}

/// Checks that a purged or expired message is reported as lost, although the consumer's acknowledgement floor
/// has passed it.
pub async fn a_waiting_message_missing_from_its_stream_is_lost_unless_handled(database: &Database) {
    let store = &*database.one;
    check_stream(store, "then", 4, 0).await;
    let waiting = [
        (1, waiting_message("w", "counted")),
        (2, waiting_message("w", "purged")),
        (3, waiting_message("w", "given up")),
        (4, waiting_message("w", "there")),
    ];
    store.record_waiting_messages(INTAKE, 1, &waiting).await.expect("recording");
    Scenario::new(store, "t", "w").count_runs(&["counted"]).await;
    store.store_dead_letter(&new_dead_letter(3)).await.expect("storing");
    let purged = async || StreamObservation { first: 4, ..new_observation(store, "then", 4, 3).await };
    assert_eq!(
        record_observation(store, &purged().await).await,
        recognized_check(1, 4),
        "one check is not enough"
    );
    let StreamCheck::Recognized { lost: deleted, named_up_to: 4, .. } =
        record_observation(store, &purged().await).await
    else {
        panic!("it is the same stream")
    };
    let result: Vec<_> = deleted.iter().map(|loss| (loss.positions.clone(), loss.message.clone())).collect();
    assert_eq!(result, [(2..=2, Some(waiting_message("w", "purged")))]);
    assert_eq!(store.list_losses().await.expect("reading"), deleted);
    assert_eq!(
        record_observation(&*database.two, &purged().await).await,
        recognized_check(1, 4),
        "the loss is reported once"
    );
    replace_with_now(store, RepublishScope::Nothing).await;
    let stored_row = store.list_losses().await.expect("reading");
    assert_eq!(stored_row.iter().map(|loss| *loss.positions.start()).collect::<Vec<_>>(), [2, 4]);
}

/// Checks that attempts at positions of the previous stream are deleted, because the new stream reuses those
/// positions.
pub async fn attempts_at_positions_of_an_ended_stream_are_deleted(database: &Database) {
    let store = &*database.one;
    check_stream(store, "then", 5, 0).await;
    let other = DeliveryPosition { stream: "WORK".to_owned(), ..position_at(7) };
    for position in [&position_at(7), &other] {
        begin_next_attempt(store, position).await;
    }
    replace_with_now(store, RepublishScope::Nothing).await;
    assert_eq!(begin_next_attempt(store, &position_at(7)).await, 2);
    assert_eq!(begin_next_attempt(store, &other).await, 3, "another stream's stay");
}

/// Checks that wake-up messages are republished only for open retrospectives, and announcements always.
pub async fn a_replaced_stream_is_fed_again_by_the_outbox(database: &Database) {
    let store = &*database.one;
    let (open, closed) = (Scenario::new(store, "t", "open"), Scenario::new(store, "t", "closed"));
    open.count_runs(&["a", "b"]).await;
    closed.learn_lesson("a lesson").await;
    open.mark_all_sent().await;
    check_stream(store, "then", 5, 5).await;
    assert_eq!(replace_with_now(store, RepublishScope::WakeUps).await.republished, 1);
    let due = Notice::RetrospectiveDue { retrospective: open.latest_retrospective().await.id };
    assert_eq!((open.list_notices().await, closed.list_notices().await), (vec![due], vec![]));
    let fed_again = replace_stream(store, "later", 0, RepublishScope::Announcements).await.1.republished;
    let announced = closed.list_notices().await;
    assert!(!announced.is_empty() && announced.len() as u64 == fed_again, "{announced:?}");
    assert!(announced.iter().all(|notice| Notice::ANNOUNCEMENTS.contains(&notice.kind())), "{announced:?}");
}

/// Checks that two processes that detect a replaced stream concurrently republish its messages once (law 13).
pub async fn two_processes_finding_a_replaced_stream_feed_it_once(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    scenario.count_runs(&["a", "b"]).await;
    scenario.mark_all_sent().await;
    check_stream(&*database.one, "then", 3, 1).await;
    assert_eq!(check_stream(&*database.one, "now", 0, 0).await, StreamCheck::Suspected);
    let (one, two) = (
        new_observation(&*database.one, "now", 0, 0).await,
        new_observation(&*database.two, "now", 0, 0).await,
    );
    let (one, two) = join(
        database.one.record_observation(&one, &[], RepublishScope::WakeUps),
        database.two.record_observation(&two, &[], RepublishScope::WakeUps),
    )
    .await;
    let checks = [one.expect("checking"), two.expect("checking")];
    assert_eq!(
        checks.iter().filter(|check| matches!(check, StreamCheck::Replaced { number: 2, .. })).count(),
        1,
        "{checks:?}"
    );
    assert_eq!(checks.iter().filter(|check| **check == StreamCheck::Stale).count(), 1, "{checks:?}");
    assert_eq!(database.one.list_losses().await.expect("reading").len(), 1);
    assert_eq!(scenario.list_notices().await.len(), 1);
}

/// Checks that only one process reconciles a stream within a pause, measured by the database clock, and that
/// the reconciled position never decreases.
pub async fn a_stream_is_reconciled_by_one_process_within_a_pause(database: &Database) {
    let (one, two) = (&*database.one, &*database.two);
    check_stream(one, "then", 9, 9).await;
    assert_eq!(one.begin_reconciliation(INTAKE, 1, 3_600_000).await.expect("beginning"), Some(0));
    assert_eq!(two.begin_reconciliation(INTAKE, 1, 3_600_000).await.expect("beginning"), None);
    one.record_reconciled(INTAKE, 1, 7).await.expect("recording");
    two.record_reconciled(INTAKE, 1, 4).await.expect("recording");
    assert_eq!(two.begin_reconciliation(INTAKE, 1, 0).await.expect("beginning"), Some(7));
    assert_eq!(
        two.begin_reconciliation(INTAKE, 2, 0).await.expect("beginning"),
        None,
        "there is no second one"
    );
}

/// Checks that a dead letter is found by position only if the payload also matches, because a new stream
/// reuses positions.
pub async fn a_dead_lettered_message_is_found_by_position_and_payload(database: &Database) {
    let store = &*database.one;
    store.store_dead_letter(&new_dead_letter(6)).await.expect("storing");
    let hash = retro_core::canonical::sha256_hex(&new_dead_letter(6).payload);
    let request = [(5, hash.clone()), (6, hash.clone()), (6, "another".to_owned())];
    assert_eq!(database.two.find_dead_lettered("counter", INTAKE, &request).await.expect("reading"), [6]);
    assert_eq!(store.find_dead_lettered("sampler", INTAKE, &request).await.expect("reading"), NOTHING);
    assert_eq!(store.find_dead_lettered("counter", "WORK", &request).await.expect("reading"), NOTHING);
    assert_eq!(store.find_dead_lettered("counter", INTAKE, &request[2..]).await.expect("reading"), NOTHING);
    assert_eq!(store.find_dead_lettered("counter", INTAKE, &[]).await.expect("reading"), NOTHING);
}

/// Checks that a handled event is recognised even if only its digest is still stored.
pub async fn a_handled_event_is_seen_and_another_is_not(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    scenario.count_runs(&["a", "b"]).await;
    let event = |tenant_name: &str, id: &str| EventKey {
        tenant: test_tenant(tenant_name),
        ..new_run(&scenario.key, id).arrival.event
    };
    let request = [event("t", "never"), event("t", "b"), event("other", "a"), event("t", "a")];
    let seen = database.two.find_seen_events(&request).await.expect("reading");
    let hash = |id| Some(SeenContent::Full(new_run(&scenario.key, id).arrival.content_hash));
    assert_eq!(seen, [None, hash("b"), None, hash("a")]);
    database.one.purge_stage(crate::retention::RetentionStage::Events, 0, 100).await.expect("purging");
    let seen = database.two.find_seen_events(&request).await.expect("reading");
    let is = |nth: usize, id| {
        seen[nth]
            .as_ref()
            .is_some_and(|seen| seen.matches_hash(&new_run(&scenario.key, id).arrival.content_hash))
    };
    assert!(is(1, "b") && is(3, "a") && seen[0].is_none() && seen[2].is_none(), "{seen:?}");
    assert_eq!(database.two.find_seen_events(&[]).await.expect("reading"), []);
}

fn position_at(sequence: u64) -> DeliveryPosition {
    DeliveryPosition { consumer: "counter".to_owned(), stream: INTAKE.to_owned(), sequence }
}

fn new_dead_letter(sequence: u64) -> NewDeadLetter {
    NewDeadLetter {
        position: position_at(sequence),
        tenant: Some(test_tenant("t")),
        workflow: None,
        subject: "runs.t.w".to_owned(),
        headers: Vec::new(),
        payload: b"not an event".to_vec(),
        rejection: Rejection::of_message(DeadLetterCode::NotJson, "it is not JSON"),
        attempts: 1,
        stored_at: time_at(0),
    }
}
