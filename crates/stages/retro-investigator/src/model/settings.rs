//! Bounds of what a model may be asked.

use retro_core::model_use::{ModelBudget, ModelPrice};

/// Bounds of what a model may be asked.
#[derive(Debug, Clone)]
pub struct ModelSettings {
    /// Maximum number of calls in one investigation.
    pub turns_max: u32,
    /// Maximum number of tokens of one answer.
    pub output_tokens_max: u32,
    /// Price of the model; `None` if it is not known.
    pub price: Option<ModelPrice>,
    /// Budget of tokens and money.
    pub budget: ModelBudget,
}
