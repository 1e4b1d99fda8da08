//! What is known of the broker's streams.

use futures::future::join;
use retro_core::dead_letter::{Code, Rejection};
use retro_core::id::EventKey;
use retro_core::keep::Seen;
use retro_core::message::Notice;
use retro_core::steer::Act;

use super::Database;
use super::delivery::begin;
use super::story::{Story, moment, run, tenant};
use crate::broker::{Anew, Feed, Look, Loss, LossKey, StreamSight, WaitingMessage};
use crate::{NewDeadLetter, Position, Store, track};

const INTAKE: &str = "INTAKE";
const NOTHING: [u64; 0] = [];
/// Two that remember what they have handled.
const READERS: [&str; 2] = ["counter", "tracker"];

/// A sight of a process that asks the database first, as each has to.
async fn sight(store: &dyn Store, made: &str, last: u64, handled: u64) -> StreamSight {
    let known_before = store.load_stream(INTAKE).await.expect("reading");
    let (stream, made) = (INTAKE.to_owned(), made.to_owned());
    StreamSight { stream, known_before, made, first: 1, last, anchor: None, anchor_before: None, handled }
}

fn named(workflow: &str, id: &str) -> WaitingMessage {
    let event = run(&super::story::key("t", workflow), id).arrival.event;
    let readers = vec!["counter".to_owned()];
    WaitingMessage { subject: format!("runs.t.{workflow}"), event: Some(event), readers }
}

async fn looked(store: &dyn Store, made: &str, last: u64, handled: u64) -> Look {
    record(store, &sight(store, made, last, handled).await).await
}

async fn record(store: &dyn Store, sight: &StreamSight) -> Look {
    store.record_sight(sight, &[], Feed::Nothing).await.expect("looking")
}

const fn recognized(number: u64, named_to: u64) -> Look {
    Look::Recognized { number, named_to, gone: Vec::new() }
}

/// Two looks that find another stream.
async fn replaced(store: &dyn Store, made: &str, last: u64, feed: Feed) -> (u64, Anew) {
    let first = sight(store, made, last, 0).await;
    assert_eq!(store.record_sight(&first, &[], feed).await.expect("looking"), Look::Suspected);
    assert_eq!(
        store.record_sight(&first, &[], feed).await.expect("looking"),
        Look::Stale,
        "it is the same look"
    );
    let second = sight(store, made, last, 0).await;
    match store.record_sight(&second, &[], feed).await.expect("looking") {
        Look::Replaced { number, anew } => (number, anew),
        other => panic!("two looks are enough: {other:?}"),
    }
}

async fn made_anew(store: &dyn Store, feed: Feed) -> Anew {
    replaced(store, "now", 0, feed).await.1
}

/// The same time, and an end that does not go back.
pub async fn a_stream_is_the_same_as_long_as_it_says_the_same_and_grows(database: &Database) {
    let (one, two) = (&*database.one, &*database.two);
    assert_eq!(looked(one, "then", 5, 3).await, recognized(1, 0));
    for (last, handled) in [(5, 3), (9, 9), (9, 4)] {
        assert_eq!(looked(two, "then", last, handled).await, recognized(1, 0), "{last} {handled}");
    }
    let (number, shorter) = replaced(one, "then", 8, Feed::Nothing).await;
    assert_eq!((number, shorter.lost), (2, vec![]), "an older copy of it, and everything in it was handled");
    let (number, other) = replaced(two, "now", 100, Feed::Nothing).await;
    assert_eq!((number, other.before.as_str()), (3, "then"));
}

/// An older copy that has grown past the end that was known.
pub async fn a_stream_is_another_when_the_message_at_its_end_was_stored_at_another_time(database: &Database) {
    let store = &*database.one;
    let first = StreamSight { anchor: Some("noon".to_owned()), ..sight(store, "then", 5, 5).await };
    assert_eq!(record(store, &first).await, recognized(1, 0));
    let looks = ["noon", "one", "one"].map(|stored| Some(stored.to_owned()));
    let mut shown = Vec::new();
    for anchor_before in looks {
        let anchor = Some("noon".to_owned());
        let sight = StreamSight { anchor, anchor_before, ..sight(store, "then", 5, 5).await };
        shown.push(matches!(record(store, &sight).await, Look::Replaced { .. }));
    }
    assert_eq!(shown, [false, false, true]);
}

