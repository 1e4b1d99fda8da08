//! Parses ATIF, the Agent Trajectory Interchange Format (versions 1.0 to 1.7), into a [`Trajectory`].
//!
//! Only the parts that a retrospective uses are read; every other field is accepted and ignored. Our own
//! additions are `step` and `step_kind` in an entry, and [`AGENTS_MD`] in the document's `extra`. An ATIF *step* is a *turn* here, while a [`Step`] is a
//! step of the workflow. The format has no flag for a failed call; the flags that exporters write (`is_error`,
//! `status`, `exit_code`, in a result or its `extra`) are read.

mod content_text;
mod document_path;

use std::borrow::Cow;
use std::collections::HashMap;

use bytes::Bytes;
use jiff::Timestamp;
use retro_core::dead_letter::Rejection;
use retro_core::id::Step;
use retro_core::trajectory::{AGENTS_MD_BYTES_MAX, ToolCall, Trajectory, Turn, TurnSource};
use serde::Deserialize;

use content_text::{content_text, replace_nul};
use document_path::DocumentPath;
use retro_core::json::{JsonBounds, JsonDocument, JsonKind, JsonNode};

/// Supported versions of ATIF.
pub const VERSIONS: [&str; 8] =
    ["ATIF-v1.0", "ATIF-v1.1", "ATIF-v1.2", "ATIF-v1.3", "ATIF-v1.4", "ATIF-v1.5", "ATIF-v1.6", "ATIF-v1.7"];
/// Maximum size of a body, in bytes, which is also the limit of the gateway.
pub const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maximum number of turns of one run: more than a day of work at one turn per second. Parsing and analysis
/// take time linear in the bytes, which are limited separately, and not quadratic in the turns.
pub const TURNS_MAX: usize = 100_000;

/// Member of the document's `extra` with what the repository's `AGENTS.md` said during the run.
pub const AGENTS_MD: &str = "agents_md";

/// Maximum number of tool calls of one run, equal to the maximum number of turns.
pub const CALLS_MAX: usize = TURNS_MAX;

/// Parses a trajectory that is stored outside its event.
pub fn from_slice(bytes: &Bytes) -> Result<Trajectory, Rejection> {
    parse_trajectory(
        JsonDocument::parse(bytes, JsonBounds::with_bytes_max(BODY_BYTES_MAX))?.root(),
        "trajectory",
    )
}

/// Parses an ATIF document located at the path `at` of its event. Fails with `trajectory_invalid` and the
/// path of the invalid field, such as `data.trajectory.steps[3].tool_calls[0].function_name`.
pub fn parse_trajectory(document: JsonNode<'_>, at: &str) -> Result<Trajectory, Rejection> {
    let mut reader = TrajectoryReader::default();
    let path = DocumentPath::root(at);
    reader.parse_document(document, &path)?;
    Ok(Trajectory { turns: reader.turns, agents_md: parse_agents_md(document, &path)? })
}

/// Parses what the repository's `AGENTS.md` said during the run. Returns `None` if it is not given or blank.
fn parse_agents_md(document: JsonNode<'_>, at: &DocumentPath<'_>) -> Result<Option<String>, Rejection> {
    // Elsewhere `extra` is the emitter's own, and may be anything.
    let extra = document.get_non_null("extra").filter(|extra| extra.kind() == JsonKind::Object);
    let Some(extra) = extra else { return Ok(None) };
    let at = at.member("extra");
    let text = at.parse_str(extra, AGENTS_MD)?.filter(|text| !text.trim().is_empty());
    match text {
        Some(text) if text.len() > AGENTS_MD_BYTES_MAX => {
            let detail = format!("has {} bytes; at most {AGENTS_MD_BYTES_MAX} are accepted", text.len());
            Err(at.member(AGENTS_MD).invalid_at(detail))
        }
        text => Ok(text.map(|text| replace_nul(text.into_owned()))),
    }
}

/// Collects the turns of a document entry by entry. Only the turns of an entry are kept.
#[derive(Default)]
struct TrajectoryReader {
    turns: Vec<Turn>,
    calls: usize,
}

