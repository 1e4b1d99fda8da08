//! What calls of a language model use and cost, and the budget that bounds them.
//!
//! Money is counted in millionths of a US dollar, as a whole number: sums of floats depend on their order.

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};

/// Tokens that one or more calls of a model used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenUsage {
    /// Tokens of the prompts, including those that the provider read from its cache.
    pub input_tokens: u64,
    /// Tokens of the prompts that the provider read from its cache; part of `input_tokens`.
    pub cached_tokens: u64,
    /// Tokens of the answers.
    pub output_tokens: u64,
}

impl TokenUsage {
    /// Returns the number of tokens of prompts and answers.
    pub const fn total(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Returns `true` if no token was used.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the sum of two usages.
    pub const fn add(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            cached_tokens: self.cached_tokens.saturating_add(other.cached_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
        }
    }
}

/// Kind of a failed call, which decides what can be done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, EnumString)]
#[strum(serialize_all = "snake_case")]
pub enum FailureKind {
    /// The endpoint is away or busy, and a later call may succeed.
    Unavailable,
    /// The address, the key or the name of the model is wrong, so every call fails.
    Misconfigured,
    /// The endpoint refuses this request; another one may succeed.
    Rejected,
    /// The endpoint answered, but the answer cannot be read.
    Unreadable,
}

impl FailureKind {
    /// Returns the kind as it is stored and measured, such as `unavailable`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Price of a model, in millionths of a US dollar for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelPrice {
    /// Price of prompt tokens.
    pub input: u64,
    /// Price of prompt tokens that the provider read from its cache.
    pub cached: u64,
    /// Price of answer tokens.
    pub output: u64,
}

impl ModelPrice {
    /// Returns the cost of a usage in millionths of a US dollar, rounded up.
    pub fn cost_micro_usd(&self, usage: TokenUsage) -> u64 {
        let cached = usage.cached_tokens.min(usage.input_tokens);
        let part = |tokens: u64, price: u64| u128::from(tokens) * u128::from(price);
        let sum = part(usage.input_tokens - cached, self.input)
            .saturating_add(part(cached, self.cached))
            .saturating_add(part(usage.output_tokens, self.output));
        u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

/// Tokens and money that were spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spending {
    /// Tokens of prompts and answers.
    pub tokens: u64,
    /// Millionths of a US dollar; calls of a model without a known price count as 0.
    pub micro_usd: u64,
}

/// What was spent within each bound of a budget that limits an investigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModelSpending {
    /// Spent by the investigation.
    pub investigation: Spending,
    /// Spent by all investigations of the retrospective.
    pub retrospective: Spending,
    /// Spent by everyone since midnight UTC.
    pub day: Spending,
}

impl ModelSpending {
    /// Returns what was spent within each bound, the narrowest first.
    pub const fn by_bound(&self) -> [(BudgetBound, Spending); 3] {
        [
            (BudgetBound::Investigation, self.investigation),
            (BudgetBound::Retrospective, self.retrospective),
            (BudgetBound::Day, self.day),
        ]
    }
}

/// What was spent within each bound of a budget that limits the reading of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReviewSpending {
    /// Spent on the reviews of the pull request, by all decisions.
    pub review: Spending,
    /// Spent by everyone since midnight UTC, investigations included.
    pub day: Spending,
}

impl ReviewSpending {
    /// Returns what was spent within each bound, the narrowest first.
    pub const fn by_bound(&self) -> [(BudgetBound, Spending); 2] {
        [(BudgetBound::Review, self.review), (BudgetBound::Day, self.day)]
    }
}

/// Bound of a spending; 0 means no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpendingLimit {
    /// Maximum number of tokens.
    pub tokens: u64,
    /// Maximum cost in millionths of a US dollar.
    pub micro_usd: u64,
}

impl SpendingLimit {
    /// Creates a limit from a number of tokens and a cost in hundredths of a US dollar.
    pub const fn new(tokens: u64, cents: u64) -> Self {
        Self { tokens, micro_usd: cents.saturating_mul(MICRO_USD_PER_CENT) }
    }
}

/// Millionths of a US dollar in a hundredth.
const MICRO_USD_PER_CENT: u64 = 10_000;

/// Bounds of what language models may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModelBudget {
    /// Bound of one investigation.
    pub investigation: SpendingLimit,
    /// Bound of one retrospective.
    pub retrospective: SpendingLimit,
    /// Bound of the reviews of one pull request, over all decisions.
    pub review: SpendingLimit,
    /// Bound of one day, in UTC, over all tenants.
    pub day: SpendingLimit,
}

impl ModelBudget {
    const fn limit(&self, bound: BudgetBound) -> SpendingLimit {
        match bound {
            BudgetBound::Investigation => self.investigation,
            BudgetBound::Retrospective => self.retrospective,
            BudgetBound::Review => self.review,
            BudgetBound::Day => self.day,
        }
    }
}