/// The broker has lost nothing: a process was held up between asking it and storing the answer.
pub async fn a_look_that_others_have_overtaken_says_nothing(database: &Database) {
    let (one, two) = (&*database.one, &*database.two);
    let (begins, late) = (sight(one, "then", 90, 90).await, sight(two, "then", 80, 80).await);
    assert_eq!(record(one, &begins).await, recognized(1, 0));
    assert_eq!(record(two, &late).await, Look::Stale, "it had never seen the stream");
    let held_up = sight(one, "then", 95, 95).await;
    assert_eq!(looked(two, "then", 100, 97).await, recognized(1, 0));
    assert_eq!(record(one, &held_up).await, Look::Stale);
    let known = one.load_stream(INTAKE).await.expect("reading").expect("it was seen");
    assert_eq!((known.number, known.seen_to, known.handled_to), (1, 100, 97));
    assert_eq!((known.suspected, one.losses().await.expect("reading")), (None, vec![]));
}

/// What looked like another stream for a moment is the known one.
pub async fn a_suspicion_is_cleared_by_a_look_that_recognizes_the_stream(database: &Database) {
    let (one, two) = (&*database.one, &*database.two);
    looked(one, "then", 9, 9).await;
    let older = sight(two, "then", 12, 12).await;
    assert_eq!(looked(one, "now", 0, 0).await, Look::Suspected);
    assert_eq!(record(two, &older).await, Look::Stale, "it was asked before");
    assert_eq!(looked(two, "then", 12, 12).await, recognized(1, 0));
    assert_eq!(looked(one, "now", 0, 0).await, Look::Suspected, "it begins anew");
}

/// They may be another stream's.
pub async fn names_read_from_a_stream_that_is_suspected_or_has_ended_are_not_kept(database: &Database) {
    let store = &*database.one;
    looked(store, "then", 3, 0).await;
    assert_eq!(looked(store, "now", 2, 0).await, Look::Suspected);
    store.name_waiting(INTAKE, 1, &[(1, named("w", "of the new one"))]).await.expect("naming");
    let Look::Replaced { anew, .. } = looked(&*database.two, "now", 2, 0).await else {
        panic!("it is another")
    };
    assert_eq!(anew.lost.iter().map(|loss| loss.message.is_some()).collect::<Vec<_>>(), [false]);
    store.name_waiting(INTAKE, 1, &[(2, named("w", "too late"))]).await.expect("naming");
    assert_eq!(looked(store, "now", 2, 0).await, recognized(2, 0));
}

/// An older copy of the stream, or one to which it was emitted again.
pub async fn what_the_stream_in_its_place_holds_is_not_lost_and_waits_there(database: &Database) {
    let store = &*database.one;
    looked(store, "then", 3, 0).await;
    let names = [(1, named("w", "a")), (2, named("w", "b")), (3, named("w", "c"))];
    store.name_waiting(INTAKE, 1, &names).await.expect("naming");
    assert_eq!(looked(store, "then", 2, 0).await, Look::Suspected);
    let older = sight(store, "then", 2, 0).await;
    let look = store.record_sight(&older, &names[..2], Feed::Nothing).await.expect("looking");
    let Look::Replaced { anew, .. } = look else { panic!("it has lost its end: {look:?}") };
    assert_eq!(
        anew.lost.iter().map(|loss| loss.message.clone()).collect::<Vec<_>>(),
        [Some(named("w", "c"))]
    );
    assert_eq!(looked(store, "then", 2, 0).await, recognized(2, 2), "they wait there");
    let lost = made_anew(&*database.two, Feed::Nothing).await.lost;
    let told: Vec<_> = lost.into_iter().filter_map(|loss| loss.message).collect();
    assert_eq!(told, [named("w", "a"), named("w", "b")]);
}

