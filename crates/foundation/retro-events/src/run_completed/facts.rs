//! Parses and checks the facts in `data`. Skips the body, which is parsed separately.

use jiff::Timestamp;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::Step;
use retro_core::json::{JsonKind, JsonNode};
use retro_core::run::{RunFacts, RunMemories, SelfFeedback};
use serde::de::value::{Error, MapDeserializer};
use serde::de::{Deserializer, Visitor};
use serde::forward_to_deserialize_any;

use crate::field;

/// Maximum accepted count: the largest integer that every JSON reader represents exactly.
pub const COUNT_MAX: u64 = 1 << 53;
/// Maximum number of memories that one run may name: ten for each of a hundred steps.
pub const MEMORIES_MAX: usize = 1000;
/// Maximum number of remarks of an agent on its own run.
pub const REMARKS_MAX: usize = 64;
/// Maximum length of a remark, in bytes: a page or two of text.
pub const REMARK_BYTES_MAX: usize = 8 * 1024;
/// Earliest accepted time in Unix seconds, 2000-01-01T00:00:00Z. An earlier time comes from a clock that was never
/// set.
const EARLIEST_S: i64 = 946_684_800;

/// Members of `data` that are skipped, because they are parsed separately.
const EXCLUDED_MEMBERS: [&str; 3] = ["trajectory", "dataref", "self_feedback"];

/// Parses the facts in `data`, without the body; `null` counts as missing.
pub(super) fn parse_facts(data: JsonNode<'_>) -> Result<RunFacts, Rejection> {
    for name in ["agent", "usage", "memories"] {
        if let Some(value) = data.get_non_null(name) {
            field::check_object(DeadLetterCode::FieldInvalid, &format!("data.{name}"), value)?;
        }
    }
    let mut run: RunFacts = field::deserialize_field(DeadLetterCode::FieldInvalid, "data", Facts(data))?;
    run.self_feedback =
        data.get_non_null("self_feedback").map(parse_remarks).transpose()?.unwrap_or_default();
    check_numbers(&run)?;
    check_texts(&run)?;
    deduplicate_memories(&mut run.memories)?;
    Ok(run)
}

fn check_numbers(run: &RunFacts) -> Result<(), Rejection> {
    let usage = run.usage.clone().unwrap_or_default();
    let counts = [
        ("data.pull_request", run.pull_request),
        ("data.usage.input_tokens", usage.input_tokens),
        ("data.usage.output_tokens", usage.output_tokens),
    ];
    if let Some((path, _)) = counts.iter().find(|(_, count)| count.is_some_and(|count| count > COUNT_MAX)) {
        return Err(Rejection::of_field(
            DeadLetterCode::FieldInvalid,
            *path,
            format!("is above {COUNT_MAX}"),
        ));
    }
    if usage.cost_usd.is_some_and(|cost| cost < 0.0) {
        return Err(Rejection::of_field(DeadLetterCode::FieldInvalid, "data.usage.cost_usd", "is negative"));
    }
    if run.attempt == 0 {
        return Err(Rejection::of_field(
            DeadLetterCode::FieldInvalid,
            "data.attempt",
            "is 0; the first attempt is 1",
        ));
    }
    Ok(())
}

fn check_texts(run: &RunFacts) -> Result<(), Rejection> {
    let agent = run.agent.clone().unwrap_or_default();
    for (path, text) in [
        ("data.repo", &run.repo),
        ("data.commit", &run.commit),
        ("data.user", &run.user),
        ("data.prompt_version", &run.prompt_version),
        ("data.task", &run.task),
        ("data.agent.name", &agent.name),
        ("data.agent.version", &agent.version),
        ("data.agent.model", &agent.model),
    ] {
        text.as_deref().map_or(Ok(()), |text| field::check_short_text(path, text))?;
    }
    Ok(())
}

