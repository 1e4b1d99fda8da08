//! The tools with which a model looks into a run. Nothing is pasted whole: each result is bounded.

use std::fmt::Write as _;
use std::sync::Arc;

use retro_consumer::run_blocking;
use retro_core::finding::{Finding, InvestigationBrief};
use retro_core::id::Step;
use retro_core::trajectory::QuotePlace;
use retro_core::workflow_brief::WorkflowBrief;
use retro_model::{ToolResult, ToolSpec, ToolUse};
use retro_pipeline::fence_data;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::turns::{READ_TURNS, ReadTurns, read_turns, speaker_of};
use super::workflow::list_workflow_calls;
use crate::heuristics::JudgedCall;

/// Maximum length of a slice that is read at once, in characters.
const SLICE_CHARS_MAX: usize = 4000;
/// Maximum number of calls that are listed at once.
const CALLS_LISTED_MAX: usize = 60;
/// Maximum number of steps that are listed.
const STEPS_LISTED_MAX: usize = 60;
/// Maximum number of hits of a search.
const HITS_MAX: usize = 20;
/// Number of characters on each side of a hit.
const HIT_CHARS: usize = 120;
/// Maximum number of characters of the arguments and of the error in a list of calls.
const SHOWN_CHARS_MAX: usize = 120;

/// Maximum number of calls of tools in one answer of the model. More are refused, each with a result that says so.
pub(super) const CALLS_PER_TURN_MAX: usize = 8;

/// A call of the run, as it is listed.
struct ListedCall {
    turn: u32,
    call: u32,
    line: String,
    failed: bool,
}

