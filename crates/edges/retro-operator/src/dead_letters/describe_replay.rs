//! Describes replays, and why a failed retrospective is not followed by another, in one sentence each.

use retro_core::cancel::ReopenError;
use retro_core::id::ReplayBatchId;
use retro_store::{ReplayRow, ReplayState};

use crate::audit_log::describe_attribution;

/// Reason why the spans of a trace are not replayed, and what to do instead.
pub(super) const SPANS_NOT_SENT: &str = "it holds the spans of a trace, which are no message: export it with `--raw` and \
                                         emit the file, as its page says";

/// Describes a replay and its result in one sentence without a full stop. The sentence quotes the rejection, so
/// callers must redact it.
pub fn describe_replay(row: &ReplayRow) -> String {
    let came = match (&row.outcome, row.state) {
        (Some(outcome), _) => outcome.to_string(),
        (None, ReplayState::Waiting) => "it waits to be sent".to_owned(),
        (None, _) => "it was sent, and nothing has come of it yet".to_owned(),
    };
    format!("{}, {}; {came}", replay_label(row), describe_attribution(&row.act))
}

pub(super) fn replay_label(row: &ReplayRow) -> String {
    let bytes = match row.version {
        0 => String::new(),
        version => format!(" (version {version} of its bytes)"),
    };
    let batch = row.batch.map(|batch: ReplayBatchId| format!(" in batch {batch}")).unwrap_or_default();
    format!("replay {}{bytes}{batch}", row.number)
}

pub(super) fn describe_reopen_error(why: ReopenError) -> String {
    match why {
        ReopenError::OneIsOpen { epoch } => format!(
            "retrospective {epoch} of the workflow is open already and the released runs are in it: there is nothing \
             to open, and the dead letter stays as it is"
        ),
        ReopenError::ClaimedSince { claimed } => format!(
            "a later retrospective has looked back at the released runs (up to run {claimed} all are claimed): there \
             is nothing to open, and the dead letter stays as it is"
        ),
    }
}
