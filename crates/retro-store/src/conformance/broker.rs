//! What is known of the broker's streams.

use futures::future::join;
use retro_core::dead_letter::{Code, Rejection};
use retro_core::id::EventKey;
use retro_core::keep::Seen;
use retro_core::message::Notice;

use super::Database;
use super::delivery::begin;
use super::story::{Story, moment, run, tenant};
use crate::broker::{Anew, Feed, Loss, StreamSight, WaitingMessage};
use crate::{NewDeadLetter, Position, Store, track};

const INTAKE: &str = "INTAKE";
const NOTHING: [u64; 0] = [];
/// Two that remember what they have handled.
const READERS: [&str; 2] = ["counter", "tracker"];

fn sight(made: &str, last: u64, handled: u64) -> StreamSight {
    StreamSight { stream: INTAKE.to_owned(), made: made.to_owned(), first: 1, last, handled }
}

fn named(workflow: &str, id: &str) -> WaitingMessage {
    let event = run(&super::story::key("t", workflow), id).arrival.event;
    let readers = vec!["counter".to_owned()];
    WaitingMessage { subject: format!("runs.t.{workflow}"), event: Some(event), readers }
}

async fn looked(store: &dyn Store, made: &str, last: u64, handled: u64) -> crate::broker::Look {
    store.look(&sight(made, last, handled), Feed::Nothing).await.expect("looking").expect("nobody else does")
}

async fn made_anew(store: &dyn Store, feed: Feed) -> Anew {
    let look = store.look(&sight("now", 0, 0), feed).await.expect("looking").expect("nobody else does");
    look.anew.expect("it is another stream")
}

/// The same time, and an end that does not go back.
pub async fn a_stream_is_the_same_as_long_as_it_says_the_same_and_grows(database: &Database) {
    let first = looked(&*database.one, "then", 5, 3).await;
    assert_eq!((first.number, first.anew), (1, None));
    for (last, handled) in [(5, 3), (9, 9), (9, 4)] {
        let again = looked(&*database.two, "then", last, handled).await;
        assert_eq!((again.number, again.anew), (1, None), "{last} {handled}");
    }
    let shorter = looked(&*database.one, "then", 8, 8).await;
    assert_eq!(shorter.number, 2, "an older copy of it gives positions anew");
    assert_eq!(shorter.anew.expect("another").lost, [], "everything in it was handled");
    let other = looked(&*database.two, "now", 100, 0).await;
    assert_eq!((other.number, other.anew.expect("another").before.as_str()), (3, "then"));
}

/// By name what waited, by position what was not looked at.
pub async fn what_went_with_a_stream_is_told_unless_it_was_handled_or_given_up(database: &Database) {
    let store = &*database.one;
    looked(store, "then", 9, 3).await;
    let waiting = [(4, named("w", "counted")), (5, named("w", "lost")), (6, named("w", "given up"))];
    store.name_waiting(INTAKE, 1, &waiting).await.expect("naming");
    database.two.name_waiting(INTAKE, 1, &waiting[1..]).await.expect("naming again is harmless");
    assert_eq!(looked(store, "then", 9, 3).await.named_to, 6);
    Story::new(store, "t", "w").count(&["counted"]).await;
    store.bury(&letter(6)).await.expect("burying");
    let lost = made_anew(&*database.two, Feed::Nothing).await.lost;
    let told: Vec<_> = lost.iter().map(|loss| (loss.positions.clone(), loss.message.clone())).collect();
    assert_eq!(told, [(5..=5, Some(named("w", "lost"))), (7..=9, None)]);
    assert_eq!(store.losses().await.expect("reading"), lost, "it is kept");
    Story::new(store, "t", "w").count(&["lost"]).await;
    let left = store.losses().await.expect("reading");
    assert_eq!(left, lost[1..], "what was emitted again and counted is not lost any more");
}

