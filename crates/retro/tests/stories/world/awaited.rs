//! Waiting for what a story expects: for signals, never for time.

use std::time::Duration;

use retro_core::id::Tenant;

use super::{TEST_TIMEOUT, World};

/// How often is looked, unless a test wants to hit a moment.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Lines of the program's log that a failed test shows.
const LOG_LINES: usize = 40;

impl World {
    /// Waits until the tenant's counted runs are so many.
    pub(crate) async fn counted(&self, tenant: &str, runs: u64) {
        let store = self.store().await;
        let tenant = Tenant::new(tenant).expect("a name");
        let what = format!("{runs} counted runs of {tenant}");
        self.until(&what, async || {
            let rows = store.list_workflows(&tenant).await.ok()?;
            let counted: u64 = rows.iter().map(|row| row.state.counted).sum();
            assert!(counted <= runs, "{counted} runs of {tenant} are counted, {runs} were emitted");
            (counted == runs).then_some(())
        })
        .await;
    }

    /// Waits until no retrospective of anyone is open or due and every message is sent.
    pub(crate) async fn still(&self) {
        let store = self.store().await;
        self.until("nothing is left to do", async || {
            for tenant in store.list_tenants().await.ok()? {
                let rows = store.list_workflows(&tenant).await.ok()?;
                if rows.iter().any(|row| row.state.open || row.state.window_size() >= 10) {
                    return None;
                }
            }
            // Last: whoever closes a retrospective says so in the same transaction.
            (store.load_health().await.ok()?.outbox_unsent == 0).then_some(())
        })
        .await;
    }

    /// Looks until something is there. Fails with what was waited for and the end of the log.
    pub(crate) async fn until<T>(&self, what: &str, look: impl AsyncFnMut() -> Option<T>) -> T {
        self.until_looked_every(LOOK_EVERY, what, look).await
    }

    /// The same for what may pass quickly.
    pub(crate) async fn until_looked_every<T>(
        &self,
        pause: Duration,
        what: &str,
        mut look: impl AsyncFnMut() -> Option<T>,
    ) -> T {
        let mut ticks = tokio::time::interval(pause);
        let looking = async {
            loop {
                ticks.tick().await;
                if let Some(found) = look().await {
                    return found;
                }
            }
        };
        let found = tokio::time::timeout(TEST_TIMEOUT, looking).await;
        found.unwrap_or_else(|_| panic!("not within {} s: {what}\n{}", TEST_TIMEOUT.as_secs(), self.log()))
    }

    /// Waits until the program has told something.
    pub(crate) async fn logged(&self, sentence: &str) {
        let told = async || {
            let log = std::fs::read_to_string(self.path("retro.log")).ok()?;
            log.contains(sentence).then_some(())
        };
        self.until(sentence, told).await;
    }

    /// Waits until the program has told something that it had not told when its log was so long.
    pub(crate) async fn logged_after(&self, length: usize, sentence: &str) {
        let told = async || self.whole_log().get(length..)?.contains(sentence).then_some(());
        self.until(sentence, told).await;
    }

    /// The program's log.
    pub(crate) fn whole_log(&self) -> String {
        std::fs::read_to_string(self.path("retro.log")).unwrap_or_default()
    }

    /// The end of the program's log.
    pub(crate) fn log(&self) -> String {
        let text = self.whole_log();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }
}
