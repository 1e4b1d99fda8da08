//! ATIF, the Agent Trajectory Interchange Format (versions 1.0 to 1.7) → [`Trajectory`].
//!
//! Read are the parts that a retrospective looks at; every other field is accepted and passed over. Ours beside the
//! format's own: `step` and `step_kind` of an entry. The format has no flag for a failed call; the ones that
//! exporters write (`is_error`, `status`, `exit_code`, in a result or its `extra`) are read.

mod place;

use std::borrow::Cow;
use std::collections::HashMap;

use bytes::Bytes;
use retro_core::dead_letter::Rejection;
use retro_core::id::Step;
use retro_core::trajectory::{Source, ToolCall, Trajectory, Turn};
use serde::Deserialize;

use place::Place;
use retro_core::json::{Bounds, Document, Kind, Node};

/// The versions that are read.
pub const VERSIONS: [&str; 8] =
    ["ATIF-v1.0", "ATIF-v1.1", "ATIF-v1.2", "ATIF-v1.3", "ATIF-v1.4", "ATIF-v1.5", "ATIF-v1.6", "ATIF-v1.7"];
/// The largest body that is read, in bytes: what the gateway takes at most.
pub const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The most turns of one run: an agent that takes one each second, for a day and more. Reading and looking grow with the
/// bytes, which have a bound of their own, and not with the square of the turns.
pub const TURNS_MAX: usize = 100_000;

/// The most calls of one run: as many as turns.
pub const CALLS_MAX: usize = TURNS_MAX;

/// Reads a body from the object store.
pub fn from_slice(bytes: &Bytes) -> Result<Trajectory, Rejection> {
    read(Document::parse(bytes, Bounds::bytes(BODY_BYTES_MAX))?.root(), "trajectory")
}

/// Reads an ATIF document that stands at path `at`. A shape that does not fit is `trajectory_invalid` with its path,
/// such as `data.trajectory.steps[3].tool_calls[0].function_name`.
pub fn read(document: Node<'_>, at: &str) -> Result<Trajectory, Rejection> {
    let mut reader = Reader::default();
    reader.read_document(document, &Place::root(at))?;
    Ok(Trajectory { turns: reader.turns })
}

/// Collects turns, entry by entry: nothing is kept of an entry but its turns.
#[derive(Default)]
struct Reader {
    turns: Vec<Turn>,
    calls: usize,
}

impl Reader {
    /// Adds the turns of this document, then those of its subagents: their work is the run's work.
    fn read_document(&mut self, document: Node<'_>, at: &Place<'_>) -> Result<(), Rejection> {
        at.check_object(document)?;
        let version: String = at.read_required(document, "schema_version")?;
        if !VERSIONS.contains(&version.as_str()) {
            let detail = format!("is not one of {}", VERSIONS.join(", "));
            return Err(at.member("schema_version").invalid(detail));
        }
        let steps = at.read_array(document, "steps")?.ok_or_else(|| at.member("steps").missing())?;
        for (nth, entry) in steps.enumerate() {
            self.read_entry(entry, &at.item("steps", nth))?;
            if self.turns.len() > TURNS_MAX {
                return Err(at.member("steps").invalid(format!("more than {TURNS_MAX} turns")));
            }
            if self.calls > CALLS_MAX {
                return Err(at.member("steps").invalid(format!("more than {CALLS_MAX} calls of tools")));
            }
        }
        let subagents = at.read_array(document, "subagent_trajectories")?.into_iter().flatten();
        for (nth, subagent) in subagents.enumerate() {
            self.read_document(subagent, &at.item("subagent_trajectories", nth))?;
        }
        Ok(())
    }

