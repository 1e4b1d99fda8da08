//! Rows of `investigations`, and what their workers write under a lease.

use retro_core::id::Ordinal;
use retro_core::learn::Timing;
use retro_core::retrospective::{Investigation, Retrospective};
use retro_core::sample::Sample;
use retro_store::{Claim, Result, StoreError};

use crate::{at, integer};

/// Longest lease or pause, seconds: a year. Keeps the arithmetic within 64 bits.
const SECONDS_MAX: u64 = 366 * 24 * 3600;

/// Seconds of a lease or a pause, bounded.
pub fn seconds(seconds: u64) -> i64 {
    integer(seconds.min(SECONDS_MAX))
}

/// Fails with "fenced" unless the statement that named the claim's token touched its row.
pub fn unless_fenced(claim: &Claim, rows: u64) -> Result<()> {
    if rows == 1 { Ok(()) } else { Err(fenced(claim)) }
}

/// The answer to whoever writes under a claim that is no longer theirs.
pub const fn fenced(claim: &Claim) -> StoreError {
    StoreError::Fenced { retrospective: claim.retrospective.id, number: claim.number }
}

/// The ordinal of the run at a place (from 0) of the shuffled order.
pub fn ordinal_at(retrospective: &Retrospective, sample: &Sample, place: u32) -> Result<Ordinal> {
    let ordinal = sample.order.get(place as usize).copied();
    ordinal.ok_or_else(|| {
        at("retrospectives.sample", retrospective.id).damaged(format!("its order has no place {place}"))
    })
}

/// A row of `investigations`.
#[derive(Debug, sqlx::FromRow)]
pub struct Record {
    retrospective: String,
    number: i64,
    ordinal: i64,
    run_id: String,
    replacement: bool,
    result: Option<String>,
    attempts: i64,
    claimed_ms: Option<i64>,
    ended_ms: Option<i64>,
    cost_usd: Option<f64>,
}

impl Record {
    /// The investigation, ended or not, and what it took so far.
    pub fn read(&self) -> Result<(Investigation, Timing)> {
        let key = format!("{}, number {}", self.retrospective, self.number);
        let place = at("investigations", &key);
        let result = self.result.as_deref().map(|text| at("investigations.result", &key).json(text));
        let one = Investigation {
            number: place.unsigned(self.number)?,
            ordinal: place.unsigned(self.ordinal)?,
            run: place.parse(&self.run_id)?,
            replacement: self.replacement,
            result: result.transpose()?,
        };
        let lasted = self.ended_ms.zip(self.claimed_ms).map_or(0, |(ended, claimed)| ended - claimed);
        let timing = Timing {
            attempts: place.unsigned(self.attempts)?,
            // A clock that was set back must not make a report unreadable.
            duration_ms: u64::try_from(lasted).unwrap_or(0),
            cost_usd: self.cost_usd.unwrap_or(0.0),
        };
        Ok((one, timing))
    }
}
