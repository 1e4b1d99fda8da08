//! Bounds of what a model may be asked.

use retro_core::model_use::{ModelBudget, ModelPrice, SpendingLimit};
use retro_core::policy::Policy;

/// What a process knows of its model. The policy of a retrospective has the other bounds.
#[derive(Debug, Clone)]
pub struct ModelSettings {
    /// Maximum number of tokens of one answer.
    pub output_tokens_max: u32,
    /// Price of the model; `None` if it is not known.
    pub price: Option<ModelPrice>,
    /// Budget of one day, in UTC, over all tenants and workflows.
    pub day: SpendingLimit,
}

/// Bounds of one investigation.
#[derive(Debug, Clone)]
pub(super) struct InvestigationBounds {
    /// Maximum number of calls.
    pub(super) turns_max: u32,
    /// Maximum number of tokens of one answer.
    pub(super) output_tokens_max: u32,
    /// Price of the model; `None` if it is not known.
    pub(super) price: Option<ModelPrice>,
    /// Budget of tokens and money.
    pub(super) budget: ModelBudget,
}

impl InvestigationBounds {
    /// Joins what the process knows and what the policy says. Fails with a sentence for the report if the policy bounds a cost
    /// that cannot be measured: such a bound would never stop anything.
    pub(super) fn new(settings: &ModelSettings, policy: &Policy, model: &str) -> Result<Self, String> {
        let ModelSettings { output_tokens_max, price, day } = settings;
        if let (None, Some(key)) = (price, policy.money_bound()) {
            return Err(format!(
                "`{key}` bounds the cost, and the price of {model} is not in `model_prices`"
            ));
        }
        Ok(Self {
            turns_max: policy.model_turns_max,
            output_tokens_max: *output_tokens_max,
            price: *price,
            budget: policy.model_budget(*day),
        })
    }
}
