//! The policy book of a process, looked at while it runs.

use std::sync::Arc;
use std::time::Duration;

use retro_config::Looked;
pub(crate) use retro_config::PolicyBook;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Pause between two looks at the file: an edit is in force before its author has found the log, and a look costs
/// one read of a small file.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Takes up edits until the stop. Tells what changed, and once what is wrong with an edit that cannot be used.
pub(crate) async fn watch(book: Arc<PolicyBook>, stop: CancellationToken) {
    while book.can_change() {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        let book = book.clone();
        if let Ok(looked) = tokio::task::spawn_blocking(move || book.look()).await {
            tell(&looked);
        }
    }
}

fn tell(looked: &Looked) {
    match looked {
        Looked::Same => {}
        Looked::Changed(changed) if changed.is_empty() => {
            info!("the policy was read again and says the same")
        }
        Looked::Changed(changed) => {
            retro_meter::POLICY_EDITS.add(1, ["taken_up"]);
            info!("the policy was edited: {}; a retrospective under way keeps its own", changed.join(", "));
        }
        Looked::Refused(problems) => {
            retro_meter::POLICY_EDITS.add(1, ["refused"]);
            let problems = problems.sentences().join("; ");
            warn!("the edited policy cannot be used, the earlier one stays in force: {problems}");
        }
    }
}
