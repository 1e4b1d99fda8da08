use retro_core::attribution::Attribution;
use retro_core::id::{Ordinal, derive_uuid};
use retro_core::policy::Policy;
use retro_core::retrospective::RetrospectiveState;
use retro_store::AuditRow;

use super::*;
use crate::audit_log::render_audit_log;
use crate::world::{at_hour, workflow_key};

pub(crate) fn one(epoch: Epoch, first: Ordinal, last: Ordinal, state: RetrospectiveState) -> Retrospective {
    let key = workflow_key("default", "shop");
    let id = RetrospectiveId::of_epoch(&key, epoch);
    Retrospective {
        id,
        key,
        epoch,
        first,
        last,
        as_of: at_hour(0),
        policy: Policy::default(),
        pipeline: None,
        state,
        manual_request: None,
    }
}

pub(crate) fn act() -> Attribution {
    Attribution::new("ann", "a load test\u{1b}[2J", at_hour(1)).unwrap()
}

#[test]
fn every_answer_to_a_cancel_is_one_sentence_that_says_what_is_now() {
    let state = WorkflowState { paused_until: Some(at_hour(2)), ..WorkflowState::default() };
    let now = CancelResult::Cancelled { retrospective: one(3, 11, 20, RetrospectiveState::Cancelled), state };
    let before = CancelResult::AlreadyEnded {
        retrospective: one(3, 11, 20, RetrospectiveState::Cancelled),
        act: Some(act()),
    };
    let closed =
        CancelResult::AlreadyEnded { retrospective: one(3, 11, 20, RetrospectiveState::Closed), act: None };
    let failed =
        CancelResult::AlreadyEnded { retrospective: one(3, 11, 20, RetrospectiveState::Failed), act: None };
    let results: Vec<_> = [now, before, closed, failed]
        .into_iter()
        .map(|answer| describe_result(answer).unwrap())
        .map(|result| format!("{:?}: {}\n", result.status, result.detail))
        .collect();
    insta::assert_snapshot!(results.concat());
    assert_eq!(describe_result(CancelResult::NotFound), None);
}

#[test]
fn acts_are_shown_with_who_when_and_why_and_without_control_characters() {
    let opened = Some(RetrospectiveId(derive_uuid("retrospective", &["x"])));
    let rows = [
        AuditRow {
            action: retro_store::AuditAction::Replayed,
            act: act(),
            opened_retrospective: opened,
            detail: None,
        },
        AuditRow {
            action: retro_store::AuditAction::Cancelled,
            act: act(),
            opened_retrospective: None,
            detail: None,
        },
    ];
    insta::assert_snapshot!(render_audit_log(&rows));
    assert_eq!(render_audit_log(&[]), "");
}
