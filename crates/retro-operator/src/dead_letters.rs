//! Shows dead letters to operators with secrets redacted. The stored messages do not change.

mod detail;
mod edit;
pub(crate) mod export;
mod message;
mod raw;
mod runbooks;
mod search;
mod stats;

use jiff::Timestamp;
use retro_core::id::{DeadLetterId, Tenant, Workflow};
use retro_store::{DeadLetter, DeadLetterStatus, DeliveryPosition};
use serde::Serialize;

use crate::text;
use crate::text_table::render_table;

pub use detail::{AttemptView, DeadLetterDetail, find_dead_letter_detail, redact_audit_log};
pub(crate) use edit::routes;
pub use edit::{Edit, EditError, EditService, EditedVersion, SetFieldError, edit_router};
pub use export::{DeadLetterExport, EXPORT_DEFAULT, EXPORT_MAX};
pub use message::MessageView;
pub use raw::RawDeadLetter;
pub use runbooks::runbook;
pub use search::{DeadLetterSearch, SearchResult};
#[cfg(test)]
pub(crate) use stats::single_count;
pub use stats::{DeadLetterGroup, DeadLetterStats};

/// A function that redacts the secrets in a string.
pub type RedactFn<'a> = &'a (dyn Fn(&str) -> String + Send + Sync);

/// A dead letter with secrets redacted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeadLetterView {
    /// Id of the dead letter.
    pub id: DeadLetterId,
    /// Dead-letter code, such as `field_invalid`, which says why the message was given up.
    pub code: &'static str,
    /// Path of the field that caused the rejection; `None` if no single field caused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Redacted reason for the rejection, in one sentence.
    pub detail: String,
    /// `true` if a replay of the unchanged message may succeed.
    pub retryable: bool,
    /// Current status of the dead letter.
    pub status: DeadLetterStatus,
    /// Number of replays so far.
    pub replays: u32,
    /// Tenant from the subject; `None` if the subject could not be parsed.
    pub tenant: Option<Tenant>,
    /// Workflow from the subject; `None` if the subject could not be parsed.
    pub workflow: Option<Workflow>,
    /// Consumer that gave up on the message, and the message's stream and sequence number.
    pub position: DeliveryPosition,
    /// NATS subject of the message.
    pub subject: String,
    /// Number of delivery attempts.
    pub attempts: u32,
    /// Time at which the broker stored the message.
    pub stored_at: Timestamp,
    /// Time at which the message was dead-lettered.
    pub created_at: Timestamp,
    /// Version of the program that dead-lettered the message.
    pub program_version: String,
    /// Size of the payload in bytes.
    pub payload_bytes: usize,
    /// SHA-256 of the original payload, in hex.
    pub payload_sha256: String,
    /// The redacted message; `None` in lists.
    #[serde(flatten)]
    pub message: Option<MessageView>,
}

impl DeadLetterView {
    /// Builds the view for lists, without the message.
    pub fn without_message(dead_letter: &DeadLetter, redact: RedactFn<'_>) -> Self {
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
            message: None,
        }
    }

    /// Builds the view with the redacted message.
    pub fn with_message(dead_letter: &DeadLetter, redact: RedactFn<'_>) -> Self {
        let message =
            MessageView::from_message(&dead_letter.message.headers, &dead_letter.message.payload, redact);
        Self { message: Some(message), ..Self::without_message(dead_letter, redact) }
    }

    /// Describes whether a replay of the unchanged message can succeed.
    pub(crate) fn replay_advice(&self) -> &'static str {
        if self.retryable {
            "it may succeed"
        } else {
            "it will fail again unchanged: fix the sender, or correct the message with `edit`"
        }
    }

    /// Renders the dead letter for a terminal. `advice` is the text of the line `replay`.
    pub(crate) fn render_text(&self, advice: &str) -> String {
        let at =
            self.path.as_ref().map(|path| format!(" at {}", text::single_line(path))).unwrap_or_default();
        let name = |name: Option<&str>| name.map_or_else(|| "unreadable".to_owned(), text::single_line);
        let (tenant, workflow) =
            (self.tenant.as_ref().map(Tenant::as_str), self.workflow.as_ref().map(Workflow::as_str));
        let DeliveryPosition { consumer, stream, sequence } = &self.position;
        let mut out = format!(
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
        );
        if let Some(message) = &self.message {
            out.push_str(&format!("\n{}", message.render_text()));
        }
        out
    }
}

/// Renders dead letters as a table for a terminal that is `columns` wide.
pub fn render_dead_letters(dead_letters: &[DeadLetterView], columns: u16) -> String {
    if dead_letters.is_empty() {
        return "no dead letters\n".to_owned();
    }
    let row = |dead_letter: &DeadLetterView| {
        let workflow = dead_letter
            .workflow
            .as_ref()
            .map_or_else(|| "—".to_owned(), |name| text::single_line(name.as_str()));
        let path = dead_letter
            .path
            .as_deref()
            .map(|path| format!("{}: ", text::single_line(path)))
            .unwrap_or_default();
        let why =
            format!("{path}{}", text::truncate(&text::single_line(&dead_letter.detail), DETAIL_CHARS_MAX));
        let when = text::format_timestamp(dead_letter.created_at);
        [
            when,
            dead_letter.code.to_owned(),
            workflow,
            dead_letter.status.as_str().to_owned(),
            why,
            dead_letter.id.to_string(),
        ]
    };
    render_table(
        columns,
        ["rejected", "code", "workflow", "status", "reason", "id"],
        dead_letters.iter().map(row).collect(),
    )
}

/// Maximum length of a reason in a table cell, in characters: two or three lines. `show` prints the whole
/// reason.
const DETAIL_CHARS_MAX: usize = 160;

#[cfg(test)]
pub(crate) mod tests;
