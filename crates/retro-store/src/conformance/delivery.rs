//! Outbox, attempts and dead letters.

use futures::future::join;
use retro_core::dead_letter::{Code, Rejection};
use retro_core::id::{MessageId, derive};
use retro_core::message::Notice;

use super::Database;
use super::story::{Story, key, moment, nothing, tenant};
use crate::{AttemptStart, DeadLetterFilter, LetterStatus, NewDeadLetter, Position, Redelivery, Store};

/// As many as the consumers of the program have.
const ATTEMPTS_MAX: u32 = 5;

/// Selected by "not sent", never by "after the last one".
pub async fn messages_wait_in_order_until_they_are_sent(database: &Database) {
    let stories = ["u", "v", "w"].map(|workflow| Story::new(&*database.one, "t", workflow));
    for story in &stories {
        story.count(&["a", "b"]).await;
    }
    let waiting = database.two.unsent(10).await.expect("reading");
    let workflows: Vec<_> = waiting.iter().map(|message| message.workflow.as_str()).collect();
    assert_eq!(workflows, ["u", "v", "w"]);
    assert_eq!(database.two.unsent(2).await.expect("reading"), waiting[..2]);
    for (story, message) in stories.iter().zip(&waiting) {
        let id = story.retrospective().await.id;
        assert_eq!(*message, Notice::RetrospectiveDue { retrospective: id }.about(&story.key));
    }
    let unknown = MessageId(derive("nothing", &[]));
    database.one.mark_sent(&[waiting[1].id, unknown]).await.expect("marking");
    database.two.mark_sent(&[waiting[1].id]).await.expect("marking again is harmless");
    database.two.mark_sent(&[]).await.expect("marking nothing, too");
    let left: Vec<_> =
        database.one.unsent(10).await.expect("reading").into_iter().map(|one| one.id).collect();
    assert_eq!(left, [waiting[0].id, waiting[2].id]);
}

/// Before the message is handled, so that one which kills the process is given up, too.
pub async fn attempts_are_counted_for_each_consumer_and_position(database: &Database) {
    let position = at(7);
    let (one, two) = join(begin(&*database.one, &position), begin(&*database.two, &position)).await;
    let mut both = [one, two];
    both.sort_unstable();
    assert_eq!(both, [2, 3], "the first delivery is the first attempt");
    assert_eq!(begin(&*database.one, &at(8)).await, 2);
    let other = Position { consumer: "sampler".to_owned(), ..at(7) };
    assert_eq!(begin(&*database.one, &other).await, 2);
    assert_eq!(begin(&*database.one, &position).await, 4);
}

/// A process may die of a neighbour between counting and giving up, again and again: that spends nothing.
pub async fn a_message_whose_attempts_are_spent_is_counted_no_further(database: &Database) {
    let message = redelivery(&at(7));
    for attempt in 2..=ATTEMPTS_MAX {
        let begun = database.one.begin_attempt(&message, ATTEMPTS_MAX).await.expect("counting");
        assert_eq!(begun, AttemptStart::Begun(attempt));
    }
    for _ in 0..3 {
        let begun = database.two.begin_attempt(&message, ATTEMPTS_MAX).await.expect("counting");
        assert_eq!(begun, AttemptStart::Exhausted);
    }
    let given_up = NewDeadLetter { attempts: ATTEMPTS_MAX, ..letter(7) };
    let id = database.one.bury(&given_up).await.expect("burying");
    let history = database.two.attempts(&tenant("t"), id).await.expect("reading");
    let begun: Vec<_> = history.iter().map(|attempt| attempt.attempt).collect();
    assert_eq!(begun, (2..=ATTEMPTS_MAX).collect::<Vec<_>>(), "giving up is no attempt");
    assert_eq!(
        begin(&*database.one, &at(7)).await,
        2,
        "another message in its place has attempts of its own"
    );
}

