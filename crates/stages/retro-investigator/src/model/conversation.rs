//! The conversation with a model about one run: bounded, journalled, and within the budget.
//!
//! The conversation is the same whenever the answers are, so a worker that takes over finds each answer that was paid for
//! ([`JournalledModel`]).

use std::sync::Arc;

use retro_consumer::run_blocking;
use retro_model::{
    CallJournal, ChatMessage, JournalledModel, LanguageModel, ModelRequest, ModelResponse, NotAnswered,
    StopReason, ToolResult, ToolUse,
};
use retro_store::StoreError;

use super::answer::SubmittedAnswer;
use super::prompt::Prompt;
use super::settings::ModelSettings;
use super::tools::{RunTools, SUBMIT, tool_specs};

/// Maximum number of answers that are sent back because they are none: no call of a tool, no JSON, another schema, or findings
/// that the run does not confirm.
const REPAIRS_MAX: u32 = 2;
/// Maximum number of calls of tools in one answer of the model. More are refused, each with a result that says so.
const CALLS_PER_TURN_MAX: usize = 8;

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
        let ModelSettings { price, budget, .. } = self.settings;
        let mut model = JournalledModel::open(self.model, self.journal, *price, budget).await?;
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
            let response = match model.ask(&request).await? {
                Ok(response) => response,
                Err(reason) => return Ok(reason.into()),
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

impl From<NotAnswered> for ConversationEnd {
    fn from(reason: NotAnswered) -> Self {
        match reason {
            NotAnswered::Unreadable(problem) => Self::Unusable(problem),
            NotAnswered::Unavailable(note) => Self::NotAsked { outcome: "unavailable", note },
            NotAnswered::OverBudget(note) => Self::NotAsked { outcome: "over_budget", note },
        }
    }
}
