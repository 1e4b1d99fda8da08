//! Limits the number of concurrent operations, in total and per tenant.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use retro_core::id::Tenant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Limits concurrent operations in total and per tenant, so a single tenant cannot take every permit. Clones
/// share the permits.
#[derive(Debug, Clone)]
pub struct TenantLimiter {
    all: Arc<Semaphore>,
    tenant_max: usize,
    /// Semaphores of the tenants that have a permit or wait for one.
    tenants: Arc<Mutex<HashMap<Tenant, Arc<Semaphore>>>>,
}

/// Permit of a [`TenantLimiter`], released on drop.
#[derive(Debug)]
pub struct TenantPermit {
    limiter: TenantLimiter,
    tenant: Tenant,
    of_tenant: Option<OwnedSemaphorePermit>,
    _of_all: OwnedSemaphorePermit,
}

impl TenantLimiter {
    /// Creates a limiter with `max` permits in total and at most `tenant_max` per tenant.
    pub fn new(max: usize, tenant_max: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(max)), tenant_max, tenants: Arc::default() }
    }

    /// Returns a permit, or `None` if the tenant is at its maximum or all permits are taken.
    pub fn try_acquire(&self, tenant: &Tenant) -> Option<TenantPermit> {
        let of_tenant = self.tenant_semaphore(tenant).try_acquire_owned().ok();
        let permit = of_tenant.zip(self.all.clone().try_acquire_owned().ok());
        let permit =
            permit.map(|(of_tenant, total_permit)| self.build_permit(tenant, of_tenant, total_permit));
        if permit.is_none() {
            self.remove_idle(tenant);
        }
        permit
    }

    /// Waits for a permit. A tenant at its maximum waits until one of its own permits is released.
    pub async fn acquire(&self, tenant: &Tenant) -> TenantPermit {
        // The tenant's permit comes first: a waiting tenant must not take a permit that others could use.
        let of_tenant =
            self.tenant_semaphore(tenant).acquire_owned().await.expect("the semaphore is never closed");
        let total_permit = self.all.clone().acquire_owned().await.expect("the semaphore is never closed");
        self.build_permit(tenant, of_tenant, total_permit)
    }

    fn build_permit(
        &self,
        tenant: &Tenant,
        of_tenant: OwnedSemaphorePermit,
        total_permit: OwnedSemaphorePermit,
    ) -> TenantPermit {
        let of_tenant = Some(of_tenant);
        TenantPermit { limiter: self.clone(), tenant: tenant.clone(), of_tenant, _of_all: total_permit }
    }

    fn tenant_semaphore(&self, tenant: &Tenant) -> Arc<Semaphore> {
        let mut tenants = self.lock_tenants();
        tenants.entry(tenant.clone()).or_insert_with(|| Arc::new(Semaphore::new(self.tenant_max))).clone()
    }

    /// Removes a tenant that neither has nor waits for a permit.
    fn remove_idle(&self, tenant: &Tenant) {
        let mut tenants = self.lock_tenants();
        // Holders and waiters have a clone, and clones are made only under this lock, so a count of one means
        // that the semaphore is unused.
        if tenants.get(tenant).is_some_and(|semaphore| Arc::strong_count(semaphore) == 1) {
            tenants.remove(tenant);
        }
    }

    fn lock_tenants(&self) -> MutexGuard<'_, HashMap<Tenant, Arc<Semaphore>>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TenantPermit {
    fn drop(&mut self) {
        // Released first, because its clone of the semaphore would make the tenant look busy.
        drop(self.of_tenant.take());
        self.limiter.remove_idle(&self.tenant);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn tenant(name: &str) -> Tenant {
        Tenant::new(name).unwrap()
    }

    #[tokio::test]
    async fn a_tenant_at_its_limit_leaves_permits_for_others() {
        let limiter = TenantLimiter::new(3, 2);
        let mut greedy: Vec<_> = (0..2).map(|_| limiter.try_acquire(&tenant("greedy")).unwrap()).collect();
        assert!(limiter.try_acquire(&tenant("greedy")).is_none());
        let other = limiter.try_acquire(&tenant("other")).expect("a permit is left for others");
        assert!(limiter.try_acquire(&tenant("third")).is_none(), "all are taken");
        drop(other);
        let third = limiter.acquire(&tenant("third")).await;
        greedy.pop();
        limiter.acquire(&tenant("greedy")).await;
        drop((greedy, third));
        assert!(limiter.lock_tenants().is_empty(), "idle tenants are removed");
    }

    #[tokio::test]
    async fn a_waiter_gets_a_permit_of_its_tenant_and_one_that_gives_up_is_removed() {
        let limiter = TenantLimiter::new(8, 1);
        let first = limiter.acquire(&tenant("a")).await;
        let (a, other) = (tenant("a"), tenant("other"));
        assert!(limiter.acquire(&other).now_or_never().is_some(), "another tenant does not wait");
        assert!(limiter.acquire(&a).now_or_never().is_none(), "and this one gives up");
        let waiting = tokio::spawn({
            let limiter = limiter.clone();
            async move { drop(limiter.acquire(&tenant("a")).await) }
        });
        // One clone each for the map, the holder and the waiter.
        while Arc::strong_count(&limiter.lock_tenants()[&a]) < 3 {
            tokio::task::yield_now().await;
        }
        drop(first);
        waiting.await.unwrap();
        assert!(limiter.lock_tenants().is_empty());
    }
}
