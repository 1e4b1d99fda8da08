//! Shows one dead letter with its attempts, versions, replays and runbook.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use retro_core::attribution::{Attribution, DecisionToken};
use retro_core::id::{DeadLetterId, ObjectRef, Tenant};
use retro_http::{Caller, PathId, Problem};
use retro_store::{
    Attempt, AuditRow, DeadLetterStatus, DeadLetterVersionRow, DeliveryPosition, ObjectKind, OperatorStore,
    ReplayRow, StoreError, resolve_object_ref,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{DeadLetterWithMessage, describe_replay, runbook};
use crate::audit_log::{describe_actor, redact_attribution, redact_audit_log, render_audit_log};
use crate::http::{ApiState, JsonResult};
use crate::redact::RedactFn;
use crate::text;

/// A redacted dead letter with its attempts, versions, replays and audit log.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct DeadLetterDetail {
    /// The dead letter and its message.
    #[serde(flatten)]
    pub dead_letter: DeadLetterWithMessage,
    /// Time of the first failed attempt, by the database's clock, RFC 3339; null if the message failed before
    /// attempts were recorded.
    #[schema(value_type = Option<String>)]
    pub first_failed_at: Option<Timestamp>,
    /// Time of the last failed attempt, RFC 3339; null if the message failed before attempts were recorded.
    #[schema(value_type = Option<String>)]
    pub last_failed_at: Option<Timestamp>,
    /// Attempts on the original message, oldest first, followed by the attempts on its replays.
    pub history: Vec<AttemptView>,
    /// Edited versions, oldest first; the original is version 0.
    pub versions: Vec<VersionView>,
    /// Replays, oldest first: one sentence each, with the result.
    pub replay_results: Vec<String>,
    /// Runbook of the code, in Markdown: what happened, what to check, and whether a replay is safe.
    pub runbook: &'static str,
    /// Audit log of the dead letter, oldest entry first; absent if there are no entries.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub audit_log: Vec<AuditRow>,
}

/// One delivery attempt, redacted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = DeadLetterAttempt)]
pub struct AttemptView {
    /// 1-based number of the attempt at this stream position.
    pub attempt: u32,
    /// Consumer that made the attempt, and the stream position of the message. A replayed message has its own
    /// position.
    #[schema(value_type = Object)]
    pub position: DeliveryPosition,
    /// Time at which the attempt was counted, RFC 3339; null for the first delivery, which is not counted.
    #[schema(value_type = Option<String>)]
    pub started_at: Option<Timestamp>,
    /// Time at which the attempt failed, RFC 3339; null if no failure was recorded, for example because the
    /// process died.
    #[schema(value_type = Option<String>)]
    pub failed_at: Option<Timestamp>,
    /// Dead-letter code of a final failure; null if the message was to be retried.
    pub code: Option<&'static str>,
    /// Path of the field that caused the rejection; null if no single field caused it.
    pub path: Option<String>,
    /// Reason for the failure in one sentence; null if no failure was recorded.
    pub detail: Option<String>,
    /// Version of the program that made the attempt.
    pub program_version: String,
}

/// An edited version of a dead letter, without its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = DeadLetterVersion)]
pub struct VersionView {
    /// 1-based number of the version.
    pub version: u32,
    /// Number of the version that was edited; 0 is the original.
    pub based_on: u32,
    /// Size of the payload in bytes.
    pub payload_bytes: u64,
    /// SHA-256 of the payload, in hex.
    pub payload_sha256: String,
    /// Name of the operator who made the edit, redacted.
    pub by: String,
    /// Access token of the request; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_token: Option<DecisionToken>,
    /// Reason for the edit, redacted.
    pub reason: String,
    /// Time of the edit, RFC 3339.
    #[schema(value_type = String)]
    pub at: Timestamp,
}

/// Loads a dead letter of the tenant with its attempts, versions, replays and audit log. Returns `None` if
/// the tenant has no such dead letter.
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
    let audit_log = store.list_audit_rows(tenant, id.0).await?;
    let failed = || attempts.iter().filter_map(|attempt| attempt.failed_at);
    Ok(Some(DeadLetterDetail {
        dead_letter: DeadLetterWithMessage::from_dead_letter(&dead_letter, redact),
        // The attempts of replays follow those of the original, so the list is not sorted by time.
        first_failed_at: failed().min(),
        last_failed_at: failed().max(),
        history: attempts.iter().map(|attempt| AttemptView::from_attempt(attempt, redact)).collect(),
        versions: versions.into_iter().map(|row| VersionView::from_row(row, redact)).collect(),
        replay_results: replays.iter().map(|row| render_replay(row, redact)).collect(),
        runbook: runbook(dead_letter.message.rejection.code),
        audit_log: redact_audit_log(audit_log, redact),
    }))
}

