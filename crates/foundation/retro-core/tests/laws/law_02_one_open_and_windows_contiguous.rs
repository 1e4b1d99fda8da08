//! A workflow has at most one open automatic retrospective. Its windows are contiguous and disjoint, and each
//! ends in a report or is released.

use proptest::prelude::*;
use retro_core::retrospective::{Retrospective, RetrospectiveState};

use crate::ledger::{Ledger, THRESHOLD, timelines, workflows};
use crate::{CASES, cases};

fn check_windows(ledger: &Ledger) {
    for key in workflows() {
        let all: Vec<&Retrospective> = ledger.retrospectives.values().filter(|one| one.key == key).collect();
        let Some(state) = ledger.workflows.get(&key) else {
            assert!(all.is_empty());
            continue;
        };
        let epochs: Vec<_> = all.iter().map(|one| one.epoch).collect();
        assert_eq!(epochs, (1..=state.epoch).collect::<Vec<_>>(), "epochs have no gaps");
        let open: Vec<_> = all.iter().filter(|one| one.state.is_open()).map(|one| one.epoch).collect();
        assert_eq!(open, if state.open { vec![state.epoch] } else { vec![] }, "at most the last one is open");
        let mut next = 1;
        for one in &all {
            assert_eq!(
                one.first, next,
                "{key} {}: windows are contiguous and include released runs again",
                one.epoch
            );
            assert!(one.window_runs() >= u64::from(THRESHOLD));
            if one.state != RetrospectiveState::Failed {
                next = one.last + 1;
            }
        }
        assert_eq!(state.claimed, next - 1, "nothing else is claimed");
        assert!(state.claimed <= state.counted);
    }
}

proptest! {
    #![proptest_config(cases(CASES))]

    #[test]
    fn windows_are_contiguous_and_disjoint_at_every_moment(timeline in timelines()) {
        timeline.play(check_windows);
    }

    #[test]
    fn a_full_window_waits_only_while_one_is_open_or_paused(timeline in timelines()) {
        let ledger = timeline.play(check_windows);
        for state in ledger.workflows.values() {
            let waits = state.window_size() >= u64::from(THRESHOLD);
            prop_assert!(!waits || state.open || state.paused_until.is_some(), "{state:?}");
        }
    }
}
