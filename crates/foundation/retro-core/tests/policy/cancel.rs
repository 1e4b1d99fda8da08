//! Cancels and reopens retrospectives, and checks the effect on their workflow.

use retro_core::attribution::{ATTRIBUTION_CHARS_MAX, Attribution};
use retro_core::cancel::ReopenError;
use retro_core::id::{Epoch, RetrospectiveId};
use retro_core::policy::Policy;
use retro_core::retrospective::{ManualRequest, Retrospective, RetrospectiveState, WorkflowState};
use retro_core::time::add_seconds;

use crate::world::{key, run, start_time};

fn retrospective_over(epoch: Epoch, first: u64, last: u64) -> Retrospective {
    Retrospective {
        id: RetrospectiveId::of_epoch(&key(), epoch),
        key: key(),
        epoch,
        first,
        last,
        as_of: start_time(),
        policy: Policy::default(),
        pipeline: None,
        state: RetrospectiveState::Investigating,
        manual_request: None,
    }
}

/// Returns a workflow with fourteen counted runs, of which the open retrospective claims the first ten.
fn open_workflow() -> WorkflowState {
    WorkflowState { counted: 14, claimed: 10, epoch: 1, open: true, ..WorkflowState::default() }
}

fn failed_workflow() -> WorkflowState {
    let mut state = open_workflow();
    state.release_window(&retrospective_over(1, 1, 10));
    state
}

#[test]
fn cancelling_releases_the_runs_spends_the_epoch_and_counts_as_no_failure() {
    let mut state = open_workflow();
    state.cancel_retrospective(&retrospective_over(1, 1, 10), add_seconds(start_time(), 60));
    let paused_until = Some(add_seconds(start_time(), 60 + 3600));
    assert_eq!(state, WorkflowState { counted: 14, epoch: 1, paused_until, ..WorkflowState::default() });
    assert_eq!(
        state.open_if_due(&key(), &Policy::default(), add_seconds(start_time(), 3600), 0),
        None,
        "it pauses"
    );
    let next = state
        .open_if_due(&key(), &Policy::default(), add_seconds(start_time(), 3660), 0)
        .unwrap()
        .retrospective;
    assert_eq!((next.epoch, next.first, next.last), (2, 1, 14));
}

#[test]
fn cancelling_a_manual_retrospective_leaves_the_workflow_unchanged() {
    let request = ManualRequest {
        request: "q".into(),
        by: "ada".into(),
        with_token: None,
        runs: vec![run("r1")],
        focus: None,
        reason: None,
    };
    let mut state = open_workflow();
    state.cancel_retrospective(
        &Retrospective { manual_request: Some(request), ..retrospective_over(0, 0, 0) },
        start_time(),
    );
    assert_eq!(state, open_workflow());
}

#[test]
fn cancelling_does_not_shorten_a_running_pause() {
    let until = add_seconds(start_time(), 86_400);
    let mut state = WorkflowState { paused_until: Some(until), ..open_workflow() };
    state.cancel_retrospective(&retrospective_over(1, 1, 10), start_time());
    assert_eq!(state.paused_until, Some(until));
}

#[test]
fn reopening_a_failed_retrospective_covers_all_unclaimed_runs() {
    let mut state = failed_workflow();
    assert!(state.paused_until.is_some() && state.failures == 1);
    let opening =
        state.reopen_after(&retrospective_over(1, 1, 10), &Policy::default(), start_time()).unwrap();
    let next = &opening.retrospective;
    assert_eq!((next.epoch, next.first, next.last, next.state), (2, 1, 14, RetrospectiveState::Due));
    assert_ne!(next.id, retrospective_over(1, 1, 10).id, "a new id, so a new seed");
    assert_eq!((state.open, state.claimed, state.paused_until), (true, 14, None));
    assert_eq!(state.failures, 1, "the pause keeps growing if this one fails too");
    state.release_window(next);
    assert_eq!(state.paused_until, Some(add_seconds(start_time(), 2 * 3600)));
}

#[test]
fn reopening_is_refused_while_one_is_open_or_the_runs_are_claimed() {
    let mut busy = failed_workflow();
    busy.reopen_after(&retrospective_over(1, 1, 10), &Policy::default(), start_time()).unwrap();
    let before = busy.clone();
    let refused =
        busy.reopen_after(&retrospective_over(1, 1, 10), &Policy::default(), start_time()).unwrap_err();
    assert_eq!((refused, &busy), (ReopenError::OneIsOpen { epoch: 2 }, &before));
    busy.close_retrospective();
    let refused =
        busy.reopen_after(&retrospective_over(1, 1, 10), &Policy::default(), start_time()).unwrap_err();
    assert_eq!(refused, ReopenError::ClaimedSince { claimed: 14 });
}

#[test]
fn an_attribution_needs_a_name_and_a_bounded_reason() {
    assert_eq!(Attribution::new("ann", "  a wrong prompt ", start_time()).unwrap().reason, "a wrong prompt");
    let error = |by: &str, reason: &str| Attribution::new(by, reason, start_time()).unwrap_err().to_string();
    assert_eq!(error("ann", " \n"), "`reason` is empty");
    assert_eq!(error("", "why"), "`by` is empty");
    assert!(error("ann", &"x".repeat(ATTRIBUTION_CHARS_MAX + 1)).contains("1001 characters"));
}
