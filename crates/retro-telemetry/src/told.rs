//! One line when the collector goes away, and one when it is back.

use std::sync::atomic::{AtomicBool, Ordering};

use opentelemetry_sdk::error::OTelSdkResult;
use tracing::{info, warn};

/// Whether it was said that something is not sent.
#[derive(Debug)]
pub(crate) struct Told {
    what: &'static str,
    failing: AtomicBool,
}

impl Told {
    /// Nothing was said yet of `what`.
    pub(crate) const fn of(what: &'static str) -> Self {
        Self { what, failing: AtomicBool::new(false) }
    }

    /// Says what changed, and passes the result on.
    pub(crate) fn of_result(&self, sent: OTelSdkResult) -> OTelSdkResult {
        let was_failing = self.failing.swap(sent.is_err(), Ordering::Relaxed);
        let what = self.what;
        match (&sent, was_failing) {
            (Err(problem), false) => {
                warn!("{what} are dropped until the collector takes them again; the work goes on: {problem}");
            }
            (Ok(()), true) => info!("the collector takes {what} again"),
            _ => {}
        }
        sent
    }
}
