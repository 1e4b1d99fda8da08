//! Shows the audit log: who took which action on an object, when and why.

use retro_core::attribution::{Attribution, DecisionToken};
use retro_store::AuditRow;

use crate::redact::RedactFn;
use crate::text;

pub(crate) fn describe_attribution(act: &Attribution) -> String {
    format!(
        "by {} at {} ({})",
        describe_actor(&act.by, act.with_token.as_ref()),
        text::format_timestamp(act.at),
        text::single_line(&act.reason)
    )
}

/// Describes who asked for something: the name that the request gives, and the access token that it had.
pub(crate) fn describe_actor(by: &str, with_token: Option<&DecisionToken>) -> String {
    let token = with_token.map(|token| format!(", {}", text::single_line(&token.to_string())));
    format!("{}{}", text::single_line(by), token.unwrap_or_default())
}

/// Renders the audit log for a terminal, one entry per line. Returns an empty string if there are no entries.
pub fn render_audit_log(rows: &[AuditRow]) -> String {
    let opened =
        |row: &AuditRow| row.opened_retrospective.map(|id| format!("; it opened {id}")).unwrap_or_default();
    let detail = |row: &AuditRow| {
        row.detail.as_ref().map(|text| format!(": {}", text::single_line(text))).unwrap_or_default()
    };
    let line = |row: &AuditRow| {
        format!("{} {}{}{}\n", row.action.as_str(), describe_attribution(&row.act), opened(row), detail(row))
    };
    rows.iter().map(line).collect()
}

/// Redacts the names, reasons and details in the audit log of a dead letter, because operators may have
/// pasted secrets into them.
pub(crate) fn redact_audit_log(rows: Vec<AuditRow>, redact: RedactFn<'_>) -> Vec<AuditRow> {
    let clean = |row: AuditRow| AuditRow {
        act: redact_attribution(&row.act, redact),
        detail: row.detail.as_deref().map(redact),
        ..row
    };
    rows.into_iter().map(clean).collect()
}

/// Redacts the name and the reason of an attribution.
pub(crate) fn redact_attribution(act: &Attribution, redact: RedactFn<'_>) -> Attribution {
    Attribution {
        by: redact(&act.by),
        with_token: act.with_token.clone(),
        reason: redact(&act.reason),
        at: act.at,
    }
}
