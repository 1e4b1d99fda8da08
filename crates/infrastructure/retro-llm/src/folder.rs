//! A folder as a model: each request is written as a file, and whoever writes the answer file is the model.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use retro_core::model_use::TokenUsage;
use retro_model::{
    ChatMessage, FailureKind, LanguageModel, ModelError, ModelRequest, ModelResponse, StopReason, ToolUse,
};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;
use tracing::warn;

/// Interval between two looks for the answer file.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum size of an answer file, in bytes.
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;

/// A model that is a folder.
pub struct FolderModel {
    folder: PathBuf,
    name: String,
    timeout: Duration,
}

/// Answer file. Everything but the calls may be left out.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerFile {
    #[serde(default)]
    text: String,
    #[serde(default)]
    calls: Vec<AnsweredCall>,
    #[serde(default)]
    refused: bool,
    #[serde(default)]
    usage: TokenUsage,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnsweredCall {
    name: String,
    /// An object, so that nobody has to write JSON within JSON.
    #[serde(default)]
    arguments: Value,
}

impl FolderModel {
    /// Creates the folder if it is missing. An answer may take `timeout`.
    pub fn create(folder: &Path, name: String, timeout: Duration) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        Ok(Self { folder: folder.to_owned(), name, timeout })
    }

    fn file(&self, hash: &str, what: &str) -> PathBuf {
        self.folder.join(format!("{hash}.{what}"))
    }

    async fn write_request(&self, hash: &str, request: &ModelRequest) -> io::Result<()> {
        let json = serde_json::to_vec_pretty(request).expect("a request is plain data");
        // The text first: whoever sees the JSON finds both.
        tokio::fs::write(self.file(hash, "request.md"), render_request(request)).await?;
        let partial = self.file(hash, "request.partial");
        tokio::fs::write(&partial, json).await?;
        // Renamed, so that a program that watches the folder reads no half of it.
        tokio::fs::rename(partial, self.file(hash, "request.json")).await
    }

    /// Reads the answer file. Returns `None` if there is none, and an error if it cannot be read yet.
    async fn read_answer(&self, hash: &str) -> Option<Result<ModelResponse, String>> {
        let path = self.file(hash, "answer.json");
        let size = tokio::fs::metadata(&path).await.ok()?.len();
        if size > ANSWER_BYTES_MAX {
            return Some(Err(format!("it is longer than {ANSWER_BYTES_MAX} bytes")));
        }
        let bytes = match tokio::fs::read(&path).await {
            Ok(bytes) => bytes,
            Err(problem) => return Some(Err(problem.to_string())),
        };
        Some(serde_json::from_slice(&bytes).map(to_response).map_err(|error| error.to_string()))
    }
}

fn to_response(answer: AnswerFile) -> ModelResponse {
    let AnswerFile { text, calls, refused, usage } = answer;
    let calls = calls.into_iter().enumerate().map(|(nth, call)| ToolUse {
        id: format!("call_{nth}"),
        name: call.name,
        arguments: match call.arguments {
            Value::Null => "{}".to_owned(),
            arguments => arguments.to_string(),
        },
    });
    let stop = if refused { StopReason::Refused } else { StopReason::Complete };
    ModelResponse { text, calls: calls.collect(), stop, usage }
}

/// Renders a request for a person.
fn render_request(request: &ModelRequest) -> String {
    let mut out = format!("# Instructions\n\n{}\n\n# Tools\n\n", request.system);
    for tool in &request.tools {
        let schema = serde_json::to_string_pretty(&tool.parameters).expect("a schema is plain data");
        out.push_str(&format!("## {}\n\n{}\n\n```json\n{schema}\n```\n\n", tool.name, tool.description));
    }
    if let Some(name) = &request.forced_tool {
        out.push_str(&format!("The answer must call `{name}`.\n\n"));
    }
    for message in &request.messages {
        match message {
            ChatMessage::User { text } => out.push_str(&format!("# The program\n\n{text}\n\n")),
            ChatMessage::Assistant { text, calls } => {
                out.push_str(&format!("# The model\n\n{text}\n\n"));
                for call in calls {
                    out.push_str(&format!("`{}` {}\n\n", call.name, call.arguments));
                }
            }
            ChatMessage::Results { results } => {
                for result in results {
                    out.push_str(&format!("# Result\n\n{}\n\n", result.text));
                }
            }
        }
    }
    out.push_str("# How to answer\n\nWrite the file with the name of this one that ends in `.answer.json`, such as\n\n");
    out.push_str("```json\n{\"calls\": [{\"name\": \"NAME\", \"arguments\": {}}]}\n```\n");
    out
}

#[async_trait]
impl LanguageModel for FolderModel {
    fn name(&self) -> &str {
        &self.name
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let hash = request.hash(&self.name);
        let failed = |kind, problem: String| Err(ModelError::new(kind, problem));
        if let Err(problem) = self.write_request(&hash, request).await {
            return failed(FailureKind::Unavailable, format!("the request cannot be written: {problem}"));
        }
        let deadline = Instant::now() + self.timeout;
        let mut reported = String::new();
        loop {
            match self.read_answer(&hash).await {
                Some(Ok(response)) => return Ok(response),
                None if Instant::now() < deadline => {}
                // Somebody may still be writing it, or may mend it.
                Some(Err(problem)) if Instant::now() < deadline => {
                    if problem != reported {
                        warn!("the answer file {hash}.answer.json is unreadable so far: {problem}");
                        reported = problem;
                    }
                }
                Some(Err(problem)) => {
                    let problem = format!("the answer file {hash}.answer.json is unreadable: {problem}");
                    return failed(FailureKind::Unreadable, problem);
                }
                None => {
                    let waited = self.timeout.as_secs_f64();
                    let problem = format!("nobody has written {hash}.answer.json within {waited} s");
                    return failed(FailureKind::Unavailable, problem);
                }
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tempfile::TempDir;

    use super::*;

    fn request() -> ModelRequest {
        ModelRequest {
            tools: Vec::new(),
            forced_tool: Some("submit".to_owned()),
            system: "Investigate.".to_owned(),
            messages: vec![ChatMessage::User { text: "The run.".to_owned() }],
            output_tokens_max: 1,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_writes_the_answer_file_is_the_model() {
        let folder = TempDir::new().unwrap();
        let model = FolderModel::create(folder.path(), "me".to_owned(), Duration::from_secs(2)).unwrap();
        let hash = request().hash("me");
        let late = model.complete(&request()).await.unwrap_err();
        assert_eq!(late.kind, FailureKind::Unavailable);
        assert!(late.problem.contains(".answer.json within 2 s"), "{late}");
        let text = std::fs::read_to_string(model.file(&hash, "request.md")).unwrap();
        for shown in ["Investigate.", "The run.", "must call `submit`", "answer.json"] {
            assert!(text.contains(shown), "{text}");
        }
        let stored: ModelRequest =
            serde_json::from_slice(&std::fs::read(model.file(&hash, "request.json")).unwrap()).unwrap();
        assert_eq!(stored, request());

        std::fs::write(model.file(&hash, "answer.json"), "{\"calls\": [").unwrap();
        assert_eq!(model.complete(&request()).await.unwrap_err().kind, FailureKind::Unreadable);
        let answer = json!({"calls": [{"name": "submit", "arguments": {"findings": []}}]});
        std::fs::write(model.file(&hash, "answer.json"), answer.to_string()).unwrap();
        let response = model.complete(&request()).await.unwrap();
        assert_eq!(response.calls[0].arguments, "{\"findings\":[]}", "an answer that came late is found");
    }
}
