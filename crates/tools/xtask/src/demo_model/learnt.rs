//! What a program learnt of the runs of the demo.

use serde_json::Value;

/// What a program learnt of the runs.
pub(super) struct Learnt {
    /// Reports of the retrospectives, the oldest first.
    pub(super) reports: Vec<Value>,
    /// All memories.
    pub(super) memories: Vec<Value>,
}
