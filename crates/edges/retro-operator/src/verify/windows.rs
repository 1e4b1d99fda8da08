//! Checks laws 1 and 2 on the stored rows: ordinals, windows and epochs.

use retro_core::id::WorkflowKey;
use retro_core::retrospective::{RetrospectiveState, WorkflowState};
use retro_store::{WindowRow, WorkflowRecords};

use super::page::PageCheck;
use super::verification::Check;

pub(super) fn check_workflows(books: &[WorkflowRecords], page_check: &mut PageCheck) {
    for one in books {
        page_check.tenants.push(one.key.tenant.clone());
        // The rule scope of a repository has a row but neither runs nor windows.
        page_check.checked.workflows += u64::from(one.recorded > 0);
        check_ordinals(one, page_check);
        check_epochs(&one.key, &one.state, &one.windows, page_check);
        check_windows(&one.key, &one.state, &one.windows, page_check);
        check_open(&one.key, &one.state, &one.windows, page_check);
    }
}

fn check_ordinals(books: &WorkflowRecords, page_check: &mut PageCheck) {
    let WorkflowRecords { key, state, ordinals, .. } = books;
    page_check.checked.runs += ordinals.assigned;
    if let Some((expected, found)) = ordinals.first_gap {
        let what = if found < expected { "stands there twice or out of order" } else { "comes next" };
        let problem = format!("ordinal {expected} is missing where {found} {what}");
        page_check.add_violation(Check::Ordinals, key.to_string(), problem);
    }
    if ordinals.assigned != state.counted {
        let problem =
            format!("{} runs have an ordinal and the workflow says {}", ordinals.assigned, state.counted);
        page_check.add_violation(Check::Ordinals, format!("{key}, counted"), problem);
    }
}

fn check_epochs(key: &WorkflowKey, state: &WorkflowState, all: &[WindowRow], page_check: &mut PageCheck) {
    for (expected, one) in (1..).zip(all) {
        if one.epoch != expected {
            let problem = format!("epoch {expected} is missing; {} comes next", one.epoch);
            page_check.add_violation(Check::Epochs, format!("{key}, epoch {expected}"), problem);
            // After a gap, every later epoch would be reported as well.
            return;
        }
    }
    let last = all.len() as u64;
    if last != state.epoch {
        let problem = format!("{last} retrospectives are stored and the workflow says {}", state.epoch);
        page_check.add_violation(Check::Epochs, key.to_string(), problem);
    }
}

fn check_windows(key: &WorkflowKey, state: &WorkflowState, all: &[WindowRow], page_check: &mut PageCheck) {
    let mut claimed = 0;
    for one in all {
        let place = format!("{key}, epoch {}", one.epoch);
        if one.first > one.last {
            page_check.add_violation(
                Check::Windows,
                &place,
                format!("it ends at {} before it begins at {}", one.last, one.first),
            );
        }
        // A released window also begins right after the claimed ones, but it does not count as claimed.
        if one.first != claimed + 1 {
            let problem = format!("it begins at {} and the windows before it end at {claimed}", one.first);
            page_check.add_violation(Check::Windows, &place, problem);
        }
        if !matches!(one.state, RetrospectiveState::Failed | RetrospectiveState::Cancelled) {
            claimed = one.last;
        }
    }
    if claimed != state.claimed {
        let problem = format!("its windows end at {claimed} and the workflow says {}", state.claimed);
        page_check.add_violation(Check::Windows, key.to_string(), problem);
    }
    if state.claimed > state.counted {
        let problem = format!("{} runs are claimed and {} counted", state.claimed, state.counted);
        page_check.add_violation(Check::Windows, format!("{key}, claimed"), problem);
    }
}

fn check_open(key: &WorkflowKey, state: &WorkflowState, all: &[WindowRow], page_check: &mut PageCheck) {
    let open: Vec<_> =
        all.iter().filter(|one| one.state.is_open()).map(|one| one.epoch.to_string()).collect();
    if open.len() > 1 {
        let problem = format!("epochs {} are open at once", open.join(", "));
        page_check.add_violation(Check::Open, key.to_string(), problem);
    }
    if state.open == open.is_empty() {
        let says = if state.open { "one is open" } else { "none is open" };
        let problem = format!("the workflow says that {says}, and {} are", open.len());
        page_check.add_violation(Check::Open, format!("{key}, open"), problem);
    }
}
