//! Removes the content of opened memories from traces.
//!
//! A memory's content names the failing call and its error, and its evidence quotes it. In the trace of a run that
//! opened the memory this looks like another failure, and the memory would confirm itself. The answer has no marks,
//! because it is a document and not a block of a prompt. Therefore exactly the memory's own words are removed,
//! wherever they occur, plain or within a string or two; nobody can hide other text behind them.

use crate::memory::Memory;

/// Minimum length of a content that is removed, in characters; shorter ones may well be the agent's own
/// words.
const CONTENT_CHARS_MIN: usize = 24;

/// Maximum number of levels of strings within strings: our answer is JSON, in a log that is JSON, perhaps
/// quoted in JSON again.
const ESCAPES_MAX: usize = 3;

/// Removes the contents and evidence of these memories from a text; their titles stay. Returns `None` when the text
/// contains none of them.
pub fn strip_memory_content(text: &str, memories: &[&Memory]) -> Option<String> {
    let mut stripped = None::<String>;
    for content in memories.iter().flat_map(|memory| memory_texts(memory)) {
        let current = stripped.as_deref().unwrap_or(text);
        if current.contains(&content) {
            stripped = Some(current.replace(&content, ""));
        }
    }
    stripped
}

/// Returns the content and evidence of a memory in every form in which a trace may contain them.
fn memory_texts(memory: &Memory) -> Vec<String> {
    let content =
        Some(memory.lesson.content.clone()).filter(|text| text.chars().count() >= CONTENT_CHARS_MIN);
    let evidence = memory.evidence.iter().map(to_json);
    let plain: Vec<_> = content.into_iter().chain(evidence).collect();
    let mut all = plain.clone();
    let mut escaped = plain;
    for _ in 0..ESCAPES_MAX {
        escaped.iter_mut().for_each(|text| *text = escape_for_string(text));
        all.extend(escaped.iter().cloned());
    }
    all
}

fn escape_for_string(text: &str) -> String {
    let quoted = to_json(&text);
    quoted[1..quoted.len() - 1].to_owned()
}

fn to_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("plain data")
}
