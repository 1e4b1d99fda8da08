//! Defines the values of `model_use`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the language model is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModelUse {
    /// Investigating runs and reading reviews.
    #[default]
    All,
    /// Investigating runs alone.
    Retrospectives,
    /// Reading reviews alone.
    Reviews,
}

impl ModelUse {
    /// Returns `true` if the model investigates runs.
    pub const fn has_retrospectives(self) -> bool {
        matches!(self, Self::All | Self::Retrospectives)
    }

    /// Returns `true` if the model reads reviews.
    pub const fn has_reviews(self) -> bool {
        matches!(self, Self::All | Self::Reviews)
    }
}
