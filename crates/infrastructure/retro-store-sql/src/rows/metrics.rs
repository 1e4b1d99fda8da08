//! Converts rows to the metrics of the database.

use std::collections::BTreeMap;

use retro_core::kill_switch::KillSwitchScope;
use retro_store::{DatabaseMetrics, Result};

use crate::at;

/// Number and age of the open dead letters with the same code.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct OpenDeadLettersRecord {
    code: String,
    total: i64,
    age_ms: i64,
}

/// Row with all metrics except those of dead letters.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct MetricsRecord {
    outbox_unsent: i64,
    outbox_age_ms: Option<i64>,
    retrospectives_open: i64,
    retrospectives_age_ms: Option<i64>,
    oldest_tentative: Option<String>,
    claimable: i64,
    traces_waiting: i64,
    traces_waiting_age_ms: Option<i64>,
}

/// Converts the rows to the metrics of the database. `held` has the number of held memories of each status, and
/// `engaged` the scopes of the engaged kill switches. Fails if a value is damaged.
pub(crate) fn metrics_from_rows(
    rest: &MetricsRecord,
    open_dead_letters: &[OpenDeadLettersRecord],
    held: &[(String, i64)],
    engaged: &[KillSwitchScope],
) -> Result<DatabaseMetrics> {
    let place = at("metrics", "this database");
    let open = open_dead_letters.iter().map(|one| Ok((one.code.clone(), place.parse_unsigned(one.total)?)));
    let held = held.iter().map(|(status, total)| {
        Ok((at("memories.status", "held memories").parse(status)?, place.parse_unsigned(*total)?))
    });
    let oldest_tentative = rest.oldest_tentative.as_deref();
    let mut kill_switches_engaged = BTreeMap::new();
    for scope in engaged {
        *kill_switches_engaged.entry(scope.kind()).or_insert(0) += 1;
    }
    Ok(DatabaseMetrics {
        outbox_unsent: place.parse_unsigned(rest.outbox_unsent)?,
        outbox_age_ms: rest.outbox_age_ms.map(non_negative_millis),
        dead_letters_open: open.collect::<Result<BTreeMap<_, _>>>()?,
        dead_letters_age_ms: open_dead_letters.iter().map(|one| non_negative_millis(one.age_ms)).max(),
        retrospectives_open: place.parse_unsigned(rest.retrospectives_open)?,
        retrospectives_age_ms: rest.retrospectives_age_ms.map(non_negative_millis),
        oldest_tentative: oldest_tentative
            .map(|text| at("memories.changed_at", text).parse(text))
            .transpose()?,
        memories_held: held.collect::<Result<BTreeMap<_, _>>>()?,
        kill_switches_engaged,
        claimable: place.parse_unsigned(rest.claimable)?,
        traces_waiting: place.parse_unsigned(rest.traces_waiting)?,
        traces_waiting_age_ms: rest.traces_waiting_age_ms.map(non_negative_millis),
    })
}

/// Converts a clock difference in milliseconds to an unsigned number. Returns 0 for a negative difference,
/// which occurs if the clock was set back.
pub(crate) fn non_negative_millis(span: i64) -> u64 {
    u64::try_from(span).unwrap_or(0)
}
