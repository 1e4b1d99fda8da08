//! Builds the configured language model for the investigators and the reviewers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{anyhow, bail};
use retro_bus::Role;
use retro_config::{Config, ModelConfig, ModelSource};
use retro_investigator::{Engine, HeuristicEngine, ModelEngine, ModelSettings};
use retro_llm::build_model;
use retro_model::{ChatMessage, FailureKind, ModelRequest};
use retro_reviewer::{HeuristicReader, ModelReader, ModelReaderSettings, RemarkReader};

use crate::outgoing::build_outgoing_http;

/// Maximum time that `retro doctor` waits for an answer.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of tokens of the answer that `retro doctor` asks for.
const CHECK_TOKENS_MAX: u32 = 16;

/// Returns the configured model; `None` if none is configured.
fn find_model(config: &Config) -> anyhow::Result<Option<ModelConfig>> {
    config.language_model().map_err(|(key, why)| anyhow!("{key} {why}"))
}

/// Who may ask a language model: the engine of the investigators, and the reader of reviews.
pub(crate) struct ModelUsers {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) reader: Arc<dyn RemarkReader>,
}

/// Builds both for these roles: the heuristics, and the configured language model beside them. They share one model, and so its
/// places and its circuit breaker. Only investigators and reviewers ask a model, so only their processes need the key. Sends no
/// request.
pub(crate) fn build_model_users(config: &Config, roles: &BTreeSet<Role>) -> anyhow::Result<ModelUsers> {
    let mut users = ModelUsers { engine: Arc::new(HeuristicEngine), reader: Arc::new(HeuristicReader) };
    let Some(configured) = find_model(config)? else { return Ok(users) };
    let investigates = roles.contains(&Role::Investigator) && configured.used_for.has_retrospectives();
    let reads = roles.contains(&Role::Reviewer) && configured.used_for.has_reviews();
    if !(investigates || reads) {
        return Ok(users);
    }
    let model = build_model(&configured, &build_outgoing_http(config)?)?;
    let ModelConfig { output_tokens_max, price, budget, .. } = configured;
    if investigates {
        let settings = ModelSettings { turns_max: configured.turns_max, output_tokens_max, price, budget };
        users.engine = Arc::new(ModelEngine::new(model.clone(), settings));
    }
    if reads {
        let time_max = configured.review_timeout;
        let settings = ModelReaderSettings { output_tokens_max, price, budget, time_max };
        users.reader = Arc::new(ModelReader::new(model, settings));
    }
    Ok(users)
}

/// Asks the configured model one word and describes it. Fails if it does not answer. A folder and cassettes are not asked:
/// the one would bother a person, and the others have no answer to this.
pub(crate) async fn check_model(config: &Config) -> anyhow::Result<String> {
    let Some(configured) = find_model(config)? else {
        return Ok(
            "none; runs are investigated and reviews read by the heuristics alone (model_url is not set)"
                .to_owned(),
        );
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
                _ => "; until it answers, the heuristics work alone, and the reports say so",
            };
            bail!("{name} at {url}: {error}{until}")
        }
    }
}
