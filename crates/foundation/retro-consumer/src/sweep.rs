//! Runs passes: sweeps that look for lost messages, and the passes of a worker that messages wake.

use std::fmt::Display;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use retro_store::StoreError;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use crate::{HandlerError, catch_panic};

/// Maximum number of items (windows, retrospectives, pull requests, …) that one sweep processes. The next sweep
/// continues with the others, so a backlog never keeps a sweep from ending.
pub const ITEMS_PER_SWEEP: u32 = 100;
/// Seconds after which work that is still due is assumed to have lost its wake-up message. A message normally
/// arrives within a second.
pub const OVERDUE_S: u64 = 5;

/// Finds and does the work of a consumer that no message announces, for example because its message was lost.
#[async_trait]
pub trait Sweep: Send + Sync + 'static {
    /// Runs one pass, and returns the number of items that it processed. Fails if the store does.
    async fn sweep(&self) -> Result<usize, StoreError>;
}

/// Runs a consumer's sweep at a fixed interval until `stop` is cancelled. A pass that has begun is finished.
pub async fn run_sweep(
    consumer: &'static str,
    sweep: Arc<dyn Sweep>,
    interval: Duration,
    stop: CancellationToken,
) {
    let passes = PassLoop::new(format!("the {consumer}'s sweep"), interval, stop);
    passes.run(|| sweep.sweep()).await;
}

/// Processes one item of a sweep. A failure or a panic is passed to `log_failure`, gives `None`, and does not
/// stop the sweep; an undecided item gives `None` as well, and the next sweep tries it again. Fails only if the database is unavailable, because every other item would then fail as well.
pub async fn process_item<T, E: Into<HandlerError>>(
    work: impl Future<Output = Result<T, E>>,
    log_failure: impl FnOnce(&dyn Display),
) -> Result<Option<T>, StoreError> {
    // Boxed: each function that takes a future by value would otherwise double its size.
    match catch_panic(Box::pin(work)).await {
        Ok(Ok(done)) => Ok(Some(done)),
        Ok(Err(problem)) => {
            let problem: HandlerError = problem.into();
            match problem {
                HandlerError::Store(away @ StoreError::Unavailable(_)) => return Err(away),
                // Nothing failed: the next sweep decides.
                HandlerError::Store(undecided @ StoreError::Undecided { .. }) => debug!("{undecided}"),
                _ => log_failure(&problem),
            }
            Ok(None)
        }
        Err(panicked) => {
            log_failure(&panicked);
            Ok(None)
        }
    }
}

/// Loop that runs passes until it is stopped. Errors and panics of a pass are logged and do not end the loop.
///
/// A *sweep* waits for the interval before every pass. A loop that messages wake (see [`Self::woken_by`]) runs
/// passes while they find work; its interval is the sweep behind the messages.
#[derive(Debug)]
pub struct PassLoop<'w> {
    what: String,
    interval: Duration,
    wake: Option<&'w Notify>,
    stop: CancellationToken,
}

impl<'w> PassLoop<'w> {
    /// Creates the loop of a sweep. `what` names its passes in the log, such as `the writer's sweep`.
    pub fn new(what: String, interval: Duration, stop: CancellationToken) -> Self {
        Self { what, interval, wake: None, stop }
    }

    /// Runs a pass at the start and on each notification, and another one at once after a pass that found work.
    pub fn woken_by(self, wake: &'w Notify) -> Self {
        Self { wake: Some(wake), ..self }
    }

    /// Runs passes until the loop is stopped. A pass returns the number of items that it processed.
    pub async fn run<F, R>(&self, pass: F)
    where
        F: Fn() -> R,
        R: Future<Output = Result<usize, StoreError>>,
    {
        let is_sweep = self.wake.is_none();
        // A sweep looks for lost messages, so it lets pending ones arrive first.
        let mut is_idle = is_sweep;
        loop {
            if is_idle {
                self.wait_for_next_pass().await;
            }
            if self.stop.is_cancelled() {
                return;
            }
            let found = self.run_pass(pass()).await;
            is_idle = is_sweep || found == 0;
        }
    }

    async fn wait_for_next_pass(&self) {
        let woken = async {
            match self.wake {
                Some(wake) => wake.notified().await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = woken => {}
            () = tokio::time::sleep(self.interval) => {}
        }
    }

    /// Runs one pass and returns the number of items that it processed.
    async fn run_pass(&self, pass: impl Future<Output = Result<usize, StoreError>>) -> usize {
        let what = &self.what;
        // A panic must not end the loop, or lost messages would never be found again.
        match catch_panic(pass).await {
            Ok(Ok(found)) => {
                // A woken loop finds work all the time; a sweep finds what a message should have announced.
                if found > 0 && self.wake.is_none() {
                    info!(found, "{what} found work: {found}");
                }
                found
            }
            Ok(Err(problem)) => {
                warn!("{what} failed: {problem}");
                0
            }
            Err(panicked) => {
                error!("{what} panicked: {panicked}");
                0
            }
        }
    }
}

#[cfg(test)]
mod tests;
