//! Shows dead letters with secrets redacted.

use jiff::Timestamp;
use retro_core::id::{DeadLetterId, Tenant, Workflow};
use retro_store::{DeadLetter, DeadLetterStatus, DeliveryPosition};
use serde::Serialize;
use utoipa::ToSchema;

use super::MessageView;
use crate::redact::RedactFn;
use crate::text;

/// A redacted dead letter without its message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = DeadLetter)]
pub struct DeadLetterView {
    /// Id of the dead letter, a UUID.
    #[schema(value_type = String)]
    pub id: DeadLetterId,
    /// Dead-letter code, such as `field_invalid`, which says why the message was given up.
    pub code: &'static str,
    /// Path of the field that caused the rejection; absent if no single field caused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Redacted reason for the rejection, in one sentence.
    pub detail: String,
    /// `true` if a replay of the unchanged message may succeed.
    pub retryable: bool,
    /// Current status of the dead letter: open, replaying, handled, discarded or replayed.
    #[schema(value_type = String)]
    pub status: DeadLetterStatus,
    /// Number of replays so far.
    pub replays: u32,
    /// Tenant from the subject; null if the subject could not be parsed.
    #[schema(value_type = Option<String>, required = true)]
    pub tenant: Option<Tenant>,
    /// Workflow from the subject; null if the subject could not be parsed.
    #[schema(value_type = Option<String>, required = true)]
    pub workflow: Option<Workflow>,
    /// Consumer that gave up on the message, and the message's stream and sequence number.
    #[schema(value_type = Object)]
    pub position: DeliveryPosition,
    /// NATS subject of the message.
    pub subject: String,
    /// Number of delivery attempts.
    pub attempts: u32,
    /// Time at which the broker stored the message, RFC 3339.
    #[schema(value_type = String)]
    pub stored_at: Timestamp,
    /// Time at which the message was dead-lettered, RFC 3339.
    #[schema(value_type = String)]
    pub created_at: Timestamp,
    /// Version of the program that dead-lettered the message.
    pub program_version: String,
    /// Size of the payload in bytes.
    #[schema(value_type = u64)]
    pub payload_bytes: usize,
    /// SHA-256 of the original payload, in hex.
    pub payload_sha256: String,
}

/// A redacted dead letter with its message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct DeadLetterWithMessage {
    /// The dead letter without its message.
    #[serde(flatten)]
    pub summary: DeadLetterView,
    /// The message.
    #[serde(flatten)]
    pub message: MessageView,
}

impl DeadLetterView {
    /// Builds the redacted view of a dead letter.
    pub fn from_dead_letter(dead_letter: &DeadLetter, redact: RedactFn<'_>) -> Self {
        let DeadLetter { id, message, payload_sha256, status, replays, created_at, program_version } =
            dead_letter;
        let rejection = &message.rejection;
        Self {
            id: *id,
            code: rejection.code.as_str(),
            path: rejection.path.as_deref().map(redact),
            detail: redact(&rejection.detail),
            retryable: rejection.code.retryable(),
            status: *status,
            replays: *replays,
            tenant: message.tenant.clone(),
            workflow: message.workflow.clone(),
            position: message.position.clone(),
            subject: redact(&message.subject),
            attempts: message.attempts,
            stored_at: message.stored_at,
            created_at: *created_at,
            program_version: program_version.clone(),
            payload_bytes: message.payload.len(),
            payload_sha256: payload_sha256.clone(),
        }
    }

    /// Describes whether a replay of the unchanged message can succeed.
    pub(super) fn replay_advice(&self) -> &'static str {
        if self.retryable {
            "it may succeed"
        } else {
            "it will fail again unchanged: fix the sender, or correct the message with `edit`"
        }
    }

    /// Renders the dead letter for a terminal. `advice` is the text of the line `replay`.
    fn render_text(&self, advice: &str) -> String {
        let at =
            self.path.as_ref().map(|path| format!(" at {}", text::single_line(path))).unwrap_or_default();
        let name = |name: Option<&str>| name.map_or_else(|| "unreadable".to_owned(), text::single_line);
        let (tenant, workflow) =
            (self.tenant.as_ref().map(Tenant::as_str), self.workflow.as_ref().map(Workflow::as_str));
        let DeliveryPosition { consumer, stream, sequence } = &self.position;
        format!(
            "{}{at}: {}\n\nid         {}\nstatus     {}\nworkflow   {} of tenant {}\nsubject    {}\nrejected   {} by \
             {consumer} after {}\nmessage    {sequence} of stream {stream}, stored {}\npayload    {}, sha256 {}\nreplay     {}\n",
            self.code,
            text::single_line(&self.detail),
            self.id,
            self.status.as_str(),
            name(workflow),
            name(tenant),
            text::single_line(&self.subject),
            text::format_timestamp(self.created_at),
            text::format_count(self.attempts.into(), "attempt"),
            text::format_timestamp(self.stored_at),
            text::format_count(self.payload_bytes as u64, "byte"),
            self.payload_sha256,
            advice,
        )
    }
}

impl DeadLetterWithMessage {
    /// Builds the redacted view of a dead letter and its message.
    pub fn from_dead_letter(dead_letter: &DeadLetter, redact: RedactFn<'_>) -> Self {
        let message =
            MessageView::from_message(&dead_letter.message.headers, &dead_letter.message.payload, redact);
        Self { summary: DeadLetterView::from_dead_letter(dead_letter, redact), message }
    }

    /// Renders the dead letter and its message for a terminal. `advice` is the text of the line `replay`.
    pub(super) fn render_text(&self, advice: &str) -> String {
        format!("{}\n{}", self.summary.render_text(advice), self.message.render_text())
    }
}
