//! Reads the messages of a model's request and reply from a span, in every shape that instrumentations write.
//!
//! A shape is recognized by its structure. The first that gives messages is used, since instrumentations write several:
//!
//! 1. `gen_ai.input.messages` and `gen_ai.output.messages`, with `gen_ai.system_instructions`
//! 2. attributes with a number a message: `gen_ai.prompt.0.role`, `llm.input_messages.0.message.role`
//! 3. events of the span, each a message (`gen_ai.user.message`), or with the messages in an attribute
//! 4. any other attribute whose value is JSON with messages, or a list of events with their content
//! 5. text without a role: `input.value`, `gen_ai.prompt`, `gen_ai.completion`, `output.value`

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::span::{Attributes, Span, SpanEvent};
use crate::conversation::{result_text, text_of};

/// A part of a message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Part {
    /// Text of `system`, `user` or `agent`.
    Text(&'static str, String),
    /// What the model thought.
    Reasoning(String),
    /// A call of a tool.
    Call { id: Option<String>, tool: String, arguments: Value },
    /// The result of a call.
    Result { id: Option<String>, tool: Option<String>, text: String, is_error: Option<bool> },
}

/// Whether messages were sent to the model, or are its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Input,
    Output,
}

/// Attributes of a shape with a number a message.
const NUMBERED: [(&str, Direction); 4] = [
    ("gen_ai.prompt.", Direction::Input),
    ("llm.input_messages.", Direction::Input),
    ("gen_ai.completion.", Direction::Output),
    ("llm.output_messages.", Direction::Output),
];
/// Attributes with text, or with JSON that is no message.
const PLAIN: [(&str, Direction); 8] = [
    ("gen_ai.prompt", Direction::Input),
    ("input.value", Direction::Input),
    ("traceloop.entity.input", Direction::Input),
    ("ai.prompt", Direction::Input),
    ("gen_ai.completion", Direction::Output),
    ("output.value", Direction::Output),
    ("traceloop.entity.output", Direction::Output),
    ("ai.response.text", Direction::Output),
];
/// Maximum nesting of JSON in which messages are looked for.
const DEPTH_MAX: usize = 4;

/// Returns the parts of the messages in this direction, in order.
pub(crate) fn read_parts(span: &Span, direction: Direction) -> Vec<Part> {
    let mut parts = Vec::new();
    if direction == Direction::Input {
        let system = span.attributes.get("gen_ai.system_instructions").map(parse_json);
        add_content(&mut parts, "system", &system.unwrap_or_default());
    }
    let before = parts.len();
    let shapes: [fn(&Span, Direction, &mut Vec<Part>); 4] =
        [add_standard, add_numbered, add_events, add_structured];
    for add in shapes {
        add(span, direction, &mut parts);
        if parts.len() > before {
            break;
        }
    }
    // A reply whose text and calls are in attributes of their own.
    let has_text = parts.iter().any(|part| matches!(part, Part::Text(..)));
    if direction == Direction::Output && !parts.is_empty() && !has_text {
        let text = span.text(&["ai.response.text"]);
        parts.splice(0..0, text.map(|text| Part::Text("agent", text.to_owned())));
    }
    parts
}

fn add_standard(span: &Span, direction: Direction, parts: &mut Vec<Part>) {
    let key = match direction {
        Direction::Input => "gen_ai.input.messages",
        Direction::Output => "gen_ai.output.messages",
    };
    add_attribute(&span.attributes, key, direction, parts);
}

fn add_attribute(attributes: &Attributes, key: &str, direction: Direction, parts: &mut Vec<Part>) {
    if let Some(value) = attributes.get(key) {
        find_messages(&parse_json(value), direction, DEPTH_MAX, parts);
    }
}

fn add_numbered(span: &Span, direction: Direction, parts: &mut Vec<Part>) {
    for (prefix, _) in NUMBERED.iter().filter(|(_, of)| *of == direction) {
        for message in unflatten(&span.attributes, prefix) {
            find_messages(&message, direction, DEPTH_MAX, parts);
        }
    }
}

/// Returns the values of attributes such as `gen_ai.prompt.0.role`, one an index.
fn unflatten(attributes: &Attributes, prefix: &str) -> Vec<Value> {
    let mut items: BTreeMap<u32, Value> = BTreeMap::new();
    for (key, value) in attributes {
        let Some((index, path)) = key.strip_prefix(prefix).and_then(|rest| rest.split_once('.')) else {
            continue;
        };
        if let Ok(index) = index.parse() {
            insert_at(items.entry(index).or_insert_with(|| json!({})), path, value, DEPTH_MAX * 3);
        }
    }
    items.into_values().map(lists_from_numbers).collect()
}

