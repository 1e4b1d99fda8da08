//! Watches the policy files while the process runs.

use std::sync::Arc;
use std::time::Duration;

pub(crate) use retro_config::PolicySource;
use retro_config::ReloadResult;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Interval between two checks of the policy files. An edit takes effect before its author has opened the log,
/// and each check reads only one small file.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Applies edits of the policy files until `stop` is cancelled. Logs each change, and logs once why an edit
/// cannot be used.
pub(crate) async fn watch_policies(book: Arc<PolicySource>, stop: CancellationToken) {
    while book.can_change() {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
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
            info!("the policy was reloaded without changes")
        }
        ReloadResult::Changed(changed) => {
            retro_meter::POLICY_EDITS.add(1, ["taken_up"]);
            info!("the policy was changed: {}; open retrospectives keep their own", changed.join(", "));
        }
        ReloadResult::Refused(problems) => {
            retro_meter::POLICY_EDITS.add(1, ["refused"]);
            let problems = problems.sentences().join("; ");
            warn!("the edited policy is invalid, the previous one stays in effect: {problems}");
        }
    }
}
