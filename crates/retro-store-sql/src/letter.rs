//! Rows of `dead_letters` and of what belongs to a letter.

use retro_core::steer::Act;
use retro_store::{
    Attempt, Content, DeadLetter, LetterCount, LetterVersion, NewDeadLetter, Position, Result, VersionRow,
};

use crate::at;

/// A row of `dead_letters`.
#[derive(Debug, sqlx::FromRow)]
pub struct Record {
    id: String,
    tenant: Option<String>,
    workflow: Option<String>,
    consumer: String,
    stream: String,
    sequence: i64,
    /// Bytes, since a subject may hold a NUL, which not every database keeps in a text.
    subject: Vec<u8>,
    headers: String,
    payload: Vec<u8>,
    payload_sha256: String,
    rejection: String,
    attempts: i64,
    stored_at: String,
    status: String,
    replays: i64,
    created_ms: i64,
    program_version: String,
}

impl Record {
    /// The letter.
    pub fn read(self) -> Result<DeadLetter> {
        let place = at("dead_letters", &self.id);
        let position = Position {
            consumer: self.consumer,
            stream: self.stream,
            sequence: place.unsigned(self.sequence)?,
        };
        let letter = NewDeadLetter {
            position,
            tenant: self.tenant.as_deref().map(|tenant| place.parse(tenant)).transpose()?,
            workflow: self.workflow.as_deref().map(|workflow| place.parse(workflow)).transpose()?,
            subject: String::from_utf8(self.subject).map_err(|error| place.damaged(error))?,
            headers: at("dead_letters.headers", &self.id).json(&self.headers)?,
            payload: self.payload,
            rejection: at("dead_letters.rejection", &self.id).json(&self.rejection)?,
            attempts: place.unsigned(self.attempts)?,
            stored_at: place.parse(&self.stored_at)?,
        };
        Ok(DeadLetter {
            id: place.parse(&self.id)?,
            letter,
            payload_sha256: self.payload_sha256,
            status: at("dead_letters.status", &self.id).word(&self.status)?,
            replays: place.unsigned(self.replays)?,
            created_at: place.millis(self.created_ms)?,
            program_version: self.program_version,
        })
    }
}

/// A row of `attempt_history`.
#[derive(Debug, sqlx::FromRow)]
pub struct AttemptRecord {
    consumer: String,
    stream: String,
    sequence: i64,
    attempt: i64,
    begun_ms: Option<i64>,
    failed_ms: Option<i64>,
    code: Option<String>,
    path: Option<String>,
    detail: Option<String>,
    program_version: String,
}

impl AttemptRecord {
    /// The attempt.
    pub fn read(self) -> Result<Attempt> {
        let place = at("attempt_history", format!("{}/{}/{}", self.consumer, self.stream, self.sequence));
        let sequence = place.unsigned(self.sequence)?;
        Ok(Attempt {
            attempt: place.unsigned(self.attempt)?,
            begun_at: self.begun_ms.map(|ms| place.millis(ms)).transpose()?,
            failed_at: self.failed_ms.map(|ms| place.millis(ms)).transpose()?,
            code: self.code.map(|code| place.word(&code)).transpose()?,
            path: self.path,
            detail: self.detail,
            program_version: self.program_version,
            position: Position { consumer: self.consumer, stream: self.stream, sequence },
        })
    }
}

/// A row of `letter_versions` without its content.
#[derive(Debug, sqlx::FromRow)]
pub struct VersionRecord {
    letter: String,
    version: i64,
    based_on: i64,
    payload_bytes: i64,
    payload_sha256: String,
    edited_by: String,
    reason: String,
    at: String,
}

impl VersionRecord {
    /// The version's name.
    pub fn read(self) -> Result<VersionRow> {
        let place = at("letter_versions", format!("{}/{}", self.letter, self.version));
        Ok(VersionRow {
            version: place.unsigned(self.version)?,
            based_on: place.unsigned(self.based_on)?,
            payload_bytes: place.unsigned(self.payload_bytes)?,
            act: Act { by: self.edited_by, reason: self.reason, at: place.parse(&self.at)? },
            payload_sha256: self.payload_sha256,
        })
    }
}

/// A row of `letter_versions`, whole.
#[derive(Debug, sqlx::FromRow)]
pub struct WholeVersionRecord {
    #[sqlx(flatten)]
    row: VersionRecord,
    headers: String,
    payload: Vec<u8>,
}

impl WholeVersionRecord {
    /// The version.
    pub fn read(self) -> Result<LetterVersion> {
        let place = at("letter_versions.headers", format!("{}/{}", self.row.letter, self.row.version));
        let headers = place.json(&self.headers)?;
        let VersionRow { version, based_on, payload_sha256, act, .. } = self.row.read()?;
        let content = Content { headers, payload: self.payload };
        Ok(LetterVersion { version, based_on, content, payload_sha256, act })
    }
}

/// Letters that were counted together.
#[derive(Debug, sqlx::FromRow)]
pub struct CountRecord {
    rejection: String,
    consumer: String,
    workflow: Option<String>,
    letters: i64,
    open: i64,
    first_ms: i64,
    last_ms: i64,
    example: String,
}

impl CountRecord {
    /// The count.
    pub fn read(self) -> Result<LetterCount> {
        let place = at("dead_letters", &self.example);
        Ok(LetterCount {
            rejection: at("dead_letters.rejection", &self.example).json(&self.rejection)?,
            workflow: self.workflow.as_deref().map(|workflow| place.parse(workflow)).transpose()?,
            letters: place.unsigned(self.letters)?,
            open: place.unsigned(self.open)?,
            first_seen: place.millis(self.first_ms)?,
            last_seen: place.millis(self.last_ms)?,
            example: place.parse(&self.example)?,
            consumer: self.consumer,
        })
    }
}
