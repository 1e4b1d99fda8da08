//! Schemas of arguments and answers, and the text of answers.

use std::sync::Arc;

use retro_core::memory::Evidence;
use retro_core::recall::hint_at_tools;
use retro_gateway::{
    ContextAnswer, FeedbackAnswer, LessonAnswer, MemoryAnswer, MemoryText, RulesAnswer, SearchAnswer,
};
use rmcp::handler::server::tool::schema_for_input;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// Returns the schema of the arguments of a tool.
pub(crate) fn input_schema<T: JsonSchema + 'static>() -> Arc<JsonObject> {
    let schema = schema_for_input::<T>().expect("arguments are described as an object");
    let mut schema = JsonObject::clone(&schema);
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for property in properties.values_mut().filter_map(Value::as_object_mut) {
            // Names of Rust's integers, about which validators of clients complain.
            property.remove("format");
            // What leaving it out means is said in the description.
            property.remove("default");
        }
    }
    Arc::new(schema)
}

/// Where an OpenAPI document has the schemas that others refer to.
const OPENAPI_SCHEMAS: &str = "#/components/schemas/";

/// Returns the schema of an answer, from the description of the HTTP API, which answers the same.
pub(crate) fn output_schema<T: ToSchema>() -> Arc<JsonObject> {
    let mut parts = Vec::new();
    T::schemas(&mut parts);
    let parts: serde_json::Map<String, Value> =
        parts.into_iter().map(|(name, schema)| (name, to_value(&schema))).collect();
    let mut schema = to_value(&T::schema());
    schema["$defs"] = Value::Object(parts);
    refer_to_defs(&mut schema);
    match schema {
        Value::Object(schema) => Arc::new(schema),
        other => unreachable!("the schema of an answer is an object: {other}"),
    }
}

fn refer_to_defs(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(target)) = fields.get_mut("$ref") {
                *target = target.replace(OPENAPI_SCHEMAS, "#/$defs/");
            }
            fields.values_mut().for_each(refer_to_defs);
        }
        Value::Array(items) => items.iter_mut().for_each(refer_to_defs),
        _ => {}
    }
}

fn to_value(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("answers and schemas always serialize")
}

/// Returns the result of a tool: a text for the model, and the whole answer for programs.
pub(crate) fn tool_result(text: String, answer: &impl Serialize) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(to_value(answer));
    result
}

/// Returns the result of a tool that could not do what was asked, in words that its caller can act on.
pub(crate) fn tool_error(problem: String) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(problem)])
}

/// Names the tools in the blocks of an answer, where they name HTTP.
pub(crate) fn name_tools(answer: ContextAnswer) -> ContextAnswer {
    let text = hint_at_tools(&answer.text);
    let rules = answer.rules.map(|rules| RulesAnswer { text: hint_at_tools(&rules.text), ..rules });
    ContextAnswer { text, rules, ..answer }
}

/// Returns the blocks for the prompt, of memories and of rules, or the reason why there is none.
pub(crate) fn context_text(answer: &ContextAnswer) -> String {
    let rules = answer.rules.as_ref().map_or("", |rules| &rules.text);
    let blocks: Vec<&str> =
        [answer.text.as_str(), rules].into_iter().filter(|text| !text.is_empty()).collect();
    if blocks.is_empty() { reason_or(answer.reason.as_deref(), "no memories") } else { blocks.join("\n\n") }
}

/// Returns the block of what was found, or the reason why nothing was.
pub(crate) fn search_text(answer: &SearchAnswer) -> String {
    if answer.text.is_empty() {
        reason_or(answer.reason.as_deref(), "nothing was found")
    } else {
        answer.text.clone()
    }
}

/// Returns a memory in full, or the reason why it is not shown.
pub(crate) fn memory_text(answer: &MemoryAnswer) -> String {
    let Some(memory) = &answer.memory else {
        return reason_or(answer.reason.as_deref(), "the memory is not shown");
    };
    let MemoryText { id, status, weight, title, content, observed_runs, evidence, .. } = memory;
    let status = status.as_str();
    let mut text = format!(
        "{title}\n\n{content}\n\nMemory {id}: {status}, weight {weight}, seen in {observed_runs} runs."
    );
    for Evidence { run, quote, .. } in evidence {
        // As a JSON string, so that a quote cannot pass for a line of ours.
        text.push_str(&format!("\nRun {run}: {}", to_value(&quote.text)));
    }
    text
}

/// Returns what became of a lesson.
pub(crate) fn lesson_text(answer: &LessonAnswer) -> String {
    match to_value(&answer.saved) {
        Value::String(saved) => format!("{saved}: {}", answer.reason),
        other => unreachable!("an outcome is a word: {other}"),
    }
}

/// Returns what became of the feedback.
pub(crate) fn feedback_text(answer: &FeedbackAnswer) -> String {
    match to_value(&answer.recorded) {
        Value::String(recorded) => format!("{recorded}: {}", answer.reason),
        other => unreachable!("an outcome is a word: {other}"),
    }
}

fn reason_or(reason: Option<&str>, otherwise: &str) -> String {
    reason.unwrap_or(otherwise).to_owned()
}
