//! The lock of a workflow. A transaction that may write has the whole file to itself from its beginning, so that nothing
//! is left to do.

use retro_core::id::WorkflowKey;
use retro_store::Result;

use crate::dialect::Connection;

/// Locks the row of one workflow.
pub(crate) async fn workflow(_: &mut Connection, _: &WorkflowKey) -> Result<()> {
    Ok(())
}
