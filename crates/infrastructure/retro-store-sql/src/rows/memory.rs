//! Converts rows of `memories`, `changes` and `tombstones`.

use std::borrow::Cow;
use std::cmp::Reverse;

use retro_core::id::{ChangeId, derive_uuid};
use retro_core::memory::{Change, ChangeCause, Memory, Tombstone};
use retro_core::recall::RecallCandidate;
use retro_fault::{Guard, is_broken};
use retro_store::Result;

use crate::at;

/// Parses the column `memories.memory` of the row with this id.
pub(crate) fn parse_memory(id: &str, memory: &str) -> Result<Memory> {
    at("memories.memory", id).parse_json(memory)
}

/// Separates the candidates in the text that [`parse_candidates`] reads: the record separator, which JSON never contains
/// outside of an escape.
pub(crate) const CANDIDATE_SEPARATOR: char = '\u{1e}';

/// Parses candidates, each as its id, the number of its presentations and the column `memories.memory`, separated by
/// blanks. Returns them heaviest first, and then by id.
pub(crate) fn parse_candidates(rows: Option<&str>) -> Result<Vec<RecallCandidate>> {
    let mut candidates: Vec<RecallCandidate> = rows
        .into_iter()
        .flat_map(|rows| rows.split(CANDIDATE_SEPARATOR))
        .map(parse_candidate)
        .collect::<Result<_>>()?;
    candidates.sort_by_key(|one| (Reverse(one.memory.weight), one.memory.id));
    Ok(candidates)
}

fn parse_candidate(row: &str) -> Result<RecallCandidate> {
    let mut fields = row.splitn(3, ' ');
    let mut next_field = || fields.next().unwrap_or_default();
    let (id, count, memory) = (next_field(), next_field(), next_field());
    let presentations = at("memory_presentation_counts.presentations", id).parse(count)?;
    Ok(RecallCandidate { memory: parse_memory(id, memory)?, presentations })
}

/// Parses the column `changes.change` of the row with this id.
pub(crate) fn parse_change(id: &str, change: &str) -> Result<Change> {
    at("changes.change", id).parse_json(change)
}

/// Parses the column `tombstones.tombstone` of the row for this memory.
pub(crate) fn parse_tombstone(memory: &str, tombstone: &str) -> Result<Tombstone> {
    at("tombstones.tombstone", memory).parse_json(tombstone)
}

/// Returns the `cause` and `cause_id` columns of a change cause.
pub(crate) fn cause_columns(cause: &ChangeCause) -> (&'static str, String) {
    match cause {
        ChangeCause::Run { run, .. } => ("run", run.to_string()),
        ChangeCause::Retrospective { id } => ("retrospective", id.to_string()),
        ChangeCause::Outcome { run, .. } => ("outcome", run.to_string()),
        ChangeCause::Operator { request } => ("operator", request.clone()),
        ChangeCause::Review { remark, .. } => ("review", remark.to_string()),
        ChangeCause::Save { run, .. } => ("save", run.to_string()),
        ChangeCause::Feedback { id } => ("feedback", id.to_string()),
        ChangeCause::Expiry { presentations } => ("expiry", presentations.to_string()),
    }
}

/// Returns the changes to append to the change log. Their ids are effect keys, which both databases keep
/// unique. If fault injection breaks that guard, each change is duplicated under a different id.
pub(crate) fn changes_to_append(changes: &[Change]) -> Cow<'_, [Change]> {
    if !is_broken(Guard::EffectKey) {
        return Cow::Borrowed(changes);
    }
    let again =
        |one: &Change| Change { id: ChangeId(derive_uuid("again", &[&one.id.to_string()])), ..one.clone() };
    changes.iter().flat_map(|one| [one.clone(), again(one)]).collect()
}
