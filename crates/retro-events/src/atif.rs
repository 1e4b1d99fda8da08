//! ATIF, the Agent Trajectory Interchange Format (versions 1.0 to 1.7) → [`Trajectory`].
//!
//! Read are the parts that a retrospective looks at; every other field is accepted and passed over. Ours beside the
//! format's own: `step` and `step_kind` of an entry. The format has no flag for a failed call; the ones that
//! exporters write (`is_error`, `status`, `exit_code`, in a result or its `extra`) are read.

use retro_core::canonical::canonical_json;
use retro_core::dead_letter::{Code, Rejection};
use retro_core::id::Step;
use retro_core::trajectory::{Source, ToolCall, Trajectory, Turn};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::{field, json};

/// The versions that are read.
pub const VERSIONS: [&str; 8] =
    ["ATIF-v1.0", "ATIF-v1.1", "ATIF-v1.2", "ATIF-v1.3", "ATIF-v1.4", "ATIF-v1.5", "ATIF-v1.6", "ATIF-v1.7"];
/// The largest body that is read, in bytes: what the gateway takes at most.
pub const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The most turns of one run: an agent that takes one each second, for a day and more. Reading and looking grow with the
/// bytes, which have a bound of their own, and not with the square of the turns.
pub const TURNS_MAX: usize = 100_000;

/// Reads a body from the object store.
pub fn from_slice(bytes: &[u8]) -> Result<Trajectory, Rejection> {
    read(&json::parse(bytes, BODY_BYTES_MAX)?, "trajectory")
}

/// Reads an ATIF document that stands at path `at`. A shape that does not fit is `trajectory_invalid` with its path,
/// such as `data.trajectory.steps[3].tool_calls[0].function_name`.
pub fn read(document: &Value, at: &str) -> Result<Trajectory, Rejection> {
    check_shape(document, at)?;
    let document: Document = field::read(Code::TrajectoryInvalid, at, document)?;
    let mut turns = Vec::with_capacity(document.steps.len());
    document.add_turns(at, &mut turns)?;
    Ok(Trajectory { turns })
}

/// Checks that what is to be an object is one, wherever an entry may hold an array of them.
fn check_shape(document: &Value, at: &str) -> Result<(), Rejection> {
    let invalid = Code::TrajectoryInvalid;
    field::check_object(invalid, at, document)?;
    for (path, entry) in items(document, at, "steps") {
        field::check_object(invalid, &path, entry)?;
        let observation = entry.get("observation").filter(|observation| !observation.is_null());
        if let Some(observation) = observation {
            field::check_object(invalid, &field::join(&path, "observation"), observation)?;
        }
        for (path, call) in items(entry, &path, "tool_calls") {
            field::check_object(invalid, &path, call)?;
        }
    }
    for (path, subagent) in items(document, at, "subagent_trajectories") {
        check_shape(subagent, &path)?;
    }
    Ok(())
}

/// The items of an array with their paths; none when there is no array.
fn items<'a>(parent: &'a Value, at: &'a str, name: &'a str) -> impl Iterator<Item = (String, &'a Value)> {
    let items = parent.get(name).and_then(Value::as_array).into_iter().flatten();
    items.enumerate().map(move |(nth, item)| (field::join(at, &format!("{name}[{nth}]")), item))
}

#[derive(Deserialize)]
struct Document {
    schema_version: String,
    steps: Vec<Entry>,
    #[serde(default, deserialize_with = "null_is_default")]
    subagent_trajectories: Vec<Document>,
}

