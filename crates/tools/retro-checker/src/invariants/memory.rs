//! Checks memories against the change log.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::invariant::Invariant;
use super::judge::Judge;
use crate::fold::fold_change;
use crate::state::{Change, State};

pub(super) fn check_memory(judge: &mut Judge, state: &State) {
    check_effects_once(judge, &state.changes);
    check_fold(judge, state);
}

fn check_effects_once(judge: &mut Judge, changes: &[Change]) {
    let mut happened = HashMap::new();
    for change in changes {
        let Change { tenant, workflow, memory, cause, cause_id, kind, .. } = change;
        let key = (tenant, workflow, memory, cause, cause_id, kind);
        if let Some(first) = happened.insert(key, change.sequence) {
            let place = format!("changes, sequence {}", change.sequence);
            let problem =
                format!("{cause} {cause_id} already has {kind} memory {memory}, in sequence {first}");
            judge.add_violation(Invariant::EffectOnce, place, problem);
        }
    }
}

fn check_fold(judge: &mut Judge, state: &State) {
    let mut folded: BTreeMap<(&str, &str), Option<Value>> = BTreeMap::new();
    for change in &state.changes {
        let key = (change.tenant.as_str(), change.memory.as_str());
        let memory = folded.entry(key).or_default();
        match fold_change(memory.take(), &change.change) {
            Ok(next) => *memory = next,
            Err(problem) => {
                let place = format!("changes, sequence {}", change.sequence);
                // Stop at the first illegal change, because every later difference would follow from it.
                judge.add_violation(Invariant::MemoryIsFold, place, problem);
                return;
            }
        }
    }
    folded.retain(|_, memory| memory.is_some());
    for row in &state.memories {
        let place = || format!("memories, {} {}", row.tenant, row.id);
        let Some(Some(memory)) = folded.remove(&(row.tenant.as_str(), row.id.as_str())) else {
            judge.add_violation(Invariant::MemoryIsFold, place(), "no change created it");
            continue;
        };
        if let Some(field) = first_difference(&memory, &row.memory) {
            let problem =
                format!("{field} is {} by its changes and {} in the row", memory[field], row.memory[field]);
            judge.add_violation(Invariant::MemoryIsFold, place(), problem);
        }
        if row.memory["status"] != row.status.as_str() || row.memory["weight"] != row.weight {
            judge.add_violation(
                Invariant::MemoryIsFold,
                place(),
                "the status or weight column differs from the memory",
            );
        }
    }
    for (tenant, memory) in folded.keys() {
        let place = format!("memories, {tenant} {memory}");
        judge.add_violation(Invariant::MemoryIsFold, place, "its changes created it, but the row is missing");
    }
}

/// Returns the first field in which two memories differ. A missing field equals an empty list.
fn first_difference<'a>(one: &'a Value, other: &'a Value) -> Option<&'a str> {
    let empty = Value::Array(Vec::new());
    let fields = one.as_object().into_iter().chain(other.as_object()).flat_map(|fields| fields.keys());
    let mut fields = fields.map(String::as_str);
    fields.find(|field| one.get(field).unwrap_or(&empty) != other.get(field).unwrap_or(&empty))
}
