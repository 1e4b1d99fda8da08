//! How things stand, for the metrics: looked at every so often, never while something is handled.
//!
//! The database is asked by the relay's process, since its role has the least to do; several of them tell the same. How far
//! behind a consumer is, its own role's process asks: no other may. What could not be looked at is hidden, so that nobody
//! takes an old number for a new one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use retro_bus::{Bus, Durable, Lag};
use retro_core::dead_letter::Code;
use retro_core::time::Clock;
use retro_meter::Count;
use retro_store::{LevelStore, Levels};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

/// A database that takes longer for these questions has other troubles than metrics.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// What a code that this program does not know is counted under: a newer one stored it.
const UNKNOWN_CODE: &str = "unknown";

/// What is told from the first moment, so that the first time it happens is seen as a step from nothing.
const NOUGHT: [&Count<0>; 6] = [
    &retro_meter::TAKEOVERS,
    &retro_meter::FENCED,
    &retro_meter::RELAY_FAILED,
    &retro_meter::INVESTIGATION_RETRIES,
    &retro_meter::PRESENTED,
    &retro_meter::READ,
];

/// Whoever looks, and how often.
#[derive(Clone)]
pub(super) struct Looking {
    pub(super) every: Duration,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) stop: CancellationToken,
}

impl Looking {
    /// Looks at the database until stopped.
    pub(super) async fn at_database(self, store: Arc<dyn LevelStore>) {
        while self.pause().await {
            let answer = tokio::time::timeout(ANSWERS_WITHIN, store.levels()).await;
            match answer.map_err(|_| "it did not answer in time".to_owned()) {
                Ok(Ok(levels)) => {
                    show(&levels, self.clock.now());
                    retro_meter::LOOKS.add(1, ["database", "ok"]);
                }
                Ok(Err(problem)) => failed(&problem.to_string()),
                Err(late) => failed(&late),
            }
        }
    }

    /// Looks how far behind a consumer is until stopped.
    pub(super) async fn at_consumer(self, bus: Bus, durable: Durable) {
        let name = durable.name;
        while self.pause().await {
            match bus.lag(durable).await {
                Ok(lag) => {
                    show_lag(name, lag, self.clock.now());
                    retro_meter::LOOKS.add(1, ["broker", "ok"]);
                }
                Err(problem) => {
                    // That the broker is away is told by whoever watches it.
                    debug!(consumer = name, "the lag of {name} is not known: {problem}");
                    retro_meter::LAG.hide([name]);
                    retro_meter::LAG_AGE.hide([name]);
                    retro_meter::LOOKS.add(1, ["broker", "failed"]);
                }
            }
        }
    }

    /// Looks at the process itself until stopped.
    pub(super) async fn at_process(self) {
        retro_meter::BUILD.show([env!("CARGO_PKG_VERSION")], 1.0);
        for count in NOUGHT {
            count.add(0, []);
        }
        while self.pause().await {
            match resident_bytes() {
                Some(bytes) => retro_meter::MEMORY.show([], bytes),
                None => retro_meter::MEMORY.hide([]),
            }
        }
    }

    /// Waits for the next look; whether there is one.
    async fn pause(&self) -> bool {
        tokio::select! {
            () = self.stop.cancelled() => false,
            () = tokio::time::sleep(self.every) => true,
        }
    }
}

fn show(levels: &Levels, now: Timestamp) {
    let age = |age_ms: Option<u64>| age_ms.unwrap_or(0) as f64 / 1000.0;
    retro_meter::OUTBOX_UNSENT.show([], levels.outbox_unsent as f64);
    retro_meter::OUTBOX_AGE.show([], age(levels.outbox_age_ms));
    retro_meter::LETTERS_OPEN.show_all(by_code(&levels.letters_open));
    retro_meter::LETTERS_AGE.show([], age(levels.letters_age_ms));
    retro_meter::RETROSPECTIVES_OPEN.show([], levels.retrospectives_open as f64);
    retro_meter::RETROSPECTIVES_AGE.show([], age(levels.retrospectives_age_ms));
    retro_meter::TENTATIVE_AGE.show([], levels.oldest_tentative.map_or(0.0, |since| seconds(since, now)));
    retro_meter::CLAIMABLE.show([], levels.claimable as f64);
}

/// Every code, also those of which there is none: an alarm that begins with the first letter needs the zero before it.
fn by_code(letters: &BTreeMap<String, u64>) -> BTreeMap<[&'static str; 1], f64> {
    let mut open: BTreeMap<_, _> = Code::ALL.iter().map(|code| ([code.as_str()], 0.0)).collect();
    for (stored, count) in letters {
        let known = Code::ALL.iter().map(|code| code.as_str()).find(|code| code == stored);
        *open.entry([known.unwrap_or(UNKNOWN_CODE)]).or_default() += *count as f64;
    }
    open
}

fn failed(problem: &str) {
    warn!("how things stand in the database is not known: {problem}");
    let levels = [
        &retro_meter::OUTBOX_UNSENT,
        &retro_meter::OUTBOX_AGE,
        &retro_meter::LETTERS_AGE,
        &retro_meter::RETROSPECTIVES_OPEN,
        &retro_meter::RETROSPECTIVES_AGE,
        &retro_meter::TENTATIVE_AGE,
        &retro_meter::CLAIMABLE,
    ];
    for level in levels {
        level.hide([]);
    }
    retro_meter::LETTERS_OPEN.show_all([]);
    retro_meter::LOOKS.add(1, ["database", "failed"]);
}

fn show_lag(consumer: &'static str, lag: Lag, now: Timestamp) {
    retro_meter::LAG.show([consumer], lag.messages as f64);
    retro_meter::LAG_AGE.show([consumer], lag.oldest.map_or(0.0, |since| seconds(since, now)));
}

/// By two clocks, which may differ: never less than nothing.
fn seconds(since: Timestamp, now: Timestamp) -> f64 {
    now.duration_since(since).as_secs_f64().max(0.0)
}

/// What the kernel says; `None` where it says nothing.
fn resident_bytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_shown_and_one_that_is_not_known_is_not_lost() {
        let stored =
            [("not_json".to_owned(), 2), ("of_tomorrow".to_owned(), 3), ("of_next_week".to_owned(), 1)];
        let open = by_code(&stored.into());
        assert_eq!(open.len(), Code::ALL.len() + 1);
        assert_eq!((open[&["not_json"]], open[&["oversized"]], open[&[UNKNOWN_CODE]]), (2.0, 0.0, 4.0));
    }

    #[test]
    fn an_age_by_two_clocks_is_never_less_than_nothing() {
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!((seconds(at(10), at(12)), seconds(at(12), at(10))), (2.0, 0.0));
    }

    #[test]
    fn the_process_knows_how_much_of_it_is_resident() {
        assert!(resident_bytes().is_some_and(|bytes| bytes > 1024.0 * 1024.0));
    }
}
