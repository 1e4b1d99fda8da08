#![doc = include_str!("../README.md")]

mod journalled;
mod request;
mod response;
mod scripted;

use async_trait::async_trait;

pub use journalled::{CallJournal, JournalledModel, NotAnswered};
pub use request::{ChatMessage, ModelRequest, ToolResult, ToolSpec};
pub use response::{FailureKind, ModelError, ModelResponse, StopReason, ToolUse};
pub use scripted::ScriptedModel;

/// A language model. Its answers are not trusted: the caller checks them.
#[async_trait]
pub trait LanguageModel: Send + Sync + 'static {
    /// Returns the name of the model, as shown in reports.
    fn name(&self) -> &str;

    /// Asks the model once. Implementations that call an endpoint bound the time of a call, and the time that they
    /// wait for an endpoint that is busy or away.
    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError>;
}
