//! Laws 1 and 2 on stored rows: ordinals, windows, epochs, and a report for each end.

use retro_core::canonical::canonical_json;
use retro_core::id::WorkflowKey;
use retro_core::memory::Change;
use retro_core::report::Report;
use retro_core::retrospective::{Retrospective, State, WorkflowState};
use retro_core::sample::draw;
use retro_store::{OperatorStore, Result};

use super::{Check, Look, manual};
use crate::words::count;

pub(super) async fn check(store: &dyn OperatorStore, key: &WorkflowKey, look: &mut Look) -> Result<()> {
    let state = state(store, key).await?;
    ordinals(store, key, &state, look).await?;
    let rows = store.retrospectives(&key.tenant, Some(&key.workflow), u32::MAX).await?;
    look.checked.retrospectives = rows.len() as u64;
    let mut all = Vec::new();
    let mut asked_for = Vec::new();
    for one in rows.into_iter().map(|row| row.retrospective) {
        match one.asked.clone() {
            Some(asked) => asked_for.push((one, asked)),
            None => all.push(one),
        }
    }
    all.sort_by_key(|one| one.epoch);
    epochs(key, &state, &all, look);
    windows(key, &state, &all, look);
    open(key, &state, &all, look);
    let changes = store.changes(key).await?;
    reports(store, key, &all, &changes, look).await?;
    manual::check(store, key, &asked_for, &changes, look).await
}

async fn state(store: &dyn OperatorStore, key: &WorkflowKey) -> Result<WorkflowState> {
    let rows = store.workflows(&key.tenant).await?;
    Ok(rows.into_iter().find(|row| row.key == *key).map(|row| row.state).unwrap_or_default())
}

/// The state is read before and after, since runs go on being counted: the last ordinal lies between the two.
async fn ordinals(
    store: &dyn OperatorStore,
    key: &WorkflowKey,
    before: &WorkflowState,
    look: &mut Look,
) -> Result<()> {
    let given = store.ordinals(key).await?;
    let after = state(store, key).await?;
    look.checked.runs = given.len() as u64;
    let place = key.to_string();
    if let Some((expected, found)) = (1..).zip(&given).find(|(expected, found)| expected != *found) {
        let what = if *found < expected { "stands there twice or out of order" } else { "comes next" };
        look.wrong(Check::Ordinals, &place, format!("ordinal {expected} is missing where {found} {what}"));
    }
    let last = given.len() as u64;
    if !(before.counted..=after.counted).contains(&last) {
        look.wrong(
            Check::Ordinals,
            format!("{place}, counted"),
            format!("{last} runs have an ordinal and the workflow says {}", after.counted),
        );
    }
    Ok(())
}

fn epochs(key: &WorkflowKey, state: &WorkflowState, all: &[Retrospective], look: &mut Look) {
    for (expected, one) in (1..).zip(all) {
        if one.epoch != expected {
            let problem = format!("epoch {expected} is missing; {} comes next", one.epoch);
            look.wrong(Check::Epochs, format!("{key}, epoch {expected}"), problem);
            return;
        }
    }
    let last = all.len() as u64;
    if last != state.epoch {
        let problem = format!("{last} retrospectives are stored and the workflow says {}", state.epoch);
        look.wrong(Check::Epochs, key.to_string(), problem);
    }
}

fn windows(key: &WorkflowKey, state: &WorkflowState, all: &[Retrospective], look: &mut Look) {
    let mut claimed = 0;
    for one in all {
        let place = format!("{key}, epoch {}", one.epoch);
        if one.first > one.last {
            look.wrong(
                Check::Windows,
                &place,
                format!("it ends at {} before it begins at {}", one.last, one.first),
            );
        }
        // A released window began where the claimed ones ended, too; it just does not count as claimed.
        if one.first != claimed + 1 {
            let problem = format!("it begins at {} and the windows before it end at {claimed}", one.first);
            look.wrong(Check::Windows, &place, problem);
        }
        if !matches!(one.state, State::Failed | State::Cancelled) {
            claimed = one.last;
        }
    }
    if claimed != state.claimed {
        let problem = format!("its windows end at {claimed} and the workflow says {}", state.claimed);
        look.wrong(Check::Windows, key.to_string(), problem);
    }
    if state.claimed > state.counted {
        let problem = format!("{} runs are claimed and {} counted", state.claimed, state.counted);
        look.wrong(Check::Windows, format!("{key}, claimed"), problem);
    }
}

fn open(key: &WorkflowKey, state: &WorkflowState, all: &[Retrospective], look: &mut Look) {
    let open: Vec<_> =
        all.iter().filter(|one| one.state.is_open()).map(|one| one.epoch.to_string()).collect();
    if open.len() > 1 {
        let problem = format!("epochs {} are open at once", open.join(", "));
        look.wrong(Check::Open, key.to_string(), problem);
    }
    if state.open == open.is_empty() {
        let says = if state.open { "one is open" } else { "none is open" };
        let problem = format!("the workflow says that {says}, and {} are", open.len());
        look.wrong(Check::Open, format!("{key}, open"), problem);
    }
}

async fn reports(
    store: &dyn OperatorStore,
    key: &WorkflowKey,
    all: &[Retrospective],
    changes: &[Change],
    look: &mut Look,
) -> Result<()> {
    for one in all.iter().filter(|one| matches!(one.state, State::Closed | State::Failed)) {
        let place = format!("{key}, epoch {}, retrospective {}", one.epoch, one.id);
        let Some(report) = store.report(&key.tenant, one.id).await? else {
            look.wrong(Check::Reports, place, format!("it is {} and has no report", one.state.as_str()));
            continue;
        };
        look.checked.reports += 1;
        if (report.ended, report.first, report.last, report.epoch)
            != (one.state, one.first, one.last, one.epoch)
        {
            look.wrong(
                Check::Reports,
                &place,
                "its report tells another state, window or epoch than its row",
            );
        }
        changes_agree(&place, &report, changes, look);
        redrawn(&place, &report, look);
    }
    Ok(())
}

fn changes_agree(place: &str, report: &Report, changes: &[Change], look: &mut Look) {
    let logged: Vec<_> = changes.iter().filter(|change| change.retrospective == Some(report.id)).collect();
    let reported: Vec<_> = report.changes.iter().collect();
    if bytes(&logged) != bytes(&reported) {
        let problem = format!(
            "its report lists {} and the change log {}, or they differ",
            count(reported.len() as u64, "change"),
            logged.len()
        );
        look.wrong(Check::Reports, format!("{place}, changes"), problem);
    }
}

/// Anyone can draw the sample again; here it is done.
fn redrawn(place: &str, report: &Report, look: &mut Look) {
    let drawn = draw(report.id, (report.first..=report.last).collect(), &report.policy);
    if drawn != report.sample {
        look.wrong(
            Check::Samples,
            place,
            "drawn again from its id, window and policy, the sample is another",
        );
    }
    if report.policy.hash() != report.policy_hash {
        look.wrong(Check::Samples, format!("{place}, policy"), "its policy has another hash than it says");
    }
}

fn bytes(changes: &[&Change]) -> String {
    canonical_json(&serde_json::to_value(changes).expect("changes are plain data"))
}
