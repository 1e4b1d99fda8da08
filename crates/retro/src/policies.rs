//! Applies changes to the pipelines folder while the process runs.

use std::sync::Arc;
use std::time::Duration;

pub(crate) use retro_config::PolicySource;
use retro_config::ReloadResult;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Interval between checks of the pipelines folder. Short enough that an edit takes effect before its author has
/// opened the log; each check reads only a few small files.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Applies edits to the pipelines folder until `stop` is cancelled. Logs every change, and logs an invalid edit
/// once.
pub(crate) async fn watch_policies(book: Arc<PolicySource>, stop: CancellationToken) {
    while book.can_change() {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
        // Reading a file blocks, which a runtime thread must not do.
        let book = book.clone();
        if let Ok(check) = tokio::task::spawn_blocking(move || book.reload_if_changed()).await {
            log_check(&check);
        }
    }
}

fn log_check(check: &ReloadResult) {
    match check {
        ReloadResult::Unchanged => {}
        ReloadResult::Changed(changed) if changed.is_empty() => {
            info!("the pipeline was reloaded without changes")
        }
        ReloadResult::Changed(changed) => {
            retro_telemetry::metrics::POLICY_EDITS.add(1, ["applied"]);
            info!("the pipeline was changed: {}; open retrospectives keep their own", changed.join(", "));
        }
        ReloadResult::Refused(problems) => {
            retro_telemetry::metrics::POLICY_EDITS.add(1, ["refused"]);
            let problems = problems.sentences().join("; ");
            warn!("the edited pipeline is invalid, the previous one stays in effect: {problems}");
        }
    }
}
