//! What a report says about shortening the list of earlier findings.

use serde::{Deserialize, Serialize};

/// How the list of earlier findings was shortened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    /// Name of the model that grouped the lines; `None` if the rule of the program shortened the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why the answer of a model was not used; `None` if it was, or if none was needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Number of findings that earlier runs showed.
    pub given: u32,
    /// Number of lines that the investigation was told.
    pub told: u32,
    /// Number of lines that were dropped.
    pub dropped: u32,
    /// What was dropped, at most 100 lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped_lines: Vec<String>,
}
