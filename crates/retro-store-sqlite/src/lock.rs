//! Locks workflows. A SQLite transaction that may write has exclusive write access from its start, so there is
//! nothing to do.

use retro_core::id::WorkflowKey;
use retro_store::Result;

use crate::dialect::Connection;

/// Locks a workflow. Does nothing, because the transaction already has exclusive write access.
pub(crate) async fn lock_workflow(_: &mut Connection, _: &WorkflowKey) -> Result<()> {
    Ok(())
}
