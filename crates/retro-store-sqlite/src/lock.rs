//! Lock of a workflow. A SQLite transaction that may write has exclusive write access from its start, so
//! there is nothing to do.

use retro_core::id::WorkflowKey;
use retro_store::Result;

use crate::dialect::Connection;

/// Locks the row of one workflow.
pub(crate) async fn lock_workflow(_: &mut Connection, _: &WorkflowKey) -> Result<()> {
    Ok(())
}
