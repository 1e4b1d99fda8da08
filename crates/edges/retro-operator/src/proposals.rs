//! Renders the proposals of manual retrospectives, as a list or one in full.

use retro_core::manual::ProposalDecision;
use retro_core::memory::Proposal;
use retro_store::{ProposalRow, ProposalStatus};

use crate::text;
use crate::text_table::{Layout, render_table};

/// Renders proposals, one per line.
pub fn render_proposals(rows: &[ProposalRow], layout: impl Into<Layout>) -> String {
    if rows.is_empty() {
        return "no proposals\n".to_owned();
    }
    let row = |row: &ProposalRow| {
        let one = &row.proposal;
        [
            proposal_status(row).as_str().to_owned(),
            one.evidence.len().to_string(),
            text::single_line(&one.lesson.title),
            text::single_line(&text::describe_full_scope(&one.scope())),
            retro_core::id::short_id(one.id.0),
        ]
    };
    render_table(layout, ["status", "runs", "proposal", "about", "id"], rows.iter().map(row).collect())
}

/// Renders one proposal in full: the lesson, the runs that support it, and the decision.
pub fn render_proposal(row: &ProposalRow) -> String {
    let one = &row.proposal;
    format!(
        "{}\n{} · {} · {} · of manual retrospective {}\n{}\n{}\nevidence\n{}",
        text::single_line(&one.lesson.title),
        one.id,
        proposal_status(row).as_str(),
        text::single_line(&text::describe_full_scope(&one.scope())),
        one.retrospective,
        text::printable(&one.lesson.content),
        render_decision(row),
        render_evidence(one)
    )
}

/// Returns the status of a proposal, derived from its decision.
pub(crate) fn proposal_status(row: &ProposalRow) -> ProposalStatus {
    match row.decision.as_ref().map(|record| &record.decision) {
        None => ProposalStatus::Open,
        Some(ProposalDecision::Accepted { .. }) => ProposalStatus::Accepted,
        Some(ProposalDecision::Refused { .. }) => ProposalStatus::Refused,
    }
}

fn render_decision(row: &ProposalRow) -> String {
    let Some(decision) = &row.decision else {
        return "not decided yet: use `retro proposals accept` or `refuse`\n".to_owned();
    };
    let (by, at) = (text::single_line(&decision.by), text::format_timestamp(decision.at));
    match &decision.decision {
        ProposalDecision::Accepted { memory, result, reason } => {
            let reason = reason.as_ref().map(|reason| format!("; reason: {}", text::single_line(reason)));
            let reason = reason.unwrap_or_default();
            format!("accepted by {by} on {at} as memory {memory}: {}{reason}\n", text::single_line(result))
        }
        ProposalDecision::Refused { reason } => {
            format!("refused by {by} on {at}: {}\n", text::single_line(reason))
        }
    }
}

/// Renders the quotes that support a proposal, each with the run and the origin that it comes from.
pub(crate) fn render_evidence(proposal: &Proposal) -> String {
    let quotes = proposal.evidence.iter().map(|shown| {
        let (run, place) = (text::single_line(shown.run.as_str()), text::describe_place(shown.quote.place));
        let origin = text::describe_origin(&shown.origin);
        format!("  {}\n    — run {run}, {place}{origin}\n", text::single_line(&shown.quote.text))
    });
    quotes.collect()
}
