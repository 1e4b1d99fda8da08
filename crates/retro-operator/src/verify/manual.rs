//! Manual retrospectives and their proposals: they claim nothing, look at what was named, and are decided once.

use std::collections::BTreeSet;

use retro_core::id::WorkflowKey;
use retro_core::manual::{Asked, Proposal, Verdict};
use retro_core::memory::{Change, Effect};
use retro_core::report::Report;
use retro_core::retrospective::{Retrospective, State};
use retro_store::{OperatorStore, ProposalRow, Result, RetrospectiveBooks};

use super::{Check, Look};
use crate::words::count;

pub(super) async fn check(
    store: &dyn OperatorStore,
    books: &RetrospectiveBooks,
    asked: &Asked,
    look: &mut Look,
) -> Result<()> {
    let one = &books.retrospective;
    let place = format!("{}, manual retrospective {}", one.key, one.id);
    for run in store.uncounted(&one.key, &asked.runs).await? {
        look.wrong(Check::Manual, &place, format!("run {run} was named, and no such run is counted"));
    }
    if (one.first, one.last, one.epoch) != (0, 0, 0) {
        look.wrong(Check::Windows, &place, "it was asked for and has a window or an epoch");
    }
    if !matches!(one.state, State::Closed | State::Failed) {
        return Ok(());
    }
    let Some(report) = &books.report else {
        look.wrong(Check::Reports, place, format!("it is {} and has no report", one.state.as_str()));
        return Ok(());
    };
    look.checked.reports += 1;
    agrees(one, report, &place, look);
    check_proposals(report, asked, &books.proposals, &place, look);
    check_accepted(store, one, &books.proposals, &place, look).await
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

fn check_proposals(report: &Report, asked: &Asked, rows: &[ProposalRow], place: &str, look: &mut Look) {
    look.checked.proposals += rows.len() as u64;
    let stored: Vec<&Proposal> = rows.iter().map(|row| &row.proposal).collect();
    if stored != report.proposals.iter().collect::<Vec<_>>() {
        let (told, found) = (report.proposals.len() as u64, rows.len());
        let problem =
            format!("its report tells {}, and {found} are stored, or they differ", count(told, "proposal"));
        look.wrong(Check::Manual, format!("{place}, proposals"), problem);
    }
    let named: BTreeSet<_> = asked.runs.iter().collect();
    for ProposalRow { proposal, .. } in rows {
        let foreign = proposal.evidence.iter().find(|shown| !named.contains(&shown.run));
        if let Some(shown) = foreign {
            let problem = format!("run {} shows it and was not named", shown.run);
            look.wrong(Check::Manual, format!("{place}, proposal {}", proposal.id), problem);
        }
    }
}

/// What was accepted has changes of the memory that it became.
async fn check_accepted(
    store: &dyn OperatorStore,
    one: &Retrospective,
    rows: &[ProposalRow],
    place: &str,
    look: &mut Look,
) -> Result<()> {
    for ProposalRow { proposal, decision } in rows {
        if let Some(Verdict::Accepted { memory, .. }) = decision.as_ref().map(|decision| &decision.verdict)
            && store.history(&one.key.tenant, *memory).await?.is_empty()
        {
            let problem = format!("it was accepted as memory {memory}, and there is none");
            look.wrong(Check::Manual, format!("{place}, proposal {}", proposal.id), problem);
        }
    }
    Ok(())
}

/// A change by which a person accepted names a proposal that says so.
pub(super) async fn check_acceptance(
    store: &dyn OperatorStore,
    key: &WorkflowKey,
    change: &Change,
    look: &mut Look,
) -> Result<()> {
    let Effect::Accepted { proposal: Some(proposal), .. } = &change.effect else { return Ok(()) };
    let Some(row) = store.proposal(&key.tenant, *proposal).await? else { return Ok(()) };
    let verdict = row.decision.as_ref().map(|decision| &decision.verdict);
    if !matches!(verdict, Some(Verdict::Accepted { memory, .. }) if *memory == change.memory) {
        let of = row.proposal.retrospective;
        let problem = format!("change {} accepts it, and it is not accepted as that memory", change.id);
        let place = format!("{key}, manual retrospective {of}, proposal {proposal}");
        look.wrong(Check::Manual, place, problem);
    }
    Ok(())
}
