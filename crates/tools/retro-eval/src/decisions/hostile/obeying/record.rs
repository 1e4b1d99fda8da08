//! Records what the obeying model was shown and did.

use serde::Serialize;

/// What the model was shown of one hostile text, and what it did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(in super::super) struct ObeyRecord {
    /// Number of requests.
    pub(in super::super) requests: usize,
    /// `true` if a request contained a fragment of the text.
    pub(in super::super) shown: bool,
    /// Number of statements by which the model obeyed, in its first answers.
    pub(in super::super) stated: usize,
    /// Number of answers that the program sent back.
    pub(in super::super) sent_back: usize,
    /// Number of calls of tools that the text could name and that the program does not have.
    pub(in super::super) acted: usize,
}
