//! The conversation with a model about one run: a bounded number of answers, each of which calls tools or is the result.

use std::sync::Arc;

use retro_consumer::run_blocking;
use retro_model::{ChatMessage, ModelRequest, ModelResponse, StopReason, ToolResult, ToolUse};
use retro_pipeline::Prompts;
use retro_store::StoreError;

use super::answer::{SUBMIT, SubmittedAnswer, submit_spec};
use super::asker::{Asker, NoAnswer};
use super::prompt::Prompt;
use super::step::{INVESTIGATE_STEP, QUESTIONS_MAX, StepShare, investigate_step, question_spec};
use super::tools::{RunTools, call_tools, to_result, tool_specs};

/// Maximum number of answers that are sent back because they are none: no call of a tool, no JSON, another schema, or findings
/// that the run does not confirm.
const REPAIRS_MAX: u32 = 2;

/// A conversation about one run.
pub(super) struct Conversation<'a> {
    asker: Asker<'a>,
    prompts: Prompts,
    tools: Arc<RunTools>,
    /// Share of the bounds that a question about one step may use; `None` if none may be asked.
    step_share: Option<StepShare>,
    /// Number of questions about steps that were asked.
    questions: u32,
}

/// End of a conversation.
pub(super) enum ConversationEnd {
    /// The model answered about the run of these tools.
    Submitted(SubmittedAnswer, Arc<RunTools>),
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

impl From<NoAnswer> for ConversationEnd {
    fn from(no_answer: NoAnswer) -> Self {
        match no_answer {
            NoAnswer::Unusable(problem) => Self::Unusable(problem),
            NoAnswer::NotAsked { outcome, note } => Self::NotAsked { outcome, note },
        }
    }
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

impl<'a> Conversation<'a> {
    /// Begins a conversation about a run.
    pub(super) fn new(
        asker: Asker<'a>,
        prompts: Prompts,
        tools: RunTools,
        step_share: Option<StepShare>,
    ) -> Self {
        Self { asker, prompts, tools: Arc::new(tools), step_share, questions: 0 }
    }

    /// Holds the conversation. Fails if a call could not be stored.
    pub(super) async fn run(&mut self, prompt: Prompt) -> Result<ConversationEnd, StoreError> {
        let bounds = self.asker.bounds();
        let mut request = ModelRequest {
            tools: tool_specs(self.step_share.map(|_| question_spec()), submit_spec()),
            forced_tool: None,
            system: prompt.system,
            messages: [prompt.workflow, prompt.run].map(|text| ChatMessage::User { text }).into(),
            output_tokens_max: bounds.output_tokens_max,
        };
        let mut repairs = 0;
        for turn in 1..=bounds.turns_max {
            if turn == bounds.turns_max {
                request.forced_tool = Some(SUBMIT.to_owned());
            }
            let response = match self.asker.ask(&request).await? {
                Ok(response) => response,
                Err(no_answer) => return Ok(no_answer.into()),
            };
            let step = self.take_step(&response, &mut repairs).await?;
            let ModelResponse { text, calls, .. } = response;
            request.messages.push(ChatMessage::Assistant { text, calls });
            match step {
                Step::End(end) => return Ok(end),
                Step::Results(results) => request.messages.push(ChatMessage::Results { results }),
                Step::Repair(text) => request.messages.push(ChatMessage::User { text }),
            }
        }
        let turns = bounds.turns_max;
        Ok(ConversationEnd::Unusable(format!("it was called {turns} times and did not answer")))
    }

    /// Decides what becomes of an answer, and carries out the calls of tools.
    async fn take_step(&mut self, response: &ModelResponse, repairs: &mut u32) -> Result<Step, StoreError> {
        if response.stop == StopReason::Refused {
            return Ok(Step::End(ConversationEnd::Unusable("it refused to answer".to_owned())));
        }
        let problem = match response.calls.iter().find(|call| call.name == SUBMIT) {
            Some(call) => match self.check_submission(&call.arguments, *repairs).await {
                Ok(submitted) => {
                    let end = ConversationEnd::Submitted(submitted, self.tools.clone());
                    return Ok(Step::End(end));
                }
                Err(problem) => problem,
            },
            None if response.calls.is_empty() => {
                let cut_off = if response.stop == StopReason::CutOff { "it was cut off; " } else { "" };
                format!("{cut_off}it called no tool; give the answer by calling {SUBMIT}")
            }
            None => return Ok(Step::Results(self.call_tools(&response.calls).await?)),
        };
        *repairs += 1;
        if *repairs > REPAIRS_MAX {
            return Ok(Step::End(ConversationEnd::Unusable(problem)));
        }
        if response.calls.is_empty() {
            return Ok(Step::Repair(format!("Your answer cannot be used: {problem}.")));
        }
        let refuse = |call: &ToolUse| ToolResult { id: call.id.clone(), text: problem.clone(), failed: true };
        Ok(Step::Results(response.calls.iter().map(refuse).collect()))
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
                Some(format!("documented[{nth}]: {}", statement.find_problem(&tools)?))
            });
            let of_refutations = checked.refuted.iter().enumerate().filter_map(|(nth, one)| {
                Some(format!("refuted[{nth}]: {}", one.find_problem(tools.brief(), tools.found())?))
            });
            of_findings.chain(of_statements).chain(of_refutations).collect()
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

    /// Carries out the calls of tools of one answer, in order.
    async fn call_tools(&mut self, calls: &[ToolUse]) -> Result<Vec<ToolResult>, StoreError> {
        let mut results = call_tools(&self.tools, calls).await;
        for (call, result) in calls.iter().zip(&mut results) {
            if call.name == INVESTIGATE_STEP {
                let answered = self.investigate_step(&call.arguments).await?;
                *result = to_result(call.id.clone(), answered);
            }
        }
        Ok(results)
    }

    async fn investigate_step(&mut self, arguments: &str) -> Result<Result<String, String>, StoreError> {
        let Some(share) = self.step_share else { return Ok(Err("there is no such tool".to_owned())) };
        if self.questions == QUESTIONS_MAX {
            return Ok(Err(format!("at most {QUESTIONS_MAX} questions about steps are answered")));
        }
        self.questions += 1;
        // Boxed, because most conversations ask no such question and the future of one is large.
        Box::pin(investigate_step(&mut self.asker, &self.prompts, &self.tools, arguments, share)).await
    }
}
