//! Retention: every so often the relay's process goes through every stage. Several relays at once share the work.

use std::sync::Arc;
use std::time::Duration;

use retro_config::Config;
use retro_store::keep::Stage;
use retro_store::{RetentionStore, StoreError};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Pause between two rounds: ages are days, so ten minutes matter to nobody, and a round finds little.
const EVERY: Duration = Duration::from_secs(600);
/// Rows of one transaction: some ten milliseconds, so that a counter that waits for it does not notice.
const ROWS_PER_CALL: u32 = 1000;
/// Calls of one stage in a round: a backlog of a million rows is gone within a round, and no stage starves the others.
const CALLS_PER_STAGE: u32 = 1000;
/// Pause between two calls: SQLite has one writer, and most of the time it must not be this one.
const BREATH: Duration = Duration::from_millis(20);
/// How long an attempt at a message is remembered, seconds: a day. Retries follow within minutes; what is older is of a
/// message that was handled in the end, or of a broker that was wiped and numbers its messages anew.
const ATTEMPTS_S: u64 = DAY_S;
const DAY_S: u64 = 24 * 3600;

/// How old each kind of detail gets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ages {
    bodies_days: u32,
    journals_days: u32,
    runs_days: u32,
    events_days: u32,
    messages_days: u32,
}

impl Ages {
    pub(super) const fn of(config: &Config) -> Self {
        Self {
            bodies_days: config.keep_bodies_days,
            journals_days: config.keep_journals_days,
            runs_days: config.keep_runs_days,
            events_days: config.keep_events_days,
            messages_days: config.keep_messages_days,
        }
    }

    /// In seconds.
    fn of_stage(self, stage: Stage) -> u64 {
        let days = match stage {
            Stage::Bodies => self.bodies_days,
            Stage::Journals => self.journals_days,
            Stage::Runs => self.runs_days,
            Stage::Events => self.events_days,
            Stage::Messages => self.messages_days,
            Stage::Attempts => return ATTEMPTS_S,
        };
        u64::from(days) * DAY_S
    }
}

/// Goes through every stage until stopped. A stage that fails is left to the next round.
pub(super) async fn run(store: Arc<dyn RetentionStore>, ages: Ages, stop: CancellationToken) {
    loop {
        for stage in Stage::ALL {
            tokio::select! {
                () = stop.cancelled() => return,
                purged = go_through(&*store, stage, ages.of_stage(stage)) => told(stage, purged),
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

fn told(stage: Stage, purged: Result<u64, StoreError>) {
    let stage = stage.as_str();
    match purged {
        Ok(0) => {}
        Ok(rows) => {
            retro_meter::PURGED.add(rows, [stage]);
            info!(stage, rows, "purged {rows} rows of stage {stage}");
        }
        Err(problem) => warn!(stage, "stage {stage} could not be purged: {problem}"),
    }
}

async fn go_through(store: &dyn RetentionStore, stage: Stage, age_s: u64) -> Result<u64, StoreError> {
    let mut rows = 0;
    for _ in 0..CALLS_PER_STAGE {
        let purged = store.purge(stage, age_s, ROWS_PER_CALL).await?;
        rows += purged.rows;
        if !purged.more {
            break;
        }
        tokio::time::sleep(BREATH).await;
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use async_trait::async_trait;
    use retro_store::{PurgeRow, Purged};
    use tokio::sync::Notify;

    use super::*;

    /// So many rows of each stage wait; bodies cannot be purged at all.
    #[derive(Default)]
    struct Shelf {
        waiting: Mutex<BTreeMap<Stage, u64>>,
        ages_s: Mutex<BTreeMap<Stage, u64>>,
        went_through: Notify,
    }

    #[async_trait]
    impl RetentionStore for Shelf {
        async fn purge(&self, stage: Stage, older_than_s: u64, limit: u32) -> retro_store::Result<Purged> {
            self.ages_s.lock().unwrap().insert(stage, older_than_s);
            if stage == Stage::Bodies {
                return Err(StoreError::Unavailable("the test wants it so".to_owned()));
            }
            if stage == Stage::Attempts {
                self.went_through.notify_one();
            }
            let mut waiting = self.waiting.lock().unwrap();
            let left = waiting.entry(stage).or_default();
            let rows = u64::from(limit).min(*left);
            *left -= rows;
            Ok(Purged { rows, more: *left > 0 })
        }

        async fn purges(&self) -> retro_store::Result<Vec<PurgeRow>> {
            Ok(Vec::new())
        }
    }

    #[tokio::test]
    async fn a_round_goes_through_every_stage_to_its_end_whatever_one_of_them_says() {
        let shelf = Arc::new(Shelf::default());
        *shelf.waiting.lock().unwrap() = [(Stage::Events, 2500), (Stage::Messages, 1)].into();
        let ages = Ages { bodies_days: 1, journals_days: 2, runs_days: 3, events_days: 4, messages_days: 5 };
        let stop = CancellationToken::new();
        let running = tokio::spawn(run(shelf.clone(), ages, stop.clone()));
        shelf.went_through.notified().await;
        stop.cancel();
        running.await.unwrap();
        assert!(shelf.waiting.lock().unwrap().values().all(|left| *left == 0), "everything went");
        let days: Vec<u64> = shelf.ages_s.lock().unwrap().values().map(|seconds| seconds / DAY_S).collect();
        assert_eq!(days, [1, 2, 3, 4, 5, 1], "each by its own age, attempts by a day");
    }
}
