//! The results of a world, from which the figures are computed.

use crate::closed_loop::simulation::WorkflowResult;
use crate::closed_loop::world::World;

/// Results of one world under one policy.
#[derive(Debug, Clone)]
pub(crate) struct WorldResult<'a> {
    pub(crate) world: &'a World,
    pub(crate) workflow_results: Vec<WorkflowResult>,
}
