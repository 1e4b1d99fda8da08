//! Reports about reviews: a list, and one in full. Everything that people said is shown as what it is, never as ours.

use retro_core::review::{ReportedRemark, ReviewReport};

use crate::grid::grid;
use crate::words;

/// Reports, one a line, as they come.
pub fn list(rows: &[ReviewReport], columns: u16) -> String {
    if rows.is_empty() {
        return "no reports about reviews\n".to_owned();
    }
    let row = |report: &ReviewReport| {
        [
            words::moment(report.as_of),
            words::line(&report.review.to_string()),
            report.remarks.len().to_string(),
            report.changes.len().to_string(),
            report.id.to_string(),
        ]
    };
    grid(columns, ["decided", "review", "remarks", "changes", "id"], rows.iter().map(row).collect())
}

/// One report in full: every remark, what it was taken for, what became of it and why.
pub fn report(report: &ReviewReport, columns: u16) -> String {
    let row = |remark: &ReportedRemark| {
        let did: Vec<_> = remark.did.iter().map(|did| did.kind.as_str()).collect();
        [
            words::line(&remark.by),
            remark.standing.as_str().to_owned(),
            remark.kind.as_str().to_owned(),
            remark.certainty.to_string(),
            if did.is_empty() { "nothing".to_owned() } else { did.join(", ") },
            words::line(&remark.excerpt),
            words::line(&remark.why),
        ]
    };
    let head = ["by", "standing", "taken for", "sure", "did", "said", "why"];
    let remarks = grid(columns, head, report.remarks.iter().map(row).collect());
    format!(
        "{}\ndecided {} · closed {} · {} · policy {} · {}\n{}\n{}",
        words::line(&report.review.to_string()),
        words::moment(report.as_of),
        words::moment(report.closed_at),
        words::count(report.changes.len() as u64, "change"),
        &report.policy_hash[..12.min(report.policy_hash.len())],
        report.id,
        remarks,
        report.remarks.iter().map(features).collect::<String>()
    )
}

/// What spoke for and against a remark's being a rule, one line each.
fn features(remark: &ReportedRemark) -> String {
    if remark.features.is_empty() && remark.screening.hostile.is_empty() {
        return String::new();
    }
    let seen =
        remark.features.iter().map(|feature| format!("{} {:+}", words::line(&feature.name), feature.counts));
    let hostile = remark.screening.hostile.iter().map(|reason| format!("hostile: {}", words::line(reason)));
    let all: Vec<_> = seen.chain(hostile).collect();
    format!("{}: {}\n", remark.remark, all.join("; "))
}
