//! Memory and its log.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::{Invariant, Judge};
use crate::fold::fold;
use crate::state::{Change, State};

pub(super) fn check(judge: &mut Judge, state: &State) {
    effects_once(judge, &state.changes);
    folds(judge, state);
}

fn effects_once(judge: &mut Judge, changes: &[Change]) {
    let mut happened = HashMap::new();
    for change in changes {
        let Change { tenant, workflow, memory, cause, cause_id, kind, .. } = change;
        let key = (tenant, workflow, memory, cause, cause_id, kind);
        if let Some(first) = happened.insert(key, change.sequence) {
            let place = format!("changes, sequence {}", change.sequence);
            let problem =
                format!("{cause} {cause_id} has {kind} memory {memory} before, in sequence {first}");
            judge.finds(Invariant::EffectOnce, place, problem);
        }
    }
}

fn folds(judge: &mut Judge, state: &State) {
    let mut folded: BTreeMap<(&str, &str), Option<Value>> = BTreeMap::new();
    for change in &state.changes {
        let key = (change.tenant.as_str(), change.memory.as_str());
        let memory = folded.entry(key).or_default();
        match fold(memory.take(), &change.change) {
            Ok(next) => *memory = next,
            Err(problem) => {
                let place = format!("changes, sequence {}", change.sequence);
                judge.finds(Invariant::MemoryIsFold, place, problem);
                return;
            }
        }
    }
    folded.retain(|_, memory| memory.is_some());
    for row in &state.memories {
        let place = || format!("memories, {} {}", row.tenant, row.id);
        let Some(Some(memory)) = folded.remove(&(row.tenant.as_str(), row.id.as_str())) else {
            judge.finds(Invariant::MemoryIsFold, place(), "no change has made it");
            continue;
        };
        if let Some(field) = differs(&memory, &row.memory) {
            let problem = format!("its changes say {field} {}, it says {}", memory[field], row.memory[field]);
            judge.finds(Invariant::MemoryIsFold, place(), problem);
        }
        if row.memory["status"] != row.status.as_str() || row.memory["weight"] != row.weight {
            judge.finds(Invariant::MemoryIsFold, place(), "the columns say something else than the memory");
        }
    }
    for (tenant, memory) in folded.keys() {
        let place = format!("memories, {tenant} {memory}");
        judge.finds(Invariant::MemoryIsFold, place, "its changes made it, and it is not there");
    }
}

/// The first field in which two memories differ. A field that is missing is an empty list.
fn differs<'a>(one: &'a Value, other: &'a Value) -> Option<&'a str> {
    let empty = Value::Array(Vec::new());
    let fields = one.as_object().into_iter().chain(other.as_object()).flat_map(|fields| fields.keys());
    let mut fields = fields.map(String::as_str);
    fields.find(|field| one.get(field).unwrap_or(&empty) != other.get(field).unwrap_or(&empty))
}
