//! Updates the gauges at a fixed interval, independent of message handling.
//!
//! The relay's process queries the database, because its role has the least to do; several relays report the
//! same values. The lag of a consumer is queried by the process of its role, because no other process has
//! permission. A gauge that could not be updated is hidden, so an old value is not mistaken for the current
//! one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use retro_bus::{Bus, ConsumerLag, DurableConsumer};
use retro_core::dead_letter::DeadLetterCode;
use retro_core::kill_switch::KillSwitchScope;
use retro_core::memory::MemoryStatus;
use retro_core::time::Clock;
use retro_store::{DatabaseMetrics, MetricsStore};
use retro_telemetry::metrics::{self, Counter};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

/// Timeout for the database. A slower database has bigger problems than missing metrics.
const DATABASE_TIMEOUT: Duration = Duration::from_secs(10);
/// Label for codes that a newer version stored and this version does not know.
const UNKNOWN_CODE: &str = "unknown";

/// Counters exported as 0 from the start, so their first increment is visible as a step.
const ZEROED_COUNTERS: [&Counter<0>; 6] = [
    &metrics::TAKEOVERS,
    &metrics::CLAIMS_FENCED,
    &metrics::RELAY_FAILURES,
    &metrics::INVESTIGATION_RETRIES,
    &metrics::MEMORIES_PRESENTED,
    &metrics::MEMORIES_READ,
];

/// Updates the gauges at a fixed interval.
#[derive(Clone)]
pub(super) struct GaugeUpdater {
    pub(super) interval: Duration,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) stop: CancellationToken,
}

impl GaugeUpdater {
    /// Updates the gauges read from the database until `stop` is cancelled.
    pub(super) async fn update_database_gauges(self, store: Arc<dyn MetricsStore>) {
        while self.wait_interval().await {
            let answer = tokio::time::timeout(DATABASE_TIMEOUT, store.load_metrics()).await;
            match answer.map_err(|_| "it did not answer in time".to_owned()) {
                Ok(Ok(levels)) => {
                    show_database_gauges(&levels, self.clock.now());
                    metrics::METRIC_READS.add(1, ["database", "ok"]);
                }
                Ok(Err(problem)) => hide_database_gauges(&problem.to_string()),
                Err(late) => hide_database_gauges(&late),
            }
        }
    }

    /// Updates the lag of a consumer until `stop` is cancelled.
    pub(super) async fn update_lag(self, bus: Bus, durable: DurableConsumer) {
        let name = durable.name;
        while self.wait_interval().await {
            match bus.measure_lag(durable).await {
                Ok(lag) => {
                    show_lag_gauges(name, lag, self.clock.now());
                    metrics::METRIC_READS.add(1, ["broker", "ok"]);
                }
                Err(problem) => {
                    // The readiness check already logs that the broker is unavailable.
                    debug!(consumer = name, "the lag of {name} is unknown: {problem}");
                    metrics::CONSUMER_LAG.clear([name]);
                    metrics::CONSUMER_LAG_AGE.clear([name]);
                    metrics::METRIC_READS.add(1, ["broker", "failed"]);
                }
            }
        }
    }

    /// Updates the gauges of this process until `stop` is cancelled.
    pub(super) async fn update_process_gauges(self) {
        metrics::BUILD_INFO.set([env!("CARGO_PKG_VERSION")], 1.0);
        for count in ZEROED_COUNTERS {
            count.add(0, []);
        }
        while self.wait_interval().await {
            match read_resident_bytes() {
                Some(bytes) => metrics::PROCESS_MEMORY.set([], bytes),
                None => metrics::PROCESS_MEMORY.clear([]),
            }
        }
    }

    /// Waits for the interval. Returns `false` if `stop` is cancelled.
    async fn wait_interval(&self) -> bool {
        tokio::select! {
            () = self.stop.cancelled() => false,
            () = tokio::time::sleep(self.interval) => true,
        }
    }
}

fn show_database_gauges(levels: &DatabaseMetrics, now: Timestamp) {
    let age = |age_ms: Option<u64>| age_ms.unwrap_or(0) as f64 / 1000.0;
    metrics::OUTBOX_UNSENT.set([], levels.outbox_unsent as f64);
    metrics::OUTBOX_AGE.set([], age(levels.outbox_age_ms));
    metrics::DEAD_LETTERS_OPEN.set_all(count_by_code(&levels.dead_letters_open));
    metrics::DEAD_LETTERS_AGE.set([], age(levels.dead_letters_age_ms));
    metrics::RETROSPECTIVES_OPEN.set([], levels.retrospectives_open as f64);
    metrics::RETROSPECTIVES_AGE.set([], age(levels.retrospectives_age_ms));
    metrics::TENTATIVE_AGE.set([], levels.oldest_tentative.map_or(0.0, |since| seconds_between(since, now)));
    metrics::MEMORIES_HELD.set_all(count_held(&levels.memories_held));
    metrics::KILL_SWITCHES_ENGAGED.set_all(count_engaged(&levels.kill_switches_engaged));
    metrics::INVESTIGATIONS_CLAIMABLE.set([], levels.claimable as f64);
    metrics::TRACES_WAITING.set([], levels.traces_waiting as f64);
    metrics::TRACES_WAITING_AGE.set([], age(levels.traces_waiting_age_ms));
}

