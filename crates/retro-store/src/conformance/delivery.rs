//! Outbox, attempts and dead letters.

use futures::future::join;
use retro_core::dead_letter::{Code, Rejection};
use retro_core::id::{MessageId, derive};
use retro_core::message::Notice;

use super::Database;
use super::story::{Story, key, moment, nothing, tenant};
use crate::{DeadLetterFilter, LetterStatus, NewDeadLetter, Position};

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
    let (one, two) = join(database.one.begin_attempt(&position), database.two.begin_attempt(&position)).await;
    let mut both = [one.expect("counting"), two.expect("counting")];
    both.sort_unstable();
    assert_eq!(both, [1, 2]);
    assert_eq!(database.one.begin_attempt(&at(8)).await.expect("counting"), 1);
    let other = Position { consumer: "sampler".to_owned(), ..at(7) };
    assert_eq!(database.one.begin_attempt(&other).await.expect("counting"), 1);
    assert_eq!(database.one.begin_attempt(&position).await.expect("counting"), 3);
}

/// A message that was handled has not failed, however often it comes again.
pub async fn attempts_at_a_message_that_was_handled_are_forgotten(database: &Database) {
    for position in [at(7), at(7), at(8)] {
        database.one.begin_attempt(&position).await.expect("counting");
    }
    database.two.forget_attempts(&at(7)).await.expect("forgetting");
    database.two.forget_attempts(&at(7)).await.expect("forgetting again is harmless");
    assert_eq!(database.one.begin_attempt(&at(7)).await.expect("counting"), 1);
    assert_eq!(database.one.begin_attempt(&at(8)).await.expect("counting"), 2, "of that message alone");
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
    database.one.begin_attempt(&at(7)).await.expect("counting");
    let first = database.one.bury(&letter(7)).await.expect("burying");
    assert_eq!(database.one.begin_attempt(&at(7)).await.expect("counting"), 1, "its attempts are forgotten");
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
