//! A letter with everything that is known of it: its attempts, what people made of it, and its code's page.

use jiff::Timestamp;
use retro_core::id::{DeadLetterId, Tenant};
use retro_core::steer::Act;
use retro_store::{
    ActRow, Attempt, LetterStatus, OperatorStore, Position, ReplayRow, StoreError, VersionRow,
};
use serde::Serialize;

use super::{DeadLetterView, Redact, runbook};
use crate::replay::came_of;
use crate::words;

/// A letter in full, redacted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LetterPage {
    /// The letter and its message.
    #[serde(flatten)]
    pub letter: DeadLetterView,
    /// When it first failed, by the database's clock; `None` when that was before attempts were kept.
    pub first_failed_at: Option<Timestamp>,
    /// When it failed last.
    pub last_failed_at: Option<Timestamp>,
    /// What became of each attempt, the first one first; those of replays follow.
    pub history: Vec<AttemptView>,
    /// What people made of it, the first version first; the letter as it came is version 0.
    pub versions: Vec<VersionRow>,
    /// Each time it was sent again, the first one first, and what came of it, in one sentence.
    pub sent_again: Vec<String>,
    /// What happened, what to look at, whether replay is safe: the page of its code, Markdown.
    pub runbook: &'static str,
}

/// An attempt, redacted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AttemptView {
    /// Which one at the message in this place, from 1.
    pub attempt: u32,
    /// Who tried, and where the message stood: a replay stands elsewhere.
    pub position: Position,
    /// When it was counted; `None` for the first delivery, which is not.
    pub begun_at: Option<Timestamp>,
    /// When it failed; `None` when it left no word, as when the process died.
    pub failed_at: Option<Timestamp>,
    /// Why the message was given up; `None` when it was to be tried again.
    pub code: Option<&'static str>,
    /// The field that is to blame.
    pub path: Option<String>,
    /// In one sentence; `None` when it left no word.
    pub detail: Option<String>,
    /// The version of the program that tried.
    pub program_version: String,
}

/// The tenant's letter of this id, with all that belongs to it; `None` when there is none.
pub async fn page(
    store: &dyn OperatorStore,
    tenant: &Tenant,
    id: DeadLetterId,
    redact: Redact<'_>,
) -> Result<Option<LetterPage>, StoreError> {
    let Some(letter) = store.dead_letter(tenant, id).await? else { return Ok(None) };
    let attempts = store.attempts(tenant, id).await?;
    let versions = store.versions(tenant, id).await?;
    let replays = store.replays(tenant, id).await?;
    let failed = || attempts.iter().filter_map(|attempt| attempt.failed_at);
    Ok(Some(LetterPage {
        letter: DeadLetterView::whole(&letter, redact),
        first_failed_at: failed().min(),
        last_failed_at: failed().max(),
        history: attempts.iter().map(|attempt| AttemptView::of(attempt, redact)).collect(),
        versions: versions.into_iter().map(|row| redacted(row, redact)).collect(),
        sent_again: replays.iter().map(|row| sent_again(row, redact)).collect(),
        runbook: runbook(letter.letter.rejection.code),
    }))
}

fn sent_again(row: &ReplayRow, redact: Redact<'_>) -> String {
    let ended = row.ended_at.map(|at| format!(" at {}", words::moment(at))).unwrap_or_default();
    redact(&words::line(&format!("{}{ended}", came_of(row))))
}

fn redacted(row: VersionRow, redact: Redact<'_>) -> VersionRow {
    let act = Act { by: redact(&row.act.by), reason: redact(&row.act.reason), at: row.act.at };
    VersionRow { act, ..row }
}

/// What people did about a letter, without a secret that they wrote into their reasons.
pub fn letter_acts(rows: Vec<ActRow>, redact: Redact<'_>) -> Vec<ActRow> {
    let clean = |row: ActRow| {
        let act = Act { by: redact(&row.act.by), reason: redact(&row.act.reason), at: row.act.at };
        ActRow { act, detail: row.detail.as_deref().map(redact), ..row }
    };
    rows.into_iter().map(clean).collect()
}

impl AttemptView {
    fn of(attempt: &Attempt, redact: Redact<'_>) -> Self {
        Self {
            attempt: attempt.attempt,
            position: attempt.position.clone(),
            begun_at: attempt.begun_at,
            failed_at: attempt.failed_at,
            code: attempt.code.map(|code| code.as_str()),
            path: attempt.path.as_deref().map(redact),
            detail: attempt.detail.as_deref().map(redact),
            program_version: attempt.program_version.clone(),
        }
    }

    fn text(&self) -> String {
        let when = self.failed_at.or(self.begun_at).map(words::moment).unwrap_or_default();
        let at = self.path.as_ref().map(|path| format!(" at {}", words::line(path))).unwrap_or_default();
        let code = self.code.map(|code| format!("{code}{at}: ")).unwrap_or_default();
        let word = self.detail.as_deref().map_or_else(
            || "it left no word: the process died or was cut off while it worked on it".to_owned(),
            words::line,
        );
        let Position { consumer, sequence, .. } = &self.position;
        format!("  {}. {when}, {consumer} on message {sequence}: {code}{word}\n", self.attempt)
    }
}

impl LetterPage {
    /// The page for a terminal: the letter, its life, and the runbook below.
    pub fn text(&self, acts: &str) -> String {
        let mut out = self.letter.text_with(&self.advice());
        if let (Some(first), Some(last)) = (self.first_failed_at, self.last_failed_at) {
            let (first, last) = (words::moment(first), words::moment(last));
            out.push_str(&format!("\nattempts: the first failed at {first}, the last at {last}\n"));
            out.extend(self.history.iter().map(AttemptView::text));
        }
        if !self.versions.is_empty() {
            out.push_str("\nversions\n");
            out.extend(self.versions.iter().map(version));
        }
        if !self.sent_again.is_empty() {
            out.push_str("\nsent again\n");
            out.extend(self.sent_again.iter().map(|one| format!("  {one}\n")));
        }
        if !acts.is_empty() {
            out.push_str("\nwhat people did\n");
            out.extend(acts.lines().map(|act| format!("  {act}\n")));
        }
        out.push_str(&format!("\n{}\n{}", "─".repeat(RULE), self.runbook));
        out
    }
}

impl LetterPage {
    /// Whether sending it again is of use as things are.
    fn advice(&self) -> String {
        match (self.letter.status, self.versions.last()) {
            (LetterStatus::Handled | LetterStatus::Replayed, _) => "nothing is left to do".to_owned(),
            (LetterStatus::Replaying, _) => "under way: what comes of it is told below".to_owned(),
            (LetterStatus::Open | LetterStatus::Discarded, Some(VersionRow { version, .. })) => format!(
                "sends version {version}; `retro dead-letters replay {} --dry-run` says what would come of it",
                self.letter.id
            ),
            (LetterStatus::Open | LetterStatus::Discarded, None) => self.letter.advice().to_owned(),
        }
    }
}

/// Characters of the line above a runbook.
const RULE: usize = 60;

fn version(row: &VersionRow) -> String {
    let VersionRow { version, based_on, payload_bytes, payload_sha256, act } = row;
    let from = if *based_on == 0 { "the original".to_owned() } else { format!("version {based_on}") };
    let (bytes, by) = (words::count(*payload_bytes, "byte"), words::line(&act.by));
    let (when, reason) = (words::moment(act.at), words::line(&act.reason));
    format!("  {version} of {from}, by {by} at {when} ({reason}): {bytes}, sha256 {payload_sha256}\n")
}