/// Inserts a value at a dotted path.
fn insert_at(object: &mut Value, path: &str, value: &Value, depth: usize) {
    let Some(members) = object.as_object_mut() else { return };
    match path.split_once('.') {
        Some((name, rest)) if depth > 0 => {
            let inner = members.entry(name).or_insert_with(|| json!({}));
            insert_at(inner, rest, value, depth - 1);
        }
        _ => {
            members.insert(path.to_owned(), value.clone());
        }
    }
}

/// Turns objects whose names are all numbers into lists.
fn lists_from_numbers(value: Value) -> Value {
    let Value::Object(members) = value else { return value };
    let numbers: Option<Vec<u32>> = members.keys().map(|name| name.parse().ok()).collect();
    match numbers.filter(|numbers| !numbers.is_empty()) {
        Some(_) => {
            let by_number: BTreeMap<u32, Value> =
                members.into_iter().filter_map(|(name, item)| Some((name.parse().ok()?, item))).collect();
            by_number.into_values().map(lists_from_numbers).collect()
        }
        None => members.into_iter().map(|(name, item)| (name, lists_from_numbers(item))).collect(),
    }
}

fn add_events(span: &Span, direction: Direction, parts: &mut Vec<Part>) {
    for event in &span.events {
        add_standard_of_event(event, direction, parts);
        if event_direction(&event.name) == Some(direction) {
            add_event(&event.name, &Value::Object(event.attributes.clone()), parts);
        }
    }
}

/// Adds the messages of `gen_ai.client.inference.operation.details` and of the older `gen_ai.content.prompt`.
fn add_standard_of_event(event: &SpanEvent, direction: Direction, parts: &mut Vec<Part>) {
    let keys: [&str; 2] = match direction {
        Direction::Input => ["gen_ai.input.messages", "gen_ai.prompt"],
        Direction::Output => ["gen_ai.output.messages", "gen_ai.completion"],
    };
    keys.iter().for_each(|key| add_attribute(&event.attributes, key, direction, parts));
}

/// Returns the direction of an event that is a message; `None` for any other.
fn event_direction(name: &str) -> Option<Direction> {
    match name.strip_prefix("gen_ai.")? {
        "choice" => Some(Direction::Output),
        "system.message" | "user.message" | "assistant.message" | "tool.message" => Some(Direction::Input),
        _ => None,
    }
}

/// Adds a message that is an event. Its role is that of its name, unless it says one.
fn add_event(name: &str, body: &Value, parts: &mut Vec<Part>) {
    let role = name.strip_prefix("gen_ai.").and_then(|rest| rest.strip_suffix(".message"));
    let mut message: Map<String, Value> = body.as_object().cloned().unwrap_or_default();
    for value in message.values_mut() {
        *value = parse_json(value);
    }
    if let Some(Value::Object(inner)) = message.get("message").cloned() {
        message.extend(inner);
    } else if let Some(text) = message.remove("message") {
        message.insert("content".into(), text);
    }
    let role = message.get("role").and_then(Value::as_str).or(role).unwrap_or("assistant").to_owned();
    message.insert("role".into(), role.into());
    add_message(&Value::Object(message), parts);
}

/// Adds the messages of other attributes: the name of one says whether it is a reply.
fn add_structured(span: &Span, direction: Direction, parts: &mut Vec<Part>) {
    let before = parts.len();
    for (key, value) in &span.attributes {
        let is_reply = ["output", "response", "completion", "result"].iter().any(|word| key.contains(word));
        let value = parse_json(value);
        if is_event_list(key, &value) {
            for event in value.as_array().into_iter().flatten() {
                let is_choice = event.get("message").is_some_and(Value::is_object);
                let default = if is_choice { "gen_ai.choice" } else { "gen_ai.user.message" };
                let name = event.get("event.name").and_then(Value::as_str).unwrap_or(default);
                if event_direction(name) == Some(direction) {
                    add_event(name, event, parts);
                }
            }
        } else if is_reply == (direction == Direction::Output) {
            find_messages(&value, direction, DEPTH_MAX, parts);
        }
        // One attribute is enough: others have the same in another shape.
        if parts.len() > before {
            break;
        }
    }
}