fn render_replay(row: &ReplayRow, redact: RedactFn<'_>) -> String {
    let ended = row.ended_at.map(|at| format!(" at {}", text::format_timestamp(at))).unwrap_or_default();
    // Redacted as a whole: the outcome quotes the rejection, and an operator typed the reason.
    redact(&text::single_line(&format!("{}{ended}", describe_replay(row))))
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

impl VersionView {
    fn from_row(row: DeadLetterVersionRow, redact: RedactFn<'_>) -> Self {
        let DeadLetterVersionRow { version, based_on, payload_bytes, payload_sha256, act } = row;
        let Attribution { by, with_token, reason, at } = redact_attribution(&act, redact);
        Self { version, based_on, payload_bytes, payload_sha256, by, with_token, reason, at }
    }

    fn render_text(&self) -> String {
        let Self { version, based_on, payload_bytes, payload_sha256, by, with_token, reason, at } = self;
        let from = if *based_on == 0 { "the original".to_owned() } else { format!("version {based_on}") };
        let bytes = text::format_count(*payload_bytes, "byte");
        let by = describe_actor(by, with_token.as_ref());
        let (when, reason) = (text::format_timestamp(*at), text::single_line(reason));
        format!("  {version} of {from}, by {by} at {when} ({reason}): {bytes}, sha256 {payload_sha256}\n")
    }
}

impl DeadLetterDetail {
    /// Renders the dead letter, its history and the runbook for a terminal.
    pub fn render_text(&self) -> String {
        let mut out = self.dead_letter.render_text(&self.replay_advice());
        if let (Some(first), Some(last)) = (self.first_failed_at, self.last_failed_at) {
            let (first, last) = (text::format_timestamp(first), text::format_timestamp(last));
            out.push_str(&format!("\nattempts: the first failed at {first}, the last at {last}\n"));
            out.extend(self.history.iter().map(AttemptView::render_text));
        }
        if !self.versions.is_empty() {
            out.push_str("\nversions\n");
            out.extend(self.versions.iter().map(VersionView::render_text));
        }
        if !self.replay_results.is_empty() {
            out.push_str("\nreplays\n");
            out.extend(self.replay_results.iter().map(|one| format!("  {one}\n")));
        }
        if !self.audit_log.is_empty() {
            out.push_str("\naudit log\n");
            out.extend(render_audit_log(&self.audit_log).lines().map(|act| format!("  {act}\n")));
        }
        out.push_str(&format!("\n{}\n{}", "─".repeat(RULER_WIDTH), self.runbook));
        out
    }
}

impl DeadLetterDetail {
    /// Describes whether a replay is useful now, based on the status and the edited versions.
    fn replay_advice(&self) -> String {
        let summary = &self.dead_letter.summary;
        match (summary.status, self.versions.last()) {
            (DeadLetterStatus::Handled | DeadLetterStatus::Replayed, _) => "nothing is left to do".to_owned(),
            (DeadLetterStatus::Replaying, _) => "under way: the result will be listed below".to_owned(),
            (DeadLetterStatus::Open | DeadLetterStatus::Discarded, Some(VersionView { version, .. })) => {
                format!(
                    "sends version {version}; `retro dead-letters replay {} --dry-run` says what would come of it",
                    summary.id
                )
            }
            (DeadLetterStatus::Open | DeadLetterStatus::Discarded, None) => {
                summary.replay_advice().to_owned()
            }
        }
    }
}

/// Width of the ruler above the runbook, in characters.
const RULER_WIDTH: usize = 60;

/// Returns one dead letter with its reason, position, attempts, versions, replays and redacted message, and the
/// runbook of its code.
#[utoipa::path(get, path = "/v1/dead-letters/{id}", tag = "people", params(("id" = String, Path, description = "the id, or eight or more of its first digits")), responses((status = 200, body = DeadLetterDetail)))]
pub(super) async fn get_dead_letter(
    State(operator): State<ApiState>,
    Caller(tenant): Caller,
    PathId(name): PathId<ObjectRef>,
) -> JsonResult<DeadLetterDetail> {
    let id =
        DeadLetterId(resolve_object_ref(&*operator.store, &tenant, ObjectKind::DeadLetter, name).await??);
    let found = find_dead_letter_detail(&*operator.store, &tenant, id, &*operator.redact).await?;
    Ok(Json(found.ok_or_else(|| Problem::not_found("dead letter", id))?))
}
