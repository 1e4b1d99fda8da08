//! The tools: their descriptions, and what each asks the gateway.

use std::sync::LazyLock;

use retro_core::id::Tenant;
use retro_core::learn::LessonFieldError;
use retro_gateway::{
    ContextAnswer, FeedbackAnswer, FeedbackError, Gateway, LessonAnswer, LessonSaver, MemoryAnswer,
    SearchAnswer, answer_lesson,
};
use retro_store::UnresolvedRef;
use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use utoipa::ToSchema;

use crate::arguments::{
    FeedbackArguments, ListArguments, ReadArguments, SaveArguments, SearchArguments, parse_arguments,
};
use crate::output::{
    context_text, feedback_text, input_schema, lesson_text, memory_text, name_tools, output_schema,
    search_text, tool_error, tool_result,
};

const LIST: &str = "memory_list";
const SEARCH: &str = "memory_search";
const READ: &str = "memory_read";
const FEEDBACK: &str = "memory_feedback";
const SAVE: &str = "memory_save";

static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    vec![
        build_tool::<ListArguments, ContextAnswer>(
            LIST,
            "List memories",
            "Returns what was learnt in earlier runs of this step, and with `repo` the rules of the repository. Call it \
             once, before you begin the step.",
            Effect::Reads,
        ),
        build_tool::<SearchArguments, SearchAnswer>(
            SEARCH,
            "Search memories",
            "Finds memories and rules about a text. Call it while you work: when something fails, or before you do \
             something for the first time.",
            Effect::Reads,
        ),
        build_tool::<ReadArguments, MemoryAnswer>(
            READ,
            "Read a memory",
            "Returns one memory or rule in full, with quotes from the runs that showed it. Call it before you act on \
             one of which you have seen the title only.",
            Effect::Reads,
        ),
        build_tool::<FeedbackArguments, FeedbackAnswer>(
            FEEDBACK,
            "Give feedback on a memory",
            "Says that a memory or rule helped, hurt or is wrong. It changes how much the memory weighs in later runs. \
             Call it once for each that made a difference.",
            Effect::Adds,
        ),
        build_tool::<SaveArguments, LessonAnswer>(
            SAVE,
            "Save a lesson",
            "Saves what you found out about a call that failed: which tool, what it answered, and what made it work. No \
             agent is told it before a separate run shows the same. Call it when you had to find out for yourself.",
            Effect::Adds,
        ),
    ]
});

/// What a tool does to what it works on.
#[derive(Clone, Copy)]
enum Effect {
    /// It shows something. That a run was shown it is recorded, which changes nothing that anybody is shown now.
    Reads,
    /// It adds a verdict or a lesson, once however often it is called.
    Adds,
}

fn build_tool<A: JsonSchema + 'static, T: ToSchema>(
    name: &'static str,
    title: &str,
    description: &'static str,
    effect: Effect,
) -> Tool {
    let arguments = input_schema::<A>();
    let reads = matches!(effect, Effect::Reads);
    let annotations = ToolAnnotations::with_title(title).read_only(reads).destructive(false);
    Tool::new(name, description, arguments)
        .with_title(title)
        .with_raw_output_schema(output_schema::<T>())
        .with_annotations(annotations.idempotent(true).open_world(false))
}

/// Returns the descriptions of all tools.
pub(crate) fn tools() -> &'static [Tool] {
    &TOOLS
}

/// Calls a tool for a tenant. Returns `None` if there is no such tool.
pub(crate) async fn call_tool(
    gateway: &Gateway,
    saver: Option<&dyn LessonSaver>,
    tenant: &Tenant,
    name: &str,
    arguments: Option<JsonObject>,
) -> Option<CallToolResult> {
    let result = match name {
        LIST => list(gateway, tenant, arguments).await,
        SEARCH => search(gateway, tenant, arguments).await,
        READ => read(gateway, tenant, arguments).await,
        FEEDBACK => give_feedback(gateway, tenant, arguments).await,
        SAVE => save(saver, tenant, arguments).await,
        _ => return None,
    };
    Some(result.unwrap_or_else(tool_error))
}

type ToolResult = Result<CallToolResult, String>;

async fn list(gateway: &Gateway, tenant: &Tenant, arguments: Option<JsonObject>) -> ToolResult {
    let request = parse_arguments::<ListArguments>(arguments)?.into_request();
    let answer = name_tools(gateway.context(tenant, request).await);
    Ok(tool_result(context_text(&answer), &answer))
}

async fn search(gateway: &Gateway, tenant: &Tenant, arguments: Option<JsonObject>) -> ToolResult {
    let request = parse_arguments::<SearchArguments>(arguments)?.into_request()?;
    let answer = gateway.search(tenant, request).await;
    Ok(tool_result(search_text(&answer), &answer))
}

async fn read(gateway: &Gateway, tenant: &Tenant, arguments: Option<JsonObject>) -> ToolResult {
    let (name, reader) = parse_arguments::<ReadArguments>(arguments)?.into_reader();
    let answer = gateway.read_memory(tenant, name, reader).await;
    let answer = answer.map_err(|unnamed| refuse_memory(&unnamed))?;
    Ok(tool_result(memory_text(&answer), &answer))
}

async fn give_feedback(gateway: &Gateway, tenant: &Tenant, arguments: Option<JsonObject>) -> ToolResult {
    let request = parse_arguments::<FeedbackArguments>(arguments)?.into_request();
    match gateway.give_feedback(tenant, &request).await {
        Ok(answer) => Ok(tool_result(feedback_text(&answer), &answer)),
        Err(FeedbackError::Field(error)) => Err(error.to_string()),
        Err(FeedbackError::Memory(unnamed)) => Err(refuse_memory(&unnamed)),
    }
}

async fn save(saver: Option<&dyn LessonSaver>, tenant: &Tenant, arguments: Option<JsonObject>) -> ToolResult {
    let request = parse_arguments::<SaveArguments>(arguments)?.into_request();
    let saver = saver.ok_or("no lesson can be saved while the server is starting; try again")?;
    let answer = answer_lesson(saver, tenant, request).await;
    let answer = answer.map_err(|LessonFieldError { field, problem }| format!("`{field}` {problem}"))?;
    Ok(tool_result(lesson_text(&answer), &answer))
}

fn refuse_memory(unnamed: &UnresolvedRef) -> String {
    format!("`memory`: {}", describe_unresolved(unnamed))
}

/// Returns the sentence for a name that fits no memory, or several.
pub(crate) fn describe_unresolved(unnamed: &UnresolvedRef) -> String {
    match unnamed {
        UnresolvedRef::Missing(name) => format!("there is no memory {name}"),
        // The candidates may be memories of repositories that the agent is told nothing of.
        UnresolvedRef::Ambiguous(name, _) => {
            format!(
                "the ids of several memories begin with {name}; give more digits of the one that you mean"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_of_a_schema_is_defined_in_it() {
        for tool in tools() {
            let name = &tool.name;
            let output = tool.output_schema.as_deref().expect("each tool describes its answer");
            assert_eq!(output["type"], "object", "{name}");
            let text = serde_json::to_string(output).unwrap();
            assert!(!text.contains("#/components"), "{name}: {text}");
            for part in text.split("#/$defs/").skip(1) {
                let part = part.split('"').next().unwrap();
                assert!(output["$defs"].get(part).is_some(), "{name} does not define {part}");
            }
            assert_eq!(tool.input_schema["type"], "object", "{name}");
            assert_eq!(tool.input_schema["additionalProperties"], false, "{name}");
            assert!(
                tool.input_schema["properties"].get("tenant").is_none(),
                "the credential says the tenant"
            );
        }
    }
}