    /// One turn, and after it one of the system's for what was observed without a call.
    fn read_entry(&mut self, entry: Node<'_>, at: &Place<'_>) -> Result<(), Rejection> {
        at.check_object(entry)?;
        let head = Head::read(entry, at)?;
        let mut calls = read_calls(entry, at, &mut self.calls)?;
        let observation = read_observation(entry, at)?;
        if head.is_copied_context {
            return Ok(());
        }
        let agentic = head.is_agentic(!calls.is_empty());
        let before = self.turns.last_mut().filter(|_| calls.is_empty());
        let observed = give_answers(answers_in(observation), &mut calls, before);
        let calls: Vec<ToolCall> = calls.into_iter().map(|call| call.call).collect();
        let Head { source, step, message, reasoning, .. } = head;
        if !(message.is_empty() && reasoning.is_empty() && calls.is_empty()) {
            self.turns.push(Turn { step: step.clone(), agentic, source, message, reasoning, calls });
        }
        if !observed.is_empty() {
            self.turns.push(Turn {
                step,
                agentic: false,
                source: Source::System,
                message: observed,
                reasoning: String::new(),
                calls: Vec::new(),
            });
        }
        Ok(())
    }
}

/// What an entry says beside its calls and answers.
struct Head {
    source: Source,
    step: Step,
    step_kind: Option<StepKind>,
    message: String,
    reasoning: String,
    llm_call_count: Option<u64>,
    /// Repeated from an earlier document for context; reading it again would count its evidence twice.
    is_copied_context: bool,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum StepKind {
    Agentic,
    Deterministic,
}

impl Head {
    fn read(entry: Node<'_>, at: &Place<'_>) -> Result<Self, Rejection> {
        let step: Option<Step> = at.read_optional(entry, "step")?;
        let copied: Option<bool> = at.read_optional(entry, "is_copied_context")?;
        Ok(Self {
            source: at.read_required(entry, "source")?,
            step: step.unwrap_or_else(Step::main),
            step_kind: at.read_optional(entry, "step_kind")?,
            message: at.read_text(entry, "message")?,
            reasoning: at.read_text(entry, "reasoning_content")?,
            llm_call_count: at.read_optional(entry, "llm_call_count")?,
            is_copied_context: copied == Some(true),
        })
    }

    /// A model decided something: it spoke or called a tool, unless the log says that no model was asked.
    fn is_agentic(&self, calls: bool) -> bool {
        match self.step_kind {
            Some(kind) => kind == StepKind::Agentic,
            None if self.llm_call_count == Some(0) => false,
            None => {
                calls
                    || self.source == Source::Agent && !(self.message.is_empty() && self.reasoning.is_empty())
            }
        }
    }
}

/// A call, and the id that answers name it by.
struct Call<'a> {
    id: Option<Cow<'a, str>>,
    call: ToolCall,
}

fn read_calls<'a>(entry: Node<'a>, at: &Place<'_>, number: &mut usize) -> Result<Vec<Call<'a>>, Rejection> {
    let mut calls = Vec::new();
    for (nth, call) in at.read_array(entry, "tool_calls")?.into_iter().flatten().enumerate() {
        *number += 1;
        if *number > CALLS_MAX {
            break;
        }
        let at = at.item("tool_calls", nth);
        at.check_object(call)?;
        let tool: String = at.read_required(call, "function_name")?;
        calls.push(Call {
            id: at.read_str(call, "tool_call_id")?,
            call: ToolCall {
                tool: storable(tool),
                arguments: storable(call.get("arguments").map(arguments_text).unwrap_or_default()),
                answer: None,
                failed: None,
            },
        });
    }
    Ok(calls)
}

/// What a tool answered: an object of an observation.
#[derive(Clone, Copy)]
struct Answer<'a>(Node<'a>);

/// Checks an entry's observation, if it has one, and returns it.
fn read_observation<'a>(entry: Node<'a>, at: &Place<'_>) -> Result<Option<Node<'a>>, Rejection> {
    let Some(observation) = entry.get_present("observation") else { return Ok(None) };
    let at = at.member("observation");
    at.check_object(observation)?;
    for (nth, answer) in at.read_array(observation, "results")?.into_iter().flatten().enumerate() {
        let at = at.item("results", nth);
        at.check_object(answer)?;
        at.read_str(answer, "source_call_id")?;
    }
    Ok(Some(observation))
}

