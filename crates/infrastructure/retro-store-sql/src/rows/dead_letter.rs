//! Converts rows of dead letters, their attempts and their edited versions.

use retro_core::attribution::Attribution;
use retro_store::{
    Attempt, DeadLetter, DeadLetterCount, DeadLetterVersion, DeadLetterVersionRow, DeliveryPosition,
    MessageContent, NewDeadLetter, Result,
};

use super::attribution::parse_token;
use crate::at;

/// Row of `dead_letters`.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct DeadLetterRecord {
    id: String,
    tenant: Option<String>,
    workflow: Option<String>,
    consumer: String,
    stream: String,
    sequence: i64,
    /// Stored as bytes because a subject may contain NUL, which a Postgres text column cannot store.
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

impl DeadLetterRecord {
    /// Converts the row to a [`DeadLetter`]. Fails if a value is damaged.
    pub(crate) fn into_dead_letter(self) -> Result<DeadLetter> {
        let place = at("dead_letters", &self.id);
        let position = DeliveryPosition {
            consumer: self.consumer,
            stream: self.stream,
            sequence: place.parse_unsigned(self.sequence)?,
        };
        let dead_letter = NewDeadLetter {
            position,
            tenant: self.tenant.as_deref().map(|tenant| place.parse(tenant)).transpose()?,
            workflow: self.workflow.as_deref().map(|workflow| place.parse(workflow)).transpose()?,
            subject: String::from_utf8(self.subject).map_err(|error| place.damaged_error(error))?,
            headers: at("dead_letters.headers", &self.id).parse_json(&self.headers)?,
            payload: self.payload,
            rejection: at("dead_letters.rejection", &self.id).parse_json(&self.rejection)?,
            attempts: place.parse_unsigned(self.attempts)?,
            stored_at: place.parse(&self.stored_at)?,
        };
        Ok(DeadLetter {
            id: place.parse(&self.id)?,
            message: dead_letter,
            payload_sha256: self.payload_sha256,
            status: at("dead_letters.status", &self.id).parse_enum(&self.status)?,
            replays: place.parse_unsigned(self.replays)?,
            created_at: place.parse_millis(self.created_ms)?,
            program_version: self.program_version,
        })
    }
}

/// Row of `attempt_history`.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct AttemptRecord {
    consumer: String,
    stream: String,
    sequence: i64,
    attempt: i64,
    started_ms: Option<i64>,
    failed_ms: Option<i64>,
    code: Option<String>,
    path: Option<String>,
    detail: Option<String>,
    program_version: String,
}

impl AttemptRecord {
    /// Converts the row to an [`Attempt`]. Fails if a value is damaged.
    pub(crate) fn into_attempt(self) -> Result<Attempt> {
        let place = at("attempt_history", format!("{}/{}/{}", self.consumer, self.stream, self.sequence));
        let sequence = place.parse_unsigned(self.sequence)?;
        Ok(Attempt {
            attempt: place.parse_unsigned(self.attempt)?,
            started_at: self.started_ms.map(|ms| place.parse_millis(ms)).transpose()?,
            failed_at: self.failed_ms.map(|ms| place.parse_millis(ms)).transpose()?,
            code: self.code.map(|code| place.parse_enum(&code)).transpose()?,
            path: self.path,
            detail: self.detail,
            program_version: self.program_version,
            position: DeliveryPosition { consumer: self.consumer, stream: self.stream, sequence },
        })
    }
}

/// Row of `dead_letter_versions` without its content.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct VersionRecord {
    dead_letter: String,
    version: i64,
    based_on: i64,
    payload_bytes: i64,
    payload_sha256: String,
    edited_by: String,
    with_token: Option<String>,
    reason: String,
    edited_at: String,
}

impl VersionRecord {
    /// Converts the row to the version's metadata. Fails if a value is damaged.
    pub(crate) fn into_version_row(self) -> Result<DeadLetterVersionRow> {
        let place = at("dead_letter_versions", format!("{}/{}", self.dead_letter, self.version));
        Ok(DeadLetterVersionRow {
            version: place.parse_unsigned(self.version)?,
            based_on: place.parse_unsigned(self.based_on)?,
            payload_bytes: place.parse_unsigned(self.payload_bytes)?,
            act: Attribution {
                by: self.edited_by,
                with_token: parse_token(&place, self.with_token.as_deref())?,
                reason: self.reason,
                at: place.parse(&self.edited_at)?,
            },
            payload_sha256: self.payload_sha256,
        })
    }
}

/// Complete row of `dead_letter_versions`.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct FullVersionRecord {
    #[sqlx(flatten)]
    row: VersionRecord,
    headers: String,
    payload: Vec<u8>,
}

impl FullVersionRecord {
    /// Converts the row to the version with its content. Fails if a value is damaged.
    pub(crate) fn into_version(self) -> Result<DeadLetterVersion> {
        let place =
            at("dead_letter_versions.headers", format!("{}/{}", self.row.dead_letter, self.row.version));
        let headers = place.parse_json(&self.headers)?;
        let DeadLetterVersionRow { version, based_on, payload_sha256, act, .. } =
            self.row.into_version_row()?;
        let content = MessageContent { headers, payload: self.payload };
        Ok(DeadLetterVersion { version, based_on, content, payload_sha256, act })
    }
}

/// Row of a group of dead letters with the same rejection, consumer and workflow.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct DeadLetterCountRecord {
    rejection: String,
    consumer: String,
    workflow: Option<String>,
    total: i64,
    open: i64,
    first_ms: i64,
    last_ms: i64,
    example: String,
}

impl DeadLetterCountRecord {
    /// Converts the row to a [`DeadLetterCount`]. Fails if a value is damaged.
    pub(crate) fn into_count(self) -> Result<DeadLetterCount> {
        let place = at("dead_letters", &self.example);
        Ok(DeadLetterCount {
            rejection: at("dead_letters.rejection", &self.example).parse_json(&self.rejection)?,
            workflow: self.workflow.as_deref().map(|workflow| place.parse(workflow)).transpose()?,
            total: place.parse_unsigned(self.total)?,
            open: place.parse_unsigned(self.open)?,
            first_seen: place.parse_millis(self.first_ms)?,
            last_seen: place.parse_millis(self.last_ms)?,
            example: place.parse(&self.example)?,
            consumer: self.consumer,
        })
    }
}
