//! A model that plays a script.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::{FailureKind, LanguageModel, ModelError, ModelRequest, ModelResponse};

/// Decides what a scripted model answers to a request. The number is the 0-based number of the request.
type Script = Box<dyn Fn(usize, &ModelRequest) -> Result<ModelResponse, ModelError> + Send + Sync>;

/// Model whose answers a test decides. It keeps what it was asked.
pub struct ScriptedModel {
    script: Script,
    asked: Mutex<Vec<ModelRequest>>,
}

impl ScriptedModel {
    /// Creates a model that answers by a function.
    pub fn new(
        script: impl Fn(usize, &ModelRequest) -> Result<ModelResponse, ModelError> + Send + Sync + 'static,
    ) -> Self {
        Self { script: Box::new(script), asked: Mutex::default() }
    }

    /// Creates a model that gives these answers in order, and then fails.
    pub fn from_answers(answers: Vec<ModelResponse>) -> Self {
        Self::new(move |number, _| {
            let over = || ModelError::new(FailureKind::Unavailable, "the script is over");
            answers.get(number).cloned().ok_or_else(over)
        })
    }

    /// Returns what the model was asked, in order.
    pub fn asked(&self) -> Vec<ModelRequest> {
        self.lock_asked().clone()
    }

    fn lock_asked(&self) -> MutexGuard<'_, Vec<ModelRequest>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl LanguageModel for ScriptedModel {
    fn name(&self) -> &str {
        "scripted"
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let number = {
            let mut asked = self.lock_asked();
            asked.push(request.clone());
            asked.len() - 1
        };
        (self.script)(number, request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_script_is_played_in_order_and_what_was_asked_is_kept() {
        let answer = |text: &str| ModelResponse { text: text.to_owned(), ..ModelResponse::default() };
        let model = ScriptedModel::from_answers(vec![answer("a"), answer("b")]);
        let request = ModelRequest {
            tools: Vec::new(),
            forced_tool: None,
            system: String::new(),
            messages: Vec::new(),
            output_tokens_max: 1,
        };
        assert_eq!(model.complete(&request).await, Ok(answer("a")));
        assert_eq!(model.complete(&request).await, Ok(answer("b")));
        assert_eq!(model.complete(&request).await.unwrap_err().kind, FailureKind::Unavailable);
        assert_eq!(model.asked().len(), 3);
    }
}