/// Removes repeated mentions of a memory and keeps the first. Fails if more than [`MEMORIES_MAX`] memories are
/// named.
fn deduplicate_memories(memories: &mut RunMemories) -> Result<(), Rejection> {
    let lists =
        [("data.memories.presented", &mut memories.presented), ("data.memories.read", &mut memories.read)];
    for (path, list) in lists {
        // Before duplicates are removed, so that the limit also bounds the work.
        if list.len() > MEMORIES_MAX {
            let detail = format!("names {} memories; at most {MEMORIES_MAX} are taken", list.len());
            return Err(Rejection::of_field(DeadLetterCode::FieldInvalid, path, detail));
        }
        let mut seen = std::collections::HashSet::new();
        list.retain(|memory| seen.insert(*memory));
    }
    Ok(())
}

/// Checks that the times are plausible: not before the year 2000, not after `latest`, and in order.
pub(super) fn check_times(run: &RunFacts, latest: Option<Timestamp>) -> Result<(), Rejection> {
    let invalid = |path, detail| Err(Rejection::of_field(DeadLetterCode::FieldInvalid, path, detail));
    for (path, time) in [("data.started_at", run.started_at), ("data.finished_at", run.finished_at)] {
        let Some(time) = time else { continue };
        if time.as_second() < EARLIEST_S {
            return invalid(path, "is before the year 2000");
        }
        if latest.is_some_and(|latest| time > latest) {
            return invalid(path, "is more than a day ahead of the clock of the server that took it");
        }
    }
    match (run.started_at, run.finished_at) {
        (Some(started), Some(finished)) if finished < started => {
            invalid("data.finished_at", "is before data.started_at")
        }
        _ => Ok(()),
    }
}

/// Parses remarks: one string, or an array whose items are strings or `{step, text}`. Drops empty remarks.
fn parse_remarks(value: JsonNode<'_>) -> Result<Vec<SelfFeedback>, Rejection> {
    let path = "data.self_feedback";
    let mut remarks = Vec::new();
    match value.items() {
        Some(items) => {
            for (nth, item) in items.enumerate() {
                if nth == REMARKS_MAX {
                    let detail = format!("holds more than {REMARKS_MAX} remarks");
                    return Err(Rejection::of_field(DeadLetterCode::FieldInvalid, path, detail));
                }
                remarks.push(parse_remark(&format!("{path}[{nth}]"), item)?);
            }
        }
        None => remarks.push(parse_remark(path, value)?),
    }
    remarks.retain(|remark| !remark.text.trim().is_empty());
    Ok(remarks)
}

fn parse_remark(path: &str, value: JsonNode<'_>) -> Result<SelfFeedback, Rejection> {
    let (step, text, text_path) = match value.kind() {
        JsonKind::Object => (value.get_non_null("step"), value.get("text"), format!("{path}.text")),
        _ => (None, Some(value), path.to_owned()),
    };
    let step = step
        .map(|step| field::deserialize_field(DeadLetterCode::FieldInvalid, &format!("{path}.step"), step))
        .transpose()?;
    let invalid = |detail: String| Err(Rejection::of_field(DeadLetterCode::FieldInvalid, &text_path, detail));
    let Some(text) = text else { return invalid("is missing".to_owned()) };
    match text.as_str() {
        Some(text) if text.len() > REMARK_BYTES_MAX => {
            invalid(format!("is {} bytes long; at most {REMARK_BYTES_MAX} are taken", text.len()))
        }
        Some(text) => {
            // NUL is legal in JSON, but no text column stores it.
            Ok(SelfFeedback { step: step.unwrap_or_else(Step::main), text: text.replace('\0', "\u{fffd}") })
        }
        None => invalid("is not a string".to_owned()),
    }
}

/// Deserializer over the facts in a JSON object. Skips the body and the remarks, and members that are `null`.
struct Facts<'a>(JsonNode<'a>);

impl<'de> Deserializer<'de> for Facts<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let members = self.0.members().into_iter().flatten();
        let facts = members.filter(|(name, value)| !EXCLUDED_MEMBERS.contains(&&**name) && !value.is_null());
        visitor.visit_map(MapDeserializer::new(facts))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}
