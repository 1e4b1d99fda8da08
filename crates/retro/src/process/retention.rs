//! Purges expired details stage by stage, at a fixed interval, in the relay's process. Several relays share
//! the work.

use std::sync::Arc;
use std::time::Duration;

use retro_config::Config;
use retro_store::retention::RetentionStage;
use retro_store::{PurgeResult, RetentionStore, StoreError};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Interval between rounds. Ages are in days, so a delay of ten minutes does not matter, and each round finds
/// little to purge.
const ROUND_INTERVAL: Duration = Duration::from_secs(600);
/// Maximum number of rows purged per transaction. The transaction takes about ten milliseconds, so a waiting
/// counter is hardly delayed.
const ROWS_PER_CALL: u32 = 1000;
/// Maximum number of calls per stage and round, so that no stage with a backlog of millions delays the others
/// indefinitely. The next round follows at once then.
const CALLS_PER_STAGE: u32 = 1000;
/// Pause between calls. SQLite allows only one writer at a time, so most of the time must be left to other
/// writers.
const CALL_PAUSE: Duration = Duration::from_millis(20);
/// Age at which attempts are purged, in seconds (one day). Retries follow within minutes; an older attempt
/// belongs to a message that was eventually handled, or to a broker that was wiped and restarted its sequence
/// numbers.
const ATTEMPTS_S: u64 = DAY_S;
const DAY_S: u64 = 24 * 3600;

/// Ages at which the kinds of details are purged, in days.
#[derive(Debug, Clone, Copy)]
pub(super) struct RetentionAges {
    bodies_days: u32,
    journals_days: u32,
    runs_days: u32,
    events_days: u32,
    messages_days: u32,
}

impl RetentionAges {
    pub(super) const fn from_config(config: &Config) -> Self {
        Self {
            bodies_days: config.retention_bodies_days,
            journals_days: config.retention_journals_days,
            runs_days: config.retention_runs_days,
            events_days: config.retention_events_days,
            messages_days: config.retention_messages_days,
        }
    }

    /// Returns the age at which a stage purges its rows, in seconds.
    fn stage_age_s(self, stage: RetentionStage) -> u64 {
        let days = match stage {
            RetentionStage::Bodies => self.bodies_days,
            RetentionStage::Journals => self.journals_days,
            RetentionStage::Runs => self.runs_days,
            RetentionStage::Events => self.events_days,
            RetentionStage::Messages => self.messages_days,
            RetentionStage::Attempts => return ATTEMPTS_S,
        };
        u64::from(days) * DAY_S
    }
}

/// Purges all stages, round after round, until `stop` is cancelled. A failed stage is retried in the next
/// round.
pub(super) async fn run_retention(
    store: Arc<dyn RetentionStore>,
    ages: RetentionAges,
    stop: CancellationToken,
) {
    loop {
        let mut has_more = false;
        for &stage in RetentionStage::ALL {
            tokio::select! {
                () = stop.cancelled() => return,
                purged = purge_stage(&*store, stage, ages.stage_age_s(stage)) => {
                    // Without a purged row there is no progress: what is due may be locked, or still sampled.
                    has_more |= purged.as_ref().is_ok_and(|purged| purged.has_more && purged.rows > 0);
                    log_purge(stage, purged);
                }
            }
        }
        if has_more {
            continue;
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(ROUND_INTERVAL) => {}
        }
    }
}

fn log_purge(stage: RetentionStage, purged: Result<PurgeResult, StoreError>) {
    let stage = stage.as_str();
    match purged {
        Ok(PurgeResult { rows: 0, .. }) => {}
        Ok(PurgeResult { rows, .. }) => {
            retro_telemetry::metrics::ROWS_PURGED.add(rows, [stage]);
            info!(stage, rows, "purged {rows} rows of stage {stage}");
        }
        Err(problem) => warn!(stage, "stage {stage} could not be purged: {problem}"),
    }
}

