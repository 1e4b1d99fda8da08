//! Rows of `replays` and `replay_batches`.

use retro_core::replay::{Pace, Progress};
use retro_core::steer::Act;
use retro_store::Result;
use retro_store::replay::{BatchLetter, BatchRow, ReplayRow};

use crate::{At, at};

/// A row of `replays`.
#[derive(Debug, sqlx::FromRow)]
pub struct ReplayRecord {
    id: String,
    letter: String,
    number: i64,
    version: i64,
    batch: Option<String>,
    asked_by: String,
    reason: String,
    at: String,
    state: String,
    due_ms: i64,
    sendings: i64,
    ended_ms: Option<i64>,
    outcome: Option<String>,
}

impl ReplayRecord {
    /// The replay.
    pub fn read(&self) -> Result<ReplayRow> {
        let place = at("replays", &self.id);
        Ok(ReplayRow {
            id: place.parse(&self.id)?,
            letter: place.parse(&self.letter)?,
            number: place.unsigned(self.number)?,
            version: place.unsigned(self.version)?,
            batch: self.batch.as_deref().map(|batch| place.parse(batch)).transpose()?,
            act: act(&place, &self.asked_by, &self.reason, &self.at)?,
            state: at("replays.state", &self.id).word(&self.state)?,
            due_at: place.millis(self.due_ms)?,
            sendings: place.unsigned(self.sendings)?,
            ended_at: self.ended_ms.map(|millis| place.millis(millis)).transpose()?,
            outcome: self
                .outcome
                .as_deref()
                .map(|text| at("replays.outcome", &self.id).json(text))
                .transpose()?,
        })
    }
}

/// A row of `replay_batches`, with its letters counted by where they stand.
#[derive(Debug, sqlx::FromRow)]
pub struct BatchRecord {
    id: String,
    asked: String,
    asked_by: String,
    reason: String,
    at: String,
    canary: i64,
    rate_milli: i64,
    failed_permille_max: i64,
    state: String,
    created_ms: i64,
    ended_ms: Option<i64>,
    ended: Option<String>,
    waiting: i64,
    under_way: i64,
    handled: i64,
    failed: i64,
    skipped: i64,
}

impl BatchRecord {
    /// The batch.
    pub fn read(&self) -> Result<BatchRow> {
        let place = at("replay_batches", &self.id);
        Ok(BatchRow {
            id: place.parse(&self.id)?,
            asked: self.asked.clone(),
            act: act(&place, &self.asked_by, &self.reason, &self.at)?,
            pace: Pace {
                canary: place.unsigned(self.canary)?,
                rate_milli: place.unsigned(self.rate_milli)?,
                failed_permille_max: place.unsigned(self.failed_permille_max)?,
            },
            state: at("replay_batches.state", &self.id).word(&self.state)?,
            progress: Progress {
                waiting: place.unsigned(self.waiting)?,
                under_way: place.unsigned(self.under_way)?,
                handled: place.unsigned(self.handled)?,
                failed: place.unsigned(self.failed)?,
                skipped: place.unsigned(self.skipped)?,
            },
            created_at: place.millis(self.created_ms)?,
            ended_at: self.ended_ms.map(|millis| place.millis(millis)).transpose()?,
            ended: self.ended.clone(),
        })
    }
}

/// A row of `replay_batch_letters`.
#[derive(Debug, sqlx::FromRow)]
pub struct BatchLetterRecord {
    place: i64,
    letter: String,
    state: String,
    told: Option<String>,
}

impl BatchLetterRecord {
    /// The letter in its batch.
    pub fn read(self) -> Result<BatchLetter> {
        let place = at("replay_batch_letters", &self.letter);
        Ok(BatchLetter {
            place: place.unsigned(self.place)?,
            letter: place.parse(&self.letter)?,
            state: self.state,
            told: self.told,
        })
    }
}

fn act(place: &At<&String>, by: &str, reason: &str, moment: &str) -> Result<Act> {
    Ok(Act { by: by.to_owned(), reason: reason.to_owned(), at: place.parse(moment)? })
}
