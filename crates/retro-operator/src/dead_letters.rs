//! Dead letters as people may see them. The stored original is exact and stays so; what is shown is redacted.

mod exact;
pub(crate) mod export;
mod mend;
mod message;
mod page;
mod runbooks;
mod search;
mod stats;

use jiff::Timestamp;
use retro_core::id::{DeadLetterId, Tenant, Workflow};
use retro_store::{DeadLetter, LetterStatus, Position};
use serde::Serialize;

use crate::grid::grid;
use crate::words;

pub use exact::ExactLetter;
pub use export::{EXPORT_DEFAULT, EXPORT_MAX, Export};
pub(crate) use mend::routes;
pub use mend::{Edit, MendError, Mended, Mending, SetError, mend_router};
pub use message::MessageView;
pub use page::{AttemptView, LetterPage, letter_acts, page};
pub use runbooks::runbook;
pub use search::{Found, LetterSearch};
#[cfg(test)]
pub(crate) use stats::counted;
pub use stats::{LetterGroup, LetterStats};

/// Takes the secrets out of a text.
pub type Redact<'a> = &'a (dyn Fn(&str) -> String + Send + Sync);

/// A dead letter, redacted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeadLetterView {
    /// Its id.
    pub id: DeadLetterId,
    /// Why it was given up: the code.
    pub code: &'static str,
    /// The path of the field that is to blame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Why, in one sentence.
    pub detail: String,
    /// Whether sending it again as it is may help.
    pub retryable: bool,
    /// Where it stands.
    pub status: LetterStatus,
    /// How often it was sent again.
    pub replays: u32,
    /// The tenant of the subject; `None` when it could not be read.
    pub tenant: Option<Tenant>,
    /// The workflow of the subject, likewise.
    pub workflow: Option<Workflow>,
    /// Who gave up on what.
    pub position: Position,
    /// The subject.
    pub subject: String,
    /// Attempts spent.
    pub attempts: u32,
    /// When the broker stored the message.
    pub stored_at: Timestamp,
    /// When it was given up.
    pub created_at: Timestamp,
    /// The version of the program that gave up.
    pub program_version: String,
    /// Size of the payload, bytes.
    pub payload_bytes: usize,
    /// SHA-256 of the payload as it came, hex.
    pub payload_sha256: String,
    /// What was sent; only where one letter is shown.
    #[serde(flatten)]
    pub message: Option<MessageView>,
}

impl DeadLetterView {
    /// A letter in a list, without the message.
    pub fn listed(letter: &DeadLetter, redact: Redact<'_>) -> Self {
        let DeadLetter { id, letter, payload_sha256, status, replays, created_at, program_version } = letter;
        let rejection = &letter.rejection;
        Self {
            id: *id,
            code: rejection.code.as_str(),
            path: rejection.path.as_deref().map(redact),
            detail: redact(&rejection.detail),
            retryable: rejection.code.retryable(),
            status: *status,
            replays: *replays,
            tenant: letter.tenant.clone(),
            workflow: letter.workflow.clone(),
            position: letter.position.clone(),
            subject: redact(&letter.subject),
            attempts: letter.attempts,
            stored_at: letter.stored_at,
            created_at: *created_at,
            program_version: program_version.clone(),
            payload_bytes: letter.payload.len(),
            payload_sha256: payload_sha256.clone(),
            message: None,
        }
    }

    /// A letter with its message, redacted.
    pub fn whole(letter: &DeadLetter, redact: Redact<'_>) -> Self {
        let message = MessageView::of(&letter.letter.headers, &letter.letter.payload, redact);
        Self { message: Some(message), ..Self::listed(letter, redact) }
    }

    /// Whether sending it again as it came is of use.
    pub(crate) fn advice(&self) -> &'static str {
        if self.retryable {
            "it may succeed"
        } else {
            "as it came it fails again: mend the sender, or the message by `edit`"
        }
    }

    /// The letter for a terminal, with a word on whether to send it again.
    pub(crate) fn text_with(&self, advice: &str) -> String {
        let at = self.path.as_ref().map(|path| format!(" at {}", words::line(path))).unwrap_or_default();
        let name = |name: Option<&str>| name.map_or_else(|| "unreadable".to_owned(), words::line);
        let (tenant, workflow) =
            (self.tenant.as_ref().map(Tenant::as_str), self.workflow.as_ref().map(Workflow::as_str));
        let Position { consumer, stream, sequence } = &self.position;
        let mut out = format!(
            "{}{at}: {}\n\nid         {}\nstatus     {}\nworkflow   {} of tenant {}\nsubject    {}\ngiven up   {} by \
             {consumer} after {}\nmessage    {sequence} of stream {stream}, stored {}\npayload    {}, sha256 {}\nreplay     {}\n",
            self.code,
            words::line(&self.detail),
            self.id,
            self.status.as_str(),
            name(workflow),
            name(tenant),
            words::line(&self.subject),
            words::moment(self.created_at),
            words::count(self.attempts.into(), "attempt"),
            words::moment(self.stored_at),
            words::count(self.payload_bytes as u64, "byte"),
            self.payload_sha256,
            advice,
        );
        if let Some(message) = &self.message {
            out.push_str(&format!("\n{}", message.text()));
        }
        out
    }
}

/// Dead letters for a terminal of `columns`.
pub fn dead_letters(letters: &[DeadLetterView], columns: u16) -> String {
    if letters.is_empty() {
        return "no dead letters\n".to_owned();
    }
    let row = |letter: &DeadLetterView| {
        let workflow =
            letter.workflow.as_ref().map_or_else(|| "—".to_owned(), |name| words::line(name.as_str()));
        let path = letter.path.as_deref().map(|path| format!("{}: ", words::line(path))).unwrap_or_default();
        let why = format!("{path}{}", words::short(&words::line(&letter.detail), DETAIL_CHARS_MAX));
        let when = words::moment(letter.created_at);
        [
            when,
            letter.code.to_owned(),
            workflow,
            letter.status.as_str().to_owned(),
            why,
            letter.id.to_string(),
        ]
    };
    grid(columns, ["given up", "code", "workflow", "status", "why", "id"], letters.iter().map(row).collect())
}

/// Characters of a reason in a list: two or three lines of a wrapped column; `show` has the rest.
const DETAIL_CHARS_MAX: usize = 160;

#[cfg(test)]
pub(crate) mod tests;