impl Document {
    /// Adds the turns of this document, then those of its subagents: their work is the run's work.
    fn add_turns(self, at: &str, turns: &mut Vec<Turn>) -> Result<(), Rejection> {
        let invalid = |field: &str, detail: String| {
            Err(Rejection::at(Code::TrajectoryInvalid, field::join(at, field), detail))
        };
        if !VERSIONS.contains(&self.schema_version.as_str()) {
            return invalid("schema_version", format!("is not one of {}", VERSIONS.join(", ")));
        }
        for entry in self.steps.into_iter().filter(|entry| entry.is_copied_context != Some(true)) {
            entry.add_turns(turns);
        }
        if turns.len() > TURNS_MAX {
            return invalid("steps", format!("more than {TURNS_MAX} turns"));
        }
        for (nth, subagent) in self.subagent_trajectories.into_iter().enumerate() {
            subagent.add_turns(&field::join(at, &format!("subagent_trajectories[{nth}]")), turns)?;
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct Entry {
    source: Source,
    step: Option<Step>,
    step_kind: Option<StepKind>,
    #[serde(default, deserialize_with = "text_or_parts")]
    message: String,
    #[serde(default, deserialize_with = "text_or_parts")]
    reasoning_content: String,
    #[serde(default, deserialize_with = "null_is_default")]
    tool_calls: Vec<Call>,
    #[serde(default, deserialize_with = "null_is_default")]
    observation: Observation,
    llm_call_count: Option<u64>,
    /// Repeated from an earlier document for context; reading it again would count its evidence twice.
    is_copied_context: Option<bool>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum StepKind {
    Agentic,
    Deterministic,
}

#[derive(Deserialize)]
struct Call {
    tool_call_id: Option<String>,
    function_name: String,
    #[serde(default)]
    arguments: Value,
}

#[derive(Deserialize, Default)]
struct Observation {
    #[serde(default, deserialize_with = "null_is_default")]
    results: Vec<Answer>,
}

#[derive(Deserialize)]
struct Answer {
    source_call_id: Option<String>,
    #[serde(default)]
    content: Value,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl Entry {
    /// One turn, and after it one of the system's for what was observed without a call.
    fn add_turns(self, turns: &mut Vec<Turn>) {
        let agentic = self.is_agentic();
        let step = self.step.unwrap_or_else(Step::main);
        let (calls, mut uncalled) = match_answers(self.tool_calls, self.observation.results);
        if calls.is_empty() {
            uncalled = answer_open_calls(uncalled, turns.last_mut());
        }
        let (message, reasoning) = (self.message, self.reasoning_content);
        if !(message.is_empty() && reasoning.is_empty() && calls.is_empty()) {
            turns.push(Turn { step: step.clone(), agentic, source: self.source, message, reasoning, calls });
        }
        let observed = uncalled.iter().map(Answer::text).filter(|text| !text.is_empty()).collect::<Vec<_>>();
        if !observed.is_empty() {
            turns.push(Turn {
                step,
                agentic: false,
                source: Source::System,
                message: observed.join("\n"),
                reasoning: String::new(),
                calls: Vec::new(),
            });
        }
    }

    /// A model decided something: it spoke or called a tool, unless the log says that no model was asked.
    fn is_agentic(&self) -> bool {
        match self.step_kind {
            Some(kind) => kind == StepKind::Agentic,
            None if self.llm_call_count == Some(0) => false,
            None => {
                !self.tool_calls.is_empty()
                    || self.source == Source::Agent
                        && !(self.message.is_empty() && self.reasoning_content.is_empty())
            }
        }
    }
}

/// Gives each call its answers: by id, or in order where an answer names no call.
fn match_answers(calls: Vec<Call>, answers: Vec<Answer>) -> (Vec<ToolCall>, Vec<Answer>) {
    let ids: Vec<Option<String>> = calls.iter().map(|call| call.tool_call_id.clone()).collect();
    let mut calls: Vec<ToolCall> = calls.into_iter().map(Call::into_tool_call).collect();
    let mut uncalled = Vec::new();
    for answer in answers {
        let nth = match &answer.source_call_id {
            Some(id) => ids.iter().position(|call| call.as_ref() == Some(id)),
            None => calls.iter().position(|call| call.answer.is_none()),
        };
        match nth.and_then(|nth| calls.get_mut(nth)) {
            Some(call) => answer.give_to(call),
            None => uncalled.push(answer),
        }
    }
    (calls, uncalled)
}

/// Some exporters write the answers in an entry of their own, after the calls: those go to the open calls of the turn
/// before. What is left was observed without a call.
fn answer_open_calls(answers: Vec<Answer>, before: Option<&mut Turn>) -> Vec<Answer> {
    let mut open = before.into_iter().flat_map(|turn| &mut turn.calls).filter(|call| call.answer.is_none());
    let mut left = Vec::new();
    for answer in answers {
        match open.next() {
            Some(call) => answer.give_to(call),
            None => left.push(answer),
        }
    }
    left
}

impl Call {
    fn into_tool_call(self) -> ToolCall {
        ToolCall {
            tool: storable(self.function_name),
            arguments: storable(arguments_text(self.arguments)),
            answer: None,
            failed: None,
        }
    }
}

/// Names of an only argument whose value is what a person would have typed.
const COMMAND_LINES: [&str; 7] = ["command", "cmd", "code", "query", "sql", "input", "action"];

/// The bare command line where there is one, the canonical JSON otherwise.
fn arguments_text(arguments: Value) -> String {
    match arguments {
        Value::Null => String::new(),
        // Arguments as their JSON text: the form in which models write them.
        Value::String(text) => match serde_json::from_str::<Map<String, Value>>(&text) {
            Ok(object) => object_text(object),
            Err(_) => text,
        },
        Value::Object(object) => object_text(object),
        other => canonical_json(&other),
    }
}

fn object_text(object: Map<String, Value>) -> String {
    if object.len() == 1
        && let Some((name, Value::String(line))) = object.iter().next()
        && COMMAND_LINES.contains(&name.as_str())
    {
        return line.clone();
    }
    canonical_json(&Value::Object(object))
}

impl Answer {
    fn give_to(self, call: &mut ToolCall) {
        call.failed = match (call.failed, self.failed()) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (before, now) => now.or(before),
        };
        let text = self.text();
        match &mut call.answer {
            Some(answer) => {
                answer.push('\n');
                answer.push_str(&text);
            }
            None => call.answer = Some(text),
        }
    }

    fn text(&self) -> String {
        content_text(&self.content).unwrap_or_else(|| storable(canonical_json(&self.content)))
    }

    fn failed(&self) -> Option<bool> {
        let extra = self.rest.get("extra").and_then(Value::as_object);
        [Some(&self.rest), extra].into_iter().flatten().find_map(says_failed)
    }
}

/// Whether a flag in these fields says that the call failed; `None` when no flag is there.
fn says_failed(fields: &Map<String, Value>) -> Option<bool> {
    let flag = ["is_error", "failed", "error"].iter().find_map(|name| fields.get(*name)?.as_bool());
    let status = || match fields.get("status")?.as_str()? {
        "error" | "failed" | "failure" => Some(true),
        "ok" | "success" | "completed" => Some(false),
        _ => None,
    };
    let exit = || ["exit_code", "returncode"].iter().find_map(|name| Some(fields.get(*name)?.as_i64()? != 0));
    flag.or_else(status).or_else(exit)
}

fn null_is_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    value: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(value)?.unwrap_or_default())
}

fn text_or_parts<'de, D: Deserializer<'de>>(value: D) -> Result<String, D::Error> {
    let value = Value::deserialize(value)?;
    content_text(&value).ok_or_else(|| {
        let found = if value.is_object() { "map" } else { "number" };
        serde::de::Error::custom(format!("invalid type: {found}, expected a string or an array of parts"))
    })
}

/// The text of a string or of content parts; an image stands as its address. `None` for anything else.
fn content_text(content: &Value) -> Option<String> {
    match content {
        Value::Null => Some(String::new()),
        Value::String(text) => Some(storable(text.clone())),
        Value::Array(parts) => Some(parts.iter().map(part_text).collect::<Vec<_>>().join("\n")),
        _ => None,
    }
}

fn part_text(part: &Value) -> String {
    if let Some(text) = part.as_str().or_else(|| part.get("text")?.as_str()) {
        return storable(text.to_owned());
    }
    match part.pointer("/source/path").and_then(Value::as_str) {
        Some(path) => storable(format!("[image: {path}]")),
        None => storable(canonical_json(part)),
    }
}

/// NUL is legal in JSON and kept by no text column: it is replaced here, before anybody quotes.
fn storable(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

#[cfg(test)]
mod tests;
