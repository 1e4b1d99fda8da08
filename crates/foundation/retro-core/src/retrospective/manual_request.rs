//! The request that opens a manual retrospective.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::attribution::DecisionToken;
use crate::finding::REASON_CHARS_MAX;
use crate::id::RunId;

/// Maximum number of runs in one manual retrospective: four times the largest default sample. Each run needs
/// an investigation, which may cost model calls.
pub const MANUAL_RUNS_MAX: usize = 20;

/// Maximum length of the question, in characters: as long as a reason, about one paragraph of a prompt.
pub const FOCUS_CHARS_MAX: usize = REASON_CHARS_MAX;

/// An operator's request for a manual retrospective.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManualRequest {
    /// Id of the request, 1 to [`NAME_BYTES_MAX`](crate::id::NAME_BYTES_MAX) bytes. Requests with the same id
    /// open only one retrospective.
    pub request: String,
    /// Name of the operator who makes the request, as long as the id.
    pub by: String,
    /// Access token of the request; `None` if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_token: Option<DecisionToken>,
    /// Ids of the runs to investigate, 1 to [`MANUAL_RUNS_MAX`]. Sorted by ordinal once the request is stored.
    pub runs: Vec<RunId>,
    /// Question to answer about the runs, 1 to [`FOCUS_CHARS_MAX`] characters; `None` if there is no
    /// question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<String>,
    /// Reason for the request, 1 to [`FOCUS_CHARS_MAX`] characters; `None` if the operator gives none. It is
    /// stored with the retrospective and changes nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl ManualRequest {
    /// Returns `true` if both requests name the same runs, in any order, and ask the same question. The
    /// operators who made the requests are not compared.
    pub fn is_same_request(&self, other: &Self) -> bool {
        self.distinct_runs() == other.distinct_runs() && self.focus == other.focus
    }

    /// Returns the named runs, each once, sorted by id.
    pub(crate) fn distinct_runs(&self) -> BTreeSet<&RunId> {
        self.runs.iter().collect()
    }
}
