//! Resolves the shortened memory ids that people and agents type.

use async_trait::async_trait;
use retro_core::id::{MemoryId, MemoryRef, Tenant};

use crate::Result;

/// Finds memories by their full id or by its first digits.
#[async_trait]
pub trait MemoryRefStore: Send + Sync {
    /// Returns the ids of the tenant's memories, of every status, that match the reference, in ascending order. Returns
    /// at most two, because two already make a reference ambiguous.
    async fn find_memory_ids(&self, tenant: &Tenant, name: MemoryRef) -> Result<Vec<MemoryId>>;
}

/// Reason why a reference does not identify one memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnresolvedRef {
    /// The tenant has no memory with such an id. Memories of other tenants do not count.
    #[error("there is no memory {0} in this tenant")]
    Missing(MemoryRef),
    /// Several memories of the tenant match the reference.
    #[error("the ids of several memories begin with {0}: give more digits of the one that you mean")]
    Ambiguous(MemoryRef),
}

/// Returns the id of the memory that a reference identifies. A full id is returned unchecked, because a
/// suppressed lesson has an id and a history but never was a memory; the caller detects this when it loads
/// the memory.
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
        _ => Err(UnresolvedRef::Ambiguous(name)),
    })
}
