//! Resolves full and abbreviated memory ids.

use async_trait::async_trait;
use retro_core::id::{MemoryId, MemoryRef, Tenant};

use crate::Result;
use crate::object_ref::list_candidates;

/// Finds memories by full id or id prefix.
#[async_trait]
pub trait MemoryRefStore: Send + Sync {
    /// Returns the ids of the tenant's memories, in any status, that match the reference, in ascending order.
    /// Returns at most one more than [`CANDIDATES_MAX`](crate::object_ref::CANDIDATES_MAX), to name the candidates for an ambiguous reference.
    async fn find_memory_ids(&self, tenant: &Tenant, name: MemoryRef) -> Result<Vec<MemoryId>>;
}

/// Error for a reference that does not identify exactly one memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnresolvedRef {
    /// No memory of the tenant matches the reference.
    #[error("there is no memory {0} in this tenant")]
    Missing(MemoryRef),
    /// Several memories of the tenant match the reference, the first of which are listed.
    #[error("the ids of several memories begin with {0}: {candidates}; give more digits of the one that you mean", candidates = list_candidates(.1))]
    Ambiguous(MemoryRef, Vec<MemoryId>),
}

/// Resolves a reference to the id of one memory. Returns a full id without a lookup, because a suppressed
/// lesson has an id and a history but no memory row; the caller finds out when it loads the memory.
pub async fn resolve_memory_ref<S: MemoryRefStore + ?Sized>(
    store: &S,
    tenant: &Tenant,
    name: MemoryRef,
) -> Result<std::result::Result<MemoryId, UnresolvedRef>> {
    if let Some(id) = name.exact_id() {
        return Ok(Ok(id));
    }
    Ok(match store.find_memory_ids(tenant, name).await?.as_slice() {
        [] => Err(UnresolvedRef::Missing(name)),
        [id] => Ok(*id),
        candidates => Err(UnresolvedRef::Ambiguous(name, candidates.to_vec())),
    })
}