/// The tools over one run.
pub(super) struct RunTools {
    brief: Arc<InvestigationBrief>,
    workflow: Arc<WorkflowBrief>,
    found: Vec<Finding>,
    calls: Arc<Vec<ListedCall>>,
    /// The only step that may be looked into; `None` for the whole run.
    only: Option<Step>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListCalls {
    /// Number of the first turn to list.
    #[serde(default)]
    from_turn: u32,
    /// `true` to list only calls that seem to have failed.
    #[serde(default)]
    failed_only: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadSlice {
    /// Number of the turn.
    turn: u32,
    /// Part of the turn.
    part: Part,
    /// Number of the call within the turn, for arguments and answer.
    #[serde(default)]
    call: u32,
    /// Number of characters to skip.
    #[serde(default)]
    offset: usize,
}

#[derive(Deserialize, JsonSchema, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum Part {
    Message,
    Reasoning,
    Arguments,
    Answer,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Search {
    /// Text to search for, without regard to case. No pattern.
    text: String,
    /// Number of the first turn to search.
    #[serde(default)]
    from_turn: u32,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListSteps {}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListWorkflowCalls {
    /// Name of the only step to list. Leave it out for all steps.
    #[serde(default)]
    step: Option<String>,
    /// `true` to list only what failed.
    #[serde(default)]
    failed_only: bool,
}

/// Returns the JSON Schema of the arguments of a tool, without references, which not every provider follows.
pub(super) fn schema_of<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    // Some servers refuse an object without properties.
    if schema.get("properties").is_none() {
        schema["properties"] = Value::Object(serde_json::Map::new());
    }
    schema
}

/// Returns the tools, sorted by name: those that read, the one that ends the investigation, and the one that asks about a step
/// if it may be called. They are the same for every run, so that a provider can cache them.
pub(super) fn tool_specs(question: Option<ToolSpec>, submit: ToolSpec) -> Vec<ToolSpec> {
    question.into_iter().chain(reading_specs()).chain([submit]).collect()
}

/// Returns the tools for a question about one step, with the one that answers it.
pub(super) fn step_tool_specs(submit: ToolSpec) -> Vec<ToolSpec> {
    reading_specs().into_iter().chain([submit]).collect()
}

fn reading_specs() -> Vec<ToolSpec> {
    let spec = |name: &str, description: &str, parameters: Value| ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters,
    };
    vec![
        spec(
            "list_calls",
            "Lists calls of the run with their arguments and errors, shortened.",
            schema_of::<ListCalls>(),
        ),
        spec("list_steps", "Lists the steps of the run with their turns.", schema_of::<ListSteps>()),
        spec(
            "list_workflow_calls",
            "Lists what other runs of the workflow called, how often it failed with which error, and what they changed to \
             get past it.",
            schema_of::<ListWorkflowCalls>(),
        ),
        spec("read", "Reads a slice of one text of the run.", schema_of::<ReadSlice>()),
        spec(
            READ_TURNS,
            "Reads turns in a row: messages, and calls with their arguments and answers, long ones shortened.",
            schema_of::<ReadTurns>(),
        ),
        spec("search", "Finds a text in the run and shows where it stands.", schema_of::<Search>()),
    ]
}

impl RunTools {
    /// Prepares the tools over a run with its judged calls. `found` are the findings of the heuristics.
    pub(super) fn new(
        brief: Arc<InvestigationBrief>,
        judged: &[JudgedCall<'_>],
        workflow: WorkflowBrief,
        found: Vec<Finding>,
    ) -> Self {
        let calls = judged.iter().map(|one| {
            let raw = brief.trajectory.text_at(QuotePlace::Arguments { turn: one.turn, call: one.call });
            let mut line = format!(
                "turn {} call {} step {}: {} {}",
                one.turn,
                one.call,
                one.step,
                one.tool,
                shorten(raw.unwrap_or("(code in the message)"))
            );
            if let Some(error) = &one.error {
                line.push_str(&format!(" -> FAILED {}", shorten(error)));
            }
            ListedCall { turn: one.turn, call: one.call, line, failed: one.error.is_some() }
        });
        let calls = Arc::new(calls.collect());
        Self { brief, workflow: Arc::new(workflow), found, calls, only: None }
    }

    /// Returns the tools over one step alone.
    pub(super) fn limited_to(&self, step: &Step) -> Self {
        Self {
            brief: self.brief.clone(),
            workflow: self.workflow.clone(),
            found: Vec::new(),
            calls: self.calls.clone(),
            only: Some(step.clone()),
        }
    }

    /// Finds a step of the run by its name.
    pub(super) fn find_step(&self, name: &str) -> Option<&Step> {
        self.brief.trajectory.turns.iter().map(|entry| &entry.step).find(|step| step.as_str() == name)
    }

    /// Returns `true` if a turn may be looked into.
    fn includes_turn(&self, turn: u32) -> bool {
        let step = self.brief.trajectory.turns.get(turn as usize).map(|entry| &entry.step);
        self.only.is_none() || step == self.only.as_ref()
    }

    /// Returns the run.
    pub(super) fn brief(&self) -> &InvestigationBrief {
        &self.brief
    }

    /// Returns the findings of the heuristics, in the order in which the prompt numbers them.
    pub(super) fn found(&self) -> &[Finding] {
        &self.found
    }

    /// Returns the brief of the run's workflow.
    pub(super) fn workflow(&self) -> &WorkflowBrief {
        &self.workflow
    }

    /// Carries out a call of a tool. Fails with what the model is told.
    pub(super) fn call(&self, name: &str, arguments: &str) -> Result<String, String> {
        match name {
            "list_calls" => parse::<ListCalls>(arguments).map(|asked| self.list_calls(&asked)),
            "list_steps" => parse::<ListSteps>(arguments).map(|ListSteps {}| self.list_steps()),
            "list_workflow_calls" => parse::<ListWorkflowCalls>(arguments).map(|asked| {
                let repository = self.brief.run.repository();
                list_workflow_calls(
                    &self.workflow,
                    repository.as_ref(),
                    asked.step.as_deref(),
                    asked.failed_only,
                )
            }),
            "read" => parse::<ReadSlice>(arguments).and_then(|asked| self.read_slice(&asked)),
            READ_TURNS => parse::<ReadTurns>(arguments).and_then(|asked| {
                read_turns(&self.brief.trajectory, &asked, |turn| self.includes_turn(turn))
            }),
            "search" => parse::<Search>(arguments).and_then(|asked| self.search(&asked)),
            _ => Err("there is no such tool".to_owned()),
        }
    }

    /// Lists the steps, each with its turns and what they contain.
    pub(super) fn list_steps(&self) -> String {
        let mut spans: Vec<(&str, bool, u32, u32)> = Vec::new();
        let turns = (0u32..).zip(&self.brief.trajectory.turns);
        for (turn, entry) in turns.filter(|(turn, _)| self.includes_turn(*turn)) {
            match spans.last_mut() {
                Some((step, agentic, _, last))
                    if *step == entry.step.as_str() && *agentic == entry.agentic =>
                {
                    *last = turn;
                }
                _ => spans.push((entry.step.as_str(), entry.agentic, turn, turn)),
            }
        }
        let mut out = format!("{} turns, numbered from 0\n", self.brief.trajectory.turns.len());
        for (step, agentic, first, last) in spans.iter().take(STEPS_LISTED_MAX) {
            let calls = self.calls.iter().filter(|call| (*first..=*last).contains(&call.turn));
            let (all, failed) =
                calls.fold((0, 0), |(all, failed), call| (all + 1, failed + u32::from(call.failed)));
            let kind = if *agentic { "" } else { ", no model decided here" };
            writeln!(out, "turns {first} to {last}: step {step}{kind}; {all} calls, {failed} failed")
                .expect("writing to a String does not fail");
        }
        if spans.len() > STEPS_LISTED_MAX {
            writeln!(out, "and {} more", spans.len() - STEPS_LISTED_MAX)
                .expect("writing to a String does not fail");
        }
        fence_data("steps", &out)
    }

    /// Lists the failing calls, at most as many as a list has.
    pub(super) fn list_failing_calls(&self) -> String {
        self.list_calls(&ListCalls { from_turn: 0, failed_only: true })
    }

    fn list_calls(&self, asked: &ListCalls) -> String {
        let mut matching = self
            .calls
            .iter()
            .filter(|call| call.turn >= asked.from_turn && (call.failed || !asked.failed_only))
            .filter(|call| self.includes_turn(call.turn));
        let shown: Vec<&ListedCall> = matching.by_ref().take(CALLS_LISTED_MAX).collect();
        let mut out: String = shown.iter().map(|call| format!("{}\n", call.line)).collect();
        let more = matching.count();
        if let (true, Some(last)) = (more > 0, shown.last()) {
            out.push_str(&format!("and {more} more after turn {} call {}\n", last.turn, last.call));
        }
        if shown.is_empty() {
            out.push_str("none\n");
        }
        fence_data("calls", &out)
    }

    fn read_slice(&self, asked: &ReadSlice) -> Result<String, String> {
        let (turn, call) = (asked.turn, asked.call);
        let place = match asked.part {
            Part::Message => QuotePlace::Message { turn },
            Part::Reasoning => QuotePlace::Reasoning { turn },
            Part::Arguments => QuotePlace::Arguments { turn, call },
            Part::Answer => QuotePlace::Answer { turn, call },
        };
        let text = self.brief.trajectory.text_at(place).filter(|_| self.includes_turn(turn));
        let text = text.ok_or("the run has no such text")?;
        let slice: String = text.chars().skip(asked.offset).take(SLICE_CHARS_MAX).collect();
        let (all, end) = (text.chars().count(), asked.offset.saturating_add(slice.chars().count()));
        let speaker = self.brief.trajectory.turns.get(turn as usize).map_or("agent", speaker_of);
        let head = format!("characters {} to {end} of {all}; speaker {speaker}\n", asked.offset);
        Ok(head + &fence_data("text", &slice))
    }

    fn search(&self, asked: &Search) -> Result<String, String> {
        let wanted = asked.text.to_lowercase();
        if wanted.trim().is_empty() {
            return Err("`text` is empty".to_owned());
        }
        let (mut out, mut hits) = (String::new(), 0);
        let turns = (0u32..).zip(&self.brief.trajectory.turns).skip(asked.from_turn as usize);
        for (turn, entry) in turns.filter(|(turn, _)| self.includes_turn(*turn)) {
            let mut texts = vec![("message".to_owned(), entry.message.as_str())];
            for (call, one) in entry.calls.iter().enumerate() {
                texts.push((format!("arguments call {call}"), &one.arguments));
                texts.push((format!("answer call {call}"), one.answer.as_deref().unwrap_or_default()));
            }
            for (place, text) in texts {
                if hits == HITS_MAX {
                    out.push_str(&format!("and maybe more from turn {turn}\n"));
                    return Ok(fence_data("hits", &out));
                }
                if let Some(context) = find_context(text, &wanted) {
                    hits += 1;
                    out.push_str(&format!("turn {turn} {place}: {context}\n"));
                }
            }
        }
        if hits == 0 {
            out.push_str("nothing\n");
        }
        Ok(fence_data("hits", &out))
    }
}

/// Carries out the calls of one answer of the model.
pub(super) async fn call_tools(tools: &Arc<RunTools>, calls: &[ToolUse]) -> Vec<ToolResult> {
    let (tools, calls) = (tools.clone(), calls.to_vec());
    run_blocking(move || {
        let carry_out = |(nth, call): (usize, ToolUse)| {
            let result = if nth < CALLS_PER_TURN_MAX {
                tools.call(&call.name, &call.arguments)
            } else {
                Err(format!("at most {CALLS_PER_TURN_MAX} tools are called at once"))
            };
            to_result(call.id, result)
        };
        calls.into_iter().enumerate().map(carry_out).collect()
    })
    .await
}

/// Returns the result of a call: what the model is told.
pub(super) fn to_result(id: String, result: Result<String, String>) -> ToolResult {
    let failed = result.is_err();
    ToolResult { id, text: result.unwrap_or_else(|problem| problem), failed }
}

fn parse<T: DeserializeOwned>(arguments: &str) -> Result<T, String> {
    let given = if arguments.trim().is_empty() { "{}" } else { arguments };
    serde_json::from_str(given).map_err(|error| format!("the arguments are not as the schema says: {error}"))
}

/// Returns the first hit of a text in lower case with what stands around it, on one line.
fn find_context(text: &str, wanted: &str) -> Option<String> {
    let lower = text.to_lowercase();
    let at = lower.find(wanted)?;
    // Lower case may have another length, so the place is counted in characters.
    let hit = lower[..at].chars().count();
    let around =
        text.chars().skip(hit.saturating_sub(HIT_CHARS)).take(2 * HIT_CHARS + wanted.chars().count());
    Some(around.map(|c| if c.is_control() { ' ' } else { c }).collect())
}

/// Shortens a text to one line.
fn shorten(text: &str) -> String {
    let line: String =
        text.chars().take(SHOWN_CHARS_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() { format!("{line}…") } else { line }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{brief_of, call_turn, empty_workflow};
    use super::*;
    use crate::heuristics::judge_run_calls;

    fn tools(answers: &[&str]) -> RunTools {
        let turns =
            answers.iter().map(|answer| call_turn("query", r#"{"sql":"select 1"}"#, answer)).collect();
        let brief = Arc::new(brief_of(turns, None));
        RunTools::new(brief.clone(), &judge_run_calls(&brief.trajectory), empty_workflow(), Vec::new())
    }

    #[test]
    fn a_long_text_is_read_in_slices_and_nothing_is_pasted_whole() {
        let long = format!("Error: no such table: b\n{}", "ü".repeat(20_000_000));
        let tools = tools(&["ok", &long, "ok"]);
        for (name, arguments) in [
            ("list_steps", "{}"),
            ("list_calls", r#"{"from_turn":1}"#),
            ("read", r#"{"turn":1,"part":"answer"}"#),
            ("search", r#"{"text":"NO SUCH"}"#),
        ] {
            let result = tools.call(name, arguments).unwrap();
            assert!(result.len() < 10_000, "{name}: {} bytes", result.len());
        }
        let slice = tools.call("read", r#"{"turn":1,"part":"answer","offset":24,"call":0}"#).unwrap();
        assert!(slice.starts_with("characters 24 to 4024 of 20000024"), "{}", &slice[..80]);
        let hits = tools.call("search", r#"{"text":"NO SUCH"}"#).unwrap();
        assert!(hits.contains("turn 1 answer call 0: Error: no such table"), "{hits}");
    }

    #[test]
    fn wrong_arguments_are_explained_and_every_schema_is_an_object() {
        let tools = tools(&["Error: no such table: b"]);
        assert!(tools.list_failing_calls().contains("FAILED"), "{}", tools.list_failing_calls());
        assert!(tools.call("read", "{").unwrap_err().contains("the arguments are not"));
        assert!(tools.call("read", r#"{"turn":9,"part":"answer"}"#).unwrap_err().contains("no such text"));
        assert_eq!(tools.call("delete_everything", "{}"), Err("there is no such tool".to_owned()));
        let specs =
            tool_specs(Some(super::super::step::question_spec()), super::super::answer::submit_spec());
        assert!(specs.iter().all(|tool| tool.parameters["type"] == "object"), "{specs:?}");
        assert!(
            !serde_json::to_string(&specs).unwrap().contains("$ref"),
            "not every provider follows references"
        );
        assert!(specs.is_sorted_by_key(|tool| tool.name.clone()));
    }
}
