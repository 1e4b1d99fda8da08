//! A person's hand: what cancelling and reopening do to a workflow.

use retro_core::cancel::{ATTRIBUTION_CHARS_MAX, Attribution, ReopenError};
use retro_core::id::{Epoch, RetrospectiveId};
use retro_core::manual::ManualRequest;
use retro_core::policy::Policy;
use retro_core::retrospective::{Retrospective, RetrospectiveState, WorkflowState};
use retro_core::time::add_seconds;

use crate::world::{dawn, key, run};

fn over(epoch: Epoch, first: u64, last: u64) -> Retrospective {
    Retrospective {
        id: RetrospectiveId::of_epoch(&key(), epoch),
        key: key(),
        epoch,
        first,
        last,
        as_of: dawn(),
        policy: Policy::default(),
        state: RetrospectiveState::Investigating,
        asked: None,
    }
}

/// Fourteen runs are counted, and the first ten are in the open retrospective.
fn open() -> WorkflowState {
    WorkflowState { counted: 14, claimed: 10, epoch: 1, open: true, ..WorkflowState::default() }
}

fn failed() -> WorkflowState {
    let mut state = open();
    state.release_window(&over(1, 1, 10));
    state
}

#[test]
fn cancelling_releases_the_runs_spends_the_epoch_and_counts_as_no_failure() {
    let mut state = open();
    state.cancel_retrospective(&over(1, 1, 10), add_seconds(dawn(), 60));
    let paused_until = Some(add_seconds(dawn(), 60 + 3600));
    assert_eq!(state, WorkflowState { counted: 14, epoch: 1, paused_until, ..WorkflowState::default() });
    assert_eq!(state.open_if_due(&key(), &Policy::default(), add_seconds(dawn(), 3600)), None, "it pauses");
    let next =
        state.open_if_due(&key(), &Policy::default(), add_seconds(dawn(), 3660)).unwrap().retrospective;
    assert_eq!((next.epoch, next.first, next.last), (2, 1, 14));
}

#[test]
fn calling_off_what_a_person_asked_for_leaves_the_workflow_as_it_was() {
    let asked = ManualRequest { request: "q".into(), by: "ada".into(), runs: vec![run("r1")], focus: None };
    let mut state = open();
    state.cancel_retrospective(&Retrospective { asked: Some(asked), ..over(0, 0, 0) }, dawn());
    assert_eq!(state, open());
}

#[test]
fn a_pause_that_runs_already_is_not_shortened_by_cancelling() {
    let until = add_seconds(dawn(), 86_400);
    let mut state = WorkflowState { paused_until: Some(until), ..open() };
    state.cancel_retrospective(&over(1, 1, 10), dawn());
    assert_eq!(state.paused_until, Some(until));
}

#[test]
fn a_failed_retrospective_is_followed_at_once_over_everything_that_is_not_claimed() {
    let mut state = failed();
    assert!(state.paused_until.is_some() && state.failures == 1);
    let opening = state.reopen_after(&over(1, 1, 10), &Policy::default(), dawn()).unwrap();
    let next = &opening.retrospective;
    assert_eq!((next.epoch, next.first, next.last, next.state), (2, 1, 14, RetrospectiveState::Due));
    assert_ne!(next.id, over(1, 1, 10).id, "a new id, so a new seed");
    assert_eq!((state.open, state.claimed, state.paused_until), (true, 14, None));
    assert_eq!(state.failures, 1, "if this one fails too, the pause goes on growing");
    state.release_window(next);
    assert_eq!(state.paused_until, Some(add_seconds(dawn(), 2 * 3600)));
}

#[test]
fn it_is_not_followed_while_one_is_open_or_when_its_runs_were_claimed_since() {
    let mut busy = failed();
    busy.reopen_after(&over(1, 1, 10), &Policy::default(), dawn()).unwrap();
    let before = busy.clone();
    let refused = busy.reopen_after(&over(1, 1, 10), &Policy::default(), dawn()).unwrap_err();
    assert_eq!((refused, &busy), (ReopenError::OneIsOpen { epoch: 2 }, &before));
    busy.close_retrospective();
    let refused = busy.reopen_after(&over(1, 1, 10), &Policy::default(), dawn()).unwrap_err();
    assert_eq!(refused, ReopenError::ClaimedSince { claimed: 14 });
}

#[test]
fn an_act_says_who_and_why_in_bounded_words() {
    assert_eq!(Attribution::new("ann", "  a wrong prompt ", dawn()).unwrap().reason, "a wrong prompt");
    let told = |by: &str, reason: &str| Attribution::new(by, reason, dawn()).unwrap_err().to_string();
    assert_eq!(told("ann", " \n"), "`reason` is empty");
    assert_eq!(told("", "why"), "`by` is empty");
    assert!(told("ann", &"x".repeat(ATTRIBUTION_CHARS_MAX + 1)).contains("1001 characters"));
}
