//! Defines how far the sweep of vectors has come.

use retro_core::id::{MemoryId, Tenant};

/// Position of the sweep of vectors: the memory after which it continues.
#[derive(Debug, Default)]
pub(crate) struct SweepCursor {
    pub(crate) after: Option<(Tenant, MemoryId)>,
}
