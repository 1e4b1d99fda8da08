//! The protocol of `POST …/chat/completions`, as OpenAI defines it and most model servers speak it.

use retro_core::model_use::TokenUsage;
use retro_model::{ChatMessage, FailureKind, ModelError, ModelRequest, ModelResponse, StopReason, ToolUse};
use serde::Deserialize;
use serde_json::{Value, json};

/// Path below the base URL.
pub(crate) const PATH: &str = "chat/completions";

/// Builds the body of a request. Tools and instructions come first, so that the server can cache the beginning.
pub(crate) fn build_body(request: &ModelRequest, model: &str) -> Value {
    let tools = request.tools.iter().map(|tool| {
        let function =
            json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters});
        json!({"type": "function", "function": function})
    });
    let mut messages = vec![json!({"role": "system", "content": request.system})];
    messages.extend(request.messages.iter().flat_map(to_messages));
    let choice = match &request.forced_tool {
        Some(name) => json!({"type": "function", "function": {"name": name}}),
        None => json!("auto"),
    };
    let mut body = json!({
        "model": model,
        "messages": messages,
        "max_completion_tokens": request.output_tokens_max,
    });
    if !request.tools.is_empty() {
        body["tools"] = tools.collect();
        body["tool_choice"] = choice;
    }
    body
}

fn to_messages(message: &ChatMessage) -> Vec<Value> {
    match message {
        ChatMessage::User { text } => vec![json!({"role": "user", "content": text})],
        ChatMessage::Assistant { text, calls } => {
            let called = calls.iter().map(|call| {
                let function = json!({"name": call.name, "arguments": call.arguments});
                json!({"id": call.id, "type": "function", "function": function})
            });
            let called: Vec<Value> = called.collect();
            let mut answer = json!({"role": "assistant", "content": text});
            // An empty list is refused by some servers.
            if !called.is_empty() {
                answer["tool_calls"] = called.into();
            }
            vec![answer]
        }
        ChatMessage::Results { results } => results
            .iter()
            .map(|one| json!({"role": "tool", "tool_call_id": one.id, "content": one.text}))
            .collect(),
    }
}

#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<Call>>,
}

#[derive(Deserialize)]
struct Call {
    #[serde(default)]
    id: String,
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    #[serde(default)]
    arguments: String,
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
    prompt_tokens: u64,
    completion_tokens: u64,
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

/// Parses the body of a successful response.
pub(crate) fn parse_response(bytes: &[u8]) -> Result<ModelResponse, ModelError> {
    let Usage { prompt_tokens, completion_tokens, prompt_tokens_details } =
        serde_json::from_slice::<UsagePart>(bytes).unwrap_or_default().usage;
    let cached = prompt_tokens_details.and_then(|details| details.cached_tokens).unwrap_or_default();
    let usage = TokenUsage {
        input_tokens: prompt_tokens,
        cached_tokens: cached.min(prompt_tokens),
        output_tokens: completion_tokens,
    };
    let unreadable =
        |problem: &str| ModelError { usage, ..ModelError::new(FailureKind::Unreadable, problem) };
    // The error of the parser is left out, because it may quote the response.
    let completion: Completion = serde_json::from_slice(bytes)
        .map_err(|_| unreadable("its response is not one of chat/completions"))?;
    let choice = completion.choices.into_iter().next();
    let Choice { message, finish_reason } = choice.ok_or_else(|| unreadable("its response has no choice"))?;
    let stop = match finish_reason.as_deref() {
        _ if message.refusal.is_some() => StopReason::Refused,
        Some("content_filter") => StopReason::Refused,
        Some("length") => StopReason::CutOff,
        _ => StopReason::Complete,
    };
    let calls = message.tool_calls.unwrap_or_default().into_iter().enumerate().map(|(nth, call)| ToolUse {
        // Some servers leave the id out, and each result has to name its call.
        id: if call.id.is_empty() { format!("call_{nth}") } else { call.id },
        name: call.function.name,
        arguments: call.function.arguments,
    });
    Ok(ModelResponse { text: message.content.unwrap_or_default(), calls: calls.collect(), stop, usage })
}

#[cfg(test)]
mod tests {
    use retro_model::{ToolResult, ToolSpec};

    use super::*;

    #[test]
    fn a_conversation_becomes_messages_in_order() {
        let call = ToolUse { id: "c1".into(), name: "read".into(), arguments: "{\"turn\":1}".into() };
        let request = ModelRequest {
            tools: vec![ToolSpec { name: "read".into(), description: "reads".into(), parameters: json!({}) }],
            forced_tool: Some("read".into()),
            system: "S".into(),
            messages: vec![
                ChatMessage::User { text: "U".into() },
                ChatMessage::Assistant { text: String::new(), calls: vec![call] },
                ChatMessage::Results {
                    results: vec![ToolResult { id: "c1".into(), text: "R".into(), failed: false }],
                },
            ],
            output_tokens_max: 9,
        };
        let body = build_body(&request, "small");
        let roles: Vec<_> =
            body["messages"].as_array().unwrap().iter().map(|one| one["role"].clone()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "tool"]);
        assert_eq!(body["messages"][2]["tool_calls"][0]["function"]["arguments"], "{\"turn\":1}");
        assert_eq!(body["messages"][3]["tool_call_id"], "c1");
        assert_eq!(body["tool_choice"]["function"]["name"], "read");
        assert_eq!((&body["model"], &body["max_completion_tokens"]), (&json!("small"), &json!(9)));
    }

    #[test]
    fn an_answer_its_stop_and_its_usage_are_read() {
        let usage = json!({"prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}});
        let counted = TokenUsage { input_tokens: 10, cached_tokens: 4, output_tokens: 3 };
        let body = |message: Value, finish: &str| {
            json!({"choices": [{"message": message, "finish_reason": finish}], "usage": usage}).to_string()
        };
        let call =
            json!({"content": null, "tool_calls": [{"function": {"name": "read", "arguments": "{}"}}]});
        let read = parse_response(body(call, "tool_calls").as_bytes()).unwrap();
        assert_eq!(
            (read.calls[0].id.as_str(), read.stop, read.usage),
            ("call_0", StopReason::Complete, counted)
        );
        let cut = parse_response(body(json!({"content": "a"}), "length").as_bytes()).unwrap();
        assert_eq!((cut.text.as_str(), cut.stop), ("a", StopReason::CutOff));
        let refused = parse_response(body(json!({"refusal": "no"}), "stop").as_bytes()).unwrap();
        assert_eq!(refused.stop, StopReason::Refused);
        let unreadable = parse_response(json!({"choices": [], "usage": usage}).to_string().as_bytes());
        assert_eq!(unreadable.unwrap_err().usage, counted, "an answer that cannot be used is paid as well");
        let half = parse_response(b"{\"choices\": [{\"mess").unwrap_err();
        assert_eq!((half.kind, half.usage), (FailureKind::Unreadable, TokenUsage::default()));
    }
}
