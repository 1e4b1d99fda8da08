//! How the remarks of a review were read: by whom, at what cost, and what was dropped.

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::model_use::TokenUsage;

/// What a language model says that a remark is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "kebab-case")]
pub enum ModelReadingKind {
    /// A convention that applies from now on.
    Rule,
    /// A request for this change only.
    OneOff,
    /// A question, or thinking aloud.
    Question,
    /// Praise of the change.
    Praise,
    /// Nothing to learn.
    Noise,
    /// What one person likes, which is no convention of the repository.
    Preference,
}

impl ModelReadingKind {
    /// Returns the kind as it is shown, such as `one-off`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// What a language model read in one remark, as far as the remark confirms it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelReading {
    /// What the model says that the remark is.
    pub kind: ModelReadingKind,
    /// Words of the remark on which the model bases that, verbatim; empty if it gave none. The author of the remark wrote
    /// them, and may be hostile.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub quote: String,
    /// Name of the model, if the wording of the rule is its own and not phrased from the quote by the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worded_by: Option<String>,
    /// What the program did not take over and why, in one clause; `None` if it took everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// What the calls of a language model for one decision used and cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelCosts {
    /// Number of calls, failed ones included.
    pub calls: u32,
    /// Number of answers that an earlier decision had paid for.
    pub found_again: u32,
    /// Tokens of the calls.
    pub tokens: TokenUsage,
    /// Cost of the calls in millionths of a US dollar, as far as their prices are known.
    pub micro_usd: u64,
    /// Number of calls of a model without a known price.
    pub unpriced_calls: u32,
    /// Duration of the calls with their waits, in milliseconds.
    pub duration_ms: u64,
}

/// How the remarks of a review were read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReviewReading {
    /// Who read, such as `heuristics-3`, or `heuristics-3 and gpt-5-mini`.
    pub reader: String,
    /// Number of remarks that a language model answered about.
    pub read_by_model: u32,
    /// Number of remarks in which the model found no rule by the answer "no rules".
    pub without_rules: u32,
    /// Why a configured model did not read the review, or not all of it; `None` if it did, or if none is configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_note: Option<String>,
    /// Number of answers that were dropped: about no remark, about one twice, or with a quote that the remark does not
    /// contain.
    pub dropped: u32,
    /// Number of wordings of the model that were refused.
    pub refused_wordings: u32,
    /// Use and cost of the model.
    pub costs: ModelCosts,
}
