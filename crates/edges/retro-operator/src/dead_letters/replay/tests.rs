use retro_core::cancel::ReopenError;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::{ReplayId, derive_uuid};
use retro_core::replay::ReplayOutcome;
use retro_core::retrospective::RetrospectiveState;
use retro_store::{ReplayRow, ReplayState};

use super::*;
use crate::cancel::tests::{act, one};
use crate::world::at_hour;

pub(in crate::dead_letters) fn row(state: ReplayState, outcome: Option<ReplayOutcome>) -> ReplayRow {
    let dead_letter = DeadLetterId(derive_uuid("letter", &[]));
    ReplayRow {
        id: ReplayId::of_dead_letter(dead_letter, 2),
        dead_letter,
        number: 2,
        version: 0,
        batch: None,
        act: act(),
        state,
        due_at: at_hour(1),
        publications: 1,
        ended_at: outcome.as_ref().map(|_| at_hour(2)),
        outcome,
    }
}

pub(in crate::dead_letters) fn check(result: &ActionResult, status: ActionStatus, parts: &[&str]) {
    assert_eq!(result.status, status, "{result:?}");
    assert!(parts.iter().all(|part| result.detail.contains(part)), "{parts:?}: {result:?}");
    assert!(!result.detail.chars().any(char::is_control), "{result:?}");
}

#[test]
fn every_answer_to_following_a_failure_is_one_sentence_that_says_what_is_now() {
    let check = |answer, status, parts: &[&str]| check(&reopen_result(answer).unwrap(), status, parts);
    check(
        ReopenResult::Opened(one(4, 1, 14, RetrospectiveState::Due)),
        ActionStatus::Done,
        &["retrospective 4 of shop is open over runs 1 to 14"],
    );
    let before =
        ReopenResult::AlreadyReopened { act: act(), opened: one(4, 1, 14, RetrospectiveState::Closed) };
    check(
        before,
        ActionStatus::AlreadyDone,
        &["by ann", "a load test", "opened retrospective 4", "which is closed"],
    );
    check(
        ReopenResult::Refused(ReopenError::OneIsOpen { epoch: 4 }),
        ActionStatus::Refused,
        &["4 of the workflow is open already"],
    );
    check(
        ReopenResult::Refused(ReopenError::ClaimedSince { claimed: 14 }),
        ActionStatus::Refused,
        &["up to run 14"],
    );
    assert_eq!(reopen_result(ReopenResult::NotFound), None);
}

#[test]
fn every_answer_to_a_replay_is_one_sentence_that_says_what_is_now() {
    let check =
        |answer, status, parts: &[&str]| check(&replay_result(&answer, Some(7)).unwrap(), status, parts);
    let rejection = Rejection::of_field(DeadLetterCode::FieldInvalid, "data.outcome", "is missing");
    let edited = ReplayRow { version: 3, ..row(ReplayState::Waiting, None) };
    check(
        RequestReplayResult::Scheduled(row(ReplayState::Waiting, None)),
        ActionStatus::Done,
        &["replay 2 waits for the relay"],
    );
    check(RequestReplayResult::Scheduled(edited), ActionStatus::Done, &["version 3"]);
    let before = |state, outcome| RequestReplayResult::AlreadyRequested(row(state, outcome));
    check(
        before(ReplayState::Waiting, None),
        ActionStatus::AlreadyDone,
        &["replay 2, by ann", "waits to be sent"],
    );
    check(
        before(ReplayState::Sent, None),
        ActionStatus::AlreadyDone,
        &["by ann", "nothing has come of it yet"],
    );
    check(
        before(ReplayState::Handled, Some(ReplayOutcome::Handled)),
        ActionStatus::AlreadyDone,
        &["it was handled"],
    );
    check(
        before(ReplayState::Handled, Some(ReplayOutcome::Known)),
        ActionStatus::AlreadyDone,
        &["known before"],
    );
    let failed = ReplayOutcome::Failed { rejection, attempts: 1 };
    check(
        before(ReplayState::Failed, Some(failed)),
        ActionStatus::AlreadyDone,
        &["field_invalid at data.outcome"],
    );
    check(RequestReplayResult::UnknownVersion, ActionStatus::Refused, &["no version 7"]);
    assert_eq!(replay_result(&RequestReplayResult::NotFound, None), None);
}
