use retro_core::id::{Ordinal, derive};
use retro_core::policy::Policy;
use retro_core::retrospective::State;

use super::*;
use crate::world::{hour, key};

pub(crate) fn one(epoch: Epoch, first: Ordinal, last: Ordinal, state: State) -> Retrospective {
    let key = key("default", "shop");
    let id = RetrospectiveId::automatic(&key, epoch);
    Retrospective {
        id,
        key,
        epoch,
        first,
        last,
        as_of: hour(0),
        policy: Policy::default(),
        state,
        asked: None,
    }
}

pub(crate) fn act() -> Act {
    Act::new("ann", "a load test\u{1b}[2J", hour(1)).unwrap()
}

#[test]
fn every_answer_to_a_cancel_is_one_sentence_that_says_what_is_now() {
    let state = WorkflowState { paused_until: Some(hour(2)), ..WorkflowState::default() };
    let now = Cancelled::Now { retrospective: one(3, 11, 20, State::Cancelled), state };
    let before = Cancelled::Ended { retrospective: one(3, 11, 20, State::Cancelled), act: Some(act()) };
    let closed = Cancelled::Ended { retrospective: one(3, 11, 20, State::Closed), act: None };
    let failed = Cancelled::Ended { retrospective: one(3, 11, 20, State::Failed), act: None };
    let told: Vec<_> = [now, before, closed, failed]
        .into_iter()
        .map(|answer| cancelled(answer).unwrap())
        .map(|told| format!("{:?}: {}\n", told.did, told.detail))
        .collect();
    insta::assert_snapshot!(told.concat());
    assert_eq!(cancelled(Cancelled::Unknown), None);
}

#[test]
fn acts_are_shown_with_who_when_and_why_and_without_control_characters() {
    let opened = Some(RetrospectiveId(derive("retrospective", &["x"])));
    let rows = [
        ActRow { deed: retro_store::Deed::Replayed, act: act(), opened, detail: None },
        ActRow { deed: retro_store::Deed::Cancelled, act: act(), opened: None, detail: None },
    ];
    insta::assert_snapshot!(acts(&rows));
    assert_eq!(acts(&[]), "");
}
