//! Defines what an investigation says to the person who reads the report, and to no agent: the answer to a question,
//! and causes in a model's own words.

use serde::{Deserialize, Serialize};

use super::quote::Quote;
use crate::id::RunId;

/// Maximum number of quotes with which one run answers a question.
pub const FOCUS_QUOTES_MAX: usize = 5;

/// Question of a person about the runs of a manual retrospective.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FocusQuestion {
    /// The question.
    pub question: String,
    /// Answers of the earlier investigations of the retrospective.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierFocus>,
}

/// Answer of an earlier investigation of the same retrospective.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierFocus {
    /// Run that was investigated.
    pub run: RunId,
    /// The answer.
    pub text: String,
}

/// What one run says about a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFocus {
    /// Answer in prose; of the heuristics, a sentence about what they searched.
    pub text: String,
    /// What would settle the question if the runs do not; `None` if nothing is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<String>,
    /// Verbatim quotes from the run that support the answer, at most [`FOCUS_QUOTES_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotes: Vec<Quote>,
}

/// Cause of something in the run, in the words of a model. It is shown in the report and becomes no lesson.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatedCause {
    /// The cause, in a sentence or two.
    pub text: String,
    /// Verbatim quote of what was caused.
    pub quote: Quote,
}
