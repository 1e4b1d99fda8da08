//! Builds the configured language model for the investigators and the reviewers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{anyhow, bail};
use retro_bus::Role;
use retro_config::{AvailableModel, Config, ModelConfig, ModelSource, ModelUse, Pipeline};
use retro_investigator::{Engine, HeuristicEngine, ModelEngine, ModelSettings};
use retro_llm::build_model;
use retro_model::{ChatMessage, FailureKind, ModelRequest};
use retro_reviewer::{HeuristicReader, ModelReader, ModelReaderSettings, RemarkReader};

use crate::outgoing::build_outgoing_http;
use crate::policies::PolicySource;

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
/// request. Fails if the pipelines ask for what this model cannot do.
pub(crate) fn build_model_users(
    config: &Config,
    roles: &BTreeSet<Role>,
    policies: &PolicySource,
) -> anyhow::Result<ModelUsers> {
    let mut users = ModelUsers { engine: Arc::new(HeuristicEngine), reader: Arc::new(HeuristicReader) };
    let configured = find_model(config)?;
    let (investigators, reviewers) = list_available_models(configured.as_ref());
    policies.check_models(
        Some(investigators).filter(|_| roles.contains(&Role::Investigator)),
        Some(reviewers).filter(|_| roles.contains(&Role::Reviewer)),
    )?;
    let Some(configured) = configured else { return Ok(users) };
    let investigates = roles.contains(&Role::Investigator) && configured.used_for.has_retrospectives();
    let reads = roles.contains(&Role::Reviewer) && configured.used_for.has_reviews();
    if !(investigates || reads) {
        return Ok(users);
    }
    let model = build_model(&configured, &build_outgoing_http(config)?)?;
    let ModelConfig { output_tokens_max, price, day, .. } = configured;
    if investigates {
        let settings = ModelSettings { output_tokens_max, price, day };
        users.engine = Arc::new(ModelEngine::new(model.clone(), settings));
    }
    if reads {
        let time_max = configured.review_timeout;
        let settings = ModelReaderSettings { output_tokens_max, price, day, time_max };
        users.reader = Arc::new(ModelReader::new(model, settings));
    }
    Ok(users)
}

/// Returns the models of investigators and of reviewers, of which `model_use` may leave one without.
fn list_available_models(configured: Option<&ModelConfig>) -> (AvailableModel, AvailableModel) {
    let used = |is_used: fn(ModelUse) -> bool| {
        AvailableModel::from_config(configured.filter(|model| is_used(model.used_for)))
    };
    (used(ModelUse::has_retrospectives), used(ModelUse::has_reviews))
}

/// Compares the pipelines with the configured model. Without one there is nothing to compare: the processes that need one may
/// be others.
pub(crate) fn check_pipelines(config: &Config, pipeline: &Pipeline) -> anyhow::Result<()> {
    let Some(configured) = find_model(config)? else { return Ok(()) };
    let (investigators, reviewers) = list_available_models(Some(&configured));
    let any = |model| Some(model).filter(|model| *model != AvailableModel::None);
    Ok(pipeline.check_models(any(investigators), any(reviewers))?)
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
