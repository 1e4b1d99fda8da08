//! Puts what the spans of a trace say into one conversation. Each request to a model repeats what was said before, spans
//! that contain others repeat what those say, and a call is both in the model's reply and a span of its own: everything
//! is added once.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use retro_core::canonical::content_hash;
use serde_json::{Value, json};

use super::kind::TOOL_NAME;
use super::messages::{Part, parse_json};
use super::span::{Span, SpanStatus};
use crate::conversation::{Conversation, command_arguments, result_text};

/// Maximum number of open calls of a tool whose arguments are compared with those of a span.
const OPEN_CALLS_MAX: usize = 100;

/// A conversation with a record of what it has.
pub(crate) struct Timeline {
    pub(crate) conversation: Conversation,
    /// Number of times that a part was added, by its hash.
    added: HashMap<String, usize>,
    calls: Vec<KnownCall>,
    /// Place of the call with each id.
    by_id: HashMap<String, usize>,
    /// Places of the calls of each tool that have no result.
    open: BTreeMap<String, BTreeSet<usize>>,
    /// First text of the user.
    pub(crate) first_request: Option<String>,
}

/// A call in the conversation.
struct KnownCall {
    id: Option<String>,
    tool: String,
    arguments: Value,
    has_result: bool,
}

/// What a span of a tool says.
pub(crate) struct ToolSpan {
    pub(crate) id: Option<String>,
    pub(crate) tool: String,
    pub(crate) arguments: Option<Value>,
    result: Option<String>,
    is_error: Option<bool>,
}

impl Timeline {
    pub(crate) fn new(conversation: Conversation) -> Self {
        Self {
            conversation,
            added: HashMap::new(),
            calls: Vec::new(),
            by_id: HashMap::new(),
            open: BTreeMap::new(),
            first_request: None,
        }
    }

    /// Adds the parts that are not there yet. A part that comes twice among these is added twice.
    pub(crate) fn add_missing(&mut self, parts: Vec<Part>, time: Option<&str>) {
        let mut here: HashMap<String, usize> = HashMap::new();
        for part in parts {
            let hash = hash_part(&part);
            let count = here.entry(hash.clone()).or_default();
            *count += 1;
            if *count > self.added.get(&hash).copied().unwrap_or_default() {
                self.add_part(part, hash, time);
            }
        }
    }

    /// Adds the parts of a reply, also if the same was said before. A call with an id is added once.
    pub(crate) fn add_reply(&mut self, parts: Vec<Part>, time: Option<&str>) {
        for part in parts {
            let hash = hash_part(&part);
            let is_known_call =
                matches!(&part, Part::Call { id: Some(_), .. }) && self.added.contains_key(&hash);
            if !is_known_call {
                self.add_part(part, hash, time);
            }
        }
    }

    fn add_part(&mut self, part: Part, hash: String, time: Option<&str>) {
        *self.added.entry(hash).or_default() += 1;
        match part {
            Part::Text(source, text) => {
                if source == "user" && self.first_request.is_none() {
                    self.first_request = Some(text.clone());
                }
                self.conversation.add_message(source, &text, time);
            }
            Part::Reasoning(text) => self.conversation.add_reasoning(&text, time),
            Part::Call { id, tool, arguments } => {
                // A span of the tool may have been first.
                if self.find_call(id.as_deref()).is_none() {
                    self.add_call(id, &tool, arguments, time);
                }
            }
            Part::Result { id, tool, text, is_error } => {
                let known = self.find_call(id.as_deref());
                let open = || self.find_open_call(tool.as_deref(), None);
                match known.or_else(|| id.is_none().then(open).flatten()) {
                    Some(at) => self.add_result(at, &text, is_error, time),
                    None if id.is_some() => self.conversation.add_message("system", &text, time),
                    // Without an id, and each call has its result: it is one of those.
                    None => {}
                }
            }
        }
    }

    fn add_call(&mut self, id: Option<String>, tool: &str, arguments: Value, time: Option<&str>) -> usize {
        let at = self.calls.len();
        let arguments = command_arguments(arguments, &["description"]);
        self.conversation.add_call(Some(&call_name(at, id.as_deref())), tool, arguments.clone(), time);
        if let Some(id) = &id {
            self.by_id.entry(id.clone()).or_insert(at);
        }
        self.open.entry(tool.to_owned()).or_default().insert(at);
        self.calls.push(KnownCall { id, tool: tool.to_owned(), arguments, has_result: false });
        at
    }

    fn add_result(&mut self, at: usize, text: &str, is_error: Option<bool>, time: Option<&str>) {
        let call = &mut self.calls[at];
        if !std::mem::replace(&mut call.has_result, true) {
            let name = call_name(at, call.id.as_deref());
            if let Some(open) = self.open.get_mut(&call.tool) {
                open.remove(&at);
            }
            self.conversation.add_result(&name, text, is_error, time);
        }
    }