impl TrajectoryReader {
    /// Adds the turns of this document, then those of its subagents, whose work is part of the run.
    fn parse_document(&mut self, document: JsonNode<'_>, at: &DocumentPath<'_>) -> Result<(), Rejection> {
        at.check_object(document)?;
        let version: String = at.parse_required(document, "schema_version")?;
        if !VERSIONS.contains(&version.as_str()) {
            let detail = format!("is not one of {}", VERSIONS.join(", "));
            return Err(at.member("schema_version").invalid_at(detail));
        }
        let steps = at.parse_array(document, "steps")?.ok_or_else(|| at.member("steps").missing_at())?;
        for (nth, entry) in steps.enumerate() {
            self.parse_entry(entry, &at.item("steps", nth))?;
            // Checked after each entry, so that memory stays bounded while a document is parsed.
            if self.turns.len() > TURNS_MAX {
                return Err(at.member("steps").invalid_at(format!("more than {TURNS_MAX} turns")));
            }
            if self.calls > CALLS_MAX {
                return Err(at.member("steps").invalid_at(format!("more than {CALLS_MAX} calls of tools")));
            }
        }
        let subagents = at.parse_array(document, "subagent_trajectories")?.into_iter().flatten();
        for (nth, subagent) in subagents.enumerate() {
            // The recursion is bounded by the maximum depth of a JSON document.
            self.parse_document(subagent, &at.item("subagent_trajectories", nth))?;
        }
        Ok(())
    }

    /// Adds the turn of an entry, followed by a system turn for results that match no call. Skips copied
    /// context and entries without content.
    fn parse_entry(&mut self, entry: JsonNode<'_>, at: &DocumentPath<'_>) -> Result<(), Rejection> {
        at.check_object(entry)?;
        let head = EntryHead::parse_head(entry, at)?;
        // Validated even if the entry is skipped below as copied context.
        let mut calls = parse_calls(entry, at, &mut self.calls)?;
        let observation = parse_observation(entry, at)?;
        if head.is_copied_context {
            return Ok(());
        }
        let agentic = head.is_agentic(!calls.is_empty());
        // Only an entry without calls of its own can contain results for the previous turn.
        let before = self.turns.last_mut().filter(|_| calls.is_empty());
        let observed = assign_answers(observation_answers(observation), &mut calls, before);
        let calls: Vec<ToolCall> = calls.into_iter().map(|call| call.call).collect();
        let EntryHead { source, time, number, step, message, reasoning, .. } = head;
        if !(message.is_empty() && reasoning.is_empty() && calls.is_empty()) {
            self.turns.push(Turn {
                at: time,
                step: step.clone(),
                entry: number,
                agentic,
                source,
                message,
                reasoning,
                calls,
            });
        }
        if !observed.is_empty() {
            self.turns.push(Turn {
                at: time,
                step,
                entry: number,
                agentic: false,
                source: TurnSource::System,
                message: observed,
                reasoning: String::new(),
                calls: Vec::new(),
            });
        }
        Ok(())
    }
}

/// Fields of an entry other than calls and results.
struct EntryHead {
    source: TurnSource,
    /// Time of the entry. `None` if there is none with an offset from UTC: some exporters write local times.
    time: Option<Timestamp>,
    /// Value of `step_id`; `None` if there is none that is a whole number.
    number: Option<u64>,
    step: Step,
    step_kind: Option<StepKind>,
    message: String,
    reasoning: String,
    llm_call_count: Option<u64>,
    /// `true` if the entry is repeated from an earlier document for context. Reading it again would count its
    /// evidence twice.
    is_copied_context: bool,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum StepKind {
    Agentic,
    Deterministic,
}

impl EntryHead {
    fn parse_head(entry: JsonNode<'_>, at: &DocumentPath<'_>) -> Result<Self, Rejection> {
        let step: Option<Step> = at.parse_optional(entry, "step")?;
        let copied: Option<bool> = at.parse_optional(entry, "is_copied_context")?;
        Ok(Self {
            source: at.parse_required(entry, "source")?,
            time: entry.get_non_null("timestamp").and_then(|time| time.as_str()?.parse().ok()),
            number: entry.get_non_null("step_id").and_then(|id| id.as_number()?.as_u64()),
            step: step.unwrap_or_else(Step::main),
            step_kind: at.parse_optional(entry, "step_kind")?,
            message: at.parse_text(entry, "message")?,
            reasoning: at.parse_text(entry, "reasoning_content")?,
            llm_call_count: at.parse_optional(entry, "llm_call_count")?,
            is_copied_context: copied == Some(true),
        })
    }