/// One of them is not enough, whichever it is.
pub async fn what_several_read_is_lost_until_each_of_them_has_handled_it(database: &Database) {
    let store = &*database.one;
    looked(store, "then", 3, 0).await;
    let read_by_both = |id| WaitingMessage { readers: READERS.map(str::to_owned).into(), ..named("w", id) };
    let waiting = ["counted", "tracked", "both"].map(read_by_both);
    let positions: Vec<_> = (1..).zip(waiting.clone()).collect();
    store.name_waiting(INTAKE, 1, &positions).await.expect("naming");
    let tracked = |one: &WaitingMessage| track::Heard {
        event: one.event.clone().expect("it has a name"),
        content_hash: "a hash".to_owned(),
        pull_request: None,
        commits: Vec::new(),
        trailers: Vec::new(),
    };
    Story::new(store, "t", "w").count(&["counted", "both"]).await;
    for one in &waiting[1..] {
        store.track(&tracked(one)).await.expect("tracking");
    }
    let lost = made_anew(&*database.two, Feed::Nothing).await.lost;
    let told: Vec<_> = lost.iter().map(|loss| loss.message.clone()).collect();
    assert_eq!(told, [Some(waiting[0].clone()), Some(waiting[1].clone())]);
    Story::new(store, "t", "w").count(&["tracked"]).await;
    assert_eq!(store.losses().await.expect("reading"), lost[..1]);
    store.track(&tracked(&waiting[0])).await.expect("tracking");
    assert_eq!(store.losses().await.expect("reading"), []);
}

/// Its name is not needed any more.
pub async fn what_was_acknowledged_does_not_wait(database: &Database) {
    let store = &*database.one;
    looked(store, "then", 5, 0).await;
    store.name_waiting(INTAKE, 1, &[(1, named("w", "a")), (2, named("w", "b"))]).await.expect("naming");
    assert_eq!(looked(store, "then", 5, 1).await.named_to, 2);
    assert_eq!(looked(store, "then", 5, 2).await.named_to, 0);
    let lost: Vec<Loss> = made_anew(store, Feed::Nothing).await.lost;
    assert_eq!(lost.iter().map(|loss| loss.positions.clone()).collect::<Vec<_>>(), [3..=5]);
}

/// Purged, or too old: the consumer's books look as if it had been handled.
pub async fn what_waited_and_is_gone_from_its_stream_is_lost_unless_it_was_handled(database: &Database) {
    let store = &*database.one;
    looked(store, "then", 4, 0).await;
    let waiting = [
        (1, named("w", "counted")),
        (2, named("w", "purged")),
        (3, named("w", "given up")),
        (4, named("w", "there")),
    ];
    store.name_waiting(INTAKE, 1, &waiting).await.expect("naming");
    Story::new(store, "t", "w").count(&["counted"]).await;
    store.bury(&letter(3)).await.expect("burying");
    let purged = StreamSight { first: 4, ..sight("then", 4, 3) };
    let look = store.look(&purged, Feed::Nothing).await.expect("looking").expect("nobody else does");
    let told: Vec<_> = look.gone.iter().map(|loss| (loss.positions.clone(), loss.message.clone())).collect();
    assert_eq!((told, look.named_to), (vec![(2..=2, Some(named("w", "purged")))], 4));
    assert_eq!(store.losses().await.expect("reading"), look.gone);
    let again = database.two.look(&purged, Feed::Nothing).await.expect("looking").expect("nobody else does");
    assert_eq!(again.gone, [], "it is told once");
    made_anew(store, Feed::Nothing).await;
    let kept = store.losses().await.expect("reading");
    assert_eq!(kept.iter().map(|loss| *loss.positions.start()).collect::<Vec<_>>(), [2, 4]);
}

/// Positions are given anew.
pub async fn attempts_at_positions_of_a_stream_that_ended_are_forgotten(database: &Database) {
    let store = &*database.one;
    looked(store, "then", 5, 0).await;
    let other = Position { stream: "WORK".to_owned(), ..at(7) };
    for position in [&at(7), &other] {
        begin(store, position).await;
    }
    made_anew(store, Feed::Nothing).await;
    assert_eq!(begin(store, &at(7)).await, 2);
    assert_eq!(begin(store, &other).await, 3, "another stream's stay");
}

/// Work that is open is woken again, and only that; of announcements all are made again.
pub async fn a_stream_made_anew_is_fed_again_by_the_outbox(database: &Database) {
    let store = &*database.one;
    let (open, closed) = (Story::new(store, "t", "open"), Story::new(store, "t", "closed"));
    open.count(&["a", "b"]).await;
    closed.learn("a lesson").await;
    open.everything_sent().await;
    looked(store, "then", 5, 5).await;
    assert_eq!(made_anew(store, Feed::WakeUps).await.fed_again, 1);
    let due = Notice::RetrospectiveDue { retrospective: open.retrospective().await.id };
    assert_eq!((open.notices().await, closed.notices().await), (vec![due], vec![]));
    let look = store.look(&sight("later", 0, 0), Feed::Announcements).await.expect("looking");
    let fed_again = look.and_then(|look| look.anew).expect("it is another stream").fed_again;
    let announced = closed.notices().await;
    assert!(!announced.is_empty() && announced.len() as u64 == fed_again, "{announced:?}");
    assert!(announced.iter().all(|notice| Notice::ANNOUNCEMENTS.contains(&notice.kind())), "{announced:?}");
}

