//! How things stand, for the metrics.

use std::collections::BTreeMap;

use retro_core::dead_letter::{Code, Rejection};
use retro_core::id::RetrospectiveId;
use retro_core::memory::Status;

use super::Database;
use super::story::{LONG_S, Story, found, moment, nothing, tenant};
use crate::{Claim, Levels, NewDeadLetter, Position, Store};

/// Nothing waits, so nothing has an age.
pub async fn an_empty_database_stands_at_nothing(database: &Database) {
    assert_eq!(database.one.levels().await.expect("levels"), Levels::default());
}

/// Whosever they are: levels are of the whole.
pub async fn levels_count_what_waits_over_all_tenants(database: &Database) {
    let stories =
        [("a", "v"), ("b", "w")].map(|(tenant, workflow)| Story::new(&*database.one, tenant, workflow));
    for story in &stories {
        story.count(&["1", "2"]).await;
    }
    stories[0].sample().await;
    for (sequence, code) in [(1, Code::NotJson), (2, Code::NotJson), (3, Code::Oversized)] {
        database.one.bury(&letter(sequence, code)).await.expect("burying");
    }
    let levels = database.two.levels().await.expect("levels");
    let open = BTreeMap::from([("not_json".to_owned(), 2), ("oversized".to_owned(), 1)]);
    assert_eq!((levels.retrospectives_open, levels.claimable, &levels.letters_open), (2, 1, &open));
    // Two became due, the first of them one more, and each letter with a tenant is announced.
    assert_eq!(levels.outbox_unsent, database.one.unsent(100).await.expect("reading").len() as u64);
    let ages = [levels.outbox_age_ms, levels.letters_age_ms, levels.retrospectives_age_ms];
    assert!(ages.iter().all(|age| age.is_some_and(|age| age < LONG_S * 1000)), "{levels:?}");
    assert_eq!(levels.oldest_tentative, None);

    stories[0].claim(LONG_S).await;
    stories[0].everything_sent().await;
    let levels = database.two.levels().await.expect("levels");
    assert_eq!((levels.claimable, levels.outbox_unsent, levels.outbox_age_ms), (0, 0, None));
}

/// A manual one waits for a person, and is nobody's alarm; one that has ended is open no more.
pub async fn a_retrospective_is_open_until_it_ends(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let id = story.settle(["a", "b"], &|_| nothing()).await;
    assert_eq!(database.two.levels().await.expect("levels").retrospectives_open, 1);
    story.close(id).await;
    let levels = database.two.levels().await.expect("levels");
    assert_eq!((levels.retrospectives_open, levels.retrospectives_age_ms), (0, None));
}

/// The one that has stood longest; what was confirmed is tentative no more.
pub async fn the_oldest_tentative_is_told_by_policy_time(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let first = story.settle(["a", "b"], &|claim| found(two(claim))).await;
    story.close(first).await;
    let tentative = story.memories().await;
    assert!(tentative.iter().all(|memory| memory.status == Status::Tentative) && tentative.len() == 2);
    let oldest = tentative.iter().map(|memory| memory.changed_at).min();
    assert_eq!(database.two.levels().await.expect("levels").oldest_tentative, oldest);
    let second = story.settle(["c", "d"], &|claim| found(two(claim)));
    let second = second.await;
    story.close_at(second, moment(20)).await;
    assert!(story.memories().await.iter().all(|memory| memory.status == Status::Active));
    assert_eq!(database.two.levels().await.expect("levels").oldest_tentative, None);
}

/// From the run that confirmed it, one value a memory; a first sighting confirms nothing.
pub async fn a_confirmation_tells_how_long_it_took(database: &Database) {
    let mut story = Story::new(&*database.one, "t", "w");
    let unconfirmed = story.settle(["a", "b"], &|claim| found(two(claim))).await;
    assert_eq!(confirmed(&*database.two, unconfirmed).await, 0, "it is not closed yet");
    story.close(unconfirmed).await;
    assert_eq!(confirmed(&*database.two, unconfirmed).await, 0);
    let both = story.settle(["c", "d"], &|claim| found(two(claim)));
    let both = both.await;
    story.close(both).await;
    assert_eq!(confirmed(&*database.two, both).await, 2);
    story.policy.confirm_runs = 1;
    let at_once = story.settle(["e", "f"], &|_| found("one run is enough")).await;
    story.close(at_once).await;
    assert_eq!(confirmed(&*database.two, at_once).await, 1, "the second run only saw it again");
    let other = database.one.confirmed_after_ms(&tenant("other"), at_once).await.expect("asking");
    assert_eq!(other, Vec::<u64>::new(), "another tenant's");
}

/// Another lesson in each investigation of a retrospective.
fn two(claim: &Claim) -> &'static str {
    if claim.number == 1 { "Retry at once" } else { "List the tables before anything else" }
}

async fn confirmed(store: &dyn Store, id: RetrospectiveId) -> usize {
    let waits = store.confirmed_after_ms(&tenant("t"), id).await.expect("asking");
    assert!(waits.iter().all(|wait| *wait < LONG_S * 1000), "{waits:?}");
    waits.len()
}

fn letter(sequence: u64, code: Code) -> NewDeadLetter {
    NewDeadLetter {
        position: Position { consumer: "counter".to_owned(), stream: "s".to_owned(), sequence },
        tenant: None,
        workflow: None,
        subject: "nobody's".to_owned(),
        headers: Vec::new(),
        payload: b"?".to_vec(),
        rejection: Rejection::whole(code, "the tests want it so"),
        attempts: 1,
        stored_at: moment(0),
    }
}
