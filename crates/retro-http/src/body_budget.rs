//! Bounds the bytes of request bodies that are in memory at once.
//!
//! **The need.** A request that announces a size and sends nothing must not keep anybody out, one owner's burst must not take
//! the place of another's request, and a body that comes by the byte must not hold what it has for long.
//!
//! **The design.** A body is charged for the bytes that have arrived, never for those that its head announces. An owner
//! (a tenant, or a single request where nobody is known yet) has a share of the whole; a small reserve on top is for owners that hold
//! little, so that a tenant whose others are greedy still gets a request in. A body that is over its
//! time, or brings too little in any stretch of it, is given up ([`BodyLimits`]).
//!
//! **What it does not do.** It never waits for room; a request without room is refused and sent again later. Waiting requests
//! would hold connections, and two half-read bodies could wait for each other for ever.

mod read;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use retro_core::id::Tenant;

pub(crate) use read::read_body;
pub use read::{BodyLimits, BufferedBody, ReadBodyError};

/// What any owner may have in hand whatever the others hold, in bytes: one request of the usual size, with what handling it costs.
pub const OWNER_FLOOR_BYTES: u64 = 256 * 1024;
/// Owners that may hold their floor when all the rest is taken. More than a gateway has tenants at their limits at once; 6 MiB.
const RESERVED_FLOORS: u64 = 24;

/// How much may be in hand, in bytes of request bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetBounds {
    /// Of all owners together, without the reserve for those that hold little.
    pub bytes_max: u64,
    /// Of one owner.
    pub owner_bytes_max: u64,
}

/// Bytes that requests share. Clones share the same bytes.
#[derive(Debug, Clone)]
pub struct BodyBudget {
    bounds: BudgetBounds,
    held: Arc<Mutex<Held>>,
}

#[derive(Debug, Default)]
struct Held {
    bytes: u64,
    /// Only tenants that hold something.
    tenants: HashMap<Tenant, u64>,
}

/// There is no room now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BudgetExceeded {
    /// The owner has as much in hand as it may.
    #[error("this sender has as many bytes in hand here as it may")]
    Owner,
    /// The process has.
    #[error("this server has as many bytes in hand as it may")]
    Process,
}

/// The bytes of a budget that one request holds. Dropping it frees them.
#[derive(Debug)]
pub struct Permit {
    budget: BodyBudget,
    tenant: Option<Tenant>,
    bytes: u64,
}

impl BudgetBounds {
    /// Decides whether an owner that holds `owner` of `total` bytes may hold so many more.
    fn allow(self, total: u64, owner: u64, more: u64) -> Result<(), BudgetExceeded> {
        let (total, owner) = (total.saturating_add(more), owner.saturating_add(more));
        if owner <= OWNER_FLOOR_BYTES {
            let reserved = self.bytes_max.saturating_add(RESERVED_FLOORS * OWNER_FLOOR_BYTES);
            return if total <= reserved { Ok(()) } else { Err(BudgetExceeded::Process) };
        }
        if owner > self.owner_bytes_max {
            return Err(BudgetExceeded::Owner);
        }
        if total <= self.bytes_max { Ok(()) } else { Err(BudgetExceeded::Process) }
    }
}

impl BodyBudget {
    /// Makes an unused budget.
    pub fn new(bounds: BudgetBounds) -> Self {
        Self { bounds, held: Arc::default() }
    }

    /// Returns a permit that holds nothing yet. Without a tenant the request is an owner by itself.
    pub fn permit(&self, tenant: Option<&Tenant>) -> Permit {
        Permit { budget: self.clone(), tenant: tenant.cloned(), bytes: 0 }
    }

    /// Returns the bytes that all permits hold.
    pub fn held_bytes(&self) -> u64 {
        self.held().bytes
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit {
    /// Charges so many bytes more, such as those that a packed body becomes. Fails, and charges nothing, when there is no room
    /// for them.
    pub fn charge(&mut self, bytes: u64) -> Result<(), BudgetExceeded> {
        let mut held = self.budget.held();
        let owner = match &self.tenant {
            Some(tenant) => held.tenants.get(tenant).copied().unwrap_or_default(),
            None => self.bytes,
        };
        self.budget.bounds.allow(held.bytes, owner, bytes)?;
        held.bytes += bytes;
        if let Some(tenant) = &self.tenant {
            *held.tenants.entry(tenant.clone()).or_default() += bytes;
        }
        drop(held);
        self.bytes += bytes;
        Ok(())
    }

    /// Charges what is missing to hold at least so many bytes.
    pub fn charge_up_to(&mut self, bytes: u64) -> Result<(), BudgetExceeded> {
        match bytes.saturating_sub(self.bytes) {
            0 => Ok(()),
            missing => self.charge(missing),
        }
    }

    /// Returns how many bytes it holds.
    pub const fn held_bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut held = self.budget.held();
        held.bytes -= self.bytes;
        let Some(tenant) = &self.tenant else { return };
        if let Some(of_tenant) = held.tenants.get_mut(tenant) {
            *of_tenant -= self.bytes;
            if *of_tenant == 0 {
                held.tenants.remove(tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests;
