//! Converts rows of `model_calls`.

use std::fmt::Display;
use std::str::FromStr as _;

use retro_core::id::RetrospectiveId;
use retro_core::model_use::{FailureKind, TokenUsage};
use retro_store::{ModelCall, ModelCallResult, PullRequestKey, Result, ReviewCall};

use super::location::Location;
use crate::at;

/// Row of `model_calls`.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct ModelCallRecord {
    prompt: String,
    model: String,
    outcome: String,
    answer: Option<String>,
    problem: Option<String>,
    input_tokens: i64,
    cached_tokens: i64,
    output_tokens: i64,
    cost_micro_usd: Option<i64>,
    duration_ms: i64,
}

impl ModelCallRecord {
    /// Converts the row of a call by an investigation. Fails if a value is damaged.
    pub(crate) fn into_model_call(self, id: RetrospectiveId, number: u32) -> Result<ModelCall> {
        let place = at("model_calls", format!("{id}, number {number}, prompt {}", self.prompt));
        self.into_call(&place)
    }

    fn into_call<K: Display>(self, place: &Location<K>) -> Result<ModelCall> {
        let result = match (self.answer, FailureKind::from_str(&self.outcome)) {
            (Some(answer), _) => ModelCallResult::Answered(place.parse_json(&answer)?),
            (None, Ok(kind)) => ModelCallResult::Failed { kind, problem: self.problem.unwrap_or_default() },
            (None, Err(_)) => return Err(place.damaged_error("there is no such outcome")),
        };
        Ok(ModelCall {
            prompt: self.prompt,
            model: self.model,
            result,
            usage: TokenUsage {
                input_tokens: place.parse_unsigned(self.input_tokens)?,
                cached_tokens: place.parse_unsigned(self.cached_tokens)?,
                output_tokens: place.parse_unsigned(self.output_tokens)?,
            },
            cost_micro_usd: self.cost_micro_usd.map(|cost| place.parse_unsigned(cost)).transpose()?,
            duration_ms: place.parse_unsigned(self.duration_ms)?,
        })
    }
}

/// Row of `review_calls`.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct ReviewCallRecord {
    round: i64,
    #[sqlx(flatten)]
    call: ModelCallRecord,
}

impl ReviewCallRecord {
    /// Converts the row of a call about a pull request. Fails if a value is damaged.
    pub(crate) fn into_review_call(self, key: &PullRequestKey) -> Result<ReviewCall> {
        let place =
            at("review_calls", format!("{}/{}, prompt {}", key.tenant, key.pull_request, self.call.prompt));
        Ok(ReviewCall { round: place.parse_unsigned(self.round)?, call: self.call.into_call(&place)? })
    }
}
