//! Counts the requests of each operation in this process, for tools that ask the service.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use retro_events::agents::{AgentOperation, AgentRefusal};

/// Answered requests of each operation since the start of the process.
#[derive(Debug, Default)]
pub(super) struct EndpointStatistics {
    of_operations: Mutex<HashMap<AgentOperation, OperationStatistics>>,
}

/// Answered requests of one operation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct OperationStatistics {
    /// Number of requests, refused ones included.
    pub(super) requests: u64,
    /// Number of refused requests.
    pub(super) errors: u64,
    /// Status and reason of the latest refusal; empty if there was none.
    pub(super) last_error: String,
    /// Time from the arrival of the requests until their answers, in total.
    pub(super) processing_time: Duration,
}

impl EndpointStatistics {
    /// Adds one answered or refused request.
    pub(super) fn record(&self, operation: AgentOperation, took: Duration, refusal: Option<&AgentRefusal>) {
        let mut all = self.of_operations.lock().unwrap_or_else(PoisonError::into_inner);
        let one = all.entry(operation).or_default();
        one.requests += 1;
        one.processing_time += took;
        if let Some(AgentRefusal { status, reason }) = refusal {
            one.errors += 1;
            one.last_error = format!("{status}:{reason}");
        }
    }

    /// Returns the numbers of one operation.
    pub(super) fn of_operation(&self, operation: AgentOperation) -> OperationStatistics {
        let all = self.of_operations.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&operation).cloned().unwrap_or_default()
    }
}
