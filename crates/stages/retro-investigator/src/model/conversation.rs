//! The conversation with a model about one run: bounded, journalled, and within the budget.
//!
//! The conversation is the same whenever the answers are. So a worker that takes over holds it again from its beginning, and
//! finds each answer that was paid for by the hash of its prompt. At most the one call in flight is paid twice.

use std::sync::Arc;

use retro_consumer::run_blocking;
use retro_core::model_use::{FailureKind, Spending, TokenUsage, check_budget, estimate_usage};
use retro_model::{
    ChatMessage, LanguageModel, ModelError, ModelRequest, ModelResponse, StopReason, ToolResult, ToolUse,
};
use retro_store::{ModelCall, ModelCallResult, StoreError};
use tokio::time::Instant;

use super::answer::SubmittedAnswer;
use super::prompt::Prompt;
use super::settings::ModelSettings;
use super::tools::{RunTools, SUBMIT, tool_specs};
use crate::journal::CallJournal;

/// Maximum number of answers that are sent back because they are none: no call of a tool, no JSON, another schema, or findings
/// that the run does not confirm.
const REPAIRS_MAX: u32 = 2;
/// Maximum number of calls of tools in one answer of the model. More are refused, each with a result that says so.
const CALLS_PER_TURN_MAX: usize = 8;
/// Maximum number of tries of one prompt whose answers cannot be read.
const UNREADABLE_MAX: usize = 2;

/// A conversation about one run.
pub(super) struct Conversation<'a> {
    pub(super) model: &'a dyn LanguageModel,
    pub(super) settings: &'a ModelSettings,
    pub(super) journal: &'a dyn CallJournal,
    pub(super) tools: Arc<RunTools>,
}

/// End of a conversation.
pub(super) enum ConversationEnd {
    /// The model answered.
    Submitted(SubmittedAnswer),
    /// The model gave no answer that can be used, for this reason.
    Unusable(String),
    /// The model was not asked to the end: `unavailable`, `over_budget` or `prompt_broken`.
    NotAsked {
        /// Outcome, as it is measured.
        outcome: &'static str,
        /// What the report says.
        note: String,
    },
}

/// What becomes of one answer of the model.
enum Step {
    /// The conversation ends.
    End(ConversationEnd),
    /// The conversation goes on with these results.
    Results(Vec<ToolResult>),
    /// The conversation goes on with this message, because the answer is none.
    Repair(String),
}

