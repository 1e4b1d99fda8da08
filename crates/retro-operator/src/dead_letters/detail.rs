//! Shows one dead letter with its attempts, versions, replays and runbook.

use jiff::Timestamp;
use retro_core::cancel::Attribution;
use retro_core::id::{DeadLetterId, Tenant};
use retro_store::{
    Attempt, AuditRow, DeadLetterStatus, DeadLetterVersionRow, DeliveryPosition, OperatorStore, ReplayRow,
    StoreError,
};
use serde::Serialize;

use super::{DeadLetterView, RedactFn, runbook};
use crate::replay::describe_replay;
use crate::text;

/// A redacted dead letter with its attempts, versions and replays.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeadLetterDetail {
    /// The dead letter and its message.
    #[serde(flatten)]
    pub dead_letter: DeadLetterView,
    /// Time of the first failed attempt, by the database's clock; `None` if the message failed before
    /// attempts were recorded.
    pub first_failed_at: Option<Timestamp>,
    /// Time of the last failed attempt; `None` if the message failed before attempts were recorded.
    pub last_failed_at: Option<Timestamp>,
    /// Attempts on the original message, oldest first, followed by the attempts on its replays.
    pub history: Vec<AttemptView>,
    /// Edited versions, oldest first; the original is version 0.
    pub versions: Vec<DeadLetterVersionRow>,
    /// Replays, oldest first: one sentence each, with the result.
    pub replay_results: Vec<String>,
    /// Runbook of the code, in Markdown: what happened, what to check, and whether a replay is safe.
    pub runbook: &'static str,
}

/// One delivery attempt, redacted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AttemptView {
    /// 1-based number of the attempt at this stream position.
    pub attempt: u32,
    /// Consumer that made the attempt, and the stream position of the message. A replayed message has its own
    /// position.
    pub position: DeliveryPosition,
    /// Time at which the attempt was counted; `None` for the first delivery, which is not counted.
    pub started_at: Option<Timestamp>,
    /// Time at which the attempt failed; `None` if no failure was recorded, for example because the process died.
    pub failed_at: Option<Timestamp>,
    /// Dead-letter code of a final failure; `None` if the message was to be retried.
    pub code: Option<&'static str>,
    /// Path of the field that caused the rejection; `None` if no single field caused it.
    pub path: Option<String>,
    /// Reason for the failure in one sentence; `None` if no failure was recorded.
    pub detail: Option<String>,
    /// Version of the program that made the attempt.
    pub program_version: String,
}

/// Loads a dead letter of the tenant with its attempts, versions and replays. Returns `None` if the tenant
/// has no such dead letter.
pub async fn find_dead_letter_detail(
    store: &dyn OperatorStore,
    tenant: &Tenant,
    id: DeadLetterId,
    redact: RedactFn<'_>,
) -> Result<Option<DeadLetterDetail>, StoreError> {
    let Some(dead_letter) = store.find_dead_letter(tenant, id).await? else { return Ok(None) };
    let attempts = store.list_attempts(tenant, id).await?;
    let versions = store.list_versions(tenant, id).await?;
    let replays = store.list_replays(tenant, id).await?;
    let failed = || attempts.iter().filter_map(|attempt| attempt.failed_at);
    Ok(Some(DeadLetterDetail {
        dead_letter: DeadLetterView::with_message(&dead_letter, redact),
        // The attempts of replays follow those of the original, so the list is not sorted by time.
        first_failed_at: failed().min(),
        last_failed_at: failed().max(),
        history: attempts.iter().map(|attempt| AttemptView::from_attempt(attempt, redact)).collect(),
        versions: versions.into_iter().map(|row| redact_version(row, redact)).collect(),
        replay_results: replays.iter().map(|row| render_replay(row, redact)).collect(),
        runbook: runbook(dead_letter.message.rejection.code),
    }))
}

fn render_replay(row: &ReplayRow, redact: RedactFn<'_>) -> String {
    let ended = row.ended_at.map(|at| format!(" at {}", text::format_timestamp(at))).unwrap_or_default();
    // Redacted as a whole: the outcome quotes the rejection, and an operator typed the reason.
    redact(&text::single_line(&format!("{}{ended}", describe_replay(row))))
}

fn redact_version(row: DeadLetterVersionRow, redact: RedactFn<'_>) -> DeadLetterVersionRow {
    let act = Attribution { by: redact(&row.act.by), reason: redact(&row.act.reason), at: row.act.at };
    DeadLetterVersionRow { act, ..row }
}

