//! One event as the loop stores it, and the numbers that a batch of them gets.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};

/// One event as the loop stores it.
pub(super) struct Row {
    pub(super) tenant: String,
    pub(super) workflow: String,
    pub(super) source: String,
    pub(super) event_id: String,
    pub(super) content_hash: String,
    pub(super) run_id: String,
    pub(super) facts: String,
    pub(super) trajectory: Vec<u8>,
    pub(super) sequence: i64,
    /// Arrival number and ordinal of the run, assigned within the transaction.
    pub(super) number: i64,
}

/// Returns the number of runs of each workflow in the batch.
pub(super) fn count_by_workflow(rows: &[Row]) -> BTreeMap<(&str, &str), i64> {
    let mut counts = BTreeMap::new();
    for row in rows {
        *counts.entry((row.tenant.as_str(), row.workflow.as_str())).or_default() += 1;
    }
    counts
}

/// Numbers the runs, given the last number of each workflow after the batch.
pub(super) fn assign_numbers(rows: &mut [Row], last: &BTreeMap<(String, String), i64>) -> Result<()> {
    let mut next: BTreeMap<(String, String), i64> = BTreeMap::new();
    for row in rows.iter_mut().rev() {
        let key = (row.tenant.clone(), row.workflow.clone());
        let number = match next.get(&key) {
            Some(number) => *number,
            None => *last.get(&key).context("a workflow of the batch was not counted")?,
        };
        row.number = number;
        next.insert(key, number - 1);
    }
    Ok(())
}

pub(super) fn check_all_new(stored: u64, rows: usize) -> Result<()> {
    ensure!(stored == rows as u64, "{stored} of {rows} events were new; the loop measures new events only");
    Ok(())
}
