//! Remembers traces that did not come whole.

use quick_cache::sync::Cache;
use retro_core::id::Tenant;

/// Number of traces that are remembered. Each takes some 100 bytes.
const INCOMPLETE_MAX: usize = 20_000;

/// Ids of traces of which a part was rejected, in this process. The least used are forgotten.
pub(super) struct IncompleteTraces(Cache<(Tenant, String), ()>);

impl Default for IncompleteTraces {
    fn default() -> Self {
        Self(Cache::new(INCOMPLETE_MAX))
    }
}

impl IncompleteTraces {
    /// Returns `true` if a part of the tenant's trace was rejected.
    pub(super) fn contains(&self, tenant: &Tenant, trace_id: &str) -> bool {
        self.0.get(&(tenant.clone(), trace_id.to_owned())).is_some()
    }

    /// Remembers that a part of the tenant's trace was rejected.
    pub(super) fn insert(&self, tenant: &Tenant, trace_id: &str) {
        self.0.insert((tenant.clone(), trace_id.to_owned()), ());
    }
}