/// Redacts the names, reasons and details in the audit log of a dead letter, because operators may have
/// pasted secrets into them.
pub fn redact_audit_log(rows: Vec<AuditRow>, redact: RedactFn<'_>) -> Vec<AuditRow> {
    let clean = |row: AuditRow| {
        let act = Attribution { by: redact(&row.act.by), reason: redact(&row.act.reason), at: row.act.at };
        AuditRow { act, detail: row.detail.as_deref().map(redact), ..row }
    };
    rows.into_iter().map(clean).collect()
}

impl AttemptView {
    fn from_attempt(attempt: &Attempt, redact: RedactFn<'_>) -> Self {
        Self {
            attempt: attempt.attempt,
            position: attempt.position.clone(),
            started_at: attempt.started_at,
            failed_at: attempt.failed_at,
            code: attempt.code.map(|code| code.as_str()),
            path: attempt.path.as_deref().map(redact),
            detail: attempt.detail.as_deref().map(redact),
            program_version: attempt.program_version.clone(),
        }
    }

    fn render_text(&self) -> String {
        let when = self.failed_at.or(self.started_at).map(text::format_timestamp).unwrap_or_default();
        let at =
            self.path.as_ref().map(|path| format!(" at {}", text::single_line(path))).unwrap_or_default();
        let code = self.code.map(|code| format!("{code}{at}: ")).unwrap_or_default();
        let word = self.detail.as_deref().map_or_else(
            || "no failure was recorded: the process died or was cut off during the attempt".to_owned(),
            text::single_line,
        );
        let DeliveryPosition { consumer, sequence, .. } = &self.position;
        format!("  {}. {when}, {consumer} on message {sequence}: {code}{word}\n", self.attempt)
    }
}

impl DeadLetterDetail {
    /// Renders the dead letter, its history and the runbook for a terminal. `audit_log` is the rendered audit
    /// log.
    pub fn render_text(&self, audit_log: &str) -> String {
        let mut out = self.dead_letter.render_text(&self.replay_advice());
        if let (Some(first), Some(last)) = (self.first_failed_at, self.last_failed_at) {
            let (first, last) = (text::format_timestamp(first), text::format_timestamp(last));
            out.push_str(&format!("\nattempts: the first failed at {first}, the last at {last}\n"));
            out.extend(self.history.iter().map(AttemptView::render_text));
        }
        if !self.versions.is_empty() {
            out.push_str("\nversions\n");
            out.extend(self.versions.iter().map(describe_version));
        }
        if !self.replay_results.is_empty() {
            out.push_str("\nreplays\n");
            out.extend(self.replay_results.iter().map(|one| format!("  {one}\n")));
        }
        if !audit_log.is_empty() {
            out.push_str("\naudit log\n");
            out.extend(audit_log.lines().map(|act| format!("  {act}\n")));
        }
        out.push_str(&format!("\n{}\n{}", "─".repeat(RULER_WIDTH), self.runbook));
        out
    }
}

impl DeadLetterDetail {
    /// Describes whether a replay is useful now, based on the status and the edited versions.
    fn replay_advice(&self) -> String {
        match (self.dead_letter.status, self.versions.last()) {
            (DeadLetterStatus::Handled | DeadLetterStatus::Replayed, _) => "nothing is left to do".to_owned(),
            (DeadLetterStatus::Replaying, _) => "under way: the result will be listed below".to_owned(),
            (
                DeadLetterStatus::Open | DeadLetterStatus::Discarded,
                Some(DeadLetterVersionRow { version, .. }),
            ) => format!(
                "sends version {version}; `retro dead-letters replay {} --dry-run` says what would come of it",
                self.dead_letter.id
            ),
            (DeadLetterStatus::Open | DeadLetterStatus::Discarded, None) => {
                self.dead_letter.replay_advice().to_owned()
            }
        }
    }
}

/// Width of the ruler above the runbook, in characters.
const RULER_WIDTH: usize = 60;

fn describe_version(row: &DeadLetterVersionRow) -> String {
    let DeadLetterVersionRow { version, based_on, payload_bytes, payload_sha256, act } = row;
    let from = if *based_on == 0 { "the original".to_owned() } else { format!("version {based_on}") };
    let (bytes, by) = (text::format_count(*payload_bytes, "byte"), text::single_line(&act.by));
    let (when, reason) = (text::format_timestamp(act.at), text::single_line(&act.reason));
    format!("  {version} of {from}, by {by} at {when} ({reason}): {bytes}, sha256 {payload_sha256}\n")
}
