//! Limits how many operations run at once, in total and per tenant.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use retro_core::id::Tenant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Limits how many operations run at once. One tenant may run fewer than all together, so that it cannot take every place.
/// Clones share the places.
#[derive(Debug, Clone)]
pub struct TenantLimiter {
    all: Arc<Semaphore>,
    tenant_max: usize,
    /// Tenants that hold a place or wait for one.
    tenants: Arc<Mutex<HashMap<Tenant, Arc<Semaphore>>>>,
}

/// A place of a limiter. Dropping it frees the place.
#[derive(Debug)]
pub struct Turn {
    limiter: TenantLimiter,
    tenant: Tenant,
    of_tenant: Option<OwnedSemaphorePermit>,
    _of_all: OwnedSemaphorePermit,
}

impl TenantLimiter {
    /// Makes a limiter of `max` places, of which one tenant holds at most `tenant_max`.
    pub fn new(max: usize, tenant_max: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(max)), tenant_max, tenants: Arc::default() }
    }

    /// Returns a place, or `None` when the tenant has used its share or every place is taken.
    pub fn try_enter(&self, tenant: &Tenant) -> Option<Turn> {
        let of_tenant = self.places_of(tenant).try_acquire_owned().ok();
        let turn = of_tenant.zip(self.all.clone().try_acquire_owned().ok());
        let turn = turn.map(|(of_tenant, of_all)| self.turn(tenant, of_tenant, of_all));
        if turn.is_none() {
            self.forget_idle(tenant);
        }
        turn
    }

    /// Waits for a place. A tenant that has used its share waits for one of its own places.
    pub async fn enter(&self, tenant: &Tenant) -> Turn {
        let of_tenant = self.places_of(tenant).acquire_owned().await.expect("it is never closed");
        let of_all = self.all.clone().acquire_owned().await.expect("it is never closed");
        self.turn(tenant, of_tenant, of_all)
    }

    fn turn(&self, tenant: &Tenant, of_tenant: OwnedSemaphorePermit, of_all: OwnedSemaphorePermit) -> Turn {
        let of_tenant = Some(of_tenant);
        Turn { limiter: self.clone(), tenant: tenant.clone(), of_tenant, _of_all: of_all }
    }

    fn places_of(&self, tenant: &Tenant) -> Arc<Semaphore> {
        let mut tenants = self.tenants();
        tenants.entry(tenant.clone()).or_insert_with(|| Arc::new(Semaphore::new(self.tenant_max))).clone()
    }

    /// Forgets a tenant that holds no place and waits for none.
    fn forget_idle(&self, tenant: &Tenant) {
        let mut tenants = self.tenants();
        // Holders and waiters have a clone, and clones are made under this lock only: one that is alone is unused.
        if tenants.get(tenant).is_some_and(|places| Arc::strong_count(places) == 1) {
            tenants.remove(tenant);
        }
    }

    fn tenants(&self) -> MutexGuard<'_, HashMap<Tenant, Arc<Semaphore>>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        drop(self.of_tenant.take());
        self.limiter.forget_idle(&self.tenant);
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
    async fn a_tenant_that_takes_all_it_may_leaves_places_for_the_others() {
        let limiter = TenantLimiter::new(3, 2);
        let mut greedy: Vec<_> = (0..2).map(|_| limiter.try_enter(&tenant("greedy")).unwrap()).collect();
        assert!(limiter.try_enter(&tenant("greedy")).is_none());
        let other = limiter.try_enter(&tenant("other")).expect("a place is left for others");
        assert!(limiter.try_enter(&tenant("third")).is_none(), "all are taken");
        drop(other);
        let third = limiter.enter(&tenant("third")).await;
        greedy.pop();
        limiter.enter(&tenant("greedy")).await;
        drop((greedy, third));
        assert!(limiter.tenants().is_empty(), "who has left is forgotten");
    }

    #[tokio::test]
    async fn who_waits_is_let_in_by_its_own_tenant_and_who_gives_up_is_forgotten() {
        let limiter = TenantLimiter::new(8, 1);
        let first = limiter.enter(&tenant("a")).await;
        let (a, other) = (tenant("a"), tenant("other"));
        assert!(limiter.enter(&other).now_or_never().is_some(), "another tenant waits for nobody");
        assert!(limiter.enter(&a).now_or_never().is_none(), "and this one gives up");
        let waiting = tokio::spawn({
            let limiter = limiter.clone();
            async move { drop(limiter.enter(&tenant("a")).await) }
        });
        // The map's, that of whoever is in, and that of whoever waits.
        while Arc::strong_count(&limiter.tenants()[&a]) < 3 {
            tokio::task::yield_now().await;
        }
        drop(first);
        waiting.await.unwrap();
        assert!(limiter.tenants().is_empty());
    }
}
