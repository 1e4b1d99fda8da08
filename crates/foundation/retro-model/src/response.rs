//! Defines what a model answers, and what can go wrong.

use std::time::Duration;

pub use retro_core::model_use::FailureKind;
use retro_core::model_use::TokenUsage;
use serde::{Deserialize, Serialize};

/// Answer of a model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ModelResponse {
    /// Text; empty if the model only calls tools.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Calls of tools, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolUse>,
    /// Reason why the model stopped.
    pub stop: StopReason,
    /// Tokens that the call used.
    pub usage: TokenUsage,
}

/// A call of a tool by a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolUse {
    /// Id that the result refers to.
    pub id: String,
    /// Name of the tool, as the model wrote it.
    pub name: String,
    /// Arguments as the model wrote them; they may be no JSON.
    pub arguments: String,
}

/// Reason why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The answer is complete.
    #[default]
    Complete,
    /// The answer reached the maximum number of tokens and is cut off.
    CutOff,
    /// The model or its provider refused to answer.
    Refused,
}

/// Reason why a call gave no answer. The text contains neither the key nor any part of prompt or answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct ModelError {
    /// Kind of the failure.
    pub kind: FailureKind,
    /// What happened, in one clause.
    pub problem: String,
    /// Time after which the endpoint wants to be asked again; `None` if it did not say.
    pub retry_after: Option<Duration>,
    /// Tokens that the failed call used, as far as the endpoint told.
    pub usage: TokenUsage,
}

impl ModelError {
    /// Creates the error of a call that used no known number of tokens.
    pub fn new(kind: FailureKind, problem: impl Into<String>) -> Self {
        Self { kind, problem: problem.into(), retry_after: None, usage: TokenUsage::default() }
    }
}
