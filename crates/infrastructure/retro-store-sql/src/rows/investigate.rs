//! Converts rows of `investigations` and detects writes under an outdated lease.

use retro_core::id::{Ordinal, RetrospectiveId};
use retro_core::model_use::TokenUsage;
use retro_core::report::InvestigationTiming;
use retro_core::retrospective::{Investigation, Retrospective};
use retro_core::sample::Sample;
use retro_store::{Claim, InvestigationAttempts, Result, StoreError};

use crate::{at, to_i64};

/// Maximum duration of a lease or pause, in seconds: one year. Prevents overflow in 64-bit arithmetic.
const SECONDS_MAX: u64 = 366 * 24 * 3600;

/// Caps the duration of a lease or pause, in seconds, at one year.
pub(crate) fn bounded_seconds(seconds: u64) -> i64 {
    to_i64(seconds.min(SECONDS_MAX))
}

/// Checks that a statement guarded by a claim's fencing token affected one row. Fails with
/// [`StoreError::Fenced`] otherwise.
pub(crate) fn check_not_fenced(claim: &Claim, rows: u64) -> Result<()> {
    if rows == 1 { Ok(()) } else { Err(fenced_error(claim)) }
}

/// Creates the error for a write under a claim that is no longer valid.
pub(crate) fn fenced_error(claim: &Claim) -> StoreError {
    let work = format!("investigation {} of retrospective {}", claim.number, claim.retrospective.id);
    StoreError::Fenced { work }
}

/// Returns the ordinal at a 0-based position of the sample's shuffled order.
pub(crate) fn ordinal_at(retrospective: &Retrospective, sample: &Sample, place: u32) -> Result<Ordinal> {
    let ordinal = sample.order.get(place as usize).copied();
    ordinal.ok_or_else(|| {
        at("retrospectives.sample", retrospective.id).damaged_error(format!("its order has no place {place}"))
    })
}

/// Row of `investigations`.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct InvestigationRecord {
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
    model_calls: i64,
    unpriced_calls: i64,
    input_tokens: i64,
    cached_tokens: i64,
    output_tokens: i64,
}

/// Row of the attempts at an investigation: its number, attempts, worker, end of the lease and last error.
pub(crate) type AttemptsRow = (i64, i64, Option<String>, Option<i64>, Option<String>);

/// Converts the attempts at an investigation. Fails if a value is damaged.
pub(crate) fn attempts_from_row(id: RetrospectiveId, row: AttemptsRow) -> Result<InvestigationAttempts> {
    let (number, attempts, worker, lease_ms, last_error) = row;
    let place = at("investigations", format!("{id}, number {number}"));
    Ok(InvestigationAttempts {
        number: place.parse_unsigned(number)?,
        attempts: place.parse_unsigned(attempts)?,
        worker,
        lease_until: lease_ms.map(|lease_ms| place.parse_millis(lease_ms)).transpose()?,
        last_error,
    })
}

impl InvestigationRecord {
    /// Converts the row to an investigation, ended or not, and its timing so far. Fails if a value is
    /// damaged.
    pub(crate) fn to_investigation(&self) -> Result<(Investigation, InvestigationTiming)> {
        let key = format!("{}, number {}", self.retrospective, self.number);
        let place = at("investigations", &key);
        let result = self.result.as_deref().map(|text| at("investigations.result", &key).parse_json(text));
        let one = Investigation {
            number: place.parse_unsigned(self.number)?,
            ordinal: place.parse_unsigned(self.ordinal)?,
            run: place.parse(&self.run_id)?,
            replacement: self.replacement,
            result: result.transpose()?,
        };
        let lasted = self.ended_ms.zip(self.claimed_ms).map_or(0, |(ended, claimed)| ended - claimed);
        let timing = InvestigationTiming {
            attempts: place.parse_unsigned(self.attempts)?,
            // A clock that was set back yields a negative duration, which must not make the report invalid.
            duration_ms: u64::try_from(lasted).unwrap_or(0),
            cost_usd: self.cost_usd.unwrap_or(0.0),
            model_calls: place.parse_unsigned(self.model_calls)?,
            unpriced_calls: place.parse_unsigned(self.unpriced_calls)?,
            tokens: TokenUsage {
                input_tokens: place.parse_unsigned(self.input_tokens)?,
                cached_tokens: place.parse_unsigned(self.cached_tokens)?,
                output_tokens: place.parse_unsigned(self.output_tokens)?,
            },
        };
        Ok((one, timing))
    }
}
