#![doc = include_str!("../README.md")]

mod anthropic;
mod cassettes;
mod endpoint;
mod folder;
mod openai;
mod patient;

use std::sync::Arc;

use retro_config::{ModelConfig, ModelProtocol, ModelSource};
use retro_model::LanguageModel;
use retro_outgoing_http::OutgoingHttp;

pub use cassettes::{CassettePlayer, CassetteRecorder};
pub use endpoint::{EndpointError, EndpointModel};
pub use folder::FolderModel;
pub use patient::{PatientModel, WaitBounds};

/// Reason why the configured model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LlmError {
    /// The endpoint cannot be used.
    #[error("model_url: {0}")]
    Endpoint(#[from] EndpointError),
    /// A folder of the configuration cannot be used.
    #[error("{key}: the folder {folder} cannot be used: {problem}")]
    Folder {
        /// Key that names the folder.
        key: &'static str,
        /// The folder.
        folder: String,
        /// What the operating system says.
        problem: std::io::Error,
    },
}

/// Builds the configured model. Sends no request, and creates the folders that it writes to.
pub fn build_model(
    configured: &ModelConfig,
    http: &OutgoingHttp,
) -> Result<Arc<dyn LanguageModel>, LlmError> {
    let name = configured.model.clone();
    let model: Arc<dyn LanguageModel> = match &configured.source {
        ModelSource::Endpoint { url, protocol, key } => {
            let endpoint = EndpointModel::new(url, *protocol, name, key.as_ref(), configured.timeout, http)?;
            let bounds = WaitBounds { wait_max: configured.wait, concurrency: configured.concurrency };
            let provider = match protocol {
                ModelProtocol::Openai => "openai",
                ModelProtocol::Anthropic => "anthropic",
            };
            Arc::new(PatientModel::new(Arc::new(endpoint), provider, bounds))
        }
        ModelSource::Folder(folder) => {
            let made = FolderModel::create(folder, name, configured.timeout);
            Arc::new(made.map_err(|problem| folder_error("model_url", folder, problem))?)
        }
        ModelSource::Cassettes(folder) => Arc::new(CassettePlayer::new(folder.clone(), name)),
    };
    let Some(folder) = &configured.record_dir else { return Ok(model) };
    let recorder = CassetteRecorder::create(model, folder.clone());
    Ok(Arc::new(recorder.map_err(|problem| folder_error("model_record_dir", folder, problem))?))
}

fn folder_error(key: &'static str, folder: &std::path::Path, problem: std::io::Error) -> LlmError {
    LlmError::Folder { key, folder: folder.display().to_string(), problem }
}