/// Purges a stage until nothing is due or the calls of a round are used up.
async fn purge_stage(
    store: &dyn RetentionStore,
    stage: RetentionStage,
    age_s: u64,
) -> Result<PurgeResult, StoreError> {
    let mut total = PurgeResult::default();
    for _ in 0..CALLS_PER_STAGE {
        let purged = store.purge_stage(stage, age_s, ROWS_PER_CALL).await?;
        total = PurgeResult { rows: total.rows + purged.rows, has_more: purged.has_more };
        if !purged.has_more {
            break;
        }
        tokio::time::sleep(CALL_PAUSE).await;
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use async_trait::async_trait;
    use retro_store::RetentionTotal;
    use tokio::sync::Notify;

    use super::*;

    const AGES: RetentionAges =
        RetentionAges { bodies_days: 1, journals_days: 2, runs_days: 3, events_days: 4, messages_days: 5 };

    /// A store with some purgeable rows per stage, whose bodies cannot be purged at all.
    #[derive(Default)]
    struct FakeStore {
        waiting: Mutex<BTreeMap<RetentionStage, u64>>,
        ages_s: Mutex<BTreeMap<RetentionStage, u64>>,
        /// Stage whose due rows cannot be purged yet.
        locked: Option<RetentionStage>,
        went_through: Notify,
    }

    #[async_trait]
    impl RetentionStore for FakeStore {
        async fn purge_stage(
            &self,
            stage: RetentionStage,
            older_than_s: u64,
            limit: u32,
        ) -> retro_store::Result<PurgeResult> {
            self.ages_s.lock().unwrap().insert(stage, older_than_s);
            if stage == RetentionStage::Bodies {
                return Err(StoreError::Unavailable("simulated failure".to_owned()));
            }
            if stage == RetentionStage::Attempts {
                self.went_through.notify_one();
            }
            if self.locked == Some(stage) {
                return Ok(PurgeResult { rows: 0, has_more: true });
            }
            let mut waiting = self.waiting.lock().unwrap();
            let left = waiting.entry(stage).or_default();
            let rows = u64::from(limit).min(*left);
            *left -= rows;
            Ok(PurgeResult { rows, has_more: *left > 0 })
        }

        async fn list_retention_totals(&self) -> retro_store::Result<Vec<RetentionTotal>> {
            Ok(Vec::new())
        }
    }

    #[tokio::test]
    async fn a_round_purges_every_stage_even_if_one_fails() {
        let shelf = Arc::new(FakeStore::default());
        *shelf.waiting.lock().unwrap() =
            [(RetentionStage::Events, 2500), (RetentionStage::Messages, 1)].into();
        let stop = CancellationToken::new();
        let running = tokio::spawn(run_retention(shelf.clone(), AGES, stop.clone()));
        shelf.went_through.notified().await;
        stop.cancel();
        running.await.unwrap();
        assert!(shelf.waiting.lock().unwrap().values().all(|left| *left == 0), "every row was purged");
        let days: Vec<u64> = shelf.ages_s.lock().unwrap().values().map(|seconds| seconds / DAY_S).collect();
        assert_eq!(days, [1, 2, 3, 4, 5, 1], "each stage by its own age, attempts by a day");
    }

    #[tokio::test(start_paused = true)]
    async fn a_round_without_progress_is_followed_by_the_pause() {
        let store = Arc::new(FakeStore { locked: Some(RetentionStage::Messages), ..FakeStore::default() });
        let (began, stop) = (tokio::time::Instant::now(), CancellationToken::new());
        let running = tokio::spawn(run_retention(store.clone(), AGES, stop.clone()));
        for _ in 0..2 {
            store.went_through.notified().await;
        }
        assert!(began.elapsed() >= ROUND_INTERVAL, "{:?}", began.elapsed());
        stop.cancel();
        running.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_backlog_larger_than_a_round_is_purged_without_waiting_for_the_next_one() {
        let store = Arc::new(FakeStore::default());
        let round = u64::from(ROWS_PER_CALL) * u64::from(CALLS_PER_STAGE);
        *store.waiting.lock().unwrap() = [(RetentionStage::Events, 2 * round + 1)].into();
        let (began, stop) = (tokio::time::Instant::now(), CancellationToken::new());
        let running = tokio::spawn(run_retention(store.clone(), AGES, stop.clone()));
        for _ in 0..3 {
            store.went_through.notified().await;
        }
        assert_eq!(store.waiting.lock().unwrap()[&RetentionStage::Events], 0);
        assert!(began.elapsed() < ROUND_INTERVAL, "{:?}", began.elapsed());
        stop.cancel();
        running.await.unwrap();
    }
}
