//! Builds the configured language model for the investigators.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{anyhow, bail};
use retro_bus::Role;
use retro_config::{Config, ModelConfig, ModelSource};
use retro_investigator::{Engine, HeuristicEngine, ModelEngine, ModelSettings};
use retro_llm::build_model;
use retro_model::{ChatMessage, FailureKind, ModelRequest};

use crate::outgoing::build_outgoing_http;

/// Maximum time that `retro doctor` waits for an answer.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of tokens of the answer that `retro doctor` asks for.
const CHECK_TOKENS_MAX: u32 = 16;

/// Returns the configured model; `None` if none is configured.
fn find_model(config: &Config) -> anyhow::Result<Option<ModelConfig>> {
    config.language_model().map_err(|(key, why)| anyhow!("{key} {why}"))
}

/// Builds the engine of the investigators: the heuristics, and the configured language model beside them. Sends no
/// request.
pub(crate) fn build_engine(config: &Config) -> anyhow::Result<Arc<dyn Engine>> {
    let Some(configured) = find_model(config)? else { return Ok(Arc::new(HeuristicEngine)) };
    let settings = ModelSettings {
        turns_max: configured.turns_max,
        output_tokens_max: configured.output_tokens_max,
        price: configured.price,
        budget: configured.budget,
    };
    Ok(Arc::new(ModelEngine::new(build_model(&configured, &build_outgoing_http(config)?)?, settings)))
}

/// Returns the engine for these roles. Only the investigator asks a model, so only its process needs the key.
pub(crate) fn build_for_roles(config: &Config, roles: &BTreeSet<Role>) -> anyhow::Result<Arc<dyn Engine>> {
    if roles.contains(&Role::Investigator) { build_engine(config) } else { Ok(Arc::new(HeuristicEngine)) }
}

/// Asks the configured model one word and describes it. Fails if it does not answer. A folder and cassettes are not asked:
/// the one would bother a person, and the others have no answer to this.
pub(crate) async fn check_model(config: &Config) -> anyhow::Result<String> {
    let Some(configured) = find_model(config)? else {
        return Ok("none; runs are investigated by the heuristics alone (model_url is not set)".to_owned());
    };
    let checked = ModelConfig {
        timeout: configured.timeout.min(CHECK_TIMEOUT),
        wait: Duration::ZERO,
        record_dir: None,
        ..configured.clone()
    };
    let model = build_model(&checked, &build_outgoing_http(config)?)?;
    let name = &configured.model;
    let url = match &configured.source {
        ModelSource::Endpoint { url, .. } => url,
        ModelSource::Folder(folder) => return Ok(format!("{name}: files in {}", folder.display())),
        ModelSource::Cassettes(folder) if folder.is_dir() => {
            return Ok(format!("{name}: recorded answers in {}", folder.display()));
        }
        ModelSource::Cassettes(folder) => bail!("{name}: there is no folder {}", folder.display()),
    };
    let request = ModelRequest {
        tools: Vec::new(),
        forced_tool: None,
        system: "This is a check of the connection.".to_owned(),
        messages: vec![ChatMessage::User { text: "Answer with the word ok.".to_owned() }],
        output_tokens_max: CHECK_TOKENS_MAX,
    };
    match model.complete(&request).await {
        Ok(response) => {
            let price = if configured.price.is_some() { "" } else { "; its price is not in model_prices" };
            Ok(format!("{name} at {url} answers; {} tokens{price}", response.usage.total()))
        }
        Err(error) => {
            let until = match error.kind {
                FailureKind::Misconfigured => "",
                _ => {
                    "; until it answers, runs are investigated by the heuristics alone, and their reports say so"
                }
            };
            bail!("{name} at {url}: {error}{until}")
        }
    }
}
