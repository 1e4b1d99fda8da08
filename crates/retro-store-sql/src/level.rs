//! How things stand, as rows.

use std::collections::BTreeMap;

use retro_store::{Levels, Result};

use crate::at;

/// Open dead letters of one code.
#[derive(Debug, sqlx::FromRow)]
pub struct Letters {
    code: String,
    letters: i64,
    age_ms: i64,
}

/// Everything else.
#[derive(Debug, sqlx::FromRow)]
pub struct Record {
    outbox_unsent: i64,
    outbox_age_ms: Option<i64>,
    retrospectives_open: i64,
    retrospectives_age_ms: Option<i64>,
    oldest_tentative: Option<String>,
    claimable: i64,
}

/// Reads them.
pub fn levels(rest: &Record, letters: &[Letters]) -> Result<Levels> {
    let place = at("levels", "this database");
    let open = letters.iter().map(|one| Ok((one.code.clone(), place.unsigned(one.letters)?)));
    let oldest_tentative = rest.oldest_tentative.as_deref();
    Ok(Levels {
        outbox_unsent: place.unsigned(rest.outbox_unsent)?,
        outbox_age_ms: rest.outbox_age_ms.map(millis),
        letters_open: open.collect::<Result<BTreeMap<_, _>>>()?,
        letters_age_ms: letters.iter().map(|one| millis(one.age_ms)).max(),
        retrospectives_open: place.unsigned(rest.retrospectives_open)?,
        retrospectives_age_ms: rest.retrospectives_age_ms.map(millis),
        oldest_tentative: oldest_tentative
            .map(|text| at("memories.changed_at", text).parse(text))
            .transpose()?,
        claimable: place.unsigned(rest.claimable)?,
    })
}

/// A span between two moments of one clock, which may have been set back in between.
pub fn millis(span: i64) -> u64 {
    u64::try_from(span).unwrap_or(0)
}
