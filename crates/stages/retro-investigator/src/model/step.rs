//! A question about one step of a run, answered in a conversation of its own.
//!
//! A long run has steps that hardly depend on each other. Whoever looks into one of them needs many slices of it and the
//! rest of the conversation none, so the model may hand the step to a second conversation, which has a share of the budget, sees
//! this step alone, and returns a summary with quotes that programs have checked. It cannot ask again: there is one level.

use std::sync::Arc;

use retro_consumer::run_blocking;
use retro_core::finding::Quote;
use retro_core::id::Step;
use retro_core::model_use::{BudgetBound, ModelBudget, Spending, SpendingLimit, check_budget};
use retro_core::trajectory::QuotePlace;
use retro_model::{ChatMessage, ModelRequest, ModelResponse, ToolResult, ToolSpec};
use retro_pipeline::{PromptName, Prompts, fence_data};
use retro_store::StoreError;
use schemars::JsonSchema;
use serde::Deserialize;

use super::asker::{Asker, NoAnswer};
use super::prompt::{data_rules, tool_rules};
use super::tools::{RunTools, call_tools, schema_of, step_tool_specs};
use crate::heuristics::find_quote;

/// Name of the tool with which a model asks about a step.
pub(super) const INVESTIGATE_STEP: &str = "investigate_step";
/// Name of the tool with which the question is answered.
const SUBMIT_SUMMARY: &str = "submit_summary";
/// Maximum number of questions about steps in one investigation.
pub(super) const QUESTIONS_MAX: u32 = 6;
/// Maximum length of a question, of a summary, and of all quotes of a summary, in characters.
const QUESTION_CHARS_MAX: usize = 1000;
const SUMMARY_CHARS_MAX: usize = 2000;
/// Maximum number of quotes of a summary.
const QUOTES_MAX: usize = 8;
/// Minimum number of calls that a question may need: one that looks, and one that answers.
const CALLS_MIN: u32 = 2;

/// Arguments of [`INVESTIGATE_STEP`].
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StepQuestion {
    /// Name of the step, as `list_steps` shows it.
    step: String,
    /// What you want to know about it. The answer is all that you get, so say what matters.
    question: String,
}

/// Answer to a question about a step.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SubmittedSummary {
    /// The answer in a few sentences, at most 2000 characters. Say what you do not know.
    text: String,
    /// Quotes from the step that support it, at most 8.
    #[serde(default)]
    quotes: Vec<SummaryQuote>,
}

/// A quote from the step.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SummaryQuote {
    /// Number of the turn.
    turn: u32,
    /// Number of the call within the turn. Leave it out for a message.
    #[serde(default)]
    call: Option<u32>,
    /// Text of the step, verbatim, at most 400 characters.
    text: String,
}

/// Share of an investigation's bounds that one question may use, per mille.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StepShare(pub(super) u16);

impl StepShare {
    fn of(self, number: u64) -> u64 {
        // No bound stays no bound, and a share of a bound is one.
        if number == 0 { 0 } else { (number.saturating_mul(u64::from(self.0)) / 1000).max(1) }
    }

    fn calls_max(self, turns_max: u32) -> u32 {
        u32::try_from(self.of(turns_max.into()))
            .unwrap_or(turns_max)
            .clamp(CALLS_MIN, turns_max.max(CALLS_MIN))
    }

    fn limit(self, whole: SpendingLimit) -> SpendingLimit {
        SpendingLimit { tokens: self.of(whole.tokens), micro_usd: self.of(whole.micro_usd) }
    }
}

/// Returns the tool.
pub(super) fn question_spec() -> ToolSpec {
    ToolSpec {
        name: INVESTIGATE_STEP.to_owned(),
        description:
            "Has somebody else look into one step of a long run and answer a question about it, with quotes."
                .to_owned(),
        parameters: schema_of::<StepQuestion>(),
    }
}

