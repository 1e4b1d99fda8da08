//! Waits for what a test expects: for conditions, never for a fixed time.

use std::time::Duration;

use retro_core::id::Tenant;
use tokio::time::MissedTickBehavior;

use super::{TEST_TIMEOUT, World};

/// Polling interval, unless a test must catch a short-lived state.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Number of log lines shown by a failed test.
const LOG_LINES: usize = 40;

impl World {
    /// Waits until this many runs of the tenant are counted. Fails if more are counted.
    pub(crate) async fn wait_until_counted(&self, tenant: &str, runs: u64) {
        let store = self.open_store().await;
        let tenant = Tenant::new(tenant).expect("a name");
        let what = format!("{runs} counted runs of {tenant}");
        self.wait_for(&what, async || {
            let rows = store.list_workflows(&tenant).await.ok()?;
            let counted: u64 = rows.iter().map(|row| row.state.counted).sum();
            assert!(counted <= runs, "{counted} runs of {tenant} are counted, {runs} were emitted");
            (counted == runs).then_some(())
        })
        .await;
    }

    /// Waits until no tenant has an open or due retrospective and every outbox message is sent.
    pub(crate) async fn wait_until_idle(&self) {
        let store = self.open_store().await;
        self.wait_for("nothing is left to do", async || {
            for tenant in store.list_tenants().await.ok()? {
                let rows = store.list_workflows(&tenant).await.ok()?;
                if rows.iter().any(|row| row.state.open || row.state.window_size() >= 10) {
                    return None;
                }
            }
            // Checked last, because closing a retrospective writes its outbox message in the same
            // transaction.
            (store.load_health().await.ok()?.outbox_unsent == 0).then_some(())
        })
        .await;
    }

    /// Polls until `probe` returns a value. Fails after [`TEST_TIMEOUT`] with the description and the end of
    /// the log.
    pub(crate) async fn wait_for<T>(&self, what: &str, probe: impl AsyncFnMut() -> Option<T>) -> T {
        self.wait_for_with_interval(POLL_INTERVAL, what, probe).await
    }

    /// Polls at this interval, for short-lived states.
    pub(crate) async fn wait_for_with_interval<T>(
        &self,
        pause: Duration,
        what: &str,
        mut probe: impl AsyncFnMut() -> Option<T>,
    ) -> T {
        let mut ticks = tokio::time::interval(pause);
        // A probe that takes longer than the interval, such as a command, must not be repeated without a pause: it would
        // take the processor from the program for which it waits.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let looking = async {
            loop {
                ticks.tick().await;
                if let Some(found) = probe().await {
                    return found;
                }
            }
        };
        let found = tokio::time::timeout(TEST_TIMEOUT, looking).await;
        found.unwrap_or_else(|_| {
            panic!("not within {} s: {what}\n{}", TEST_TIMEOUT.as_secs(), self.log_tail())
        })
    }

    /// Waits until the log contains a sentence.
    pub(crate) async fn wait_for_log(&self, sentence: &str) {
        let is_logged = async || {
            let log = std::fs::read_to_string(self.path("retro.log")).ok()?;
            log.contains(sentence).then_some(())
        };
        self.wait_for(sentence, is_logged).await;
    }

    /// Waits until the log contains a sentence after its first `length` bytes.
    pub(crate) async fn wait_for_log_after(&self, length: usize, sentence: &str) {
        let is_logged = async || self.read_log().get(length..)?.contains(sentence).then_some(());
        self.wait_for(sentence, is_logged).await;
    }

    /// Returns the program's log.
    pub(crate) fn read_log(&self) -> String {
        std::fs::read_to_string(self.path("retro.log")).unwrap_or_default()
    }

    /// Returns the last [`LOG_LINES`] lines of the program's log.
    pub(crate) fn log_tail(&self) -> String {
        let text = self.read_log();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }
}
