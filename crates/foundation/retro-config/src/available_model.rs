//! Compares what the pipelines ask of a language model with the one that a process has.

use crate::model::ModelConfig;

/// Language model that a process has for one of its roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AvailableModel {
    /// No model is configured, or it is used for something else (`model_use`).
    None,
    /// A model whose price is not known.
    Unpriced,
    /// A model whose price is known.
    Priced,
}

impl AvailableModel {
    /// Returns what a configured model offers; `None` stands for no model.
    pub fn from_config(model: Option<&ModelConfig>) -> Self {
        match model.map(|model| model.price) {
            None => Self::None,
            Some(None) => Self::Unpriced,
            Some(Some(_)) => Self::Priced,
        }
    }

    /// Says why a bound of the cost cannot be kept; `None` if it can, or if no model is asked.
    pub(crate) fn find_money_problem(self, bound: Option<&str>) -> Option<String> {
        let key = bound.filter(|_| self == Self::Unpriced)?;
        Some(format!(
            "`{key}` bounds the cost, and the price of the model is not known; add it to `model_prices` of the configuration"
        ))
    }
}
