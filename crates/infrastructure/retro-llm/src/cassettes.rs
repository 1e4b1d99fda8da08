//! Cassettes: recorded answers, each found by the hash of its prompt. A prompt that changed has no cassette, on purpose.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use retro_model::{FailureKind, LanguageModel, ModelError, ModelRequest, ModelResponse};
use serde::{Deserialize, Serialize};
use tracing::warn;

/// One recorded answer.
#[derive(Serialize, Deserialize)]
struct Cassette {
    model: String,
    /// What was asked, for people who read the cassette. Playing it needs only the file's name.
    request: ModelRequest,
    response: ModelResponse,
}

fn cassette_file(folder: &Path, hash: &str) -> PathBuf {
    folder.join(format!("{hash}.json"))
}

/// Asks another model and records its answers.
pub struct CassetteRecorder {
    model: Arc<dyn LanguageModel>,
    folder: PathBuf,
}

impl CassetteRecorder {
    /// Creates the folder if it is missing.
    pub fn create(model: Arc<dyn LanguageModel>, folder: PathBuf) -> io::Result<Self> {
        std::fs::create_dir_all(&folder)?;
        Ok(Self { model, folder })
    }

    async fn record(&self, request: &ModelRequest, response: &ModelResponse) -> io::Result<()> {
        let name = self.model.name();
        let cassette =
            Cassette { model: name.to_owned(), request: request.clone(), response: response.clone() };
        let json = serde_json::to_vec_pretty(&cassette).expect("a cassette is plain data");
        tokio::fs::write(cassette_file(&self.folder, &request.hash(name)), json).await
    }
}

#[async_trait]
impl LanguageModel for CassetteRecorder {
    fn name(&self) -> &str {
        self.model.name()
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let response = self.model.complete(request).await?;
        // The answer is paid for, so it is used even if it cannot be recorded.
        if let Err(problem) = self.record(request, &response).await {
            warn!("an answer of {} was not recorded in {}: {problem}", self.name(), self.folder.display());
        }
        Ok(response)
    }
}

/// Plays recorded answers and asks nobody.
pub struct CassettePlayer {
    folder: PathBuf,
    name: String,
}

impl CassettePlayer {
    /// Creates a player of the cassettes in a folder, which were recorded with a model of this name.
    pub const fn new(folder: PathBuf, name: String) -> Self {
        Self { folder, name }
    }
}

#[async_trait]
impl LanguageModel for CassettePlayer {
    fn name(&self) -> &str {
        &self.name
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let hash = request.hash(&self.name);
        let missing = |why: String| {
            ModelError::new(FailureKind::Rejected, format!("no cassette answers the prompt {hash}: {why}"))
        };
        let bytes = tokio::fs::read(cassette_file(&self.folder, &hash)).await;
        let bytes = bytes.map_err(|problem| missing(problem.to_string()))?;
        let cassette: Cassette =
            serde_json::from_slice(&bytes).map_err(|error| missing(error.to_string()))?;
        Ok(cassette.response)
    }
}

#[cfg(test)]
mod tests {
    use retro_model::ScriptedModel;
    use tempfile::TempDir;

    use super::*;

    fn request(system: &str) -> ModelRequest {
        ModelRequest {
            tools: Vec::new(),
            forced_tool: None,
            system: system.to_owned(),
            messages: Vec::new(),
            output_tokens_max: 1,
        }
    }

    #[tokio::test]
    async fn a_recorded_answer_is_played_and_a_changed_prompt_misses() {
        let folder = TempDir::new().unwrap();
        let answer = ModelResponse { text: "found".to_owned(), ..ModelResponse::default() };
        let model = Arc::new(ScriptedModel::from_answers(vec![answer.clone()]));
        let recorder = CassetteRecorder::create(model, folder.path().to_owned()).unwrap();
        assert_eq!(recorder.complete(&request("a")).await, Ok(answer.clone()));
        let player = CassettePlayer::new(folder.path().to_owned(), "scripted".to_owned());
        assert_eq!(player.complete(&request("a")).await, Ok(answer));
        let missed = player.complete(&request("b")).await.unwrap_err();
        assert!(missed.problem.contains("no cassette answers the prompt"), "{missed}");
        let other = CassettePlayer::new(folder.path().to_owned(), "another".to_owned());
        assert!(other.complete(&request("a")).await.is_err(), "another model would answer otherwise");
    }
}
