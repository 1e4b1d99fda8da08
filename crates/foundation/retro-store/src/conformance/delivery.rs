//! Conformance cases for the outbox, delivery attempts and dead letters.

use futures::future::join;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::{MessageId, derive_uuid};
use retro_core::message::Notice;

use super::Database;
use super::scenario::{Scenario, empty_result, test_tenant, time_at, workflow_key};
use crate::{
    AttemptStart, DeadLetterFilter, DeadLetterStatus, DeliveryPosition, NewDeadLetter, Redelivery, Store,
};

/// Maximum number of attempts, as used by the program's consumers.
const ATTEMPTS_MAX: u32 = 5;

/// Checks that the outbox returns all unsent messages in order, not only those after the last sent one.
pub async fn messages_wait_in_order_until_they_are_sent(database: &Database) {
    let scenarios = ["u", "v", "w"].map(|workflow| Scenario::new(&*database.one, "t", workflow));
    for scenario in &scenarios {
        scenario.count_runs(&["a", "b"]).await;
    }
    let waiting = database.two.list_unsent_messages(10).await.expect("reading");
    let workflows: Vec<_> = waiting.iter().map(|message| message.workflow.as_str()).collect();
    assert_eq!(workflows, ["u", "v", "w"]);
    assert_eq!(database.two.list_unsent_messages(2).await.expect("reading"), waiting[..2]);
    for (scenario, message) in scenarios.iter().zip(&waiting) {
        let id = scenario.latest_retrospective().await.id;
        assert_eq!(*message, Notice::RetrospectiveDue { retrospective: id }.into_message(&scenario.key));
    }
    let unknown = MessageId(derive_uuid("nothing", &[]));
    database.one.mark_sent(&[waiting[1].id, unknown]).await.expect("marking");
    database.two.mark_sent(&[waiting[1].id]).await.expect("marking again is harmless");
    database.two.mark_sent(&[]).await.expect("marking nothing, too");
    let left: Vec<_> =
        database.one.list_unsent_messages(10).await.expect("reading").into_iter().map(|one| one.id).collect();
    assert_eq!(left, [waiting[0].id, waiting[2].id]);
}

/// Checks that attempts are counted per consumer and position before the message is handled, so a message
/// that crashes the process exhausts its attempts.
pub async fn attempts_are_counted_for_each_consumer_and_position(database: &Database) {
    let position = position_at(7);
    let (one, two) =
        join(begin_next_attempt(&*database.one, &position), begin_next_attempt(&*database.two, &position))
            .await;
    let mut both = [one, two];
    both.sort_unstable();
    assert_eq!(both, [2, 3], "the first delivery is the first attempt");
    assert_eq!(begin_next_attempt(&*database.one, &position_at(8)).await, 2);
    let other = DeliveryPosition { consumer: "sampler".to_owned(), ..position_at(7) };
    assert_eq!(begin_next_attempt(&*database.one, &other).await, 2);
    assert_eq!(begin_next_attempt(&*database.one, &position).await, 4);
}

/// Checks that no further attempts are counted for an exhausted message, even if another message repeatedly
/// crashes the process before the dead letter is stored.
pub async fn a_message_without_attempts_left_is_not_counted_further(database: &Database) {
    let message = new_redelivery(&position_at(7));
    for attempt in 2..=ATTEMPTS_MAX {
        let begun = database.one.begin_attempt(&message, ATTEMPTS_MAX).await.expect("counting");
        assert_eq!(begun, AttemptStart::Begun(attempt));
    }
    for _ in 0..3 {
        let begun = database.two.begin_attempt(&message, ATTEMPTS_MAX).await.expect("counting");
        assert_eq!(begun, AttemptStart::Exhausted);
    }
    let given_up = NewDeadLetter { attempts: ATTEMPTS_MAX, ..new_dead_letter(7) };
    let id = database.one.store_dead_letter(&given_up).await.expect("storing");
    let history = database.two.list_attempts(&test_tenant("t"), id).await.expect("reading");
    let begun: Vec<_> = history.iter().map(|attempt| attempt.attempt).collect();
    assert_eq!(begun, (2..=ATTEMPTS_MAX).collect::<Vec<_>>(), "storing a dead letter is no attempt");
    assert_eq!(
        begin_next_attempt(&*database.one, &position_at(7)).await,
        2,
        "another message in its place has attempts of its own"
    );
}