    /// Adds the call of a tool's span, unless a reply has it. Returns its place for [`Self::finish_tool`].
    pub(crate) fn start_tool(&mut self, span: &ToolSpan, time: Option<&str>) -> usize {
        let by_id = self.find_call(span.id.as_deref());
        let known = by_id.or_else(|| match (&span.id, &span.arguments) {
            (Some(_), _) => None,
            (None, arguments) => self.find_open_call(Some(&span.tool), arguments.as_ref()),
        });
        known.unwrap_or_else(|| {
            let arguments = span.arguments.clone().unwrap_or_else(|| json!({}));
            let part =
                Part::Call { id: span.id.clone(), tool: span.tool.clone(), arguments: arguments.clone() };
            *self.added.entry(hash_part(&part)).or_default() += 1;
            self.add_call(span.id.clone(), &span.tool, arguments, time)
        })
    }

    /// Adds the result of a tool's span to the call at this place.
    pub(crate) fn finish_tool(&mut self, at: usize, span: &ToolSpan, time: Option<&str>) {
        if let Some(text) = span.result.as_deref().or(span.is_error.map(|_| "")) {
            self.add_result(at, text, span.is_error, time);
        }
    }

    fn find_call(&self, id: Option<&str>) -> Option<usize> {
        self.by_id.get(id?).copied()
    }

    /// Returns the first call of a tool that has no result: one with the same arguments, or else any. Without a tool, the
    /// first of all.
    fn find_open_call(&self, tool: Option<&str>, arguments: Option<&Value>) -> Option<usize> {
        let Some(tool) = tool else { return self.open.values().filter_map(BTreeSet::first).min().copied() };
        let arguments = arguments.map(|arguments| command_arguments(arguments.clone(), &["description"]));
        let open = self.open.get(tool)?;
        let is_same = |at: &&usize| arguments.as_ref() == Some(&self.calls[**at].arguments);
        open.iter().take(OPEN_CALLS_MAX).find(is_same).or(open.first()).copied()
    }
}

/// Returns the name of a call in the trajectory, which is unique in it.
fn call_name(at: usize, id: Option<&str>) -> String {
    id.map_or_else(|| format!("call-{}", at + 1), str::to_owned)
}

fn hash_part(part: &Part) -> String {
    content_hash(&match part {
        Part::Text(source, text) => json!([source, text.trim()]),
        Part::Reasoning(text) => json!(["reasoning", text.trim()]),
        Part::Call { id: Some(id), .. } => json!(["call", id]),
        Part::Call { id: None, tool, arguments } => json!(["call", tool, arguments]),
        Part::Result { id: Some(id), .. } => json!(["result", id]),
        Part::Result { id: None, tool, text, .. } => json!(["result", tool, text]),
    })
}

impl ToolSpan {
    /// Reads the span of a tool. A status of error, or an `error.type`, says that the call failed, and `OK` that it did
    /// not; an unset status says nothing.
    pub(crate) fn from_span(span: &Span) -> Self {
        let value = |keys: &[&str]| {
            let found =
                keys.iter().filter_map(|key| span.attributes.get(*key)).find(|value| !value.is_null());
            found.map(parse_json)
        };
        let named = span.name.strip_prefix("execute_tool ").or_else(|| span.text(&["traceloop.entity.name"]));
        let tool = span.text(&TOOL_NAME).or(named).unwrap_or(&span.name);
        let has_failed = span.has_failed();
        let result = value(&[
            "gen_ai.tool.call.result",
            "gen_ai.tool.output",
            "ai.toolCall.result",
            "tool_response",
            "code.function.return.value",
            "tool.result",
            "output.value",
            "traceloop.entity.output",
        ]);
        let error = has_failed.then(|| error_text(span)).flatten();
        Self {
            id: span
                .text(&["gen_ai.tool.call.id", "tool_call.id", "ai.toolCall.id", "tool_call_id"])
                .map(str::to_owned),
            tool: tool.to_owned(),
            arguments: value(&[
                "gen_ai.tool.call.arguments",
                "gen_ai.tool.input",
                "ai.toolCall.args",
                "tool_arguments",
                "tool.parameters",
                "input.value",
                "traceloop.entity.input",
            ])
            .or_else(|| function_arguments(span)),
            result: result.map(|result| result_text(&result)).filter(|text| !text.is_empty()).or(error),
            is_error: match span.status {
                _ if has_failed => Some(true),
                SpanStatus::Ok => Some(false),
                _ => None,
            },
        }
    }
}

/// Returns the arguments that have an attribute each: `code.function.parameters.city.value`.
fn function_arguments(span: &Span) -> Option<Value> {
    let argument = |(key, value): (&String, &Value)| {
        let name = key.strip_prefix("code.function.parameters.")?.strip_suffix(".value")?;
        Some((name.to_owned(), value.clone()))
    };
    let arguments: serde_json::Map<String, Value> = span.attributes.iter().filter_map(argument).collect();
    (!arguments.is_empty()).then_some(Value::Object(arguments))
}

/// Returns what a failed span says of its error: its exception, the message of its status, or the kind of error.
fn error_text(span: &Span) -> Option<String> {
    let exception = span.events.iter().rev().find(|event| event.name == "exception");
    let exception = exception.and_then(|event| {
        let of = |key: &str| event.attributes.get(key).and_then(Value::as_str);
        match (of("exception.type"), of("exception.message")) {
            (Some(kind), Some(text)) => Some(format!("{kind}: {text}")),
            (kind, text) => text.or(kind).map(str::to_owned),
        }
    });
    let status = Some(&span.status_message).filter(|message| !message.is_empty()).cloned();
    exception.or(status).or_else(|| span.text(&["error.type"]).map(str::to_owned))
}