    /// Returns `true` if a model decided something in this entry, according to its `step_kind`. Without a
    /// `step_kind`, the agent must have written a message or reasoning, or called a tool, and the log must
    /// not say that no model was called.
    fn is_agentic(&self, calls: bool) -> bool {
        match self.step_kind {
            Some(kind) => kind == StepKind::Agentic,
            None if self.llm_call_count == Some(0) => false,
            None => {
                calls
                    || self.source == TurnSource::Agent
                        && !(self.message.is_empty() && self.reasoning.is_empty())
            }
        }
    }
}

/// A tool call with the id by which results refer to it; the id is `None` if the log contains none.
struct PendingCall<'a> {
    id: Option<Cow<'a, str>>,
    call: ToolCall,
}

fn parse_calls<'a>(
    entry: JsonNode<'a>,
    at: &DocumentPath<'_>,
    number: &mut usize,
) -> Result<Vec<PendingCall<'a>>, Rejection> {
    let mut calls = Vec::new();
    for (nth, call) in at.parse_array(entry, "tool_calls")?.into_iter().flatten().enumerate() {
        *number += 1;
        // Stops collecting; the caller rejects the document.
        if *number > CALLS_MAX {
            break;
        }
        let at = at.item("tool_calls", nth);
        at.check_object(call)?;
        let tool: String = at.parse_required(call, "function_name")?;
        calls.push(PendingCall {
            id: at.parse_str(call, "tool_call_id")?,
            call: ToolCall {
                tool: replace_nul(tool),
                arguments: replace_nul(call.get("arguments").map(arguments_text).unwrap_or_default()),
                answer: None,
                failed: None,
            },
        });
    }
    Ok(calls)
}

/// The result of a tool call, which is an item of `observation.results`.
#[derive(Clone, Copy)]
struct Answer<'a>(JsonNode<'a>);

/// Validates the observation of an entry and returns it; `None` if the entry has none.
fn parse_observation<'a>(
    entry: JsonNode<'a>,
    at: &DocumentPath<'_>,
) -> Result<Option<JsonNode<'a>>, Rejection> {
    let Some(observation) = entry.get_non_null("observation") else { return Ok(None) };
    let at = at.member("observation");
    at.check_object(observation)?;
    for (nth, answer) in at.parse_array(observation, "results")?.into_iter().flatten().enumerate() {
        let at = at.item("results", nth);
        at.check_object(answer)?;
        at.parse_str(answer, "source_call_id")?;
    }
    Ok(Some(observation))
}