/// Checks that only one of two processes can begin the last attempt concurrently (law 13).
pub async fn of_two_that_begin_the_last_attempt_at_once_one_may(database: &Database) {
    let message = new_redelivery(&position_at(7));
    let (one, two) =
        join(database.one.begin_attempt(&message, 2), database.two.begin_attempt(&message, 2)).await;
    let both = [one.expect("counting"), two.expect("counting")];
    assert!(both.contains(&AttemptStart::Begun(2)) && both.contains(&AttemptStart::Exhausted), "{both:?}");
}

/// Checks that a redelivered message that is already a dead letter gets no sixth attempt.
pub async fn a_message_that_is_a_dead_letter_begins_no_attempt(database: &Database) {
    let given_up = new_dead_letter(7);
    let id = database.one.store_dead_letter(&given_up).await.expect("storing");
    let message = Redelivery::new(position_at(7), &given_up.payload, given_up.stored_at);
    for store in [&database.one, &database.two] {
        let begun = store.begin_attempt(&message, ATTEMPTS_MAX).await.expect("counting");
        assert_eq!(begun, AttemptStart::DeadLettered(id));
    }
    // A broker that lost its data restarts its sequence numbers, so the same payload may return at the same
    // position.
    let emitted_again = Redelivery { stored_at: time_at(50), ..message.clone() };
    let begun = database.one.begin_attempt(&emitted_again, ATTEMPTS_MAX).await.expect("counting");
    assert_eq!(begun, AttemptStart::Begun(2));
    let other = DeliveryPosition { consumer: "sampler".to_owned(), ..position_at(7) };
    let others = Redelivery::new(other, &given_up.payload, given_up.stored_at);
    let begun = database.one.begin_attempt(&others, ATTEMPTS_MAX).await.expect("counting");
    assert_eq!(begun, AttemptStart::Begun(2), "another consumer of it has not given up");
}

/// Checks that the attempts at a handled message are deleted, so it never counts as failed, even after many
/// redeliveries.
pub async fn attempts_at_a_handled_message_are_deleted(database: &Database) {
    for position in [position_at(7), position_at(7), position_at(8)] {
        begin_next_attempt(&*database.one, &position).await;
    }
    database.two.clear_attempts(&position_at(7)).await.expect("deleting");
    database.two.clear_attempts(&position_at(7)).await.expect("deleting again is harmless");
    assert_eq!(begin_next_attempt(&*database.one, &position_at(7)).await, 2);
    assert_eq!(begin_next_attempt(&*database.one, &position_at(8)).await, 3, "of that message alone");
}

/// Checks that unusual headers, binary payloads and times with nanoseconds are read back unchanged.
pub async fn a_dead_letter_comes_back_byte_for_byte(database: &Database) {
    let letter = new_dead_letter(7);
    let id = database.one.store_dead_letter(&letter).await.expect("storing");
    assert_eq!(id, letter.id());
    let stored =
        database.two.find_dead_letter(&test_tenant("t"), id).await.expect("reading").expect("the row exists");
    assert_eq!(stored.message, letter);
    assert_eq!(stored.payload_sha256, retro_core::canonical::sha256_hex(&letter.payload));
    assert_eq!(stored.status, DeadLetterStatus::Open);
    assert!(!stored.program_version.is_empty());
    let notice = Notice::DeadLettered { letter: id, code: letter.rejection.code };
    let unsent = database.two.list_unsent_messages(10).await.expect("reading");
    assert_eq!(unsent, [notice.into_message(&workflow_key("t", "w"))]);
}

/// Checks that storing a dead letter again, as after a crash before the acknowledgement, creates no second
/// one.
pub async fn storing_twice_leaves_one_dead_letter(database: &Database) {
    begin_next_attempt(&*database.one, &position_at(7)).await;
    let first = database.one.store_dead_letter(&new_dead_letter(7)).await.expect("storing");
    assert_eq!(begin_next_attempt(&*database.one, &position_at(7)).await, 2, "its attempts are forgotten");
    let repeated = NewDeadLetter { attempts: 1, stored_at: time_at(50), ..new_dead_letter(7) };
    assert_eq!(database.two.store_dead_letter(&repeated).await.expect("storing"), first);
    let stored = list_all_dead_letters(database).await;
    assert_eq!(stored.len(), 1);
    assert_eq!(stored[0].message, new_dead_letter(7), "it is left as it is");
    assert_eq!(database.one.list_unsent_messages(10).await.expect("reading").len(), 1, "and announced once");
    // A broker that lost its data restarts its sequence numbers.
    let other =
        NewDeadLetter { payload: b"another message at the same place".to_vec(), ..new_dead_letter(7) };
    database.one.store_dead_letter(&other).await.expect("storing");
    assert_eq!(list_all_dead_letters(database).await.len(), 2);
}

