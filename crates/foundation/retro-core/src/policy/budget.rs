//! Budget of a policy: what a language model may use for an investigation and for a retrospective.

use super::Policy;
use crate::model_use::{ModelBudget, SpendingLimit};

impl Policy {
    /// Returns the budget of an investigation. `day` is the bound over all workflows, which the operator sets.
    pub const fn model_budget(&self, day: SpendingLimit) -> ModelBudget {
        ModelBudget {
            investigation: SpendingLimit::new(self.investigation_tokens_max, self.investigation_cents_max),
            retrospective: SpendingLimit::new(self.retrospective_tokens_max, self.retrospective_cents_max),
            review: SpendingLimit { tokens: 0, micro_usd: 0 },
            day,
        }
    }

    /// Returns the key of a bound of the cost, the first that is set; `None` if no cost is bounded.
    pub const fn money_bound(&self) -> Option<&'static str> {
        match (self.investigation_cents_max, self.retrospective_cents_max) {
            (1.., _) => Some("investigation_cents_max"),
            (0, 1..) => Some("retrospective_cents_max"),
            (0, 0) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_has_the_bounds_of_the_policy_and_the_day_of_the_operator() {
        let policy = Policy { retrospective_cents_max: 250, ..Policy::default() };
        let budget = policy.model_budget(SpendingLimit { tokens: 7, micro_usd: 0 });
        assert_eq!(budget.investigation, SpendingLimit { tokens: 200_000, micro_usd: 0 });
        assert_eq!(budget.retrospective, SpendingLimit { tokens: 1_000_000, micro_usd: 2_500_000 });
        assert_eq!((budget.day.tokens, budget.review), (7, SpendingLimit::default()));
        assert_eq!(
            (policy.money_bound(), Policy::default().money_bound()),
            (Some("retrospective_cents_max"), None)
        );
    }
}
