//! Checks that manual retrospectives claim no runs and investigate only named runs, and that their proposals are
//! decided at most once.

use std::collections::BTreeSet;

use retro_core::id::WorkflowKey;
use retro_core::manual::ProposalDecision;
use retro_core::memory::{Change, ChangeEffect, Proposal};
use retro_core::report::Report;
use retro_core::retrospective::{ManualRequest, Retrospective, RetrospectiveState};
use retro_store::{OperatorStore, ProposalRow, Result, RetrospectiveRecords};

use super::page::PageCheck;
use super::verification::Check;
use crate::text::format_count;

pub(super) async fn check_manual(
    store: &dyn OperatorStore,
    books: &RetrospectiveRecords,
    request: &ManualRequest,
    page_check: &mut PageCheck,
) -> Result<()> {
    let one = &books.retrospective;
    let place = format!("{}, manual retrospective {}", one.key, one.id);
    for run in store.find_uncounted_runs(&one.key, &request.runs).await? {
        page_check.add_violation(
            Check::Manual,
            &place,
            format!("run {run} was named, and no such run is counted"),
        );
    }
    // A manual retrospective claims no window, so it stores zeros.
    if (one.first, one.last, one.epoch) != (0, 0, 0) {
        page_check.add_violation(
            Check::Windows,
            &place,
            "a manual retrospective must not have a window or an epoch",
        );
    }
    if !matches!(one.state, RetrospectiveState::Closed | RetrospectiveState::Failed) {
        return Ok(());
    }
    let Some(report) = &books.report else {
        page_check.add_violation(
            Check::Reports,
            place,
            format!("it is {} and has no report", one.state.as_str()),
        );
        return Ok(());
    };
    page_check.checked.reports += 1;
    check_report(one, report, &place, page_check);
    check_proposals(report, request, &books.proposals, &place, page_check);
    check_accepted_memories(store, one, &books.proposals, &place, page_check).await
}

fn check_report(one: &Retrospective, report: &Report, place: &str, page_check: &mut PageCheck) {
    if report.ended != one.state || report.manual_request != one.manual_request || !report.changes.is_empty()
    {
        let problem = "end or request of its report differ from its row, or the report has changes";
        page_check.add_violation(Check::Reports, place, problem);
    }
    if report.policy.content_hash() != report.policy_hash {
        page_check.add_violation(
            Check::Samples,
            format!("{place}, policy"),
            "its policy does not have the recorded hash",
        );
    }
}

fn check_proposals(
    report: &Report,
    request: &ManualRequest,
    rows: &[ProposalRow],
    place: &str,
    page_check: &mut PageCheck,
) {
    page_check.checked.proposals += rows.len() as u64;
    let stored: Vec<&Proposal> = rows.iter().map(|row| &row.proposal).collect();
    if stored != report.proposals.iter().collect::<Vec<_>>() {
        let (reported, found) = (report.proposals.len() as u64, rows.len());
        let problem = format!(
            "its report has {}, and {found} are stored, or they differ",
            format_count(reported, "proposal")
        );
        page_check.add_violation(Check::Manual, format!("{place}, proposals"), problem);
    }
    let named: BTreeSet<_> = request.runs.iter().collect();
    for ProposalRow { proposal, .. } in rows {
        let foreign = proposal.evidence.iter().find(|shown| !named.contains(&shown.run));
        if let Some(shown) = foreign {
            let problem = format!("run {} supports it but was not named", shown.run);
            page_check.add_violation(Check::Manual, format!("{place}, proposal {}", proposal.id), problem);
        }
    }
}

/// Checks that the memory of each accepted proposal is in the change log.
async fn check_accepted_memories(
    store: &dyn OperatorStore,
    one: &Retrospective,
    rows: &[ProposalRow],
    place: &str,
    page_check: &mut PageCheck,
) -> Result<()> {
    for ProposalRow { proposal, decision } in rows {
        if let Some(ProposalDecision::Accepted { memory, .. }) =
            decision.as_ref().map(|record| &record.decision)
            && store.list_memory_changes(&one.key.tenant, *memory).await?.is_empty()
        {
            let problem = format!("it was accepted as memory {memory}, which does not exist");
            page_check.add_violation(Check::Manual, format!("{place}, proposal {}", proposal.id), problem);
        }
    }
    Ok(())
}

/// Checks that a change that accepts a proposal agrees with its decision: accepted, as the memory of this
/// change.
pub(super) async fn check_acceptance_change(
    store: &dyn OperatorStore,
    key: &WorkflowKey,
    change: &Change,
    page_check: &mut PageCheck,
) -> Result<()> {
    let ChangeEffect::Accepted { proposal: Some(proposal), .. } = &change.effect else { return Ok(()) };
    let Some(row) = store.find_proposal(&key.tenant, *proposal).await? else { return Ok(()) };
    let decision = row.decision.as_ref().map(|record| &record.decision);
    if !matches!(decision, Some(ProposalDecision::Accepted { memory, .. }) if *memory == change.memory) {
        let of = row.proposal.retrospective;
        let problem =
            format!("change {} accepts it, but it is not recorded as accepted as that memory", change.id);
        let place = format!("{key}, manual retrospective {of}, proposal {proposal}");
        page_check.add_violation(Check::Manual, place, problem);
    }
    Ok(())
}