/// Law 13.
pub async fn of_two_that_begin_the_last_attempt_at_once_one_may(database: &Database) {
    let message = redelivery(&at(7));
    let (one, two) =
        join(database.one.begin_attempt(&message, 2), database.two.begin_attempt(&message, 2)).await;
    let both = [one.expect("counting"), two.expect("counting")];
    assert!(both.contains(&AttemptStart::Begun(2)) && both.contains(&AttemptStart::Exhausted), "{both:?}");
}

/// A crash, a slow machine or a lost acknowledgement brings a message again that was given up. It is not handled a
/// sixth time.
pub async fn a_message_that_is_a_dead_letter_begins_no_attempt(database: &Database) {
    let given_up = letter(7);
    let id = database.one.bury(&given_up).await.expect("burying");
    let message = Redelivery::new(at(7), &given_up.payload, given_up.stored_at);
    for store in [&database.one, &database.two] {
        let begun = store.begin_attempt(&message, ATTEMPTS_MAX).await.expect("counting");
        assert_eq!(begun, AttemptStart::DeadLettered(id));
    }
    // A broker that was wiped numbers its messages anew: the same bytes may come into the same place.
    let emitted_again = Redelivery { stored_at: moment(50), ..message.clone() };
    let begun = database.one.begin_attempt(&emitted_again, ATTEMPTS_MAX).await.expect("counting");
    assert_eq!(begun, AttemptStart::Begun(2));
    let other = Position { consumer: "sampler".to_owned(), ..at(7) };
    let others = Redelivery::new(other, &given_up.payload, given_up.stored_at);
    let begun = database.one.begin_attempt(&others, ATTEMPTS_MAX).await.expect("counting");
    assert_eq!(begun, AttemptStart::Begun(2), "another consumer of it has not given up");
}

/// A message that was handled has not failed, however often it comes again.
pub async fn attempts_at_a_message_that_was_handled_are_forgotten(database: &Database) {
    for position in [at(7), at(7), at(8)] {
        begin(&*database.one, &position).await;
    }
    database.two.forget_attempts(&at(7)).await.expect("forgetting");
    database.two.forget_attempts(&at(7)).await.expect("forgetting again is harmless");
    assert_eq!(begin(&*database.one, &at(7)).await, 2);
    assert_eq!(begin(&*database.one, &at(8)).await, 3, "of that message alone");
}

/// Whole: odd headers, bytes that are no text, the moment to the nanosecond.
pub async fn a_dead_letter_comes_back_byte_for_byte(database: &Database) {
    let letter = letter(7);
    let id = database.one.bury(&letter).await.expect("burying");
    assert_eq!(id, letter.id());
    let stored = database.two.dead_letter(&tenant("t"), id).await.expect("reading").expect("it is there");
    assert_eq!(stored.letter, letter);
    assert_eq!(stored.payload_sha256, retro_core::canonical::sha256_hex(&letter.payload));
    assert_eq!(stored.status, LetterStatus::Open);
    assert!(!stored.program_version.is_empty());
    let notice = Notice::DeadLettered { letter: id, code: letter.rejection.code };
    let unsent = database.two.unsent(10).await.expect("reading");
    assert_eq!(unsent, [notice.about(&key("t", "w"))]);
}

/// A crash between giving up and acknowledging brings the message again.
pub async fn giving_up_twice_leaves_one_letter(database: &Database) {
    begin(&*database.one, &at(7)).await;
    let first = database.one.bury(&letter(7)).await.expect("burying");
    assert_eq!(begin(&*database.one, &at(7)).await, 2, "its attempts are forgotten");
    let again = NewDeadLetter { attempts: 1, stored_at: moment(50), ..letter(7) };
    assert_eq!(database.two.bury(&again).await.expect("burying"), first);
    let stored = letters(database).await;
    assert_eq!(stored.len(), 1);
    assert_eq!(stored[0].letter, letter(7), "it is left as it is");
    assert_eq!(database.one.unsent(10).await.expect("reading").len(), 1, "and announced once");
    // A broker that was wiped numbers its messages anew.
    let other = NewDeadLetter { payload: b"another message at the same place".to_vec(), ..letter(7) };
    database.one.bury(&other).await.expect("burying");
    assert_eq!(letters(database).await.len(), 2);
}