/// Returns the number of engaged kill switches for every kind of scope, including zeros.
fn count_engaged(counts: &BTreeMap<&'static str, u64>) -> BTreeMap<[&'static str; 1], f64> {
    let count = |kind: &str| counts.get(kind).copied().unwrap_or(0) as f64;
    KillSwitchScope::KINDS.into_iter().map(|kind| ([kind], count(kind))).collect()
}

/// Returns the count for every code, including zeros: an alert on the first dead letter needs the zero before
/// it.
fn count_by_code(counts: &BTreeMap<String, u64>) -> BTreeMap<[&'static str; 1], f64> {
    let mut open: BTreeMap<_, _> = DeadLetterCode::ALL.iter().map(|code| ([code.as_str()], 0.0)).collect();
    for (stored, count) in counts {
        let known = DeadLetterCode::ALL.iter().map(|code| code.as_str()).find(|code| code == stored);
        *open.entry([known.unwrap_or(UNKNOWN_CODE)]).or_default() += *count as f64;
    }
    open
}

/// Returns the number of held memories for every status that a held memory can have, including zeros.
fn count_held(counts: &BTreeMap<MemoryStatus, u64>) -> BTreeMap<[&'static str; 1], f64> {
    let living = MemoryStatus::ALL.iter().filter(|status| status.is_living());
    living.map(|status| ([status.as_str()], counts.get(status).copied().unwrap_or(0) as f64)).collect()
}

fn hide_database_gauges(problem: &str) {
    warn!("the gauges of the database could not be updated: {problem}");
    let levels = [
        &metrics::OUTBOX_UNSENT,
        &metrics::OUTBOX_AGE,
        &metrics::DEAD_LETTERS_AGE,
        &metrics::RETROSPECTIVES_OPEN,
        &metrics::RETROSPECTIVES_AGE,
        &metrics::TENTATIVE_AGE,
        &metrics::INVESTIGATIONS_CLAIMABLE,
        &metrics::TRACES_WAITING,
        &metrics::TRACES_WAITING_AGE,
    ];
    for level in levels {
        level.clear([]);
    }
    metrics::DEAD_LETTERS_OPEN.set_all([]);
    metrics::MEMORIES_HELD.set_all([]);
    metrics::KILL_SWITCHES_ENGAGED.set_all([]);
    metrics::METRIC_READS.add(1, ["database", "failed"]);
}

fn show_lag_gauges(consumer: &'static str, lag: ConsumerLag, now: Timestamp) {
    metrics::CONSUMER_LAG.set([consumer], lag.messages as f64);
    metrics::CONSUMER_LAG_AGE.set([consumer], lag.oldest.map_or(0.0, |since| seconds_between(since, now)));
}

/// Returns the seconds between two times, but at least 0, because the times come from two clocks.
fn seconds_between(since: Timestamp, now: Timestamp) -> f64 {
    now.duration_since(since).as_secs_f64().max(0.0)
}

/// Returns the resident memory of this process in bytes, or `None` if the kernel does not report it.
fn read_resident_bytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_shown_and_unknown_codes_are_counted() {
        let stored =
            [("not_json".to_owned(), 2), ("of_tomorrow".to_owned(), 3), ("of_next_week".to_owned(), 1)];
        let open = count_by_code(&stored.into());
        assert_eq!(open.len(), DeadLetterCode::ALL.len() + 1);
        assert_eq!((open[&["not_json"]], open[&["oversized"]], open[&[UNKNOWN_CODE]]), (2.0, 0.0, 4.0));
    }

    #[test]
    fn held_memories_are_shown_for_every_living_status() {
        let held = count_held(&BTreeMap::from([(MemoryStatus::Active, 2)]));
        assert_eq!(held, BTreeMap::from([(["tentative"], 0.0), (["active"], 2.0), (["archived"], 0.0)]));
    }

    #[test]
    fn an_age_between_two_clocks_is_never_negative() {
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!((seconds_between(at(10), at(12)), seconds_between(at(12), at(10))), (2.0, 0.0));
    }

    #[test]
    fn the_resident_memory_is_read() {
        assert!(read_resident_bytes().is_some_and(|bytes| bytes > 1024.0 * 1024.0));
    }
}
