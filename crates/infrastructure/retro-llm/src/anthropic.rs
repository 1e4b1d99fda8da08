//! The protocol of `POST …/messages`, as Anthropic defines it.

use retro_core::model_use::TokenUsage;
use retro_model::{ChatMessage, FailureKind, ModelError, ModelRequest, ModelResponse, StopReason, ToolUse};
use serde::Deserialize;
use serde_json::{Value, json};

/// Path below the base URL, which ends in `/v1`.
pub(crate) const PATH: &str = "messages";
/// Version of the protocol.
pub(crate) const VERSION: &str = "2023-06-01";

/// Builds the body of a request. Marks three places for the provider's cache: the end of the instructions, the end of a first
/// message that another one of the program follows, which many conversations begin with, and the end of the conversation,
/// because each call of a conversation begins with the whole call before. The protocol allows four marks.
pub(crate) fn build_body(request: &ModelRequest, model: &str) -> Value {
    let cached = json!({"type": "ephemeral"});
    let tools = request.tools.iter().map(
        |tool| json!({"name": tool.name, "description": tool.description, "input_schema": tool.parameters}),
    );
    let mut messages: Vec<Value> = request.messages.iter().map(to_message).collect();
    let is_shared =
        matches!(request.messages.as_slice(), [ChatMessage::User { .. }, ChatMessage::User { .. }, ..]);
    if let (true, Some(first)) = (is_shared, messages.first_mut()) {
        mark_end(first, &cached);
    }
    if let Some(last) = messages.last_mut() {
        mark_end(last, &cached);
    }
    let mut body = json!({
        "model": model,
        "max_tokens": request.output_tokens_max,
        "system": [{"type": "text", "text": request.system, "cache_control": cached}],
        "messages": messages,
    });
    if !request.tools.is_empty() {
        body["tools"] = tools.collect();
        body["tool_choice"] = match &request.forced_tool {
            Some(name) => json!({"type": "tool", "name": name}),
            None => json!({"type": "auto"}),
        };
    }
    body
}

/// Marks the end of a message for the provider's cache.
fn mark_end(message: &mut Value, cached: &Value) {
    if let Some(block) = message["content"].as_array_mut().and_then(|blocks| blocks.last_mut()) {
        block["cache_control"] = cached.clone();
    }
}

fn to_message(message: &ChatMessage) -> Value {
    match message {
        ChatMessage::User { text } => json!({"role": "user", "content": [{"type": "text", "text": text}]}),
        ChatMessage::Assistant { text, calls } => {
            let mut content = Vec::new();
            // An empty text is refused.
            if !text.is_empty() {
                content.push(json!({"type": "text", "text": text}));
            }
            content.extend(calls.iter().map(|call| {
                // The protocol wants an object; what was no JSON is answered with an error anyway.
                let input: Value = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({}));
                let input = if input.is_object() { input } else { json!({}) };
                json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
            }));
            if content.is_empty() {
                content.push(json!({"type": "text", "text": "(no answer)"}));
            }
            json!({"role": "assistant", "content": content})
        }
        ChatMessage::Results { results } => {
            let content = results.iter().map(|one| {
                json!({"type": "tool_result", "tool_use_id": one.id, "content": one.text, "is_error": one.failed})
            });
            json!({"role": "user", "content": content.collect::<Vec<_>>()})
        }
    }
}

#[derive(Deserialize)]
struct Message {
    content: Vec<Block>,
    #[serde(default)]
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        text: String,
    },
    ToolUse {
        id: String,
        name: String,
        input: Value,
    },
    /// A kind of content that is not asked for, such as thinking.
    #[serde(other)]
    Other,
}

