//! Detects the format of a file. A format that is recognized but not supported yet is rejected by name; no
//! format is guessed.

use retro_core::dead_letter::{DeadLetterCode, Rejection};
use serde_json::Value;

use crate::file_content::Content;
use crate::otel;

/// A file format that can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// CloudEvents of type `dev.retrospect.run.completed.v1`: a single event, an array of events, or one
    /// event per line.
    CloudEvents,
    /// ATIF documents: a single document, or one document per line.
    Atif,
    /// A SWE-agent trajectory (`.traj`).
    SweAgent,
    /// tau2 simulation results: a results file with its simulations, or a single simulation.
    Tau2,
    /// Transcript of a session of Claude Code, one entry a line.
    ClaudeCode,
    /// Session of Codex CLI, one item a line.
    Codex,
    /// Traces of OpenTelemetry: OTLP as JSON or protobuf, or spans as SDKs print them.
    OpenTelemetry,
    /// Chat messages as in OpenAI's API: a list, one message a line, or objects with `messages`.
    Chat,
}

impl Format {
    /// Returns the name of the format, as people write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CloudEvents => "CloudEvents",
            Self::Atif => "ATIF",
            Self::SweAgent => "SWE-agent",
            Self::Tau2 => "tau2",
            Self::ClaudeCode => "Claude Code transcript",
            Self::Codex => "Codex CLI session",
            Self::OpenTelemetry => "OpenTelemetry traces",
            Self::Chat => "chat messages",
        }
    }
}

/// Maximum number of documents of a file to inspect. More than one is needed, because some transcripts begin
/// with a few lines of another kind.
const DOCUMENTS_INSPECTED_MAX: usize = 10;

/// Formats that are recognized but not supported yet, each with keys that occur together only in that format.
const UNSUPPORTED: [(&str, &[&str]); 13] = [
    ("Claude Code web export", &["loglines"]),
    ("Gemini CLI session", &["messages", "projectHash"]),
    ("Gemini CLI session", &["messages", "sessionId"]),
    ("Inspect evaluation log", &["eval", "status"]),
    ("Inspect event log", &["events", "expected"]),
    ("mini-swe-agent trajectory", &["messages", "trajectory_format"]),
    ("OpenHands evaluation output", &["instruction", "history"]),
    ("OpenHands conversation state", &["agent", "execution_status"]),
    ("OpenHands event log", &["kind", "source", "timestamp"]),
    ("ToolBench answer", &["answer_generation"]),
    ("GitHub workflow_run event", &["workflow_run", "action"]),
    ("CDEvents event", &["context", "subject"]),
    ("Tekton PipelineRun", &["apiVersion", "kind", "status"]),
];

/// Detects the format of a parsed file. Fails with `type_unknown` if the format is not recognized or not
/// supported yet.
pub(crate) fn detect_content(content: &Content, file_name: &str) -> Result<Format, Rejection> {
    if matches!(content, Content::Spans(_)) {
        return Ok(Format::OpenTelemetry);
    }
    let documents = content.list_documents();
    let looked_at = || documents.iter().take(DOCUMENTS_INSPECTED_MAX).map(|(_, document)| *document);
    if let Some(format) = looked_at().find_map(|document| supported_format(document, file_name)) {
        return Ok(format);
    }
    // Last: many a format has messages and more, which would be lost.
    let unsupported = looked_at().find_map(unsupported_format);
    if unsupported.is_none()
        && let Some(format) = looked_at().find_map(transcript_format)
    {
        return Ok(format);
    }
    let detail = match unsupported {
        Some(name) => format!("not supported yet: {name}"),
        None => {
            "unknown format; supported are CloudEvents, ATIF, SWE-agent .traj, tau2 results, transcripts of Claude Code \
             and Codex CLI, traces of OpenTelemetry, and chat messages"
                .to_owned()
        }
    };
    Err(Rejection::of_message(DeadLetterCode::TypeUnknown, detail))
}

fn supported_format(document: &Value, file_name: &str) -> Option<Format> {
    let has = |keys: &[&str]| keys.iter().all(|key| document.get(key).is_some());
    let is_traj = file_name.trim_end_matches(".zst").ends_with(".traj");
    if has(&["specversion"]) {
        Some(Format::CloudEvents)
    } else if document.get("schema_version").and_then(Value::as_str).is_some_and(|v| v.starts_with("ATIF")) {
        Some(Format::Atif)
    } else if has(&["trajectory"]) && (is_traj || has(&["history", "info"])) {
        Some(Format::SweAgent)
    } else if document.pointer("/info/environment_info").is_some() || has(&["task_id", "termination_reason"])
    {
        Some(Format::Tau2)
    } else if otel::contains_spans(document) {
        Some(Format::OpenTelemetry)
    } else {
        None
    }
}

fn transcript_format(document: &Value) -> Option<Format> {
    let has = |keys: &[&str]| keys.iter().all(|key| document.get(key).is_some());
    if has(&["type", "sessionId"]) || has(&["type", "leafUuid"]) {
        Some(Format::ClaudeCode)
    } else if has(&["type", "payload"]) {
        Some(Format::Codex)
    } else if has(&["messages"]) || has(&["role", "content"]) {
        Some(Format::Chat)
    } else {
        None
    }
}

fn unsupported_format(document: &Value) -> Option<&'static str> {
    let has = |keys: &[&str]| keys.iter().all(|key| document.get(key).is_some());
    UNSUPPORTED.iter().find(|(_, keys)| has(keys)).map(|(name, _)| *name)
}
