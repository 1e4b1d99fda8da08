//! Removes the content of opened memories from traces.
//!
//! The content of a memory names the failing call and its error, and the evidence quotes the error. In the
//! trace of a run that opened the memory, they look like another failure, so the memory would confirm itself.
//! The response to the agent is a document, not a block of a prompt, and has no marks to search for.
//! Therefore the exact words of the memory are removed wherever they occur, as they are or escaped within
//! strings. No other text can be hidden behind them.

use crate::gate::{shown_content, shown_evidence, shown_title};
use crate::memory::Memory;

/// Minimum length of content to remove, in characters. Shorter text may well be the agent's own words.
const CONTENT_CHARS_MIN: usize = 24;

/// Maximum number of nested levels of string escaping that are recognised: our response is JSON, the log that
/// contains it may be JSON, and another JSON document may quote the log.
const ESCAPES_MAX: usize = 3;

/// Content and evidence of memories in every form in which a trace may contain them. The forms are computed once,
/// because the gate judges each memory for them, and a trace has thousands of texts.
#[derive(Debug)]
pub struct MemoryContent {
    texts: Vec<String>,
}

impl MemoryContent {
    /// Returns the content of these memories.
    pub fn of_memories(memories: &[&Memory]) -> Self {
        Self { texts: memories.iter().flat_map(|memory| memory_texts(memory)).collect() }
    }

    /// Removes the content and evidence of the memories from a text, and their titles where they are fields of our
    /// responses; elsewhere a title may be the agent's own words. Returns `None` if the text contains none of them.
    pub fn strip(&self, text: &str) -> Option<String> {
        let mut stripped = None::<String>;
        for content in &self.texts {
            let current = stripped.as_deref().unwrap_or(text);
            if current.contains(content) {
                stripped = Some(current.replace(content, ""));
            }
        }
        stripped
    }
}

/// Returns the content and evidence of a memory in every form in which a trace may contain them.
fn memory_texts(memory: &Memory) -> Vec<String> {
    // Both as stored and as shown: programs before the gate showed memories as they are stored.
    let mut content = vec![memory.lesson.content.clone(), shown_content(&memory.scope, &memory.lesson)];
    content.dedup();
    content.retain(|text| text.chars().count() >= CONTENT_CHARS_MIN);
    let evidence: Vec<String> = memory.evidence.iter().chain(&shown_evidence(memory)).map(to_json).collect();
    let mut plain = content;
    plain.extend(evidence);
    // A context or a search that an agent has requested in the middle of its run is in the trace like a tool's answer.
    let title = to_json(&shown_title(&memory.scope, &memory.lesson));
    plain.extend([format!("\"title\":{title}"), format!("\"title\": {title}")]);
    plain.dedup();
    let mut all = plain.clone();
    let mut escaped = plain;
    for _ in 0..ESCAPES_MAX {
        // Many writers of JSON also escape every character outside ASCII, at any of the levels. From then on
        // there is nothing left to escape so.
        escaped = escaped.iter().flat_map(|text| [escape_for_string(text), escape_to_ascii(text)]).collect();
        escaped.sort_unstable();
        escaped.dedup();
        all.extend(escaped.iter().cloned());
    }
    all
}

/// Escapes a text for a string of JSON, with every character outside ASCII as `\uXXXX`.
fn escape_to_ascii(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in escape_for_string(text).chars() {
        if c.is_ascii() {
            escaped.push(c);
        } else {
            let units =
                c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect::<String>();
            escaped.push_str(&units);
        }
    }
    escaped
}

fn escape_for_string(text: &str) -> String {
    let quoted = to_json(&text);
    quoted[1..quoted.len() - 1].to_owned()
}

fn to_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("plain data")
}