fn answers_in(observation: Option<Node<'_>>) -> impl Iterator<Item = Answer<'_>> {
    let results = observation.and_then(|observation| observation.get("results")?.items());
    results.into_iter().flatten().map(Answer)
}

/// Gives each call its answers: by id, or in order where an answer names no call. Some exporters write the answers in an
/// entry of their own, after the calls: those go to the open calls of the turn `before`. Returns the text of what was
/// observed without a call. Answers are taken one by one and not collected: a list of empty ones is many times its text.
fn give_answers<'a>(
    answers: impl Iterator<Item = Answer<'a>>,
    calls: &mut [Call<'_>],
    mut before: Option<&mut Turn>,
) -> String {
    let mut by_id: HashMap<String, usize> = HashMap::new();
    for (nth, call) in calls.iter().enumerate() {
        // Of two calls with one id the first is meant.
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
            Some(call) => answer.give_to(call),
            None => {
                let text = answer.text();
                if !(observed.is_empty() || text.is_empty()) {
                    observed.push('\n');
                }
                observed.push_str(&text);
            }
        }
    }
    observed
}

/// Names of an only argument whose value is what a person would have typed.
const COMMAND_LINES: [&str; 7] = ["command", "cmd", "code", "query", "sql", "input", "action"];

/// The bare command line where there is one, the canonical JSON otherwise.
fn arguments_text(arguments: Node<'_>) -> String {
    match arguments.kind() {
        Kind::Null => String::new(),
        // Arguments as their JSON text: the form in which models write them.
        Kind::String => {
            let text = arguments.as_str().unwrap_or_default().into_owned();
            object_in(&text).unwrap_or(text)
        }
        Kind::Object => object_text(arguments),
        _ => arguments.canonical_json(),
    }
}

/// The text of an object that is written in a string; `None` for any other text.
fn object_in(text: &str) -> Option<String> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let document =
        Document::parse(&Bytes::copy_from_slice(text.as_bytes()), Bounds::bytes(BODY_BYTES_MAX)).ok()?;
    (document.root().kind() == Kind::Object).then(|| object_text(document.root()))
}

fn object_text(object: Node<'_>) -> String {
    let mut members = object.members().into_iter().flatten();
    if let (Some((name, line)), None) = (members.next(), members.next())
        && COMMAND_LINES.contains(&&*name)
        && let Some(line) = line.as_str()
    {
        return line.into_owned();
    }
    object.canonical_json()
}

impl Answer<'_> {
    fn call_id(&self) -> Option<Cow<'_, str>> {
        self.0.get("source_call_id").and_then(Node::as_str)
    }

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
        let Some(content) = self.0.get("content") else { return String::new() };
        content_text(content).unwrap_or_else(|| storable(content.canonical_json()))
    }

    fn failed(&self) -> Option<bool> {
        says_failed(self.0).or_else(|| says_failed(self.0.get("extra")?))
    }
}

/// Whether a flag in these fields says that the call failed; `None` when no flag is there.
fn says_failed(fields: Node<'_>) -> Option<bool> {
    let flag = ["is_error", "failed", "error"].iter().find_map(|name| fields.get(name)?.as_bool());
    let status = || match &*fields.get("status")?.as_str()? {
        "error" | "failed" | "failure" => Some(true),
        "ok" | "success" | "completed" => Some(false),
        _ => None,
    };
    let whole = |name: &&str| fields.get(name)?.as_number()?.as_i64();
    let exit = || ["exit_code", "returncode"].iter().find_map(whole).map(|code| code != 0);
    flag.or_else(status).or_else(exit)
}

/// The text of a string or of content parts; an image stands as its address. `None` for anything else.
fn content_text(content: Node<'_>) -> Option<String> {
    match content.kind() {
        Kind::Null => Some(String::new()),
        Kind::String => content.as_str().map(|text| storable(text.into_owned())),
        Kind::Array => {
            let mut text = String::new();
            for (nth, part) in content.items()?.enumerate() {
                if nth > 0 {
                    text.push('\n');
                }
                text.push_str(&part_text(part));
            }
            Some(text)
        }
        _ => None,
    }
}

fn part_text(part: Node<'_>) -> String {
    if let Some(text) = part.as_str().or_else(|| part.get("text")?.as_str()) {
        return storable(text.into_owned());
    }
    match part.get("source").and_then(|source| source.get("path")?.as_str()) {
        Some(path) => storable(format!("[image: {path}]")),
        None => storable(part.canonical_json()),
    }
}

/// NUL is legal in JSON and kept by no text column: it is replaced here, before anybody quotes.
fn storable(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

#[cfg(test)]
mod tests;