fn is_event_list(key: &str, value: &Value) -> bool {
    let is_event = |item: &Value| {
        item.get("event.name").is_some() || item.get("role").is_some() || item.get("message").is_some()
    };
    let items = value.as_array();
    let is_named = key == "events" || key.ends_with("_events");
    items.is_some_and(|items| {
        items.iter().any(|item| item.get("event.name").is_some()) || (is_named && items.iter().any(is_event))
    })
}

/// Returns the text of a request or reply that has no messages.
pub(crate) fn read_plain(span: &Span, direction: Direction) -> Vec<Part> {
    let mut parts = Vec::new();
    let role = if direction == Direction::Input { "user" } else { "assistant" };
    let keys = PLAIN.iter().filter(|(_, of)| *of == direction);
    if let Some(value) = keys.filter_map(|(key, _)| span.attributes.get(*key)).next() {
        add_content(&mut parts, role, &Value::String(result_text(value)));
    }
    parts
}

/// Adds the messages in a value: a message, a list of them, or an object that contains one of the two.
fn find_messages(value: &Value, direction: Direction, depth: usize, parts: &mut Vec<Part>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    match value {
        Value::Array(items) => {
            for item in items {
                find_messages(item, direction, depth, parts);
            }
        }
        Value::Object(members) if is_message(members) => add_message(value, parts),
        Value::Object(members) => {
            let before = parts.len();
            for name in ["messages", "message", "choices", "generations", "input", "output"] {
                if let Some(found @ (Value::Array(_) | Value::Object(_))) = members.get(name) {
                    find_messages(found, direction, depth, parts);
                }
            }
            if parts.len() > before {
                return;
            }
            // Requests and replies that are one text.
            let (role, names) = match direction {
                Direction::Input => ("user", &["prompt"][..]),
                Direction::Output => ("assistant", &["combined_chunk_content", "text", "completion"][..]),
            };
            if let Some(text) = names.iter().find_map(|name| members.get(*name)?.as_str()) {
                add_content(parts, role, &text.into());
            }
        }
        _ => {}
    }
}

fn is_message(members: &Map<String, Value>) -> bool {
    let said = ["content", "parts", "tool_calls", "function_call", "tool_call_id", "contents"];
    let has_role = members.get("role").is_some_and(Value::is_string);
    let is_item = members.get("type").and_then(Value::as_str).is_some_and(|kind| {
        matches!(kind, "function_call" | "function_call_output" | "reasoning" | "tool_use" | "tool_result")
    });
    let is_call =
        members.contains_key("toolName") && ["args", "input"].iter().any(|name| members.contains_key(*name));
    (has_role && said.iter().any(|name| members.contains_key(*name))) || is_item || is_call
}

/// Adds the parts of a message.
fn add_message(message: &Value, parts: &mut Vec<Part>) {
    let text = |name: &str| message.get(name).and_then(Value::as_str).map(str::to_owned);
    if message.get("role").is_none() {
        add_part(parts, "agent", message);
        return;
    }
    let role = text("role").unwrap_or_default();
    let content =
        ["parts", "content", "contents"].iter().filter_map(|name| message.get(*name)).find(|c| !c.is_null());
    let content = parse_parts(content.unwrap_or(&Value::Null));
    let tool_id = text("tool_call_id").or_else(|| text("id"));
    let has_result = content.as_array().is_some_and(|items| items.iter().any(is_result));
    if matches!(role.as_str(), "tool" | "function") && !has_result {
        let is_error = message.get("is_error").and_then(Value::as_bool);
        parts.push(Part::Result { id: tool_id, tool: text("name"), text: result_text(&content), is_error });
        return;
    }
    if let Some(thought) = text("reasoning_content").or_else(|| text("reasoning")) {
        parts.push(Part::Reasoning(thought));
    }
    add_content(parts, &role, &content);
    let calls = message.get("tool_calls").map(parse_json);
    for call in calls.as_ref().and_then(Value::as_array).into_iter().flatten() {
        add_call(parts, call);
    }
    if let Some(call) = message.get("function_call").filter(|call| call.is_object()) {
        add_call(parts, call);
    }
}