/// Who, why and when stay with it; what is closed is not told as lost any more, and not closed again.
pub async fn a_loss_is_closed_once_and_says_who_closed_it_and_why(database: &Database) {
    let (one, two) = (&*database.one, &*database.two);
    looked(one, "then", 4, 0).await;
    one.name_waiting(INTAKE, 1, &[(1, named("w", "a")), (2, named("w", "b"))]).await.expect("naming");
    let lost = made_anew(one, Feed::Nothing).await.lost;
    let keys: Vec<_> = lost.iter().map(Loss::key).collect();
    assert_eq!(
        keys.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["INTAKE/1/1", "INTAKE/1/2", "INTAKE/1/3"]
    );
    let act = |by: &str| Act { by: by.to_owned(), reason: "nothing was lost".to_owned(), at: moment(7) };
    let never = LossKey { first: 9, ..keys[0].clone() };
    let closed = two.close_losses(&[keys[0].clone(), keys[2].clone(), never], &act("ana")).await;
    assert_eq!(closed.expect("closing"), [keys[0].clone(), keys[2].clone()]);
    assert_eq!(one.losses().await.expect("reading"), lost[1..2]);
    assert_eq!(one.close_losses(&keys, &act("ben")).await.expect("closing"), keys[1..2]);
    let told = two.closed_losses().await.expect("reading");
    let who: Vec<_> = told.iter().map(|one| (one.loss.clone(), one.act.clone())).collect();
    let by = ["ana", "ben", "ana"].map(act);
    assert_eq!(who, lost.into_iter().zip(by).collect::<Vec<_>>());
    assert_eq!(one.losses().await.expect("reading"), []);
}

/// By name what waited, by position what was not looked at.
pub async fn what_went_with_a_stream_is_told_unless_it_was_handled_or_given_up(database: &Database) {
    let store = &*database.one;
    looked(store, "then", 9, 3).await;
    let waiting = [(4, named("w", "counted")), (5, named("w", "lost")), (6, named("w", "given up"))];
    store.name_waiting(INTAKE, 1, &waiting).await.expect("naming");
    database.two.name_waiting(INTAKE, 1, &waiting[1..]).await.expect("naming again is harmless");
    assert_eq!(looked(store, "then", 9, 3).await, recognized(1, 6));
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
    assert_eq!(looked(store, "then", 5, 1).await, recognized(1, 2));
    assert_eq!(looked(store, "then", 5, 2).await, recognized(1, 0));
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
    let purged = async || StreamSight { first: 4, ..sight(store, "then", 4, 3).await };
    assert_eq!(record(store, &purged().await).await, recognized(1, 4), "one look is not enough");
    let Look::Recognized { gone, named_to: 4, .. } = record(store, &purged().await).await else {
        panic!("it is the same stream")
    };
    let told: Vec<_> = gone.iter().map(|loss| (loss.positions.clone(), loss.message.clone())).collect();
    assert_eq!(told, [(2..=2, Some(named("w", "purged")))]);
    assert_eq!(store.losses().await.expect("reading"), gone);
    assert_eq!(record(&*database.two, &purged().await).await, recognized(1, 4), "it is told once");
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
    let fed_again = replaced(store, "later", 0, Feed::Announcements).await.1.fed_again;
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
    assert_eq!(looked(&*database.one, "now", 0, 0).await, Look::Suspected);
    let (one, two) = (sight(&*database.one, "now", 0, 0).await, sight(&*database.two, "now", 0, 0).await);
    let (one, two) = join(
        database.one.record_sight(&one, &[], Feed::WakeUps),
        database.two.record_sight(&two, &[], Feed::WakeUps),
    )
    .await;
    let looks = [one.expect("looking"), two.expect("looking")];
    assert_eq!(
        looks.iter().filter(|look| matches!(look, Look::Replaced { number: 2, .. })).count(),
        1,
        "{looks:?}"
    );
    assert_eq!(looks.iter().filter(|look| **look == Look::Stale).count(), 1, "{looks:?}");
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
