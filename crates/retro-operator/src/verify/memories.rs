//! Laws 4 and 5 on stored rows: the change log, its fold, and the tombstones.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use retro_core::canonical::canonical_json;
use retro_core::id::{MemoryId, Tenant, WorkflowKey};
use retro_core::memory::{Cause, Change, Effect, Memory, Status, Tombstone, change_id, fold};
use retro_store::{OperatorStore, Result};

use super::{Check, Look, all_memories};

pub(super) async fn check(store: &dyn OperatorStore, key: &WorkflowKey, look: &mut Look) -> Result<()> {
    let changes = store.changes(key).await?;
    let table = store.memories(&key.tenant, &all_memories(Some(key))).await?;
    let tombstones = store.tombstones(key).await?;
    look.checked.changes = changes.len() as u64;
    look.checked.tombstones = tombstones.len() as u64;
    effect_keys(key, &changes, look);
    let folded = folded(&key.to_string(), &changes, look);
    compare(&key.to_string(), &folded, &table, look);
    for stone in &tombstones {
        tombstone(key, stone, folded.get(&stone.memory), &changes, look);
    }
    Ok(())
}

/// Whoever keeps rules of a repository and is no workflow with runs beside it: that is looked at as one.
pub(super) async fn keepers(store: &dyn OperatorStore, tenant: &Tenant) -> Result<Vec<WorkflowKey>> {
    let known: BTreeSet<_> = store.workflows(tenant).await?.into_iter().map(|row| row.key).collect();
    let mut keepers = store.keepers(tenant).await?;
    keepers.retain(|keeper| !known.contains(keeper));
    Ok(keepers)
}

/// Memories of the scopes that belong to no workflow are folded from their own histories.
pub(super) async fn check_homeless(
    store: &dyn OperatorStore,
    tenant: &Tenant,
    look: &mut Look,
) -> Result<()> {
    let workflows = store.workflows(tenant).await?.into_iter().map(|row| row.key.workflow);
    let kept = keepers(store, tenant).await?.into_iter().map(|keeper| keeper.workflow);
    let known: BTreeSet<_> = workflows.chain(kept).collect();
    let all = store.memories(tenant, &all_memories(None)).await?;
    let homeless =
        all.into_iter().filter(|memory| memory.scope.kept_under().is_none_or(|home| !known.contains(&home)));
    for memory in homeless {
        let history = store.history(tenant, memory.id).await?;
        look.checked.changes += history.len() as u64;
        let folded = folded(tenant.as_str(), &history, look);
        compare(tenant.as_str(), &folded, &[memory], look);
    }
    Ok(())
}

fn effect_keys(key: &WorkflowKey, changes: &[Change], look: &mut Look) {
    let mut seen = HashSet::new();
    for change in changes {
        let place = format!("{key}, change {}", change.id);
        let derived = change_id(key, change.memory, &change.cause, change.effect.kind());
        if derived != change.id {
            let problem = format!("its effect key makes {derived}: memory, cause or kind was altered");
            look.wrong(Check::EffectKeys, &place, problem);
        }
        if !seen.insert((change.memory, &change.cause, change.effect.kind())) {
            let problem = format!(
                "memory {} was {} twice by one cause ({})",
                change.memory,
                change.effect.kind(),
                told(&change.cause)
            );
            look.wrong(Check::EffectKeys, format!("{place}, twice"), problem);
        }
    }
}

fn told(cause: &Cause) -> String {
    crate::words::cause(cause)
}

/// Folds each memory's changes; a change that does not fit is reported and left out.
fn folded(home: &str, changes: &[Change], look: &mut Look) -> BTreeMap<MemoryId, Memory> {
    let mut memories: BTreeMap<MemoryId, Memory> = BTreeMap::new();
    for change in changes {
        match fold(memories.get(&change.memory).cloned(), change) {
            Ok(after) => memories.extend(after.map(|after| (change.memory, after))),
            Err(error) => look.wrong(Check::Fold, format!("{home}, change {}", change.id), error.to_string()),
        }
    }
    memories
}

fn compare(home: &str, folded: &BTreeMap<MemoryId, Memory>, table: &[Memory], look: &mut Look) {
    look.checked.memories += table.len() as u64;
    let stored: BTreeMap<_, _> = table.iter().map(|memory| (memory.id, memory)).collect();
    for (id, memory) in folded {
        let place = format!("{home}, memory {id}");
        match stored.get(id) {
            None => look.wrong(Check::Fold, place, "the change log makes it and the table does not hold it"),
            Some(stored) if bytes(stored) != bytes(memory) => {
                look.wrong(Check::Fold, place, difference(stored, memory));
            }
            Some(_) => {}
        }
    }
    for id in stored.keys().filter(|id| !folded.contains_key(id)) {
        look.wrong(
            Check::Fold,
            format!("{home}, memory {id}"),
            "it stands in the table and no change makes it",
        );
    }
}

fn bytes(memory: &Memory) -> String {
    canonical_json(&value(memory))
}

fn value(memory: &Memory) -> serde_json::Value {
    serde_json::to_value(memory).expect("a memory is plain data")
}

/// Names the fields that differ; their values may be long.
fn difference(stored: &Memory, folded: &Memory) -> String {
    let (stored, folded) = (value(stored), value(folded));
    let fields: BTreeSet<_> = [&stored, &folded]
        .into_iter()
        .filter_map(|memory| memory.as_object())
        .flat_map(|memory| memory.keys())
        .collect();
    let differ: Vec<_> =
        fields.into_iter().filter(|field| stored.get(field) != folded.get(field)).cloned().collect();
    format!("the table and the fold of the change log differ in {}", differ.join(", "))
}

fn tombstone(
    key: &WorkflowKey,
    stone: &Tombstone,
    memory: Option<&Memory>,
    changes: &[Change],
    look: &mut Look,
) {
    let place = format!("{key}, tombstone of memory {}", stone.memory);
    if memory.is_none_or(|memory| memory.status != Status::Deleted) {
        let status = memory.map_or("not in the change log", |memory| memory.status.as_str());
        look.wrong(Check::Tombstones, place, format!("its memory is {status}, not deleted"));
        return;
    }
    let says = |change: &Change| match change.effect {
        Effect::Deleted { tombstone_until } if change.memory == stone.memory => tombstone_until,
        _ => None,
    };
    if changes.iter().find_map(says) != Some(stone.until) {
        let problem = format!("it ends at {} and the deletion of its memory says otherwise", stone.until);
        look.wrong(Check::Tombstones, place, problem);
    }
}
