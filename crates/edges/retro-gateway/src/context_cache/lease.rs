//! Keeps the lease under which the gateway hands out what it has cached, and notes what has changed.
//!
//! Each pass renews the lease, then reads the changes, and only then extends what the gateway may hand out, counted from
//! before the renewal. See [`retro_store::context_lease`] for what others conclude from it. There is a lease only while
//! agents ask, so an idle process writes nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use retro_core::id::WorkflowKey;
use retro_store::context_lease::CONFIRMING_RENEWALS;
use retro_store::{CONTEXT_LEASE, ChangeMark, RecallStore, Result, StoreError};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::scopes::ContextCache;

/// Interval between renewals: several within a lease, so that a slow one is no gap.
const RENEWAL_INTERVAL: Duration = Duration::from_millis(500);
/// Time without requests after which the lease is not renewed any more.
const IDLE: Duration = Duration::from_secs(10);
/// Pause before announced changes are read, in which further ones arrive.
const CHANGES_PAUSE: Duration = Duration::from_millis(10);
/// Time after which a pass is given up: the lease has ended by then.
const PASS_TIMEOUT: Duration = CONTEXT_LEASE;

pub(super) struct LeaseKeeper {
    pub(super) store: Arc<dyn RecallStore>,
    pub(super) cache: Arc<ContextCache>,
    pub(super) gateway: String,
}

/// What is known about the sequence of changes.
#[derive(Default)]
struct KnownChanges {
    mark: Option<ChangeMark>,
    /// Changes after the mark that were noted already.
    noted: HashMap<WorkflowKey, i64>,
}

impl LeaseKeeper {
    pub(super) async fn run(self, stop: CancellationToken) {
        let mut known = KnownChanges::default();
        let mut renewed = None;
        let mut awaited_renewals = 0;
        while !stop.is_cancelled() {
            if !self.cache.was_asked_within(IDLE) {
                tokio::select! {
                    () = stop.cancelled() => break,
                    () = self.cache.asked.notified() => {}
                }
            }
            let is_old = renewed.is_none_or(|at: Instant| at.elapsed() >= RENEWAL_INTERVAL);
            let is_due = is_old || awaited_renewals > 0;
            let pass = timeout(PASS_TIMEOUT, self.run_pass(&mut known, is_due));
            match stop.run_until_cancelled(pass).await {
                None => break,
                Some(Ok(Ok(has_changed))) => {
                    if is_due {
                        renewed = Some(Instant::now());
                        awaited_renewals = u64::saturating_sub(awaited_renewals, 1);
                    }
                    if has_changed {
                        awaited_renewals = CONFIRMING_RENEWALS;
                    }
                    if awaited_renewals > 0 {
                        continue;
                    }
                }
                Some(failed) => {
                    let reason =
                        failed.map_or_else(|_| "it took too long".to_owned(), |pass| describe(pass.err()));
                    debug!(
                        "memories are read from the database for each agent, because no lease was got: {reason}"
                    );
                    renewed = None;
                    if stop.run_until_cancelled(sleep(RENEWAL_INTERVAL)).await.is_none() {
                        break;
                    }
                    continue;
                }
            }
            let next = renewed.map_or_else(Instant::now, |at| at + RENEWAL_INTERVAL);
            tokio::select! {
                () = stop.cancelled() => break,
                () = sleep_until(next) => {}
                () = self.cache.announced.notified() => sleep(CHANGES_PAUSE).await,
            }
        }
        self.cache.end_lease();
    }

    /// Reads what has changed, after a renewal of the lease if one is due. Returns `true` if something has.
    async fn run_pass(&self, known: &mut KnownChanges, is_due: bool) -> Result<bool> {
        let began = Instant::now();
        if is_due {
            self.store.renew_context_lease(&self.gateway).await?;
        }
        let mut has_changed = self.note_changes(known).await?;
        if is_due {
            let engaged = self.store.load_engaged_kill_switches().await?;
            has_changed |= self.cache.replace_kill_switches(engaged);
            self.cache.extend_lease(began + CONTEXT_LEASE);
        }
        Ok(has_changed)
    }

    async fn note_changes(&self, known: &mut KnownChanges) -> Result<bool> {
        let Some(mark) = known.mark else {
            let mark = self.store.load_change_mark().await?;
            // What was read before may have changed before the mark.
            self.cache.note_all_changed();
            known.mark = Some(mark);
            return Ok(false);
        };
        let changes = self.store.list_context_changes(mark).await?;
        known.mark = Some(changes.mark);
        let Some(changed) = changes.changed else {
            self.cache.note_all_changed();
            known.noted.clear();
            return Ok(true);
        };
        let is_new = |(key, number): &&(WorkflowKey, i64)| known.noted.get(key) != Some(number);
        let new: Vec<WorkflowKey> = changed.iter().filter(is_new).map(|(key, _)| key.clone()).collect();
        let has_changed = !new.is_empty();
        if has_changed {
            self.cache.note_changes(new);
        }
        known.noted = changed.into_iter().filter(|(_, number)| *number > changes.mark.0).collect();
        Ok(has_changed)
    }
}

fn describe(error: Option<StoreError>) -> String {
    error.map_or_else(String::new, |error| error.to_string())
}
