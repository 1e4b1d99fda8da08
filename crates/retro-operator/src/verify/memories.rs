//! Laws 4 and 5 on stored rows: the change log, its fold, and the tombstones.

use std::collections::{BTreeSet, HashSet};

use retro_core::canonical::canonical_json;
use retro_core::id::WorkflowKey;
use retro_core::memory::{Cause, Change, Effect, Memory, Status, Tombstone, change_id, fold};
use retro_store::{MemoryBooks, OperatorStore, Result};

use super::{Check, Look, manual};

pub(super) async fn check(store: &dyn OperatorStore, books: &MemoryBooks, look: &mut Look) -> Result<()> {
    look.checked.memories += u64::from(books.stored.is_some());
    look.checked.changes += books.changes.len() as u64;
    check_effect_keys(&books.changes, look);
    let folded = fold_changes(&books.changes, look);
    compare(books, folded.as_ref(), look);
    check_home(books, look);
    if let Some((key, stone)) = &books.tombstone {
        look.checked.tombstones += 1;
        check_tombstone(key, stone, folded.as_ref(), &books.changes, look);
    }
    for (key, change) in &books.changes {
        manual::check_acceptance(store, key, change, look).await?;
    }
    Ok(())
}

fn check_effect_keys(changes: &[(WorkflowKey, Change)], look: &mut Look) {
    let mut seen = HashSet::new();
    for (key, change) in changes {
        let place = format!("{key}, change {}", change.id);
        let derived = change_id(key, change.memory, &change.cause, change.effect.kind());
        if derived != change.id {
            let problem = format!("its effect key makes {derived}: memory, cause or kind was altered");
            look.wrong(Check::EffectKeys, &place, problem);
        }
        if !seen.insert((key, change.memory, &change.cause, change.effect.kind())) {
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

/// Folds a memory's changes; a change that does not fit is reported and left out.
fn fold_changes(changes: &[(WorkflowKey, Change)], look: &mut Look) -> Option<Memory> {
    let mut memory: Option<Memory> = None;
    for (key, change) in changes {
        match fold(memory.clone(), change) {
            Ok(after) => memory = after.or(memory),
            Err(error) => look.wrong(Check::Fold, format!("{key}, change {}", change.id), error.to_string()),
        }
    }
    memory
}

fn compare(books: &MemoryBooks, folded: Option<&Memory>, look: &mut Look) {
    let (home, problem) = match (folded, &books.stored) {
        (Some(_), None) => {
            let home = books.changes.first().map(|(key, _)| key);
            (home, "the change log makes it and the table does not hold it".to_owned())
        }
        (None, Some((home, _))) => (Some(home), "it stands in the table and no change makes it".to_owned()),
        (Some(folded), Some((home, stored))) if stored != folded && bytes(stored) != bytes(folded) => {
            (Some(home), difference(stored, folded))
        }
        _ => return,
    };
    let home = home.map_or_else(|| books.tenant.to_string(), ToString::to_string);
    look.wrong(Check::Fold, format!("{home}, memory {}", books.id), problem);
}

/// A memory and its changes stand under one workflow, the one whose writer keeps it.
fn check_home(books: &MemoryBooks, look: &mut Look) {
    let home = books.stored.as_ref().map(|(key, _)| key).or(books.changes.first().map(|(key, _)| key));
    let Some(home) = home else { return };
    if let Some((other, change)) = books.changes.iter().find(|(key, _)| key != home) {
        let problem = format!("change {} of it stands under {other}", change.id);
        look.wrong(Check::Fold, format!("{home}, memory {}, workflow", books.id), problem);
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

fn check_tombstone(
    key: &WorkflowKey,
    stone: &Tombstone,
    memory: Option<&Memory>,
    changes: &[(WorkflowKey, Change)],
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
    if changes.iter().find_map(|(_, change)| says(change)) != Some(stone.until) {
        let problem = format!("it ends at {} and the deletion of its memory says otherwise", stone.until);
        look.wrong(Check::Tombstones, place, problem);
    }
}
