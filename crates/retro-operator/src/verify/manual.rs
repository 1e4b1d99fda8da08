//! Manual retrospectives and their proposals: they claim nothing, look at what was named, and are decided once.

use std::collections::BTreeSet;

use retro_core::id::WorkflowKey;
use retro_core::manual::{Asked, Proposal, Verdict};
use retro_core::memory::{Change, Effect};
use retro_core::report::Report;
use retro_core::retrospective::{Retrospective, State};
use retro_store::{OperatorStore, ProposalFilter, ProposalRow, Result, RunFilter};

use super::{Check, Look};
use crate::words::count;

pub(super) async fn check(
    store: &dyn OperatorStore,
    key: &WorkflowKey,
    manual: &[(Retrospective, Asked)],
    changes: &[Change],
    look: &mut Look,
) -> Result<()> {
    for (one, asked) in manual {
        let place = format!("{key}, manual retrospective {}", one.id);
        runs_exist(store, key, asked, &place, look).await?;
        if (one.first, one.last, one.epoch) != (0, 0, 0) {
            look.wrong(Check::Windows, &place, "it was asked for and has a window or an epoch");
        }
        if !matches!(one.state, State::Closed | State::Failed) {
            continue;
        }
        let Some(report) = store.report(&key.tenant, one.id).await? else {
            let problem = format!("it is {} and has no report", one.state.as_str());
            look.wrong(Check::Reports, place, problem);
            continue;
        };
        look.checked.reports += 1;
        agrees(one, &report, &place, look);
        let filter = ProposalFilter { retrospective: Some(one.id), limit: u32::MAX, ..Default::default() };
        let rows = store.proposals(&key.tenant, &filter).await?;
        proposals(&report, asked, &rows, changes, &place, look);
    }
    Ok(())
}

async fn runs_exist(
    store: &dyn OperatorStore,
    key: &WorkflowKey,
    asked: &Asked,
    place: &str,
    look: &mut Look,
) -> Result<()> {
    for run in &asked.runs {
        let filter = RunFilter { workflow: Some(key.workflow.clone()), run: Some(run.clone()), limit: 1 };
        let found = store.runs(&key.tenant, &filter).await?;
        if found.first().is_none_or(|row| row.ordinal.is_none()) {
            look.wrong(Check::Manual, place, format!("run {run} was named, and no such run is counted"));
        }
    }
    Ok(())
}

fn agrees(one: &Retrospective, report: &Report, place: &str, look: &mut Look) {
    if report.ended != one.state || report.asked != one.asked || !report.changes.is_empty() {
        let problem = "its report tells another end or request than its row, or a change of its own";
        look.wrong(Check::Reports, place, problem);
    }
    if report.policy.hash() != report.policy_hash {
        look.wrong(Check::Samples, format!("{place}, policy"), "its policy has another hash than it says");
    }
}

fn proposals(
    report: &Report,
    asked: &Asked,
    rows: &[ProposalRow],
    changes: &[Change],
    place: &str,
    look: &mut Look,
) {
    look.checked.proposals += rows.len() as u64;
    let stored: Vec<&Proposal> = rows.iter().map(|row| &row.proposal).collect();
    if stored != report.proposals.iter().collect::<Vec<_>>() {
        let (told, found) = (report.proposals.len() as u64, rows.len());
        let problem =
            format!("its report tells {}, and {found} are stored, or they differ", count(told, "proposal"));
        look.wrong(Check::Manual, format!("{place}, proposals"), problem);
    }
    let named: BTreeSet<_> = asked.runs.iter().collect();
    for ProposalRow { proposal, decision } in rows {
        let place = format!("{place}, proposal {}", proposal.id);
        let foreign = proposal.evidence.iter().find(|shown| !named.contains(&shown.run));
        if let Some(shown) = foreign {
            look.wrong(Check::Manual, &place, format!("run {} shows it and was not named", shown.run));
        }
        if let Some(Verdict::Accepted { memory, .. }) = decision.as_ref().map(|decision| &decision.verdict)
            && !changes.iter().any(|change| change.memory == *memory)
        {
            look.wrong(
                Check::Manual,
                &place,
                format!("it was accepted as memory {memory}, and there is none"),
            );
        }
    }
    accepted_once(rows, changes, place, look);
}

/// A change by which a person accepted names a proposal that says so.
fn accepted_once(rows: &[ProposalRow], changes: &[Change], place: &str, look: &mut Look) {
    for change in changes {
        let Effect::Accepted { proposal: Some(proposal), .. } = &change.effect else { continue };
        let Some(row) = rows.iter().find(|row| row.proposal.id == *proposal) else { continue };
        let verdict = row.decision.as_ref().map(|decision| &decision.verdict);
        if !matches!(verdict, Some(Verdict::Accepted { memory, .. }) if *memory == change.memory) {
            let problem = format!("change {} accepts it, and it is not accepted as that memory", change.id);
            look.wrong(Check::Manual, format!("{place}, proposal {proposal}"), problem);
        }
    }
}
