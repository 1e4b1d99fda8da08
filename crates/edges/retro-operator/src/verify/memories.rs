//! Checks laws 4 and 5 on the stored rows: the change log, its fold, and the tombstones.

use std::collections::{BTreeSet, HashSet};

use retro_core::canonical::canonical_json;
use retro_core::id::{MutationId, RetrospectiveId, WorkflowKey};
use retro_core::memory::{
    Change, ChangeCause, ChangeEffect, Memory, MemoryStatus, Tombstone, change_id, fold_change,
};
use retro_store::{MemoryRecords, OperatorStore, Result};

use super::manual;
use super::page::PageCheck;
use super::verification::Check;

pub(super) async fn check_memory(
    store: &dyn OperatorStore,
    books: &MemoryRecords,
    page_check: &mut PageCheck,
) -> Result<()> {
    page_check.checked.memories += u64::from(books.stored.is_some());
    page_check.checked.changes += books.changes.len() as u64;
    check_effect_keys(&books.changes, page_check);
    let folded = fold_changes(&books.changes, page_check);
    compare_with_fold(books, folded.as_ref(), page_check);
    check_workflow(books, page_check);
    if let Some((key, tombstone)) = &books.tombstone {
        page_check.checked.tombstones += 1;
        check_tombstone(key, tombstone, folded.as_ref(), &books.changes, page_check);
    }
    check_feedback(books, page_check);
    for (key, change) in &books.changes {
        manual::check_acceptance_change(store, key, change, page_check).await?;
    }
    Ok(())
}

fn check_effect_keys(changes: &[(WorkflowKey, Change)], page_check: &mut PageCheck) {
    let mut seen = HashSet::new();
    for (key, change) in changes {
        let place = format!("{key}, change {}", change.id);
        let derived = change_id(key, change.memory, &change.cause, change.effect.kind());
        if derived != change.id {
            let problem = format!("its effect key gives {derived}: memory, cause or kind was altered");
            page_check.add_violation(Check::EffectKeys, &place, problem);
        }
        if !seen.insert((key, change.memory, &change.cause, change.effect.kind())) {
            let problem = format!(
                "memory {} was {} twice by one cause ({})",
                change.memory,
                change.effect.kind(),
                format_cause(&change.cause)
            );
            page_check.add_violation(Check::EffectKeys, format!("{place}, twice"), problem);
        }
    }
}

fn format_cause(cause: &ChangeCause) -> String {
    crate::text::describe_cause(cause)
}

/// Folds the changes of a memory. A change that cannot be applied is reported as a violation and skipped. Returns
/// `None` if no change created the memory.
fn fold_changes(changes: &[(WorkflowKey, Change)], page_check: &mut PageCheck) -> Option<Memory> {
    let mut memory: Option<Memory> = None;
    for (key, change) in changes {
        match fold_change(memory.clone(), change) {
            Ok(after) => memory = after.or(memory),
            Err(error) => page_check.add_violation(
                Check::Fold,
                format!("{key}, change {}", change.id),
                error.to_string(),
            ),
        }
    }
    memory
}

fn compare_with_fold(books: &MemoryRecords, folded: Option<&Memory>, page_check: &mut PageCheck) {
    let (home, problem) = match (folded, &books.stored) {
        (Some(_), None) => {
            let home = books.changes.first().map(|(key, _)| key);
            (home, "the change log contains it, but the table does not".to_owned())
        }
        (None, Some((home, _))) => (Some(home), "it is in the table, but no change created it".to_owned()),
        // The canonical bytes decide, because the same number may be stored in another representation.
        (Some(folded), Some((home, stored)))
            if stored != folded && canonical_bytes(stored) != canonical_bytes(folded) =>
        {
            (Some(home), describe_difference(stored, folded))
        }
        _ => return,
    };
    let home = home.map_or_else(|| books.tenant.to_string(), ToString::to_string);
    page_check.add_violation(Check::Fold, format!("{home}, memory {}", books.id), problem);
}

