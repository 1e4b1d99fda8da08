//! `retro export --canonical`: what was learnt, as bytes that two stores can be compared by (law 3).
//!
//! One canonical JSON object a line: `{"kind": "memory" | "change" | "report" | "proposal", "workflow": …, "value": …}`.
//! Workflows by name, whoever keeps a repository's rules among them; within one the memories by id, the changes in the order of the log, the reports by epoch with
//! those of manual retrospectives after them by id, and the proposals by id with what was decided. Memories that
//! belong to no workflow stand at the end, by id, without `workflow`.
//!
//! **Left out**, since two runs of the same story may differ in it:
//! - wall-clock columns, wherever they stand: `as_of`, `at`, `until`, `created_at`, `changed_at`, `closed_at`,
//!   `paused_until`, `tombstone_until`;
//! - what it took: `timing` of each investigation and `total` of a report (attempts, durations, costs). Attempts are
//!   among them because a process that was killed has spent one;
//! - moments inside sentences: in `reason` and `why` a timestamp is written `<moment>`;
//! - `pull_requests` of a report's runs: what was known of them is a matter of when GitHub told it;
//! - global sequences: no stored type carries one;
//! - reports about reviews, and which mutation made a change of a rule: a pull request is decided upon anew when somebody says
//!   more, and how often that is depends on how quickly it was said.
//!
//! Runs, sampled order, seeds, quotes, policy and every id stay.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use retro_core::canonical::canonical_json;
use retro_core::id::{Tenant, WorkflowKey};
use retro_core::memory::Cause;
use retro_core::retrospective::State;
use retro_store::{MemoryFilter, OperatorStore, ProposalFilter, Result};
use serde::Serialize;
use serde_json::{Value, json};

/// Fields that hold moments, durations or costs, or what was known at a moment.
const LEFT_OUT: &[&str] = &[
    "pull_requests",
    "as_of",
    "at",
    "until",
    "created_at",
    "changed_at",
    "closed_at",
    "paused_until",
    "tombstone_until",
    "timing",
    "total",
];

/// Fields that hold sentences of ours, in which a moment may stand.
const SENTENCES: &[&str] = &["reason", "why"];

/// Everything that a tenant's workflows have learnt, one JSON object a line. The same state gives the same bytes, on
/// either database. Fails only when the store cannot be read.
pub async fn export_canonical(store: &dyn OperatorStore, tenant: &Tenant) -> Result<String> {
    let mut lines = String::new();
    let mut workflows: Vec<_> = store.workflows(tenant).await?.into_iter().map(|row| row.key).collect();
    workflows.extend(store.keepers(tenant).await?);
    workflows.sort();
    workflows.dedup();
    for key in &workflows {
        export_workflow(store, key, &mut lines).await?;
    }
    let homes: BTreeSet<_> = workflows.iter().map(|key| key.workflow.clone()).collect();
    let mut homeless = store.memories(tenant, &everything()).await?;
    homeless.retain(|memory| memory.scope.kept_under().is_none_or(|home| !homes.contains(&home)));
    homeless.sort_by_key(|memory| memory.id);
    for memory in &homeless {
        push(&mut lines, "memory", None, memory);
        for change in store.history(tenant, memory.id).await? {
            push(&mut lines, "change", None, &change);
        }
    }
    Ok(lines)
}

async fn export_workflow(store: &dyn OperatorStore, key: &WorkflowKey, lines: &mut String) -> Result<()> {
    let filter = MemoryFilter { workflow: Some(key.workflow.clone()), ..everything() };
    let mut memories = store.memories(&key.tenant, &filter).await?;
    memories.sort_by_key(|memory| memory.id);
    for memory in &memories {
        push(lines, "memory", Some(key), memory);
    }
    for mut change in store.changes(key).await? {
        if matches!(change.cause, Cause::Review { .. }) {
            change.mutation = None;
        }
        push(lines, "change", Some(key), &change);
    }
    let rows = store.retrospectives(&key.tenant, Some(&key.workflow), u32::MAX).await?;
    let mut ended: Vec<_> = rows.into_iter().map(|row| row.retrospective).collect();
    ended.retain(|one| matches!(one.state, State::Closed | State::Failed));
    ended.sort_by_key(|one| (one.asked.is_some(), one.epoch, one.id));
    for one in ended {
        if let Some(report) = store.report(&key.tenant, one.id).await? {
            push(lines, "report", Some(key), &report);
        }
    }
    let filter =
        ProposalFilter { workflow: Some(key.workflow.clone()), limit: u32::MAX, ..Default::default() };
    let mut proposals = store.proposals(&key.tenant, &filter).await?;
    proposals.sort_by_key(|row| row.proposal.id);
    for row in &proposals {
        push(lines, "proposal", Some(key), row);
    }
    Ok(())
}

fn everything() -> MemoryFilter {
    MemoryFilter { limit: u32::MAX, ..MemoryFilter::default() }
}

fn push<T: Serialize>(lines: &mut String, kind: &str, key: Option<&WorkflowKey>, value: &T) {
    let mut value = serde_json::to_value(value).expect("what is stored is plain data");
    timeless(&mut value);
    let line = match key {
        Some(key) => json!({"kind": kind, "workflow": key.workflow, "value": value}),
        None => json!({"kind": kind, "value": value}),
    };
    lines.push_str(&canonical_json(&line));
    lines.push('\n');
}

/// Takes out what depends on when and how fast something happened.
fn timeless(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !LEFT_OUT.contains(&name.as_str()));
            for (name, value) in fields {
                match value {
                    Value::String(sentence) if SENTENCES.contains(&name.as_str()) => {
                        *sentence = MOMENT.replace_all(sentence, "<moment>").into_owned();
                    }
                    other => timeless(other),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(timeless),
        _ => {}
    }
}

/// A timestamp as this program writes it.
static MOMENT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d+)?Z").expect("the pattern is fixed and tested")
});

#[cfg(test)]
mod tests;