/// The usage alone, so that it is counted even if the rest cannot be read.
#[derive(Deserialize, Default)]
#[serde(default)]
struct UsagePart {
    usage: Usage,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Usage {
    input_tokens: u64,
    output_tokens: u64,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

/// Parses the body of a successful response.
pub(crate) fn parse_response(bytes: &[u8]) -> Result<ModelResponse, ModelError> {
    let told = serde_json::from_slice::<UsagePart>(bytes).unwrap_or_default().usage;
    let cached = told.cache_read_input_tokens.unwrap_or_default();
    let usage = TokenUsage {
        // `input_tokens` leaves out what was read from the cache or written to it.
        input_tokens: told
            .input_tokens
            .saturating_add(cached)
            .saturating_add(told.cache_creation_input_tokens.unwrap_or_default()),
        cached_tokens: cached,
        output_tokens: told.output_tokens,
    };
    let unreadable = || {
        // The error of the parser is left out, because it may quote the response.
        let problem = "its response is not one of messages";
        ModelError { usage, ..ModelError::new(FailureKind::Unreadable, problem) }
    };
    let message: Message = serde_json::from_slice(bytes).map_err(|_| unreadable())?;
    let stop = match message.stop_reason.as_deref() {
        Some("refusal") => StopReason::Refused,
        Some("max_tokens" | "model_context_window_exceeded") => StopReason::CutOff,
        _ => StopReason::Complete,
    };
    let mut response = ModelResponse { stop, usage, ..ModelResponse::default() };
    for block in message.content {
        match block {
            Block::Text { text } => response.text.push_str(&text),
            Block::ToolUse { id, name, input } => {
                response.calls.push(ToolUse { id, name, arguments: input.to_string() });
            }
            Block::Other => {}
        }
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use retro_model::ToolResult;

    use super::*;

    #[test]
    fn a_conversation_becomes_alternating_messages_whose_end_is_cached() {
        let call =
            |arguments: &str| ToolUse { id: "c1".into(), name: "read".into(), arguments: arguments.into() };
        let result = ToolResult { id: "c1".into(), text: "R".into(), failed: true };
        let request = ModelRequest {
            tools: Vec::new(),
            forced_tool: None,
            system: "S".into(),
            messages: vec![
                ChatMessage::User { text: "U".into() },
                ChatMessage::Assistant {
                    text: String::new(),
                    calls: vec![call("{\"a\":1}"), call("half {")],
                },
                ChatMessage::Results { results: vec![result] },
            ],
            output_tokens_max: 9,
        };
        let body = build_body(&request, "small");
        assert_eq!(body["system"][0]["cache_control"]["type"], "ephemeral");
        assert_eq!(body["messages"][1]["content"][0]["input"], json!({"a": 1}));
        assert_eq!(body["messages"][1]["content"][1]["input"], json!({}));
        let last = &body["messages"][2]["content"][0];
        assert_eq!((&last["is_error"], &last["cache_control"]["type"]), (&json!(true), &json!("ephemeral")));
        assert_eq!(body["messages"][0]["content"][0].get("cache_control"), None);
    }

    #[test]
    fn an_answer_its_stop_and_its_usage_are_read() {
        let usage = json!({"input_tokens": 5, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 1, "output_tokens": 3});
        let counted = TokenUsage { input_tokens: 10, cached_tokens: 4, output_tokens: 3 };
        let content = json!([
            {"type": "thinking", "thinking": "…"},
            {"type": "text", "text": "a"},
            {"type": "tool_use", "id": "t", "name": "read", "input": {"turn": 1}}
        ]);
        let body = json!({"content": content, "stop_reason": "tool_use", "usage": usage}).to_string();
        let read = parse_response(body.as_bytes()).unwrap();
        assert_eq!(
            (read.text.as_str(), read.calls[0].arguments.as_str(), read.usage),
            ("a", "{\"turn\":1}", counted)
        );
        let refused = json!({"content": [], "stop_reason": "refusal", "usage": usage}).to_string();
        assert_eq!(parse_response(refused.as_bytes()).unwrap().stop, StopReason::Refused);
        let wrong = json!({"content": "no list", "usage": usage}).to_string();
        assert_eq!(parse_response(wrong.as_bytes()).unwrap_err().usage, counted);
    }
}
