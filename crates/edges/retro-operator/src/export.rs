//! Implements `retro export --canonical`, which exports everything learnt in a form that can be compared byte
//! for byte between two stores (law 3).
//!
//! Each line is one canonical JSON object: `{"kind": "memory" | "change" | "report" | "proposal" | "feedback", "workflow":
//! …, "value": …}`. Workflows are sorted by name and include the rule scopes of repositories. Each workflow
//! lists its memories by id, its changes in log order, its reports by epoch (those of manual retrospectives
//! last, by id), its proposals by id with their decisions, and the
//! feedback on its memories by id with what became of it. Memories without a workflow come last, by id,
//! without `workflow`.
//!
//! **Omitted**, because the values may differ between two executions with the same input:
//! - wall-clock fields at any depth: `as_of`, `at`, `until`, `created_at`, `changed_at`, `closed_at`, `paused_until`,
//!   `tombstone_until`;
//! - effort: `timing` of each investigation and `total` of a report (attempts, durations, costs), because a
//!   killed process has used up an attempt;
//! - `model_note`: why a configured language model took no part in an answer, which may tell how long an endpoint was away;
//! - timestamps in the sentences of `reason`, which are replaced by `<moment>`;
//! - `pull_requests` of a report's runs, which depend on when GitHub sent its events;
//! - global sequence numbers, which no stored type contains anyway;
//! - reports about reviews, and the mutation behind a change of a rule: a pull request is decided again after each
//!   new comment, so their number depends on timing.
//!
//! Runs, sample order, seeds, quotes, policy and all ids are included.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use retro_core::canonical::canonical_json;
use retro_core::id::{Tenant, WorkflowKey};
use retro_core::memory::ChangeCause;
use retro_core::retrospective::RetrospectiveState;
use retro_store::{MemoryFilter, OperatorStore, ProposalFilter, Result};
use serde::Serialize;
use serde_json::{Value, json};

/// Names of omitted fields, which contain timestamps, durations, costs, or facts that depend on when they were
/// read.
const OMITTED_FIELDS: &[&str] = &[
    "pull_requests",
    "checks",
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
    // Who is let in, and by which token, is not learnt.
    "with_token",
    "model_note",
];

/// Names of fields that contain generated sentences, in which timestamps are replaced.
const SENTENCE_FIELDS: &[&str] = &["reason"];

/// Exports everything that a tenant's workflows have learnt, one JSON object per line. The same state gives the same
/// bytes on either database. Fails only if the store cannot be read.
pub async fn export_canonical(store: &dyn OperatorStore, tenant: &Tenant) -> Result<String> {
    let mut lines = String::new();
    let mut workflows: Vec<_> = store.list_workflows(tenant).await?.into_iter().map(|row| row.key).collect();
    workflows.extend(store.list_rule_scopes(tenant).await?);
    workflows.sort();
    workflows.dedup();
    for key in &workflows {
        export_workflow(store, key, &mut lines).await?;
    }
    // Memories of other scopes have no workflow in the list and would be missing from the export.
    let homes: BTreeSet<_> = workflows.iter().map(|key| key.workflow.clone()).collect();
    let mut homeless = store.list_memories(tenant, &unlimited_filter()).await?;
    homeless.retain(|memory| memory.scope.owning_workflow().is_none_or(|home| !homes.contains(&home)));
    homeless.sort_by_key(|memory| memory.id);
    for memory in &homeless {
        push_line(&mut lines, "memory", None, memory);
        for change in store.list_memory_changes(tenant, memory.id).await? {
            push_line(&mut lines, "change", None, &change);
        }
    }
    Ok(lines)
}

async fn export_workflow(store: &dyn OperatorStore, key: &WorkflowKey, lines: &mut String) -> Result<()> {
    let filter = MemoryFilter { workflow: Some(key.workflow.clone()), ..unlimited_filter() };
    let mut memories = store.list_memories(&key.tenant, &filter).await?;
    memories.sort_by_key(|memory| memory.id);
    for memory in &memories {
        push_line(lines, "memory", Some(key), memory);
    }
    for mut change in store.list_workflow_changes(key).await? {
        if matches!(change.cause, ChangeCause::Review { .. }) {
            // Depends on how often the pull request was decided; see the module documentation.
            change.mutation = None;
        }
        push_line(lines, "change", Some(key), &change);
    }
    let rows = store.list_retrospectives(&key.tenant, Some(&key.workflow), u32::MAX).await?;
    let mut ended: Vec<_> = rows.into_iter().map(|row| row.retrospective).collect();
    ended.retain(|one| matches!(one.state, RetrospectiveState::Closed | RetrospectiveState::Failed));
    // Manual retrospectives all have epoch 0, so they are sorted by id, behind the automatic ones.
    ended.sort_by_key(|one| (one.manual_request.is_some(), one.epoch, one.id));
    for one in ended {
        if let Some(report) = store.find_report(&key.tenant, one.id).await? {
            push_line(lines, "report", Some(key), &report);
        }
    }
    let filter =
        ProposalFilter { workflow: Some(key.workflow.clone()), limit: u32::MAX, ..Default::default() };
    let mut proposals = store.list_proposals(&key.tenant, &filter).await?;
    proposals.sort_by_key(|row| row.proposal.id);
    for row in &proposals {
        push_line(lines, "proposal", Some(key), row);
    }
    for row in store.list_scope_feedback(key).await? {
        push_line(lines, "feedback", Some(key), &row);
    }
    Ok(())
}

fn unlimited_filter() -> MemoryFilter {
    MemoryFilter { limit: u32::MAX, ..MemoryFilter::default() }
}

fn push_line<T: Serialize>(lines: &mut String, kind: &str, key: Option<&WorkflowKey>, value: &T) {
    let mut value = serde_json::to_value(value).expect("stored values can be serialized");
    remove_timing(&mut value);
    let line = match key {
        Some(key) => json!({"kind": kind, "workflow": key.workflow, "value": value}),
        None => json!({"kind": kind, "value": value}),
    };
    lines.push_str(&canonical_json(&line));
    lines.push('\n');
}

/// Removes the fields that depend on timing and masks the timestamps in sentences.
fn remove_timing(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !OMITTED_FIELDS.contains(&name.as_str()));
            for (name, value) in fields {
                match value {
                    Value::String(sentence) if SENTENCE_FIELDS.contains(&name.as_str()) => {
                        *sentence = TIMESTAMP_PATTERN.replace_all(sentence, "<moment>").into_owned();
                    }
                    other => remove_timing(other),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(remove_timing),
        _ => {}
    }
}

/// Matches timestamps in the program's own format.
static TIMESTAMP_PATTERN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d+)?Z").expect("the pattern is fixed and tested")
});

#[cfg(test)]
mod tests;