/// Checks that a memory and all its changes belong to the same workflow, because only the writer of one workflow may
/// change a memory.
fn check_workflow(books: &MemoryRecords, page_check: &mut PageCheck) {
    let home = books.stored.as_ref().map(|(key, _)| key).or(books.changes.first().map(|(key, _)| key));
    let Some(home) = home else { return };
    if let Some((other, change)) = books.changes.iter().find(|(key, _)| key != home) {
        let problem = format!("change {} of it belongs to {other}", change.id);
        page_check.add_violation(Check::Fold, format!("{home}, memory {}, workflow", books.id), problem);
    }
}

fn canonical_bytes(memory: &Memory) -> String {
    canonical_json(&to_json(memory))
}

fn to_json(memory: &Memory) -> serde_json::Value {
    serde_json::to_value(memory).expect("a memory can be serialized")
}

/// Names the fields in which the stored and the folded memory differ. Values are left out, because they may
/// be long.
fn describe_difference(stored: &Memory, folded: &Memory) -> String {
    let (stored, folded) = (to_json(stored), to_json(folded));
    let fields: BTreeSet<_> = [&stored, &folded]
        .into_iter()
        .filter_map(|memory| memory.as_object())
        .flat_map(|memory| memory.keys())
        .collect();
    let differ: Vec<_> =
        fields.into_iter().filter(|field| stored.get(field) != folded.get(field)).cloned().collect();
    format!("the table and the fold of the change log differ in {}", differ.join(", "))
}

/// Checks that a change of the memory carries what was weighed. The verdicts on a memory that was superseded in the same
/// retrospective went to its successor.
fn check_feedback(books: &MemoryRecords, page_check: &mut PageCheck) {
    page_check.checked.feedback += books.feedback.len() as u64;
    let home = books.stored.as_ref().map_or_else(|| books.tenant.to_string(), |(key, _)| key.to_string());
    let superseded =
        books.stored.as_ref().is_some_and(|(_, memory)| memory.status == MemoryStatus::Superseded);
    let mut waiting = HashSet::new();
    for row in &books.feedback {
        let (id, place) = (row.feedback.id, format!("{home}, feedback {}", row.feedback.id));
        let Some((settled_by, outcome)) = row.settled_by.zip(row.outcome.as_ref()) else {
            if !waiting.insert(row.feedback.voice()) {
                page_check.add_violation(Check::Feedback, place, "the same waits twice");
            }
            continue;
        };
        let mutation = MutationId::of_feedback(settled_by, id);
        let carries = |change: &Change| {
            change.retrospective == Some(RetrospectiveId(settled_by)) || change.mutation == Some(mutation)
        };
        if outcome.weighed && !superseded && !books.changes.iter().any(|(_, change)| carries(change)) {
            let problem = format!("it was weighed by {settled_by}, which made no change of the memory");
            page_check.add_violation(Check::Feedback, place, problem);
        }
    }
}

fn check_tombstone(
    key: &WorkflowKey,
    tombstone: &Tombstone,
    memory: Option<&Memory>,
    changes: &[(WorkflowKey, Change)],
    page_check: &mut PageCheck,
) {
    let place = format!("{key}, tombstone of memory {}", tombstone.memory);
    if memory.is_none_or(|memory| memory.status != MemoryStatus::Deleted) {
        let status = memory.map_or("not in the change log", |memory| memory.status.as_str());
        page_check.add_violation(Check::Tombstones, place, format!("its memory is {status}, not deleted"));
        return;
    }
    let says = |change: &Change| match change.effect {
        ChangeEffect::Deleted { tombstone_until } if change.memory == tombstone.memory => tombstone_until,
        _ => None,
    };
    // An earlier deletion may have been taken back.
    if changes.iter().rev().find_map(|(_, change)| says(change)) != Some(tombstone.until) {
        let problem =
            format!("it ends at {}, but the deletion of its memory says otherwise", tombstone.until);
        page_check.add_violation(Check::Tombstones, place, problem);
    }
}