/// Checks that two processes that store the same dead letter concurrently create one (law 13).
pub async fn two_processes_storing_at_once_leave_one_dead_letter(database: &Database) {
    let letter = new_dead_letter(7);
    let (one, two) =
        join(database.one.store_dead_letter(&letter), database.two.store_dead_letter(&letter)).await;
    assert_eq!(one.expect("storing"), two.expect("storing"));
    assert_eq!(list_all_dead_letters(database).await.len(), 1);
    assert_eq!(database.one.list_unsent_messages(10).await.expect("reading").len(), 1);
}

/// Checks that a dead letter whose subject names no tenant is visible to the default tenant and is not
/// announced.
pub async fn a_dead_letter_without_a_tenant_is_visible_to_the_default_tenant(database: &Database) {
    let nobodys = NewDeadLetter { tenant: None, workflow: None, ..new_dead_letter(7) };
    let id = database.one.store_dead_letter(&nobodys).await.expect("storing");
    let default = retro_core::id::Tenant::default_tenant();
    assert_eq!(database.one.list_tenants().await.expect("listing"), std::slice::from_ref(&default));
    let filter = DeadLetterFilter { limit: 9, ..Default::default() };
    assert_eq!(database.two.list_dead_letters(&default, &filter).await.expect("listing").len(), 1);
    assert!(database.two.find_dead_letter(&default, id).await.expect("reading").is_some());
    assert_eq!(database.two.list_dead_letters(&test_tenant("t"), &filter).await.expect("listing"), []);
    assert_eq!(database.two.find_dead_letter(&test_tenant("t"), id).await.expect("reading"), None);
    assert_eq!(database.one.list_unsent_messages(10).await.expect("reading"), []);
}

/// Checks that the health summary counts unsent messages, open dead letters and handled events.
pub async fn health_counts_what_waits(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let before = database.two.load_health().await.expect("health");
    assert_eq!((before.outbox_unsent, before.dead_letters_open, before.events_seen), (0, 0, 0));
    assert!(before.migrations > 0);
    let id = scenario.settle_window(["a", "b"], &|_| empty_result()).await;
    scenario.close_retrospective(id).await;
    database.one.store_dead_letter(&new_dead_letter(7)).await.expect("storing");
    let after = database.two.load_health().await.expect("health");
    assert_eq!((after.dead_letters_open, after.events_seen), (1, 2));
    assert_eq!(
        after.outbox_unsent,
        database.two.list_unsent_messages(100).await.expect("reading").len() as u64
    );
    assert!(after.outbox_unsent >= 5, "{after:?}");
}

async fn list_all_dead_letters(database: &Database) -> Vec<crate::DeadLetter> {
    let filter = DeadLetterFilter { limit: 9, ..Default::default() };
    database.two.list_dead_letters(&test_tenant("t"), &filter).await.expect("listing")
}

/// Begins an attempt at a message that is not a dead letter, and returns its number.
pub(super) async fn begin_next_attempt(store: &dyn Store, position: &DeliveryPosition) -> u32 {
    match store.begin_attempt(&new_redelivery(position), u32::MAX).await.expect("counting") {
        AttemptStart::Begun(attempt) => attempt,
        other => panic!("{position:?}: {other:?}"),
    }
}

fn new_redelivery(position: &DeliveryPosition) -> Redelivery {
    Redelivery::new(position.clone(), b"a message of which there is no letter", time_at(0))
}

fn position_at(sequence: u64) -> DeliveryPosition {
    DeliveryPosition { consumer: "counter".to_owned(), stream: "RUNS".to_owned(), sequence }
}

pub(super) fn new_dead_letter(sequence: u64) -> NewDeadLetter {
    let key = workflow_key("t", "w");
    NewDeadLetter {
        position: position_at(sequence),
        tenant: Some(key.tenant),
        workflow: Some(key.workflow),
        subject: "retro.run.completed.t.w".to_owned(),
        headers: vec![
            ("Ce-Id".to_owned(), "1".to_owned()),
            ("Ce-Id".to_owned(), String::new()),
            ("x".to_owned(), "größe \u{0}".to_owned()),
        ],
        payload: vec![0, 159, 146, 150, 0, b'{'],
        rejection: Rejection::of_field(DeadLetterCode::FieldInvalid, "data.run_id", "it is missing"),
        attempts: 3,
        stored_at: time_at(0),
    }
}