/// Answers a question about a step in a conversation of its own. Returns what the asking model is told, or what was wrong. Fails
/// if a call could not be stored.
pub(super) async fn investigate_step(
    asker: &mut Asker<'_>,
    prompts: &Prompts,
    tools: &Arc<RunTools>,
    arguments: &str,
    share: StepShare,
) -> Result<Result<String, String>, StoreError> {
    let asked: StepQuestion = match serde_json::from_str(arguments) {
        Ok(asked) => asked,
        Err(error) => return Ok(Err(format!("the arguments are not as the schema says: {error}"))),
    };
    let Some(step) = tools.find_step(&asked.step).cloned() else {
        return Ok(Err(format!("the run has no step {:?}", asked.step)));
    };
    let instructions = match prompts.render(PromptName::Step, &[].into()) {
        Ok(instructions) => instructions,
        Err(problem) => return Ok(Err(format!("a prompt of the pipeline cannot be used: {problem}"))),
    };
    let tools = Arc::new(tools.limited_to(&step));
    let mut request = build_request(&instructions, &asked.question, &tools, asker.bounds().output_tokens_max);
    let budget = ModelBudget {
        investigation: share.limit(asker.bounds().budget.investigation),
        ..ModelBudget::default()
    };
    let calls_max = share.calls_max(asker.bounds().turns_max);
    let mut spent = Spending::default();
    for call in 1..=calls_max {
        if call == calls_max {
            request.forced_tool = Some(SUBMIT_SUMMARY.to_owned());
        }
        let own = [(BudgetBound::Investigation, spent)];
        if check_budget(&budget, &own, asker.estimate_spending(&request)).is_err() {
            return Ok(Err("the share of the budget for one step is used up".to_owned()));
        }
        let response = match asker.ask(&request).await? {
            Ok(response) => response,
            Err(NoAnswer::Unusable(problem) | NoAnswer::NotAsked { note: problem, .. }) => {
                return Ok(Err(problem));
            }
        };
        let used = asker.to_spending(response.usage);
        spent.tokens = spent.tokens.saturating_add(used.tokens);
        spent.micro_usd = spent.micro_usd.saturating_add(used.micro_usd);
        if let Some(submitted) = response.calls.iter().find(|call| call.name == SUBMIT_SUMMARY) {
            return Ok(conclude(&tools, &step, &submitted.arguments).await);
        }
        let results = if response.calls.is_empty() {
            ChatMessage::User { text: format!("Call a tool, and {SUBMIT_SUMMARY} to answer.") }
        } else {
            let results: Vec<ToolResult> = call_tools(&tools, &response.calls).await;
            ChatMessage::Results { results }
        };
        let ModelResponse { text, calls, .. } = response;
        request.messages.push(ChatMessage::Assistant { text, calls });
        request.messages.push(results);
    }
    Ok(Err(format!("it was called {calls_max} times and did not answer")))
}

/// Builds the first request of the conversation about a step.
fn build_request(
    instructions: &str,
    question: &str,
    tools: &RunTools,
    output_tokens_max: u32,
) -> ModelRequest {
    let question: String = question.chars().take(QUESTION_CHARS_MAX).collect();
    let (data_rules, tool_rules) = (data_rules(), tool_rules());
    ModelRequest {
        tools: step_tool_specs(submit_spec()),
        forced_tool: None,
        system: format!(
            "{instructions}\n\n{data_rules}\n\nAnswer by calling {SUBMIT_SUMMARY} once. Quote verbatim; programs drop what \
             they do not find. {tool_rules}"
        ),
        messages: vec![ChatMessage::User {
            // The question is fenced, too: the model that asks may have been told what to ask.
            text: format!(
                "The question about the step:\n{}\n\nThe step:\n{}",
                fence_data("question", &question),
                tools.list_steps()
            ),
        }],
        output_tokens_max,
    }
}

fn submit_spec() -> ToolSpec {
    ToolSpec {
        name: SUBMIT_SUMMARY.to_owned(),
        description: "Answers the question and ends the conversation.".to_owned(),
        parameters: schema_of::<SubmittedSummary>(),
    }
}

/// Checks the quotes of a summary against the step, and words it for the model that asked.
async fn conclude(tools: &Arc<RunTools>, step: &Step, arguments: &str) -> Result<String, String> {
    let submitted: SubmittedSummary = serde_json::from_str(arguments)
        .map_err(|error| format!("its answer is not as the schema says: {error}"))?;
    let (tools, step) = (tools.clone(), step.clone());
    let stated = submitted.quotes.len();
    let quotes: Vec<Quote> = run_blocking(move || {
        let brief = tools.brief();
        let quotes = submitted.quotes.iter().take(QUOTES_MAX).filter_map(|quote| {
            find_quote(&brief.trajectory, quote.turn, quote.call, &quote.text)
                .filter(|found| brief.step_at(found.place) == Some(&step))
        });
        quotes.collect()
    })
    .await;
    let text: String = submitted.text.chars().take(SUMMARY_CHARS_MAX).collect();
    let mut out = format!("{text}\n");
    for quote in &quotes {
        out.push_str(&format!("{}: {}\n", describe_place(quote.place), quote.text));
    }
    let dropped = stated - quotes.len();
    if dropped > 0 {
        out.push_str(&format!("{dropped} more quotes are not in the step\n"));
    }
    Ok(fence_data("summary", &out))
}

fn describe_place(place: QuotePlace) -> String {
    match place {
        QuotePlace::Message { turn } | QuotePlace::Reasoning { turn } => format!("turn {turn}"),
        QuotePlace::Arguments { turn, call } | QuotePlace::Answer { turn, call } => {
            format!("turn {turn} call {call}")
        }
        QuotePlace::SelfFeedback { .. } | QuotePlace::Review | QuotePlace::Saved => "no turn".to_owned(),
    }
}
