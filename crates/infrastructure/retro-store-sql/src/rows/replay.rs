//! Converts rows of `replays`, `replay_batches` and `replay_batch_items`.

use retro_core::attribution::Attribution;
use retro_core::replay::{BatchProgress, ReplayPace};
use retro_store::Result;
use retro_store::replay::{ReplayBatchItem, ReplayBatchRow, ReplayRow};

use super::attribution::parse_token;
use super::location::Location;
use crate::at;

/// Row of `replays`.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct ReplayRecord {
    id: String,
    dead_letter: String,
    number: i64,
    version: i64,
    batch: Option<String>,
    requested_by: String,
    with_token: Option<String>,
    reason: String,
    requested_at: String,
    state: String,
    due_ms: i64,
    publications: i64,
    ended_ms: Option<i64>,
    outcome: Option<String>,
}

impl ReplayRecord {
    /// Converts the row to a [`ReplayRow`]. Fails if a value is damaged.
    pub(crate) fn to_replay_row(&self) -> Result<ReplayRow> {
        let place = at("replays", &self.id);
        Ok(ReplayRow {
            id: place.parse(&self.id)?,
            dead_letter: place.parse(&self.dead_letter)?,
            number: place.parse_unsigned(self.number)?,
            version: place.parse_unsigned(self.version)?,
            batch: self.batch.as_deref().map(|batch| place.parse(batch)).transpose()?,
            act: parse_act(
                &place,
                &self.requested_by,
                self.with_token.as_deref(),
                &self.reason,
                &self.requested_at,
            )?,
            state: at("replays.state", &self.id).parse_enum(&self.state)?,
            due_at: place.parse_millis(self.due_ms)?,
            publications: place.parse_unsigned(self.publications)?,
            ended_at: self.ended_ms.map(|millis| place.parse_millis(millis)).transpose()?,
            outcome: self
                .outcome
                .as_deref()
                .map(|text| at("replays.outcome", &self.id).parse_json(text))
                .transpose()?,
        })
    }
}

/// Row of `replay_batches` with its dead letters counted by state.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct BatchRecord {
    id: String,
    filter_text: String,
    requested_by: String,
    with_token: Option<String>,
    reason: String,
    requested_at: String,
    canary: i64,
    rate_milli: i64,
    failed_permille_max: i64,
    state: String,
    created_ms: i64,
    ended_ms: Option<i64>,
    end_reason: Option<String>,
    waiting: i64,
    under_way: i64,
    handled: i64,
    failed: i64,
    skipped: i64,
}

impl BatchRecord {
    /// Converts the row to a [`ReplayBatchRow`]. Fails if a value is damaged.
    pub(crate) fn to_batch_row(&self) -> Result<ReplayBatchRow> {
        let place = at("replay_batches", &self.id);
        Ok(ReplayBatchRow {
            id: place.parse(&self.id)?,
            filter_text: self.filter_text.clone(),
            act: parse_act(
                &place,
                &self.requested_by,
                self.with_token.as_deref(),
                &self.reason,
                &self.requested_at,
            )?,
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
            end_reason: self.end_reason.clone(),
        })
    }
}

/// Row of `replay_batch_items`.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct BatchItemRecord {
    position: i64,
    dead_letter: String,
    state: String,
    result: Option<String>,
}

impl BatchItemRecord {
    /// Converts the row to a [`ReplayBatchItem`]. Fails if a value is damaged.
    pub(crate) fn into_batch_item(self) -> Result<ReplayBatchItem> {
        let place = at("replay_batch_items", &self.dead_letter);
        Ok(ReplayBatchItem {
            position: place.parse_unsigned(self.position)?,
            dead_letter: place.parse(&self.dead_letter)?,
            state: self.state,
            result: self.result,
        })
    }
}

fn parse_act(
    place: &Location<&String>,
    by: &str,
    with_token: Option<&str>,
    reason: &str,
    moment: &str,
) -> Result<Attribution> {
    let (by, reason) = (by.to_owned(), reason.to_owned());
    Ok(Attribution { by, with_token: parse_token(place, with_token)?, reason, at: place.parse(moment)? })
}
