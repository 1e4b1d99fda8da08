//! Checks the epochs and windows of automatic retrospectives.

use super::invariant::Invariant;
use super::judge::Judge;
use crate::state::{Retrospective, State, Workflow};

pub(super) fn check_windows(judge: &mut Judge, state: &State) {
    for workflow in &state.workflows {
        let of = |one: &&Retrospective| {
            one.tenant == workflow.tenant && one.workflow == workflow.workflow && !one.manual
        };
        let mut automatic: Vec<_> = state.retrospectives.iter().filter(of).collect();
        automatic.sort_unstable_by_key(|one| one.epoch);
        check_epochs(judge, workflow, &automatic);
        check_window_bounds(judge, workflow, &automatic);
    }
}

fn check_epochs(judge: &mut Judge, workflow: &Workflow, automatic: &[&Retrospective]) {
    let place = format!("retrospectives, {} {}", workflow.tenant, workflow.workflow);
    let epochs: Vec<_> = automatic.iter().map(|one| one.epoch).collect();
    if !epochs.iter().copied().eq(1..=workflow.epoch) {
        let problem = format!("the last epoch is {}, but the epochs are {epochs:?}", workflow.epoch);
        judge.add_violation(Invariant::EpochsContiguous, place.clone(), problem);
    }
    let open = automatic.iter().filter(|one| is_open(one)).count();
    if open != usize::from(workflow.open) {
        let recorded = if workflow.open { "one is open" } else { "none is open" };
        judge.add_violation(
            Invariant::EpochsContiguous,
            place,
            format!("the workflow row says that {recorded}, but {open} are open"),
        );
    }
}

fn check_window_bounds(judge: &mut Judge, workflow: &Workflow, automatic: &[&Retrospective]) {
    let mut free = 1;
    for one in automatic {
        let place = format!("retrospectives, {}, epoch {} of {}", one.id, one.epoch, one.workflow);
        if one.first_ordinal != free || one.last_ordinal < one.first_ordinal {
            let problem = format!(
                "its window is {} to {}, but the next unclaimed ordinal is {free}",
                one.first_ordinal, one.last_ordinal
            );
            judge.add_violation(Invariant::WindowsContiguous, place, problem);
        }
        // The next retrospective claims the ordinals of a released window again.
        if !is_released(one) {
            free = one.last_ordinal + 1;
        }
    }
    if workflow.claimed + 1 != free || workflow.claimed > workflow.counted {
        let place = format!("workflows, {} {}", workflow.tenant, workflow.workflow);
        let Workflow { claimed, counted, .. } = workflow;
        let problem = format!("{claimed} of {counted} runs are claimed, but the windows end before {free}");
        judge.add_violation(Invariant::WindowsContiguous, place, problem);
    }
}

pub(super) fn is_open(one: &Retrospective) -> bool {
    ["due", "investigating", "settling"].contains(&one.state.as_str())
}

fn is_released(one: &Retrospective) -> bool {
    ["failed", "cancelled"].contains(&one.state.as_str())
}