/// The bound that the next call would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum BudgetBound {
    /// The bound of the investigation.
    Investigation,
    /// The bound of the retrospective.
    Retrospective,
    /// The bound of the reviews of a pull request.
    Review,
    /// The bound of the day.
    Day,
}

/// The next call would exceed a bound of the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the {what} budget of the {} does not allow another call", self.bound_name())]
pub struct BudgetExceeded {
    /// The bound.
    pub bound: BudgetBound,
    /// `token` or `money`.
    pub what: &'static str,
}

impl BudgetExceeded {
    fn bound_name(&self) -> &'static str {
        self.bound.into()
    }
}

/// Fails if a call that may spend `next` would exceed a bound, given what was spent within each bound that applies, the
/// narrowest first. The first bound that does not allow the call is named.
pub fn check_budget(
    budget: &ModelBudget,
    spent: &[(BudgetBound, Spending)],
    next: Spending,
) -> Result<(), BudgetExceeded> {
    for (bound, spent) in spent {
        let limit = budget.limit(*bound);
        if limit.tokens > 0 && spent.tokens.saturating_add(next.tokens) > limit.tokens {
            return Err(BudgetExceeded { bound: *bound, what: "token" });
        }
        if limit.micro_usd > 0 && spent.micro_usd.saturating_add(next.micro_usd) > limit.micro_usd {
            return Err(BudgetExceeded { bound: *bound, what: "money" });
        }
    }
    Ok(())
}

/// Bytes of text for one token in an estimate. Tokenizers make fewer tokens of English prose, and more of code and of
/// other scripts.
const BYTES_PER_TOKEN: u64 = 3;

/// Estimates the usage of a call from above: the bytes of its prompt, and the most tokens that its answer may have.
pub const fn estimate_usage(prompt_bytes: u64, output_tokens_max: u32) -> TokenUsage {
    TokenUsage {
        input_tokens: prompt_bytes.div_ceil(BYTES_PER_TOKEN),
        cached_tokens: 0,
        output_tokens: output_tokens_max as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_costs_what_the_price_table_says_and_cached_tokens_cost_their_own_price() {
        // $0.25, $0.025 and $2 for a million tokens.
        let price = ModelPrice { input: 250_000, cached: 25_000, output: 2_000_000 };
        let usage = TokenUsage { input_tokens: 10_000, cached_tokens: 8_000, output_tokens: 500 };
        assert_eq!(price.cost_micro_usd(usage), 500 + 200 + 1000);
        assert_eq!(
            price.cost_micro_usd(TokenUsage { input_tokens: 1, ..TokenUsage::default() }),
            1,
            "rounded up"
        );
        let odd = TokenUsage { input_tokens: 5, cached_tokens: 9, output_tokens: 0 };
        assert_eq!(price.cost_micro_usd(odd), 1, "no more is cached than was sent");
        let huge = TokenUsage { input_tokens: u64::MAX, cached_tokens: 0, output_tokens: u64::MAX };
        assert_eq!(ModelPrice { input: u64::MAX, ..price }.cost_micro_usd(huge), u64::MAX);
    }

    #[test]
    fn each_bound_of_a_budget_stops_the_call_that_would_exceed_it() {
        let limit = |tokens, micro_usd| SpendingLimit { tokens, micro_usd };
        let budget = ModelBudget {
            investigation: limit(100, 0),
            retrospective: limit(0, 50),
            review: limit(7, 0),
            day: limit(1000, 0),
        };
        let of = |tokens, micro_usd| Spending { tokens, micro_usd };
        let spent = |investigation, retrospective, day| ModelSpending { investigation, retrospective, day };
        let check = |spent: ModelSpending, next| {
            check_budget(&budget, &spent.by_bound(), next).map_err(|over| over.to_string())
        };
        assert_eq!(check(ModelSpending::default(), of(100, 50)), Ok(()), "a bound may be reached");
        let over = check(spent(of(90, 0), of(90, 0), of(90, 0)), of(11, 0));
        assert_eq!(over, Err("the token budget of the investigation does not allow another call".to_owned()));
        let over = check(spent(of(0, 0), of(0, 50), of(0, 50)), of(1, 1));
        assert_eq!(over, Err("the money budget of the retrospective does not allow another call".to_owned()));
        let over = check(spent(of(0, 0), of(0, 0), of(1000, 0)), of(1, 0));
        assert_eq!(over, Err("the token budget of the day does not allow another call".to_owned()));
        let unbounded = ModelBudget::default();
        let nothing = ModelSpending::default().by_bound();
        assert_eq!(check_budget(&unbounded, &nothing, of(u64::MAX, u64::MAX)), Ok(()));
        let review = ReviewSpending { review: of(5, 0), day: of(900, 0) }.by_bound();
        let over = check_budget(&budget, &review, of(3, 0)).map_err(|over| over.to_string());
        assert_eq!(over, Err("the token budget of the review does not allow another call".to_owned()));
    }

    #[test]
    fn an_estimate_counts_the_prompt_and_the_longest_answer() {
        assert_eq!(estimate_usage(3001, 200).total(), 1001 + 200);
    }
}
