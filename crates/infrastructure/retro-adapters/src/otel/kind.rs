//! Decides what a span is.

use super::span::Span;

/// What a span is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpanKind {
    /// An agent or a workflow was executed.
    Agent,
    /// A model was asked.
    Model,
    /// A tool was called.
    Tool,
    /// Anything else. It gives the run no entry, but its place and its name count for the spans in it.
    Other,
}

/// Attributes with the name of a tool.
pub(crate) const TOOL_NAME: [&str; 4] = ["gen_ai.tool.name", "tool.name", "ai.toolCall.name", "tool_name"];

/// Beginnings of attributes that only a call of a model has. Others of `gen_ai.` stand in spans of any kind.
const OF_MODEL: [&str; 11] = [
    "gen_ai.request.",
    "gen_ai.response.",
    "gen_ai.input.",
    "gen_ai.output.",
    "gen_ai.prompt",
    "gen_ai.completion",
    "gen_ai.usage.",
    "llm.",
    "ai.model.",
    "ai.prompt",
    "ai.response.",
];

/// Decides what a span is: by `gen_ai.operation.name`, else by the kind that OpenInference and OpenLLMetry give it, else
/// by the attributes that only a call of a tool or of a model has.
pub(crate) fn classify(span: &Span) -> SpanKind {
    match span.text(&["gen_ai.operation.name"]) {
        Some("invoke_agent" | "invoke_workflow") => return SpanKind::Agent,
        Some("chat" | "text_completion" | "generate_content") => return SpanKind::Model,
        Some("execute_tool") => return SpanKind::Tool,
        Some("create_agent" | "embeddings" | "retrieval" | "image_generation") => return SpanKind::Other,
        _ => {}
    }
    let kind = span.text(&["openinference.span.kind", "traceloop.span.kind"]).map(str::to_ascii_lowercase);
    match kind.as_deref() {
        Some("agent" | "workflow") => return SpanKind::Agent,
        Some("llm") => return SpanKind::Model,
        Some("tool") => return SpanKind::Tool,
        Some("embedding" | "retriever" | "reranker" | "guardrail" | "evaluator" | "chain" | "task") => {
            return SpanKind::Other;
        }
        _ => {}
    }
    if span.text(&TOOL_NAME).is_some() {
        return SpanKind::Tool;
    }
    let is_of_model = |key: &String| OF_MODEL.iter().any(|prefix| key.starts_with(prefix));
    let has_model_event = span.events.iter().any(|event| event.name.starts_with("gen_ai."));
    if span.attributes.keys().any(is_of_model) || has_model_event { SpanKind::Model } else { SpanKind::Other }
}
