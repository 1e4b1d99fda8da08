//! Detects the format of a file. A format that is recognized but not supported yet is rejected by name; no
//! format is guessed.

use retro_core::dead_letter::{DeadLetterCode, Rejection};
use serde_json::Value;

use crate::file_content::Content;

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
}

/// Maximum number of documents of a file to inspect. More than one is needed, because some transcripts begin
/// with a few lines of another kind.
const DOCUMENTS_INSPECTED_MAX: usize = 10;

/// Formats that are recognized but not supported yet, each with keys that occur together only in that format.
const UNSUPPORTED: [(&str, &[&str]); 20] = [
    ("Claude Code web export", &["loglines"]),
    ("Claude Code transcript", &["type", "sessionId"]),
    ("Claude Code transcript", &["type", "leafUuid"]),
    ("Codex CLI session", &["type", "payload"]),
    ("Gemini CLI session", &["messages", "projectHash"]),
    ("Gemini CLI session", &["messages", "sessionId"]),
    ("Inspect evaluation log", &["eval", "status"]),
    ("Inspect event log", &["events", "expected"]),
    ("mini-swe-agent trajectory", &["messages", "trajectory_format"]),
    ("OpenHands evaluation output", &["instruction", "history"]),
    ("OpenHands conversation state", &["agent", "execution_status"]),
    ("OpenHands event log", &["kind", "source", "timestamp"]),
    ("OpenHands model log", &["messages", "kwargs"]),
    ("ToolBench answer", &["answer_generation"]),
    ("OTLP traces", &["resourceSpans"]),
    ("GitHub workflow_run event", &["workflow_run", "action"]),
    ("CDEvents event", &["context", "subject"]),
    ("Tekton PipelineRun", &["apiVersion", "kind", "status"]),
    ("chat messages (mini-swe-agent or OpenHands)", &["role", "content"]),
    ("chat messages", &["messages"]),
];

/// Detects the format of a parsed file. Fails with `type_unknown` if the format is not recognized or not
/// supported yet.
pub(crate) fn detect_content(content: &Content, file_name: &str) -> Result<Format, Rejection> {
    let documents = content.list_documents();
    let looked_at = || documents.iter().take(DOCUMENTS_INSPECTED_MAX).map(|(_, document)| *document);
    if let Some(format) = looked_at().find_map(|document| supported_format(document, file_name)) {
        return Ok(format);
    }
    let detail = match looked_at().find_map(unsupported_format) {
        Some(name) => format!("not supported yet: {name}"),
        None => {
            "unknown format; supported are CloudEvents, ATIF, SWE-agent .traj and tau2 results".to_owned()
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
    } else {
        None
    }
}

fn unsupported_format(document: &Value) -> Option<&'static str> {
    let has = |keys: &[&str]| keys.iter().all(|key| document.get(key).is_some());
    UNSUPPORTED.iter().find(|(_, keys)| has(keys)).map(|(name, _)| *name)
}
