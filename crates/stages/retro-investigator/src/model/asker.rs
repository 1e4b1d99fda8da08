//! Asks a model within the budget, and journals each answer before it is used.
//!
//! What is asked is the same whenever the answers are. So a worker that takes over asks again from the beginning, and finds each
//! answer that was paid for by the hash of its prompt. At most the one call in flight is paid twice.

use retro_core::model_use::{FailureKind, Spending, TokenUsage, check_budget, estimate_usage};
use retro_model::{LanguageModel, ModelError, ModelRequest, ModelResponse};
use retro_store::{ModelCall, ModelCallResult, StoreError};
use tokio::time::Instant;

use super::settings::ModelSettings;
use crate::journal::CallJournal;

/// Maximum number of tries of one prompt whose answers cannot be read.
const UNREADABLE_MAX: usize = 2;

/// Asks a model on behalf of one investigation.
pub(super) struct Asker<'a> {
    model: &'a dyn LanguageModel,
    settings: &'a ModelSettings,
    journal: &'a dyn CallJournal,
    known: Vec<ModelCall>,
}

/// Reason why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// The model gave no answer that can be read, for this reason.
    Unusable(String),
    /// The model was not asked: `unavailable` or `over_budget`.
    NotAsked {
        /// Outcome, as it is measured.
        outcome: &'static str,
        /// What the report says.
        note: String,
    },
}

impl NoAnswer {
    /// Returns the reason in one sentence.
    pub(super) fn problem(&self) -> &str {
        match self {
            Self::Unusable(problem) => problem,
            Self::NotAsked { note, .. } => note,
        }
    }
}

impl<'a> Asker<'a> {
    /// Loads the calls that earlier attempts paid for.
    pub(super) async fn open(
        model: &'a dyn LanguageModel,
        settings: &'a ModelSettings,
        journal: &'a dyn CallJournal,
    ) -> Result<Self, StoreError> {
        let known = journal.list_calls().await?;
        Ok(Self { model, settings, journal, known })
    }

    /// Returns the name of the model.
    pub(super) fn model_name(&self) -> &str {
        self.model.name()
    }

    /// Returns the bounds of what may be asked.
    pub(super) const fn settings(&self) -> &'a ModelSettings {
        self.settings
    }

    /// Returns what a request may use at most.
    pub(super) fn estimate_spending(&self, request: &ModelRequest) -> Spending {
        self.to_spending(estimate_usage(request.prompt_bytes(), request.output_tokens_max))
    }

    /// Returns tokens with their cost, which is 0 if the price is not known.
    pub(super) fn to_spending(&self, usage: TokenUsage) -> Spending {
        Spending { tokens: usage.total(), micro_usd: self.cost_of(usage).unwrap_or_default() }
    }

    /// Returns the answer to a request: the journalled one, or a new one, which is journalled before it is returned. Fails if
    /// a call could not be stored.
    pub(super) async fn ask(
        &mut self,
        request: &ModelRequest,
    ) -> Result<Result<ModelResponse, NoAnswer>, StoreError> {
        let prompt = request.hash(self.model.name());
        loop {
            let same = || self.known.iter().filter(|call| call.prompt == prompt);
            if let Some(answer) = same().find_map(journalled_answer) {
                return Ok(Ok(answer));
            }
            let unreadable = same().filter_map(unreadable_problem);
            if let Some(problem) = unreadable.clone().nth(UNREADABLE_MAX - 1) {
                return Ok(Err(NoAnswer::Unusable(problem.to_owned())));
            }
            if let Some(end) = self.find_exceeded_budget(request).await? {
                return Ok(Err(end));
            }
            let began = Instant::now();
            let answered = self.model.complete(request).await;
            let call = self.to_model_call(&prompt, &answered, began);
            self.journal.append_call(&call).await?;
            self.known.push(call);
            if let Err(error) = answered
                && error.kind != FailureKind::Unreadable
            {
                let note = format!("the language model {} was not available: {error}", self.model.name());
                return Ok(Err(NoAnswer::NotAsked { outcome: "unavailable", note }));
            }
        }
    }

    async fn find_exceeded_budget(&self, request: &ModelRequest) -> Result<Option<NoAnswer>, StoreError> {
        let spent = self.journal.load_spending().await?;
        Ok(check_budget(&self.settings.budget, &spent, self.estimate_spending(request))
            .err()
            .map(|exceeded| NoAnswer::NotAsked { outcome: "over_budget", note: exceeded.to_string() }))
    }

    fn to_model_call(
        &self,
        prompt: &str,
        answered: &Result<ModelResponse, ModelError>,
        began: Instant,
    ) -> ModelCall {
        let (result, usage) = match answered {
            Ok(response) => {
                let answer = serde_json::to_value(response).expect("a response is plain data");
                (ModelCallResult::Answered(answer), response.usage)
            }
            Err(ModelError { kind, problem, usage, .. }) => {
                (ModelCallResult::Failed { kind: *kind, problem: problem.clone() }, *usage)
            }
        };
        ModelCall {
            prompt: prompt.to_owned(),
            model: self.model.name().to_owned(),
            result,
            usage,
            cost_micro_usd: self.cost_of(usage),
            duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        }
    }

    fn cost_of(&self, usage: TokenUsage) -> Option<u64> {
        self.settings.price.map(|price| price.cost_micro_usd(usage))
    }
}

/// Returns the answer of a journalled call; `None` if the call failed, or if its answer is from another version of the program.
fn journalled_answer(call: &ModelCall) -> Option<ModelResponse> {
    match &call.result {
        ModelCallResult::Answered(answer) => serde_json::from_value(answer.clone()).ok(),
        ModelCallResult::Failed { .. } => None,
    }
}

fn unreadable_problem(call: &ModelCall) -> Option<&str> {
    match &call.result {
        ModelCallResult::Failed { kind: FailureKind::Unreadable, problem } => Some(problem),
        _ => None,
    }
}
