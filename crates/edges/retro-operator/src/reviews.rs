//! Renders reports about reviews, as a list or one in full. Reviewers' text is untrusted and made safe for a
//! terminal.

mod remarks;

use retro_core::review::{ReportedRemark, ReviewReport};

pub(crate) use remarks::add_read_routes;
pub use remarks::{REVIEWS_SEARCHED_MAX, RemarkList, RemarkView, list_remarks, render_remarks};

use crate::text;
use crate::text_table::{Layout, render_table};

/// Renders reports in the given order, one per line.
pub fn render_reports(rows: &[ReviewReport], layout: impl Into<Layout>) -> String {
    if rows.is_empty() {
        return "no reports about reviews\n".to_owned();
    }
    let row = |report: &ReviewReport| {
        [
            text::format_timestamp(report.as_of),
            text::single_line(&report.review.to_string()),
            report.remarks.len().to_string(),
            report.changes.len().to_string(),
            retro_core::id::short_id(report.id.0),
        ]
    };
    render_table(layout, ["decided", "review", "remarks", "changes", "id"], rows.iter().map(row).collect())
}

/// Renders one report in full, with the key, the classification, the result and the reason of each remark.
pub fn render_report(report: &ReviewReport, columns: u16) -> String {
    let row = |remark: &ReportedRemark| {
        let changes: Vec<_> = remark.changes.iter().map(|change| change.kind.as_str()).collect();
        [
            text::single_line(&remark.by),
            remark.standing.as_str().to_owned(),
            remark.kind.as_str().to_owned(),
            remark.certainty.to_string(),
            if changes.is_empty() { "nothing".to_owned() } else { changes.join(", ") },
            text::single_line(&remark.excerpt),
            text::single_line(&remark.reason),
        ]
    };
    let head = ["author", "standing", "kind", "certainty", "changes", "text", "reason"];
    let remarks = render_table(columns, head, report.remarks.iter().map(row).collect());
    format!(
        "{}\ndecided {} · closed {} · {} · policy {} · {}\n{}\n{}{}",
        text::single_line(&report.review.to_string()),
        text::format_timestamp(report.as_of),
        text::format_timestamp(report.closed_at),
        text::format_count(report.changes.len() as u64, "change"),
        &report.policy_hash[..12.min(report.policy_hash.len())],
        report.id,
        remarks,
        report.remarks.iter().map(render_features).collect::<String>(),
        render_promotion_hint(report)
    )
}

/// Renders one line with the key of a remark, the features that counted for or against a rule, and the reasons why the
/// remark is hostile.
fn render_features(remark: &ReportedRemark) -> String {
    let seen = remark
        .features
        .iter()
        .map(|feature| format!("{} {:+}", text::single_line(&feature.name), feature.contribution));
    let hostile =
        remark.screening.hostile.iter().map(|reason| format!("hostile: {}", text::single_line(reason)));
    let all: Vec<_> = seen.chain(hostile).collect();
    let all = if all.is_empty() { "nothing in it counts".to_owned() } else { all.join("; ") };
    format!("{}: {all}\n", remark.remark)
}

/// Says how a person makes a rule of a remark that changed nothing. Empty if there is none.
fn render_promotion_hint(report: &ReviewReport) -> &'static str {
    if report.remarks.iter().any(|remark| remark.changes.is_empty()) {
        "\na remark that changed nothing becomes a rule by `retro rules promote --remark KEY`\n"
    } else {
        ""
    }
}
