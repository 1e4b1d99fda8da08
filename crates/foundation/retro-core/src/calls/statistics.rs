//! Statistics of the operations of several runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::summary::{CallSummary, Operation};
use crate::id::Step;

/// Maximum number of operations in statistics: those that failed most, then those that were called most.
pub const OPERATIONS_MAX: usize = 100;

/// Numbers of one operation over several runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OperationStatistics {
    /// Step of the workflow.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub step: Step,
    /// Name of the tool.
    pub tool: String,
    /// Program and subcommands of a command, such as `["git", "push"]`; empty for any other call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub program: Vec<String>,
    /// Number of runs with such a call.
    pub runs: u32,
    /// Number of calls.
    pub calls: u32,
    /// Number of calls that failed.
    pub failed: u32,
    /// Median of the milliseconds from a call to its answer, over the calls whose log tells both times; `None`
    /// if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_ms: Option<u32>,
    /// 95th percentile of the same milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95_ms: Option<u32>,
}

/// Numbers of one operation while they are added up.
#[derive(Debug, Default)]
struct Sum {
    runs: u32,
    calls: u32,
    failed: u32,
    took_ms: Vec<u32>,
}

/// Computes the statistics of the operations of several runs: first those that failed most, then those that
/// were called most, at most [`OPERATIONS_MAX`].
pub fn compute_statistics<'a>(
    summaries: impl IntoIterator<Item = &'a CallSummary>,
) -> Vec<OperationStatistics> {
    let mut sums: BTreeMap<(&Step, &str, &[String]), Sum> = BTreeMap::new();
    for summary in summaries {
        for operation in &summary.operations {
            let sum = sums.entry(key_of(operation)).or_default();
            sum.runs += 1;
            sum.calls = sum.calls.saturating_add(operation.calls);
            sum.failed = sum.failed.saturating_add(operation.failed);
        }
        for call in &summary.calls {
            let operation = summary.operations.get(usize::from(call.operation));
            if let (Some(operation), Some(took_ms)) = (operation, call.took_ms) {
                sums.entry(key_of(operation)).or_default().took_ms.push(took_ms);
            }
        }
    }
    let mut statistics: Vec<OperationStatistics> =
        sums.into_iter().map(|((step, tool, program), sum)| sum.finish(step, tool, program)).collect();
    // A stable sort: operations with equal numbers stay in the order of their names.
    statistics.sort_by_key(|one| (u32::MAX - one.failed, u32::MAX - one.calls));
    statistics.truncate(OPERATIONS_MAX);
    statistics
}

fn key_of(operation: &Operation) -> (&Step, &str, &[String]) {
    (&operation.step, &operation.tool, &operation.program)
}

impl Sum {
    fn finish(mut self, step: &Step, tool: &str, program: &[String]) -> OperationStatistics {
        self.took_ms.sort_unstable();
        OperationStatistics {
            step: step.clone(),
            tool: tool.to_owned(),
            program: program.to_vec(),
            runs: self.runs,
            calls: self.calls,
            failed: self.failed,
            median_ms: percentile(&self.took_ms, 50),
            p95_ms: percentile(&self.took_ms, 95),
        }
    }
}

/// Returns the smallest value that at least this share of the sorted values does not exceed, in per cent.
fn percentile(sorted: &[u32], percent: usize) -> Option<u32> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values: Vec<u32> = (1..=20).collect();
        assert_eq!(percentile(&values, 50), Some(10));
        assert_eq!(percentile(&values, 95), Some(19));
        assert_eq!(percentile(&[7], 95), Some(7));
        assert_eq!(percentile(&[], 50), None);
    }
}
