//! A model whose answers are stored before anybody uses them, within a budget.
//!
//! A conversation is the same whenever the answers are. So whoever takes over holds it again from its beginning, and finds
//! each answer that was paid for by the hash of its prompt. At most the one call in flight is paid twice.

use async_trait::async_trait;
use retro_core::model_use::{
    BudgetBound, ModelBudget, ModelPrice, Spending, TokenUsage, check_budget, estimate_usage,
};
use retro_store::{ModelCall, ModelCallResult, StoreError};
use tokio::time::Instant;

use crate::{FailureKind, LanguageModel, ModelError, ModelRequest, ModelResponse};

/// Maximum number of tries of one prompt whose answers cannot be read.
const UNREADABLE_MAX: usize = 2;

/// Calls of models that belong to one piece of work.
#[async_trait]
pub trait CallJournal: Send + Sync + 'static {
    /// Lists the calls that all attempts at the work made, in order.
    async fn list_calls(&self) -> Result<Vec<ModelCall>, StoreError>;

    /// Stores a call. Fails if the work was taken over by somebody else.
    async fn append_call(&self, call: &ModelCall) -> Result<(), StoreError>;

    /// Sums what was spent within each bound of the budget that applies to the work, the narrowest bound first.
    async fn load_spending(&self) -> Result<Vec<(BudgetBound, Spending)>, StoreError>;
}

/// A model, the journal of its calls, and the bounds of what it may cost.
pub struct JournalledModel<'a> {
    model: &'a dyn LanguageModel,
    journal: &'a dyn CallJournal,
    price: Option<ModelPrice>,
    budget: &'a ModelBudget,
    known: Vec<ModelCall>,
    answered: Vec<String>,
}

/// Reason why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotAnswered {
    /// The answers to this prompt cannot be read. Contains what is wrong with the last one.
    Unreadable(String),
    /// The model was away, or refused the request. Contains a sentence for a report.
    Unavailable(String),
    /// The call might have exceeded the budget and was not made. Contains a sentence for a report.
    OverBudget(String),
}

impl<'a> JournalledModel<'a> {
    /// Opens the journal. Fails if the database does.
    pub async fn open(
        model: &'a dyn LanguageModel,
        journal: &'a dyn CallJournal,
        price: Option<ModelPrice>,
        budget: &'a ModelBudget,
    ) -> Result<Self, StoreError> {
        let known = journal.list_calls().await?;
        Ok(Self { model, journal, price, budget, known, answered: Vec::new() })
    }

    /// Returns the name of the model.
    pub fn name(&self) -> &str {
        self.model.name()
    }

    /// Returns what a request may use at most.
    pub fn estimate_spending(&self, request: &ModelRequest) -> Spending {
        self.to_spending(estimate_usage(request.prompt_bytes(), request.output_tokens_max))
    }

    /// Returns tokens with their cost, which is 0 if the price is not known.
    pub fn to_spending(&self, usage: TokenUsage) -> Spending {
        Spending { tokens: usage.total(), micro_usd: self.cost_of(usage).unwrap_or_default() }
    }

    /// Returns the prompts that were answered, by their hashes, in the order in which they were asked.
    pub fn answered_prompts(&self) -> &[String] {
        &self.answered
    }

    /// Returns the answer to a request: the journalled one, or a new one, which is journalled before it is returned. Fails
    /// if a call could not be stored.
    pub async fn ask(
        &mut self,
        request: &ModelRequest,
    ) -> Result<Result<ModelResponse, NotAnswered>, StoreError> {
        let prompt = request.hash(self.model.name());
        loop {
            let same = || self.known.iter().filter(|call| call.prompt == prompt);
            if let Some(answer) = same().find_map(journalled_answer) {
                self.answered.push(prompt);
                return Ok(Ok(answer));
            }
            if let Some(problem) = same().filter_map(unreadable_problem).nth(UNREADABLE_MAX - 1) {
                return Ok(Err(NotAnswered::Unreadable(problem.to_owned())));
            }
            if let Some(note) = self.find_exceeded_budget(request).await? {
                return Ok(Err(NotAnswered::OverBudget(note)));
            }
            let began = Instant::now();
            let answered = self.model.complete(request).await;
            let call = self.to_model_call(&prompt, &answered, began);
            self.journal.append_call(&call).await?;
            self.known.push(call);
            match answered {
                Ok(response) => {
                    self.answered.push(prompt);
                    return Ok(Ok(response));
                }
                // The loop asks once more, or gives up.
                Err(error) if error.kind == FailureKind::Unreadable => {}
                Err(error) => {
                    let name = self.model.name();
                    let note = format!("the language model {name} was not available: {error}");
                    return Ok(Err(NotAnswered::Unavailable(note)));
                }
            }
        }
    }

    async fn find_exceeded_budget(&self, request: &ModelRequest) -> Result<Option<String>, StoreError> {
        let spent = self.journal.load_spending().await?;
        Ok(check_budget(self.budget, &spent, self.estimate_spending(request))
            .err()
            .map(|exceeded| exceeded.to_string()))
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
        self.price.map(|price| price.cost_micro_usd(usage))
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
