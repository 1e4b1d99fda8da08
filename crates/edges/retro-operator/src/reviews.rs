//! Renders reports about reviews, as a list or one in full. Reviewers' text is untrusted and made safe for a
//! terminal.

mod remarks;

use retro_core::review::{ModelCosts, ModelReading, ReportedRemark, ReviewReading, ReviewReport};

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
    let pipeline = report.pipeline.as_ref().map(|version| format!(" · pipeline {version}"));
    format!(
        "{}\ndecided {} · closed {} · {} · policy {}{} · {}\n{}{}\n{}{}",
        text::single_line(&report.review.to_string()),
        text::format_timestamp(report.as_of),
        text::format_timestamp(report.closed_at),
        text::format_count(report.changes.len() as u64, "change"),
        &report.policy_hash[..12.min(report.policy_hash.len())],
        pipeline.unwrap_or_default(),
        report.id,
        report.reading.as_ref().map_or_else(String::new, describe_reading),
        remarks,
        report.remarks.iter().map(render_features).collect::<String>(),
        render_promotion_hint(report)
    )
}

/// Says who read the remarks, what a language model cost, and what of its answers was not taken; one line each.
fn describe_reading(reading: &ReviewReading) -> String {
    let ReviewReading { reader, read_by_model, without_rules, model_note, dropped, refused_wordings, costs } =
        reading;
    let mut lines = vec![format!("read by {}", text::single_line(reader))];
    if *read_by_model > 0 {
        let none = match without_rules {
            0 => String::new(),
            none => format!(", \"no rules\" about {none} of them"),
        };
        lines.push(format!(
            "a language model answered about {}{none}; {dropped} of its answers dropped, {refused_wordings} of its \
             wordings refused",
            text::format_count((*read_by_model).into(), "remark"),
        ));
    }
    if costs.calls > 0 || costs.found_again > 0 {
        lines.push(describe_costs(costs));
    }
    lines.extend(model_note.as_ref().map(|note| text::single_line(note)));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn describe_costs(costs: &ModelCosts) -> String {
    let dollars = costs.micro_usd as f64 / 1_000_000.0;
    let cost = match (costs.calls, costs.unpriced_calls) {
        (_, 0) => format!("${dollars:.4}"),
        (calls, unpriced) if calls == unpriced => "price not known".to_owned(),
        (_, unpriced) => {
            format!("${dollars:.4} and {} of unknown price", text::format_count(unpriced.into(), "call"))
        }
    };
    let again = match costs.found_again {
        0 => String::new(),
        again => {
            format!("; {} of an earlier decision found again", text::format_count(again.into(), "answer"))
        }
    };
    format!(
        "{}, {} tokens ({} cached), {cost}, {}{again}",
        text::format_count(costs.calls.into(), "model call"),
        costs.tokens.total(),
        costs.tokens.cached_tokens,
        text::format_duration(costs.duration_ms),
    )
}

/// Says what a language model read in a remark; empty if none did.
fn describe_model(model: &ModelReading) -> String {
    let ModelReading { kind, quote, worded_by, refused } = model;
    let quote =
        if quote.is_empty() { String::new() } else { format!(": “{}”", text::single_line(quote)) };
    let worded = worded_by
        .as_ref()
        .map(|model| format!("; worded by {}", text::single_line(model)))
        .unwrap_or_default();
    let refused =
        refused.as_ref().map(|why| format!("; not taken: {}", text::single_line(why))).unwrap_or_default();
    format!("model says {}{quote}{worded}{refused}", kind.as_str())
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
    let all: Vec<_> = seen.chain(hostile).chain(remark.model.as_ref().map(describe_model)).collect();
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
