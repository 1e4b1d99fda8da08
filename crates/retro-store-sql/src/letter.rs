//! Rows of `dead_letters`.

use retro_store::{DeadLetter, NewDeadLetter, Position, Result};

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
            created_at: place.millis(self.created_ms)?,
            program_version: self.program_version,
        })
    }
}
