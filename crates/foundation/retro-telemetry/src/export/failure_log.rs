//! Logs one line when the collector becomes unavailable, and another when it is available again.

use std::sync::atomic::{AtomicBool, Ordering};

use opentelemetry_sdk::error::OTelSdkResult;
use tracing::{info, warn};

/// Tracks whether the last export failed, so that only changes are logged.
#[derive(Debug)]
pub(crate) struct ExportFailureLog {
    signal: &'static str,
    failing: AtomicBool,
}

impl ExportFailureLog {
    /// Creates the log for one signal, `spans` or `metrics`. Starts as if exports had succeeded so far.
    pub(crate) const fn new(what: &'static str) -> Self {
        Self { signal: what, failing: AtomicBool::new(false) }
    }

    /// Logs a line if exports begin to fail or to succeed again. Returns the result unchanged.
    pub(crate) fn log_result(&self, sent: OTelSdkResult) -> OTelSdkResult {
        let was_failing = self.failing.swap(sent.is_err(), Ordering::Relaxed);
        let what = self.signal;
        match (&sent, was_failing) {
            (Err(problem), false) => {
                warn!("{what} are dropped until the collector accepts them again; work continues: {problem}");
            }
            (Ok(()), true) => info!("the collector accepts {what} again"),
            _ => {}
        }
        sent
    }
}
