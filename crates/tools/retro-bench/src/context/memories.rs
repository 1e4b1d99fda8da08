//! Stores memories without the program, and names the steps that they belong to.

use anyhow::{Context, Result};
use retro_core::memory::Memory;
use serde_json::json;

use crate::servers::Database;

/// Number of memories of a step.
const STEP_MEMORIES: u64 = 50;
/// Places of a stored memory that differ from row to row.
const ID: &str = "11111111-1111-8111-8111-111111111111";
const WORKFLOW: &str = "WORKFLOWNAME";
const STEP: &str = "STEPNAME";

/// Steps with memories: each workflow belongs to one tenant and has as many steps as the others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scopes {
    pub(crate) memories: u64,
    pub(crate) workflows: u64,
    pub(crate) tenants: u64,
    steps_per_workflow: u64,
}

impl Scopes {
    /// Spreads memories over workflows, and workflows over tenants.
    pub(crate) fn new(memories: u64, workflows: u64, tenants: u64) -> Self {
        let steps_per_workflow = (memories / STEP_MEMORIES / workflows).max(1);
        Self { memories, workflows, tenants, steps_per_workflow }
    }

    /// One workflow of one tenant with this number of steps.
    pub(crate) fn of_steps(steps: u64) -> Self {
        Self::new(steps * STEP_MEMORIES, 1, 1)
    }

    /// Returns the number of steps.
    pub(crate) const fn number(&self) -> u64 {
        self.workflows * self.steps_per_workflow
    }

    /// Returns tenant, workflow and step of the `nth` step.
    pub(crate) fn name(&self, nth: u64) -> (String, String, String) {
        let (workflow, step) = (nth % self.workflows, nth / self.workflows % self.steps_per_workflow);
        (format!("t{}", workflow % self.tenants), format!("workflow-{workflow}"), format!("step-{step}"))
    }

    /// Returns the number of the tenant of the `nth` step.
    pub(crate) const fn tenant(&self, nth: u64) -> usize {
        (nth % self.workflows % self.tenants) as usize
    }

    /// Returns the names of the tenants in their order.
    pub(crate) fn tenants(&self) -> impl Iterator<Item = String> {
        (0..self.tenants).map(|tenant| format!("t{tenant}"))
    }

    /// Stores the memories of all steps.
    pub(crate) async fn store(&self, database: &Database) -> Result<()> {
        let (last, workflows, tenants) = (self.number() * STEP_MEMORIES - 1, self.workflows, self.tenants);
        let is_postgres = database.is_postgres();
        let (numbers, id) = if is_postgres {
            (
                format!("generate_series(0::bigint, {last}) AS numbers (n)"),
                "lpad(to_hex((n * 2654435761) & 4294967295), 8, '0') || '-1111-8111-8111-' || lpad(to_hex(n), 12, '0')",
            )
        } else {
            (
                format!(
                    "(WITH RECURSIVE counted (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM counted WHERE n < {last})
                      SELECT n FROM counted) AS numbers"
                ),
                "printf('%08x-1111-8111-8111-%012x', (n * 2654435761) & 4294967295, n)",
            )
        };
        let steps = self.steps_per_workflow;
        let slots: Vec<String> = (0..STEP_MEMORIES).map(compose_slot).collect::<Result<_>>()?;
        let slots = slots.join(", ");
        let named = "replace(replace(replace(memory, '11111111-1111-8111-8111-111111111111', id), 'WORKFLOWNAME', workflow), 'STEPNAME', step)";
        let scope = format!("'{}'", sample_memory(0)?.scope.storage_key().replace('\'', "''"));
        let memories = format!(
            "WITH slots (slot, weight, memory) AS (VALUES {slots}),
             placed AS (
                 SELECT n, {id} AS id, n / {STEP_MEMORIES} % {workflows} AS nth_workflow,
                     n / {STEP_MEMORIES} / {workflows} % {steps} AS nth_step, n % {STEP_MEMORIES} AS slot
                 FROM {numbers}),
             named AS (
                 SELECT 't' || (nth_workflow % {tenants}) AS tenant, id, 'workflow-' || nth_workflow AS workflow,
                     'step-' || nth_step AS step, slot
                 FROM placed)
             INSERT INTO memories (tenant, id, workflow, scope_kind, scope_key, step, status, weight, memory, changed_at)
             SELECT tenant, id, workflow, 'step', replace(replace({scope}, 'WORKFLOWNAME', workflow), 'STEPNAME', step),
                 step, 'active', weight, {named}, '2026-11-20T10:00:00.000000000Z'
             FROM named JOIN slots USING (slot)"
        );
        database.execute(memories).await.context("storing memories")?;
        let counts = "INSERT INTO memory_presentation_counts (tenant, memory, presentations)
             SELECT tenant, id, weight / 10 FROM memories";
        database.execute(counts.to_owned()).await?;
        let tidy = if is_postgres { "VACUUM ANALYZE memories" } else { "PRAGMA wal_checkpoint(TRUNCATE)" };
        database.execute(tidy.to_owned()).await
    }
}

/// Composes the row of a slot: its number, the weight, and the memory with places to be replaced.
fn compose_slot(slot: u64) -> Result<String> {
    let memory = sample_memory(slot)?;
    let stored = serde_json::to_string(&memory)?.replace('\'', "''");
    Ok(format!("({slot}, {}, '{stored}')", memory.weight.get()))
}

/// Returns a memory like those that retrospectives learn.
fn sample_memory(slot: u64) -> Result<Memory> {
    let (tool, argument) =
        (format!("deploy_service_{slot}"), ["region", "unit", "zone", "owner", "ttl_s"][slot as usize % 5]);
    let error = format!("Error: missing required argument '{argument}'");
    let memory = json!({
        "id": ID,
        "scope": {"scope": "step", "workflow": WORKFLOW, "step": STEP, "audience": "everyone"},
        "lesson": {
            "subject": tool,
            "title": format!("When `{tool}` answers “{error}”, pass `{argument}`"),
            "content": format!("`{tool}` failed with “{error}” and succeeded once `{argument}` was passed. 4 of 5 runs that passed it had no error."),
            "cue": {"tool": tool, "error": error, "prefer": argument},
        },
        "status": "active",
        "weight": 110 + slot * 17,
        "observed_runs": 3,
        "tentative_runs": ["run-1", "run-2"],
        "evidence": [
            {"run": "run-1", "epoch": 1, "quote": {"place": {"part": "message", "turn": 3}, "text": error}},
            {"run": "run-2", "epoch": 1, "quote": {"place": {"part": "message", "turn": 5}, "text": error}},
        ],
        "cue_not_met": 0,
        "created_at": "2026-11-20T10:00:00Z",
        "changed_at": "2026-11-20T10:00:00Z",
    });
    serde_json::from_value(memory).context("the sample is no memory of this version")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_stored_with_the_places_that_are_replaced() {
        let row = compose_slot(7).unwrap();
        for place in [ID, WORKFLOW, STEP] {
            assert!(row.contains(place), "{place} is not in {row}");
        }
        assert!(sample_memory(0).unwrap().scope.storage_key().contains(WORKFLOW));
    }

    #[test]
    fn every_step_has_a_name_of_its_own() {
        let scopes = Scopes::new(10_000, 20, 3);
        let names: std::collections::HashSet<_> = (0..scopes.number()).map(|nth| scopes.name(nth)).collect();
        assert_eq!((scopes.number(), names.len()), (200, 200));
    }
}
