//! Converts the rows of `replays`, `replay_batches` and `replay_batch_letters`.

use retro_core::cancel::Attribution;
use retro_core::replay::{BatchProgress, ReplayPace};
use retro_store::Result;
use retro_store::replay::{ReplayBatchItem, ReplayBatchRow, ReplayRow};

use crate::{Location, at};

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
    /// Converts the row. Fails on a damaged value.
    pub fn to_replay_row(&self) -> Result<ReplayRow> {
        let place = at("replays", &self.id);
        Ok(ReplayRow {
            id: place.parse(&self.id)?,
            letter: place.parse(&self.letter)?,
            number: place.parse_unsigned(self.number)?,
            version: place.parse_unsigned(self.version)?,
            batch: self.batch.as_deref().map(|batch| place.parse(batch)).transpose()?,
            act: parse_act(&place, &self.asked_by, &self.reason, &self.at)?,
            state: at("replays.state", &self.id).parse_enum(&self.state)?,
            due_at: place.parse_millis(self.due_ms)?,
            sendings: place.parse_unsigned(self.sendings)?,
            ended_at: self.ended_ms.map(|millis| place.parse_millis(millis)).transpose()?,
            outcome: self
                .outcome
                .as_deref()
                .map(|text| at("replays.outcome", &self.id).parse_json(text))
                .transpose()?,
        })
    }
}

/// A row of `replay_batches`, with its dead letters counted by state.
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
    /// Converts the row. Fails on a damaged value.
    pub fn to_batch_row(&self) -> Result<ReplayBatchRow> {
        let place = at("replay_batches", &self.id);
        Ok(ReplayBatchRow {
            id: place.parse(&self.id)?,
            asked: self.asked.clone(),
            act: parse_act(&place, &self.asked_by, &self.reason, &self.at)?,
            pace: ReplayPace {
                canary: place.parse_unsigned(self.canary)?,
                rate_milli: place.parse_unsigned(self.rate_milli)?,
                failed_permille_max: place.parse_unsigned(self.failed_permille_max)?,
            },
            state: at("replay_batches.state", &self.id).parse_enum(&self.state)?,
            progress: BatchProgress {
                waiting: place.parse_unsigned(self.waiting)?,
                under_way: place.parse_unsigned(self.under_way)?,
                handled: place.parse_unsigned(self.handled)?,
                failed: place.parse_unsigned(self.failed)?,
                skipped: place.parse_unsigned(self.skipped)?,
            },
            created_at: place.parse_millis(self.created_ms)?,
            ended_at: self.ended_ms.map(|millis| place.parse_millis(millis)).transpose()?,
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
    /// Converts the row. Fails on a damaged value.
    pub fn into_batch_letter(self) -> Result<ReplayBatchItem> {
        let place = at("replay_batch_letters", &self.letter);
        Ok(ReplayBatchItem {
            place: place.parse_unsigned(self.place)?,
            letter: place.parse(&self.letter)?,
            state: self.state,
            told: self.told,
        })
    }
}

fn parse_act(place: &Location<&String>, by: &str, reason: &str, moment: &str) -> Result<Attribution> {
    Ok(Attribution { by: by.to_owned(), reason: reason.to_owned(), at: place.parse(moment)? })
}
