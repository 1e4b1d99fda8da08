//! Defines the values of `model_protocol`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Protocol of a model's endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModelProtocol {
    /// `POST …/chat/completions`, which OpenAI and most model servers speak.
    #[default]
    Openai,
    /// `POST …/messages`, which Anthropic speaks.
    Anthropic,
}
