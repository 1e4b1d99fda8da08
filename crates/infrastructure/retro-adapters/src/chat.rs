//! Parser for chat messages as OpenAI's API has them, which many harnesses write: a list of messages, one message a line,
//! or an object with `messages`, each of which is a run. Content parts as in Anthropic's API are read too.

use retro_core::dead_letter::{DeadLetterCode, Rejection};
use serde_json::{Value, json};

use crate::conversation::{Conversation, ConversationFormat, add_parts, result_text, text_of};
use crate::import::{ImportOptions, ImportedRun};

const FORMAT: ConversationFormat =
    ConversationFormat { source: "retro-emit/chat", workflow: "chat", id_path: "id" };

/// Returns `true` if a document is one message of a conversation.
pub(crate) fn is_message(document: &Value) -> bool {
    document.get("role").is_some_and(Value::is_string)
}

/// Parses a document with the messages of one run.
pub(crate) fn parse_document(
    document: &Value,
    options: &ImportOptions,
) -> Result<Vec<ImportedRun>, Rejection> {
    let Some(messages) = document.get("messages").and_then(Value::as_array) else {
        let detail = "is no list of messages";
        return Err(Rejection::of_field(DeadLetterCode::TrajectoryInvalid, "messages", detail));
    };
    // What a log of requests has beside the messages: the reply to the last one.
    let reply = document.pointer("/response/choices/0/message");
    let messages: Vec<&Value> = messages.iter().chain(reply).collect();
    let run = parse_messages(&messages, options);
    run.map(|run| vec![run]).map_err(|rejection| Rejection {
        path: Some(format!("messages{}", rejection.path.unwrap_or_default())),
        ..rejection
    })
}

/// Parses the messages of one run.
pub(crate) fn parse_messages(messages: &[&Value], options: &ImportOptions) -> Result<ImportedRun, Rejection> {
    let mut conversation = Conversation::new(&FORMAT);
    for (nth, message) in messages.iter().enumerate() {
        if !add_message(&mut conversation, message) {
            let detail =
                "is no message: it needs a `role` of system, developer, user, assistant, tool or function";
            return Err(Rejection::of_field(DeadLetterCode::TrajectoryInvalid, format!("[{nth}]"), detail));
        }
    }
    conversation.into_run(&FORMAT, options)
}

/// Adds a message. Returns `false` if it has no role that is known.
fn add_message(conversation: &mut Conversation, message: &Value) -> bool {
    let text = |name: &str| message.get(name).and_then(Value::as_str);
    let content = message.get("content").unwrap_or(&Value::Null);
    match text("role").unwrap_or_default() {
        "system" | "developer" => conversation.add_message("system", &text_of(content), None),
        "user" => {
            add_parts(conversation, "user", content, None);
        }
        "assistant" => {
            let reasoning = text("reasoning_content").or_else(|| text("reasoning"));
            conversation.add_reasoning(reasoning.unwrap_or_default(), None);
            add_parts(conversation, "agent", content, None);
            let calls = message.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
            for call in calls.map(|call| (call.get("id").and_then(Value::as_str), call.get("function"))) {
                add_call(conversation, call.0, call.1);
            }
            // The older form, of which a message has one; its result names the function.
            if let Some(function) = message.get("function_call").filter(|call| call.is_object()) {
                add_call(conversation, function.get("name").and_then(Value::as_str), Some(function));
            }
        }
        "tool" | "function" => {
            let id = text("tool_call_id").or_else(|| text("name")).unwrap_or_default();
            let is_error = message.get("is_error").and_then(Value::as_bool);
            conversation.add_result(id, &result_text(content), is_error, None);
        }
        _ => return false,
    }
    true
}

fn add_call(conversation: &mut Conversation, id: Option<&str>, function: Option<&Value>) {
    let of = |name: &str| function.and_then(|function| function.get(name));
    let arguments = of("arguments").cloned().unwrap_or_else(|| json!({}));
    let name = of("name").and_then(Value::as_str).unwrap_or("unknown");
    conversation.add_call(id, name, arguments, None);
}
