//! Parser for the transcripts of Claude Code: one session a file, one entry a line.
//!
//! An entry of type `user` or `assistant` has a message with content parts; a result is in an entry of the user. A reply
//! is written in several lines with one `message.id`. Other entries (summaries, snapshots of files, progress) and lines
//! that are no entry are left out, and so are notes of the program to the model (`isMeta`).

use std::collections::BTreeMap;

use retro_core::dead_letter::Rejection;
use serde_json::Value;

use crate::conversation::{Conversation, ConversationFormat, add_parts};
use crate::import::{ImportOptions, ImportedRun};

const FORMAT: ConversationFormat =
    ConversationFormat { source: "retro-emit/claude-code", workflow: "claude-code", id_path: "sessionId" };

/// Parses the entries of a file, which are one run.
pub(crate) fn parse_session(entries: &[&Value], options: &ImportOptions) -> Result<ImportedRun, Rejection> {
    let mut session = Conversation::new(&FORMAT);
    // A reply in several lines repeats its usage in each.
    let mut usages: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for entry in entries {
        let text = |name: &str| entry.get(name).and_then(Value::as_str);
        let source = match text("type") {
            Some("user") => "user",
            Some("assistant") => "agent",
            _ => continue,
        };
        let Some(message) = entry.get("message").filter(|_| entry.get("isMeta") != Some(&Value::Bool(true)))
        else {
            continue;
        };
        let time = text("timestamp");
        if !add_parts(&mut session, source, message.get("content").unwrap_or(&Value::Null), time) {
            continue;
        }
        session.note_time(time);
        // The session goes on under a new id when it is resumed, and its file repeats what was before.
        session.id = text("sessionId").map(str::to_owned).or(session.id);
        session.version = text("version").map(str::to_owned).or(session.version);
        if source == "agent" {
            let of_message = |name: &str| message.get(name).and_then(Value::as_str);
            session.model = of_message("model").map(str::to_owned).or(session.model);
            if let (Some(id), Some(usage)) = (of_message("id"), message.get("usage")) {
                usages.insert(id, (input_tokens(usage), count_of(usage, "output_tokens")));
            }
        }
    }
    let total = |part: fn(&(u64, u64)) -> u64| {
        Some(usages.values().map(part).fold(0, u64::saturating_add)).filter(|sum| *sum > 0)
    };
    session.usage.input_tokens = total(|usage| usage.0);
    session.usage.output_tokens = total(|usage| usage.1);
    session.into_run(&FORMAT, options)
}

/// Returns the input tokens of a reply, of which those in the cache are counted apart.
fn input_tokens(usage: &Value) -> u64 {
    ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"]
        .iter()
        .map(|name| count_of(usage, name))
        .fold(0, u64::saturating_add)
}

fn count_of(usage: &Value, name: &str) -> u64 {
    usage.get(name).and_then(Value::as_u64).unwrap_or_default()
}
