//! Proposals of manual retrospectives, as a list and one in full.

use retro_core::manual::{Proposal, Verdict};
use retro_store::{ProposalRow, ProposalStatus};

use crate::grid::grid;
use crate::words;

/// Proposals, one a line. Says so when there is none.
pub fn proposals(rows: &[ProposalRow], columns: u16) -> String {
    if rows.is_empty() {
        return "no proposals\n".to_owned();
    }
    let row = |row: &ProposalRow| {
        let one = &row.proposal;
        [
            status(row).as_str().to_owned(),
            one.evidence.len().to_string(),
            words::line(&one.lesson.title),
            words::line(&words::home(&one.scope())),
            one.id.to_string(),
        ]
    };
    grid(columns, ["status", "runs", "proposal", "about", "id"], rows.iter().map(row).collect())
}

/// One proposal in full: what it says, the runs that show it, and what was decided.
pub fn proposal(row: &ProposalRow) -> String {
    let one = &row.proposal;
    format!(
        "{}\n{} · {} · {} · of manual retrospective {}\n{}\n{}\nshown by\n{}",
        words::line(&one.lesson.title),
        one.id,
        status(row).as_str(),
        words::line(&words::home(&one.scope())),
        one.retrospective,
        words::visible(&one.lesson.content),
        decision(row),
        evidence(one)
    )
}

/// Where a proposal stands.
pub(crate) fn status(row: &ProposalRow) -> ProposalStatus {
    match row.decision.as_ref().map(|decision| &decision.verdict) {
        None => ProposalStatus::Open,
        Some(Verdict::Accepted { .. }) => ProposalStatus::Accepted,
        Some(Verdict::Refused { .. }) => ProposalStatus::Refused,
    }
}

fn decision(row: &ProposalRow) -> String {
    let Some(decision) = &row.decision else {
        return "nobody has decided: `retro proposals accept` or `refuse` does\n".to_owned();
    };
    let (by, at) = (words::line(&decision.by), words::moment(decision.at));
    match &decision.verdict {
        Verdict::Accepted { memory, did } => {
            format!("accepted by {by} on {at} as memory {memory}: {}\n", words::line(did))
        }
        Verdict::Refused { reason } => format!("refused by {by} on {at}: {}\n", words::line(reason)),
    }
}

/// The runs that show a proposal, each with its words.
pub(crate) fn evidence(proposal: &Proposal) -> String {
    let told = proposal.evidence.iter().map(|shown| {
        let (run, place) = (words::line(shown.run.as_str()), words::place(shown.quote.place));
        format!("  {}\n    — run {run}, {place}\n", words::line(&shown.quote.text))
    });
    told.collect()
}
