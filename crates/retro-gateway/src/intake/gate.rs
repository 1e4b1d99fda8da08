//! How much is taken in at once. A request weighs what its body may hold while it is handled; beyond the bound of its
//! tenant, or of the process, it is sent away at once and comes back later. So nobody's burst fills the memory, and a
//! tenant that sends much leaves room for the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use retro_core::id::Tenant;

/// What a request weighs at least, in bytes: what handling any costs, so that many small ones are bounded too.
const WEIGHT_MIN: u64 = 256 * 1024;

/// How much may be in hand, in bytes of request bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GateBounds {
    /// Of all tenants together. Handling a body takes a few times its size in memory.
    pub bytes_max: u64,
    /// Of one tenant.
    pub tenant_bytes_max: u64,
}

/// Lets requests in while there is room. Clones are the same gate.
#[derive(Debug, Clone)]
pub struct Gate {
    bounds: GateBounds,
    inside: Arc<Mutex<Inside>>,
}

#[derive(Debug, Default)]
struct Inside {
    bytes: u64,
    /// Only tenants that have a request inside.
    tenants: HashMap<Tenant, u64>,
}

/// There is no room now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Busy {
    /// The tenant has as much in hand as it may.
    Tenant,
    /// The process has.
    Process,
}

/// A request that was let in. Dropping it makes room.
#[derive(Debug)]
pub struct Pass {
    gate: Gate,
    tenant: Tenant,
    weight: u64,
}

impl Gate {
    /// A gate with these bounds.
    pub fn new(bounds: GateBounds) -> Self {
        Self { bounds, inside: Arc::default() }
    }

    /// Lets a request of a tenant in, whose body has up to so many bytes.
    pub fn enter(&self, tenant: &Tenant, bytes: u64) -> Result<Pass, Busy> {
        let weight = bytes.max(WEIGHT_MIN);
        let mut inside = self.inside();
        let of_tenant = inside.tenants.get(tenant).copied().unwrap_or_default();
        if of_tenant + weight > self.bounds.tenant_bytes_max {
            return Err(Busy::Tenant);
        }
        if inside.bytes + weight > self.bounds.bytes_max {
            return Err(Busy::Process);
        }
        inside.bytes += weight;
        inside.tenants.insert(tenant.clone(), of_tenant + weight);
        drop(inside);
        Ok(Pass { gate: self.clone(), tenant: tenant.clone(), weight })
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut inside = self.gate.inside();
        inside.bytes -= self.weight;
        if let Some(of_tenant) = inside.tenants.get_mut(&self.tenant) {
            *of_tenant -= self.weight;
            if *of_tenant == 0 {
                inside.tenants.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    fn tenant(name: &str) -> Tenant {
        Tenant::new(name).unwrap()
    }

    #[test]
    fn a_tenant_that_sends_much_leaves_room_for_the_others_and_all_together_stay_within_the_bound() {
        let gate = Gate::new(GateBounds { bytes_max: 3 * MIB, tenant_bytes_max: 2 * MIB });
        let first = gate.enter(&tenant("a"), MIB).unwrap();
        let second = gate.enter(&tenant("a"), MIB).unwrap();
        assert_eq!(gate.enter(&tenant("a"), 1).unwrap_err(), Busy::Tenant);
        let third = gate.enter(&tenant("b"), MIB).unwrap();
        assert_eq!(gate.enter(&tenant("b"), 1).unwrap_err(), Busy::Process);
        drop(first);
        gate.enter(&tenant("b"), MIB).unwrap();
        drop((second, third));
        assert!(gate.inside().tenants.is_empty() && gate.inside().bytes == 0, "everybody has left");
    }

    #[test]
    fn small_requests_weigh_too() {
        let gate = Gate::new(GateBounds { bytes_max: MIB, tenant_bytes_max: MIB });
        let inside: Vec<_> = (0..MIB / WEIGHT_MIN).map(|_| gate.enter(&tenant("a"), 0).unwrap()).collect();
        assert_eq!((inside.len(), gate.enter(&tenant("a"), 0).unwrap_err()), (4, Busy::Tenant));
    }
}
