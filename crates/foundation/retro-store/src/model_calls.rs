//! Storage port of the calls of language models: each answer is stored before anybody uses it.

use async_trait::async_trait;
use retro_core::model_use::{FailureKind, ModelSpending, TokenUsage};
use serde_json::Value;

use crate::{Claim, Result};

/// A call of a model by an investigation, as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelCall {
    /// SHA-256 of the name of the model and everything that it was asked, in hexadecimal.
    pub prompt: String,
    /// Name of the model.
    pub model: String,
    /// What came of the call.
    pub result: ModelCallResult,
    /// Tokens that the call used.
    pub usage: TokenUsage,
    /// Cost in millionths of a US dollar; `None` if the price of the model is not known.
    pub cost_micro_usd: Option<u64>,
    /// Duration of the call with its retries and waits, in milliseconds.
    pub duration_ms: u64,
}

/// What came of a call of a model.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelCallResult {
    /// The model answered.
    Answered(Value),
    /// There is no answer.
    Failed {
        /// Kind of the failure.
        kind: FailureKind,
        /// What happened.
        problem: String,
    },
}

/// Stores the calls of models, and sums what was spent.
#[async_trait]
pub trait ModelCallStore: Send + Sync {
    /// Lists the calls that were made for the claimed investigation, by all its attempts, in order.
    async fn list_model_calls(&self, claim: &Claim) -> Result<Vec<ModelCall>>;

    /// Stores a call. Fails with [`StoreError::Fenced`](crate::StoreError::Fenced) if the claim is no longer valid.
    async fn append_model_call(&self, claim: &Claim, call: &ModelCall) -> Result<()>;

    /// Sums what the claimed investigation, its retrospective, and everyone since midnight UTC spent, by the database's
    /// clock.
    async fn load_model_spending(&self, claim: &Claim) -> Result<ModelSpending>;
}
