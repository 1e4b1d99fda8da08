//! Rows of `memories`, `changes` and `tombstones`.

use std::borrow::Cow;

use retro_core::id::{ChangeId, derive};
use retro_core::memory::{Cause, Change, Memory, Tombstone};
use retro_fault::{Guard, broken};
use retro_store::Result;

use crate::at;

/// Reads `memories.memory` of the row with this id.
pub fn read_memory(id: &str, memory: &str) -> Result<Memory> {
    at("memories.memory", id).json(memory)
}

/// Reads `changes.change` of the row with this id.
pub fn read_change(id: &str, change: &str) -> Result<Change> {
    at("changes.change", id).json(change)
}

/// Reads `tombstones.tombstone` of the row of this memory.
pub fn read_tombstone(memory: &str, tombstone: &str) -> Result<Tombstone> {
    at("tombstones.tombstone", memory).json(tombstone)
}

/// A cause as the two columns that name it.
pub fn cause(cause: &Cause) -> (&'static str, String) {
    match cause {
        Cause::Run { run, .. } => ("run", run.to_string()),
        Cause::Retrospective { id } => ("retrospective", id.to_string()),
        Cause::Outcome { run, .. } => ("outcome", run.to_string()),
        Cause::Operator { request } => ("operator", request.clone()),
        Cause::Review { remark, .. } => ("review", remark.to_string()),
        Cause::Expiry { presentations } => ("expiry", presentations.to_string()),
    }
}

/// The changes as they are appended. Their ids are their effect keys, which both databases hold to be unique; without that guard
/// each of them happens twice.
pub fn once(changes: &[Change]) -> Cow<'_, [Change]> {
    if !broken(Guard::EffectKey) {
        return Cow::Borrowed(changes);
    }
    let again =
        |one: &Change| Change { id: ChangeId(derive("again", &[&one.id.to_string()])), ..one.clone() };
    changes.iter().flat_map(|one| [one.clone(), again(one)]).collect()
}
