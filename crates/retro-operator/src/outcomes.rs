//! What became of runs, by workflow.

use retro_core::id::{Tenant, Workflow};
use retro_core::outcome::{WorkflowOutcomes, sum_up};
use retro_store::{OperatorStore, Result};

/// The tenant's workflows whose runs belong to pull requests, and what became of those; one workflow, or all by name.
pub async fn outcomes(
    store: &dyn OperatorStore,
    tenant: &Tenant,
    workflow: Option<&Workflow>,
) -> Result<Vec<WorkflowOutcomes>> {
    Ok(sum_up(&store.run_links(tenant, workflow).await?))
}
