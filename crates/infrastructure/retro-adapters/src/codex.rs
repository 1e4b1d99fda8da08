//! Parser for the sessions of Codex CLI: one session a file, one line an item.
//!
//! A line has a `type` and a `payload`. `session_meta` names the session, `turn_context` the model, and each
//! `response_item` is a message, a thought, a call of a tool or its output. Events for the screen (`event_msg`) repeat the
//! items and are left out, but for the count of tokens.

use retro_core::dead_letter::Rejection;
use serde_json::{Value, json};

use crate::conversation::{
    Conversation, ConversationFormat, command_arguments, command_line, result_text, text_of,
};
use crate::import::{ImportOptions, ImportedRun};

const FORMAT: ConversationFormat =
    ConversationFormat { source: "retro-emit/codex", workflow: "codex", id_path: "payload.id" };

/// Parses the lines of a file, which are one run.
pub(crate) fn parse_session(lines: &[&Value], options: &ImportOptions) -> Result<ImportedRun, Rejection> {
    let mut session = Conversation::new(&FORMAT);
    for line in lines {
        let Some(payload) = line.get("payload") else { continue };
        let time = line.get("timestamp").and_then(Value::as_str);
        let text = |pointer: &str| payload.pointer(pointer).and_then(Value::as_str);
        match line.get("type").and_then(Value::as_str).unwrap_or_default() {
            "session_meta" => {
                session.id = text("/id").map(str::to_owned).or(session.id);
                session.version = text("/cli_version").map(str::to_owned);
                session.commit = text("/git/commit_hash").map(str::to_owned);
                session.repo = text("/git/repository_url").map(str::to_owned);
            }
            "turn_context" => session.model = text("/model").map(str::to_owned).or(session.model),
            "event_msg" if text("/type") == Some("token_count") => {
                let total = |name| payload.pointer(&format!("/info/total_token_usage/{name}"))?.as_u64();
                session.usage.input_tokens = total("input_tokens").or(session.usage.input_tokens);
                session.usage.output_tokens = total("output_tokens").or(session.usage.output_tokens);
            }
            "response_item" => {
                session.note_time(time);
                add_item(&mut session, payload, time);
            }
            _ => {}
        }
    }
    session.into_run(&FORMAT, options)
}

fn add_item(session: &mut Conversation, item: &Value, time: Option<&str>) {
    let text = |name: &str| item.get(name).and_then(Value::as_str);
    let value = |name: &str| item.get(name).unwrap_or(&Value::Null);
    match text("type").unwrap_or("message") {
        "message" => {
            let source = match text("role") {
                Some("assistant") => "agent",
                Some("user") => "user",
                _ => "system",
            };
            session.add_message(source, &text_of(value("content")), time);
        }
        "reasoning" => session.add_reasoning(&text_of(value("summary")), time),
        "function_call" => {
            let arguments = item.get("arguments").cloned().unwrap_or_else(|| json!({}));
            let arguments = command_arguments(arguments, &["workdir", "justification"]);
            session.add_call(text("call_id"), text("name").unwrap_or("unknown"), arguments, time);
        }
        "custom_tool_call" => {
            let input = value("input").clone();
            session.add_call(
                text("call_id"),
                text("name").unwrap_or("unknown"),
                json!({"input": input}),
                time,
            );
        }
        "local_shell_call" => {
            let command = item.pointer("/action/command").map(command_line).unwrap_or_default();
            session.add_call(text("call_id"), "local_shell", json!({"command": command}), time);
        }
        "function_call_output" | "custom_tool_call_output" | "local_shell_call_output" => {
            let (output, is_error) = read_output(value("output"));
            session.add_result(text("call_id").unwrap_or_default(), &output, is_error, time);
        }
        _ => {}
    }
}

/// Returns the text of an output and whether the call failed, if the output says so: it is text, or an object, which may
/// be written as text, with the text in `output` or `content`.
fn read_output(output: &Value) -> (String, Option<bool>) {
    let parsed = output.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let fields = parsed.as_ref().filter(|parsed| parsed.is_object()).unwrap_or(output);
    let exit = fields.pointer("/metadata/exit_code").and_then(Value::as_i64).map(|code| code != 0);
    let success = fields.get("success").and_then(Value::as_bool).map(|success| !success);
    match fields.get("output").or_else(|| fields.get("content")) {
        Some(text) => (result_text(text), exit.or(success)),
        None => (result_text(output), exit.or(success)),
    }
}