fn observation_answers(observation: Option<JsonNode<'_>>) -> impl Iterator<Item = Answer<'_>> {
    let results = observation.and_then(|observation| observation.get("results")?.items());
    results.into_iter().flatten().map(Answer)
}

/// Assigns each result to its call by id, or in order if the result names no call. Some exporters write the
/// results in a separate entry after the calls; such results are assigned to the unanswered calls of the turn
/// `before`. Returns the text of the results that match no call. Results are processed one by one and not
/// collected, because a list of empty results takes many times the memory of its text.
fn assign_answers<'a>(
    answers: impl Iterator<Item = Answer<'a>>,
    calls: &mut [PendingCall<'_>],
    mut before: Option<&mut Turn>,
) -> String {
    // A map, because comparing each result with each call would be quadratic.
    let mut by_id: HashMap<String, usize> = HashMap::new();
    for (nth, call) in calls.iter().enumerate() {
        // If two calls share an id, the first one wins.
        if let Some(id) = &call.id {
            by_id.entry(id.clone().into_owned()).or_insert(nth);
        }
    }
    let (mut open, mut open_before) = (0, 0);
    let mut observed = String::new();
    for answer in answers {
        let nth = match answer.call_id() {
            Some(id) => by_id.get(&*id).copied(),
            None => {
                // The cursor only moves forward, so finding the open calls stays linear.
                while calls.get(open).is_some_and(|call| call.call.answer.is_some()) {
                    open += 1;
                }
                Some(open)
            }
        };
        let call = match nth.and_then(|nth| calls.get_mut(nth)) {
            Some(call) => Some(&mut call.call),
            None => before.as_mut().and_then(|turn| {
                while turn.calls.get(open_before).is_some_and(|call| call.answer.is_some()) {
                    open_before += 1;
                }
                turn.calls.get_mut(open_before)
            }),
        };
        match call {
            Some(call) => answer.assign_to(call),
            None => {
                let text = answer.to_text();
                if !(observed.is_empty() || text.is_empty()) {
                    observed.push('\n');
                }
                observed.push_str(&text);
            }
        }
    }
    observed
}

/// Argument names whose value is a command line if the call has no other argument.
const COMMAND_ARGUMENTS: [&str; 7] = ["command", "cmd", "code", "query", "sql", "input", "action"];

/// Returns the arguments as text: the bare command line if there is one, otherwise the canonical JSON.
fn arguments_text(arguments: JsonNode<'_>) -> String {
    match arguments.kind() {
        JsonKind::Null => String::new(),
        // Models write arguments as JSON text.
        JsonKind::String => {
            let text = arguments.as_str().unwrap_or_default().into_owned();
            parse_object_text(&text).unwrap_or(text)
        }
        JsonKind::Object => object_text(arguments),
        _ => arguments.canonical_json(),
    }
}

/// Returns the arguments from text that contains a JSON object; `None` for any other text.
fn parse_object_text(text: &str) -> Option<String> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let document = JsonDocument::parse(
        &Bytes::copy_from_slice(text.as_bytes()),
        JsonBounds::with_bytes_max(BODY_BYTES_MAX),
    )
    .ok()?;
    (document.root().kind() == JsonKind::Object).then(|| object_text(document.root()))
}

fn object_text(object: JsonNode<'_>) -> String {
    let mut members = object.members().into_iter().flatten();
    if let (Some((name, line)), None) = (members.next(), members.next())
        && COMMAND_ARGUMENTS.contains(&&*name)
        && let Some(line) = line.as_str()
    {
        return line.into_owned();
    }
    object.canonical_json()
}

impl Answer<'_> {
    fn call_id(&self) -> Option<Cow<'_, str>> {
        self.0.get("source_call_id").and_then(JsonNode::as_str)
    }

    fn assign_to(self, call: &mut ToolCall) {
        // One failed result makes the call failed, whatever its other results say.
        call.failed = match (call.failed, self.has_failed()) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (before, now) => now.or(before),
        };
        let text = self.to_text();
        match &mut call.answer {
            Some(answer) => {
                answer.push('\n');
                answer.push_str(&text);
            }
            None => call.answer = Some(text),
        }
    }

    fn to_text(self) -> String {
        let Some(content) = self.0.get("content") else { return String::new() };
        content_text(content).unwrap_or_else(|| replace_nul(content.canonical_json()))
    }

    fn has_failed(&self) -> Option<bool> {
        failure_flag(self.0).or_else(|| failure_flag(self.0.get("extra")?))
    }
}

/// Returns `true` if a flag says that the call failed, `false` if it says that the call succeeded, and `None`
/// if there is no flag.
fn failure_flag(fields: JsonNode<'_>) -> Option<bool> {
    let flag = ["is_error", "failed", "error"].iter().find_map(|name| fields.get(name)?.as_bool());
    let status = || match &*fields.get("status")?.as_str()? {
        "error" | "failed" | "failure" => Some(true),
        "ok" | "success" | "completed" => Some(false),
        _ => None,
    };
    let whole = |name: &&str| fields.get(name)?.as_number()?.as_i64();
    let exit = || ["exit_code", "returncode"].iter().find_map(whole).map(|code| code != 0);
    // A flag takes precedence over a status, and a status over an exit code.
    flag.or_else(status).or_else(exit)
}

#[cfg(test)]
mod tests;