impl Conversation<'_> {
    /// Holds the conversation. Fails if a call could not be stored.
    pub(super) async fn run(&self, prompt: Prompt) -> Result<ConversationEnd, StoreError> {
        let mut known = self.journal.list_calls().await?;
        let mut request = ModelRequest {
            tools: tool_specs(),
            forced_tool: None,
            system: prompt.system,
            messages: vec![ChatMessage::User { text: prompt.first }],
            output_tokens_max: self.settings.output_tokens_max,
        };
        let mut repairs = 0;
        for turn in 1..=self.settings.turns_max {
            if turn == self.settings.turns_max {
                request.forced_tool = Some(SUBMIT.to_owned());
            }
            let response = match self.ask(&request, &mut known).await? {
                Ok(response) => response,
                Err(end) => return Ok(end),
            };
            let step = self.take_step(&response, &mut repairs).await;
            let ModelResponse { text, calls, .. } = response;
            request.messages.push(ChatMessage::Assistant { text, calls });
            match step {
                Step::End(end) => return Ok(end),
                Step::Results(results) => request.messages.push(ChatMessage::Results { results }),
                Step::Repair(text) => request.messages.push(ChatMessage::User { text }),
            }
        }
        let turns = self.settings.turns_max;
        Ok(ConversationEnd::Unusable(format!("it was called {turns} times and did not answer")))
    }

    /// Returns the answer to a request: the journalled one, or a new one, which is journalled before it is returned.
    async fn ask(
        &self,
        request: &ModelRequest,
        known: &mut Vec<ModelCall>,
    ) -> Result<Result<ModelResponse, ConversationEnd>, StoreError> {
        let prompt = request.hash(self.model.name());
        loop {
            let same = || known.iter().filter(|call| call.prompt == prompt);
            if let Some(answer) = same().find_map(journalled_answer) {
                return Ok(Ok(answer));
            }
            let unreadable = same().filter_map(unreadable_problem);
            if let Some(problem) = unreadable.clone().nth(UNREADABLE_MAX - 1) {
                return Ok(Err(ConversationEnd::Unusable(problem.to_owned())));
            }
            if let Some(end) = self.find_exceeded_budget(request).await? {
                return Ok(Err(end));
            }
            let began = Instant::now();
            let answered = self.model.complete(request).await;
            let call = self.to_model_call(&prompt, &answered, began);
            self.journal.append_call(&call).await?;
            known.push(call);
            if let Err(error) = answered
                && error.kind != FailureKind::Unreadable
            {
                let note = format!("the language model {} was not available: {error}", self.model.name());
                return Ok(Err(ConversationEnd::NotAsked { outcome: "unavailable", note }));
            }
        }
    }

    async fn find_exceeded_budget(
        &self,
        request: &ModelRequest,
    ) -> Result<Option<ConversationEnd>, StoreError> {
        let spent = self.journal.load_spending().await?;
        let next = estimate_usage(request.prompt_bytes(), request.output_tokens_max);
        let micro_usd = self.cost_of(next).unwrap_or_default();
        let next = Spending { tokens: next.total(), micro_usd };
        Ok(check_budget(&self.settings.budget, &spent, next)
            .err()
            .map(|exceeded| ConversationEnd::NotAsked { outcome: "over_budget", note: exceeded.to_string() }))
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

    /// Decides what becomes of an answer, and carries out the calls of tools.
    async fn take_step(&self, response: &ModelResponse, repairs: &mut u32) -> Step {
        if response.stop == StopReason::Refused {
            return Step::End(ConversationEnd::Unusable("it refused to answer".to_owned()));
        }
        let problem = match response.calls.iter().find(|call| call.name == SUBMIT) {
            Some(call) => match self.check_submission(&call.arguments, *repairs).await {
                Ok(submitted) => return Step::End(ConversationEnd::Submitted(submitted)),
                Err(problem) => problem,
            },
            None if response.calls.is_empty() => {
                let cut_off = if response.stop == StopReason::CutOff { "it was cut off; " } else { "" };
                format!("{cut_off}it called no tool; give the answer by calling {SUBMIT}")
            }
            None => return Step::Results(self.call_tools(&response.calls).await),
        };
        *repairs += 1;
        if *repairs > REPAIRS_MAX {
            return Step::End(ConversationEnd::Unusable(problem));
        }
        if response.calls.is_empty() {
            return Step::Repair(format!("Your answer cannot be used: {problem}."));
        }
        let refuse = |call: &ToolUse| ToolResult { id: call.id.clone(), text: problem.clone(), failed: true };
        Step::Results(response.calls.iter().map(refuse).collect())
    }

    /// Parses a submitted answer. Sends findings back that the run does not confirm as long as there is a try left; in the
    /// last one they are dropped later.
    async fn check_submission(&self, arguments: &str, repairs: u32) -> Result<SubmittedAnswer, String> {
        let submitted: SubmittedAnswer = serde_json::from_str(arguments)
            .map_err(|error| format!("the arguments of {SUBMIT} are not as the schema says: {error}"))?;
        if repairs >= REPAIRS_MAX {
            return Ok(submitted);
        }
        let (tools, checked) = (self.tools.clone(), submitted.clone());
        let problems: Vec<String> = run_blocking(move || {
            let problem = |(nth, finding): (usize, &super::answer::SubmittedFinding)| {
                Some(format!("findings[{nth}]: {}", finding.find_problem(tools.brief())?))
            };
            let of_findings = checked.findings.iter().enumerate().filter_map(problem);
            let of_statements = checked.documented.iter().enumerate().filter_map(|(nth, statement)| {
                Some(format!("documented[{nth}]: {}", statement.find_problem(tools.brief())?))
            });
            of_findings.chain(of_statements).collect()
        })
        .await;
        if problems.is_empty() {
            Ok(submitted)
        } else {
            Err(format!(
                "the run does not confirm it, so submit all again with this corrected or left out: {}",
                problems.join("; ")
            ))
        }
    }

    async fn call_tools(&self, calls: &[ToolUse]) -> Vec<ToolResult> {
        let (tools, calls) = (self.tools.clone(), calls.to_vec());
        run_blocking(move || {
            let carry_out = |(nth, call): (usize, ToolUse)| {
                let result = if nth < CALLS_PER_TURN_MAX {
                    tools.call(&call.name, &call.arguments)
                } else {
                    Err(format!("at most {CALLS_PER_TURN_MAX} tools are called at once"))
                };
                let failed = result.is_err();
                ToolResult { id: call.id, text: result.unwrap_or_else(|problem| problem), failed }
            };
            calls.into_iter().enumerate().map(carry_out).collect()
        })
        .await
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
