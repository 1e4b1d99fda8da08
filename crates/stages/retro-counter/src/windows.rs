//! Opens retrospectives that no event opens: those of windows that filled up while their workflow was paused, and those
//! that were put off until the intake stream was handled in order.

use std::time::Duration;

use async_trait::async_trait;
use retro_consumer::{ITEMS_PER_SWEEP, OVERDUE_S, PassLoop, Sweep};
use retro_core::count::IntakeProgress;
use retro_core::id::WorkflowKey;
use retro_store::StoreError;
use tokio_util::sync::CancellationToken;

use crate::Counter;

/// Pause between two checks of retrospectives that are put off: about the time in which another counter stores a batch.
const CHECK_PAUSE: Duration = Duration::from_millis(25);

impl Counter {
    /// Opens retrospectives that were put off, as soon as what precedes their runs is handled, until `stop` is
    /// cancelled.
    pub async fn open_in_order(&self, stop: CancellationToken) {
        let passes = PassLoop::new("opening in order".to_owned(), Duration::from_secs(OVERDUE_S), stop);
        passes.woken_by(&self.order.changed).run(|| self.check_put_off()).await;
    }

    /// Checks the retrospectives that are put off. Returns their number, so that it is called again while there are
    /// any.
    async fn check_put_off(&self) -> Result<usize, StoreError> {
        let put_off = self.order.list_put_off(ITEMS_PER_SWEEP as usize);
        let checked = put_off.waiting.len() + put_off.overdue.len();
        if checked == 0 {
            return Ok(0);
        }
        // What is put off was counted this very moment, so its predecessors need a moment too.
        tokio::time::sleep(CHECK_PAUSE).await;
        self.check_windows(&put_off.overdue, IntakeProgress::NotAwaited).await?;
        self.check_windows(&put_off.waiting, self.order.ask().await).await?;
        Ok(checked)
    }

    /// Opens the retrospectives of workflows that are due. Returns the number of opened ones.
    async fn check_windows(
        &self,
        windows: &[WorkflowKey],
        progress: IntakeProgress,
    ) -> Result<usize, StoreError> {
        if windows.is_empty() {
            return Ok(0);
        }
        let counted = self.count_runs(&[], windows, progress).await?;
        self.order.note_checked(windows, counted.put_off);
        Ok(counted.opened)
    }
}

#[async_trait]
impl Sweep for Counter {
    /// Opens the retrospectives of windows that filled up while their workflow was paused, which no event would
    /// open. Returns the number of opened retrospectives. Windows that are not full do not change.
    async fn sweep(&self) -> Result<usize, StoreError> {
        let waiting = self.store.list_waiting_windows(self.clock.now(), ITEMS_PER_SWEEP).await?;
        self.check_windows(&waiting, self.order.ask().await).await
    }
}
