//! Stands in for the workflow locks of other databases. A SQLite write transaction excludes all other writers
//! from its start, so there is nothing to lock.

use retro_core::id::WorkflowKey;
use retro_store::Result;

use crate::dialect::Connection;

/// Does nothing, because the transaction already excludes all other writers.
pub(crate) async fn lock_workflow(_: &mut Connection, _: &WorkflowKey) -> Result<()> {
    Ok(())
}
