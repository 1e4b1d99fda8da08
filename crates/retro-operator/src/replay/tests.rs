use retro_core::dead_letter::{Code, Rejection};
use retro_core::id::derive;
use retro_core::replay::Outcome;
use retro_core::retrospective::State;

use super::*;
use crate::steer::tests::{act, one};
use crate::world::hour;

fn row(state: ReplayState, outcome: Option<Outcome>) -> ReplayRow {
    let letter = DeadLetterId(derive("letter", &[]));
    ReplayRow {
        id: ReplayId::of(letter, 2),
        letter,
        number: 2,
        version: 0,
        batch: None,
        act: act(),
        state,
        due_at: hour(1),
        sendings: 1,
        ended_at: outcome.as_ref().map(|_| hour(2)),
        outcome,
    }
}

fn check(told: &LetterTold, did: Did, parts: &[&str]) {
    assert_eq!(told.did, did, "{told:?}");
    assert!(parts.iter().all(|part| told.detail.contains(part)), "{parts:?}: {told:?}");
    assert!(!told.detail.chars().any(char::is_control), "{told:?}");
}

#[test]
fn every_answer_to_following_a_failure_is_one_sentence_that_says_what_is_now() {
    let check = |answer, did, parts: &[&str]| check(&reopened(answer).unwrap(), did, parts);
    check(
        Reopened::Now(one(4, 1, 14, State::Due)),
        Did::Done,
        &["retrospective 4 of shop is open over runs 1 to 14"],
    );
    let before = Reopened::Before { act: act(), opened: one(4, 1, 14, State::Closed) };
    check(before, Did::DoneBefore, &["by ann", "a load test", "opened retrospective 4", "which is closed"]);
    check(
        Reopened::Not(NotReopened::OneIsOpen { epoch: 4 }),
        Did::Refused,
        &["4 of the workflow is open already"],
    );
    check(Reopened::Not(NotReopened::ClaimedSince { claimed: 14 }), Did::Refused, &["up to run 14"]);
    assert_eq!(reopened(Reopened::Unknown), None);
}

#[test]
fn every_answer_to_a_replay_is_one_sentence_that_says_what_is_now() {
    let check = |answer, did, parts: &[&str]| check(&replayed(&answer, Some(7)).unwrap(), did, parts);
    let rejection = Rejection::at(Code::FieldInvalid, "data.outcome", "is missing");
    let edited = ReplayRow { version: 3, ..row(ReplayState::Waiting, None) };
    check(Replayed::Now(row(ReplayState::Waiting, None)), Did::Done, &["replay 2 waits for the relay"]);
    check(Replayed::Now(edited), Did::Done, &["version 3"]);
    let before = |state, outcome| Replayed::Before(row(state, outcome));
    check(before(ReplayState::Waiting, None), Did::DoneBefore, &["replay 2, by ann", "waits to be sent"]);
    check(before(ReplayState::Sent, None), Did::DoneBefore, &["by ann", "nothing has come of it yet"]);
    check(before(ReplayState::Handled, Some(Outcome::Handled)), Did::DoneBefore, &["it was handled"]);
    check(before(ReplayState::Handled, Some(Outcome::Known)), Did::DoneBefore, &["known before"]);
    let failed = Outcome::Failed { rejection, attempts: 1 };
    check(before(ReplayState::Failed, Some(failed)), Did::DoneBefore, &["field_invalid at data.outcome"]);
    check(Replayed::NoVersion, Did::Refused, &["no version 7"]);
    assert_eq!(replayed(&Replayed::Unknown, None), None);
}

#[test]
fn every_answer_to_a_discard_is_one_sentence_that_says_what_is_now() {
    let check = |answer, did, parts: &[&str]| check(&discarded(&answer).unwrap(), did, parts);
    check(Discarded::Now, Did::Done, &["put aside", "it is kept"]);
    check(Discarded::Before(act()), Did::DoneBefore, &["by ann", "a load test"]);
    check(Discarded::Replayed(row(ReplayState::Sent, None)), Did::Refused, &["by ann", "stays as it is"]);
    check(Discarded::Reopened, Did::Refused, &["opened the next retrospective"]);
    assert_eq!(discarded(&Discarded::Unknown), None);
}