/// Law 13.
pub async fn two_that_find_a_stream_made_anew_leave_one_row_and_feed_it_once(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    story.count(&["a", "b"]).await;
    story.everything_sent().await;
    looked(&*database.one, "then", 3, 1).await;
    let now = sight("now", 0, 0);
    let (one, two) =
        join(database.one.look(&now, Feed::WakeUps), database.two.look(&now, Feed::WakeUps)).await;
    let looks = [one.expect("looking"), two.expect("looking")];
    let anew = looks.iter().flatten().filter(|look| look.anew.is_some()).count();
    assert_eq!(anew, 1, "{looks:?}");
    assert!(looks.iter().flatten().all(|look| look.number == 2), "{looks:?}");
    assert_eq!(database.one.losses().await.expect("reading").len(), 1);
    assert_eq!(story.notices().await.len(), 1);
}

/// By the database's clock; how far it came is remembered and never goes back.
pub async fn a_stream_is_compared_by_one_process_within_a_pause(database: &Database) {
    let (one, two) = (&*database.one, &*database.two);
    looked(one, "then", 9, 9).await;
    assert_eq!(one.begin_comparing(INTAKE, 1, 3_600_000).await.expect("beginning"), Some(0));
    assert_eq!(two.begin_comparing(INTAKE, 1, 3_600_000).await.expect("beginning"), None);
    one.checked(INTAKE, 1, 7).await.expect("remembering");
    two.checked(INTAKE, 1, 4).await.expect("remembering");
    assert_eq!(two.begin_comparing(INTAKE, 1, 0).await.expect("beginning"), Some(7));
    assert_eq!(two.begin_comparing(INTAKE, 2, 0).await.expect("beginning"), None, "there is no second one");
}

/// By position and payload, since positions are given anew.
pub async fn a_message_that_was_given_up_is_known_by_its_position_and_payload(database: &Database) {
    let store = &*database.one;
    store.bury(&letter(6)).await.expect("burying");
    let hash = retro_core::canonical::sha256_hex(&letter(6).payload);
    let asked = [(5, hash.clone()), (6, hash.clone()), (6, "another".to_owned())];
    assert_eq!(database.two.given_up("counter", INTAKE, &asked).await.expect("reading"), [6]);
    assert_eq!(store.given_up("sampler", INTAKE, &asked).await.expect("reading"), NOTHING);
    assert_eq!(store.given_up("counter", "WORK", &asked).await.expect("reading"), NOTHING);
    assert_eq!(store.given_up("counter", INTAKE, &asked[2..]).await.expect("reading"), NOTHING);
    assert_eq!(store.given_up("counter", INTAKE, &[]).await.expect("reading"), NOTHING);
}

/// Also when nothing but a digest is left of it.
pub async fn a_handled_event_is_seen_and_another_is_not(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    story.count(&["a", "b"]).await;
    let event = |tenant_name: &str, id: &str| EventKey {
        tenant: tenant(tenant_name),
        ..run(&story.key, id).arrival.event
    };
    let asked = [event("t", "never"), event("t", "b"), event("other", "a"), event("t", "a")];
    let seen = database.two.seen(&asked).await.expect("reading");
    let hash = |id| Some(Seen::Whole(run(&story.key, id).arrival.content_hash));
    assert_eq!(seen, [None, hash("b"), None, hash("a")]);
    database.one.purge(crate::keep::Stage::Events, 0, 100).await.expect("purging");
    let seen = database.two.seen(&asked).await.expect("reading");
    let is = |nth: usize, id| {
        seen[nth].as_ref().is_some_and(|seen| seen.is(&run(&story.key, id).arrival.content_hash))
    };
    assert!(is(1, "b") && is(3, "a") && seen[0].is_none() && seen[2].is_none(), "{seen:?}");
    assert_eq!(database.two.seen(&[]).await.expect("reading"), []);
}

fn at(sequence: u64) -> Position {
    Position { consumer: "counter".to_owned(), stream: INTAKE.to_owned(), sequence }
}

fn letter(sequence: u64) -> NewDeadLetter {
    NewDeadLetter {
        position: at(sequence),
        tenant: Some(tenant("t")),
        workflow: None,
        subject: "runs.t.w".to_owned(),
        headers: Vec::new(),
        payload: b"not an event".to_vec(),
        rejection: Rejection::whole(Code::NotJson, "it is not JSON"),
        attempts: 1,
        stored_at: moment(0),
    }
}