/// Law 13.
pub async fn two_that_give_up_at_once_leave_one_letter(database: &Database) {
    let letter = letter(7);
    let (one, two) = join(database.one.bury(&letter), database.two.bury(&letter)).await;
    assert_eq!(one.expect("burying"), two.expect("burying"));
    assert_eq!(letters(database).await.len(), 1);
    assert_eq!(database.one.unsent(10).await.expect("reading").len(), 1);
}

/// Somebody has to see it; it cannot be announced, since its subject names nobody.
pub async fn a_letter_without_a_tenant_is_the_default_tenants_to_see(database: &Database) {
    let nobodys = NewDeadLetter { tenant: None, workflow: None, ..letter(7) };
    let id = database.one.bury(&nobodys).await.expect("burying");
    let default = retro_core::id::Tenant::default_tenant();
    assert_eq!(database.one.tenants().await.expect("listing"), std::slice::from_ref(&default));
    let filter = DeadLetterFilter { limit: 9, ..Default::default() };
    assert_eq!(database.two.dead_letters(&default, &filter).await.expect("listing").len(), 1);
    assert!(database.two.dead_letter(&default, id).await.expect("reading").is_some());
    assert_eq!(database.two.dead_letters(&tenant("t"), &filter).await.expect("listing"), []);
    assert_eq!(database.two.dead_letter(&tenant("t"), id).await.expect("reading"), None);
    assert_eq!(database.one.unsent(10).await.expect("reading"), []);
}

/// What an operator looks at first.
pub async fn health_counts_what_waits(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let before = database.two.health().await.expect("health");
    assert_eq!((before.outbox_unsent, before.dead_letters_open, before.events_seen), (0, 0, 0));
    assert!(before.migrations > 0);
    let id = story.settle(["a", "b"], &|_| nothing()).await;
    story.close(id).await;
    database.one.bury(&letter(7)).await.expect("burying");
    let after = database.two.health().await.expect("health");
    assert_eq!((after.dead_letters_open, after.events_seen), (1, 2));
    assert_eq!(after.outbox_unsent, database.two.unsent(100).await.expect("reading").len() as u64);
    assert!(after.outbox_unsent >= 5, "{after:?}");
}

async fn letters(database: &Database) -> Vec<crate::DeadLetter> {
    let filter = DeadLetterFilter { limit: 9, ..Default::default() };
    database.two.dead_letters(&tenant("t"), &filter).await.expect("listing")
}

/// Counts an attempt at a message of which there is no letter; returns the attempt's number.
pub(super) async fn begin(store: &dyn Store, position: &Position) -> u32 {
    match store.begin_attempt(&redelivery(position), u32::MAX).await.expect("counting") {
        AttemptStart::Begun(attempt) => attempt,
        other => panic!("{position:?}: {other:?}"),
    }
}

fn redelivery(position: &Position) -> Redelivery {
    Redelivery::new(position.clone(), b"a message of which there is no letter", moment(0))
}

fn at(sequence: u64) -> Position {
    Position { consumer: "counter".to_owned(), stream: "RUNS".to_owned(), sequence }
}

pub(super) fn letter(sequence: u64) -> NewDeadLetter {
    let key = key("t", "w");
    NewDeadLetter {
        position: at(sequence),
        tenant: Some(key.tenant),
        workflow: Some(key.workflow),
        subject: "retro.run.completed.t.w".to_owned(),
        headers: vec![
            ("Ce-Id".to_owned(), "1".to_owned()),
            ("Ce-Id".to_owned(), String::new()),
            ("x".to_owned(), "größe \u{0}".to_owned()),
        ],
        payload: vec![0, 159, 146, 150, 0, b'{'],
        rejection: Rejection::at(Code::FieldInvalid, "data.run_id", "it is missing"),
        attempts: 3,
        stored_at: moment(0),
    }
}
