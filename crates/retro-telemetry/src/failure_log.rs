//! Logs one line when the collector becomes unavailable, and one line when it is available again.

use std::sync::atomic::{AtomicBool, Ordering};

use opentelemetry_sdk::error::OTelSdkResult;
use tracing::{info, warn};

/// Stores whether the last export failed, so that only changes are logged.
#[derive(Debug)]
pub(crate) struct ExportFailureLog {
    signal: &'static str,
    failing: AtomicBool,
}

impl ExportFailureLog {
    /// Creates the log for a signal (`spans`, `metrics`), without a failure so far.
    pub(crate) const fn new(what: &'static str) -> Self {
        Self { signal: what, failing: AtomicBool::new(false) }
    }

    /// Logs a change between failing and succeeding, and returns the result unchanged.
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