/// Adds what a message says: text, or a list of parts.
fn add_content(parts: &mut Vec<Part>, role: &str, content: &Value) {
    let source = match role {
        "system" | "developer" => "system",
        "assistant" | "model" | "ai" => "agent",
        _ => "user",
    };
    match content {
        Value::String(text) if !text.trim().is_empty() => parts.push(Part::Text(source, text.clone())),
        Value::Array(items) => items.iter().for_each(|item| add_part(parts, source, item)),
        Value::Object(_) => add_part(parts, source, content),
        _ => {}
    }
}

fn add_part(parts: &mut Vec<Part>, source: &'static str, part: &Value) {
    // OpenInference names each part by what it is.
    let part = ["message_content", "tool_call"].iter().find_map(|name| part.get(*name)).unwrap_or(part);
    let text = |name: &str| part.get(name).and_then(Value::as_str).map(str::to_owned);
    let kind = text("type").or_else(|| text("kind")).unwrap_or_default();
    match kind.as_str() {
        "tool_call" | "tool_use" | "server_tool_use" | "function_call" | "tool-call" | "function" => {
            add_call(parts, part);
        }
        "" if part.get("toolName").is_some() => add_call(parts, part),
        _ if is_result(part) => {
            let names = ["response", "result", "content", "output"];
            let result = names.iter().filter_map(|name| part.get(*name)).find(|value| !value.is_null());
            let names = ["id", "tool_use_id", "tool_call_id", "call_id", "toolCallId"];
            let id = names.iter().find_map(|name| text(name));
            let is_error = part.get("is_error").or_else(|| part.get("isError")).and_then(Value::as_bool);
            let result = result.map(unwrap_result).unwrap_or_default();
            parts.push(Part::Result {
                id,
                tool: text("name").or_else(|| text("toolName")),
                text: result,
                is_error,
            });
        }
        "reasoning" | "thinking" => {
            let summary = part.get("summary").map(text_of).filter(|text| !text.is_empty());
            let thought = text("content").or_else(|| text("thinking")).or_else(|| text("text")).or(summary);
            parts.extend(thought.filter(|text| !text.trim().is_empty()).map(Part::Reasoning));
        }
        _ => {
            let said = part.as_str().map(str::to_owned).or_else(|| text("content")).or_else(|| text("text"));
            parts.extend(said.filter(|text| !text.trim().is_empty()).map(|text| Part::Text(source, text)));
        }
    }
}

fn is_result(part: &Value) -> bool {
    let kind = part.get("type").or_else(|| part.get("kind")).and_then(Value::as_str);
    matches!(
        kind,
        Some("tool_call_response" | "tool_result" | "function_call_output" | "tool-result" | "tool_response")
    )
}

/// Returns the text of a result, which some SDKs wrap with the type of its value.
fn unwrap_result(result: &Value) -> String {
    match (result.get("type"), result.get("value")) {
        (Some(_), Some(value)) => result_text(value),
        _ => result_text(result),
    }
}

/// Adds a call: name and arguments beside its id, or in a `function`.
fn add_call(parts: &mut Vec<Part>, call: &Value) {
    let call = call.get("tool_call").unwrap_or(call);
    let of = |names: &[&str]| {
        let inside = call.get("function").filter(|function| function.is_object());
        [Some(call), inside].into_iter().flatten().find_map(|at| names.iter().find_map(|name| at.get(*name)))
    };
    let id = of(&["id", "call_id", "toolCallId", "tool_call_id"]).and_then(Value::as_str);
    let tool = of(&["name", "toolName", "tool_name"]).and_then(Value::as_str).unwrap_or("unknown");
    let arguments = of(&["arguments", "input", "args"]).map(parse_json);
    parts.push(Part::Call {
        id: id.filter(|id| !id.is_empty()).map(str::to_owned),
        tool: tool.to_owned(),
        arguments: arguments.filter(|arguments| !arguments.is_null()).unwrap_or_else(|| json!({})),
    });
}

/// Returns the JSON in a text that contains an object or a list, and any other value as it is.
pub(crate) fn parse_json(value: &Value) -> Value {
    let text = value.as_str().map(str::trim_start).filter(|text| text.starts_with(['{', '[']));
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_else(|| value.clone())
}

/// Returns the parts in a text that is a list of them, and any other content as it is.
fn parse_parts(content: &Value) -> Value {
    let parsed = parse_json(content);
    let has_parts = |items: &Vec<Value>| {
        !items.is_empty() && items.iter().all(|item| item.get("type").or_else(|| item.get("kind")).is_some())
    };
    if content.is_string() && !parsed.as_array().is_some_and(has_parts) { content.clone() } else { parsed }
}
