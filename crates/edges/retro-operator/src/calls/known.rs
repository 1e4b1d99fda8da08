//! Tells a workflow that has no counted calls from one that does not exist.

use retro_core::id::WorkflowKey;
use retro_store::{OperatorStore, Result};

/// Returns `true` if the tenant has the workflow.
pub(crate) async fn is_known_workflow(store: &dyn OperatorStore, key: &WorkflowKey) -> Result<bool> {
    Ok(store.list_workflows(&key.tenant).await?.iter().any(|row| row.key == *key))
}
