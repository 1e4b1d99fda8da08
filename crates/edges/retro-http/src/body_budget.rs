//! Limits the total size of the request bodies in memory.
//!
//! **The need.** A request that announces a size and sends nothing must not block others, one owner's burst
//! must not crowd out another's requests, and a body that arrives byte by byte must not occupy memory for
//! long.
//!
//! **The design.** A body is charged for the bytes that have arrived, never for the size that its headers
//! announce. An owner (a tenant, or a single request whose tenant is unknown) gets a share of the total. A
//! small reserve on top of the total serves owners that use little, so a tenant's requests are still accepted
//! while others use up the budget. A body that exceeds its total time, or delivers too few bytes in any
//! interval, is abandoned ([`BodyLimits`]).
//!
//! **The limits.** The budget never waits for free bytes: a request that does not fit is rejected, and its
//! client retries later. Waiting requests would occupy connections, and two half-read bodies could wait for
//! each other forever.

mod read;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use retro_core::id::Tenant;

pub(crate) use read::read_body;
pub use read::{BodyLimits, BufferedBody, ReadBodyError};

/// Number of bytes that any owner may use regardless of the others: enough for one request of ordinary size
/// and the memory needed to process it.
pub const OWNER_RESERVE_BYTES: u64 = 256 * 1024;
/// Number of owners with [`OWNER_RESERVE_BYTES`] reserved on top of the total, together 6 MiB. A gateway has
/// fewer tenants than this at their limit at the same time.
const RESERVED_OWNERS: u64 = 24;

/// Limits of a budget, in bytes of request bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetBounds {
    /// Maximum number of bytes for all owners together, excluding the reserve.
    pub bytes_max: u64,
    /// Maximum number of bytes for a single owner.
    pub owner_bytes_max: u64,
}

/// A byte budget shared by requests. Clones share the same bytes.
#[derive(Debug, Clone)]
pub struct BodyBudget {
    bounds: BudgetBounds,
    held: Arc<Mutex<Held>>,
}

#[derive(Debug, Default)]
struct Held {
    bytes: u64,
    /// Number of bytes charged to each tenant. Tenants without charged bytes have no entry.
    tenants: HashMap<Tenant, u64>,
}

/// The request does not fit into the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BudgetExceeded {
    /// The owner has reached its limit.
    #[error("this sender holds as many bytes of requests as it may")]
    Owner,
    /// The process has reached its limit.
    #[error("this server holds as many bytes of requests as it may")]
    Process,
}

/// The bytes of a budget that one request has charged. Dropping the permit frees them.
#[derive(Debug)]
pub struct BodyPermit {
    budget: BodyBudget,
    tenant: Option<Tenant>,
    bytes: u64,
}

impl BudgetBounds {
    /// Fails if an owner that uses `owner` of the `total` charged bytes may not charge `more` bytes.
    fn check_charge(self, total: u64, owner: u64, more: u64) -> Result<(), BudgetExceeded> {
        let (total, owner) = (total.saturating_add(more), owner.saturating_add(more));
        // Small owners may also use the reserve, so large ones cannot lock them out.
        if owner <= OWNER_RESERVE_BYTES {
            let reserved = self.bytes_max.saturating_add(RESERVED_OWNERS * OWNER_RESERVE_BYTES);
            return if total <= reserved { Ok(()) } else { Err(BudgetExceeded::Process) };
        }
        if owner > self.owner_bytes_max {
            return Err(BudgetExceeded::Owner);
        }
        if total <= self.bytes_max { Ok(()) } else { Err(BudgetExceeded::Process) }
    }
}

impl BodyBudget {
    /// Creates a budget with nothing charged.
    pub fn new(bounds: BudgetBounds) -> Self {
        Self { bounds, held: Arc::default() }
    }

    /// Returns a permit with no bytes charged yet. A request without a tenant is an owner of its own.
    pub fn open_permit(&self, tenant: Option<&Tenant>) -> BodyPermit {
        BodyPermit { budget: self.clone(), tenant: tenant.cloned(), bytes: 0 }
    }

    /// Returns the number of bytes charged by all permits.
    pub fn held_bytes(&self) -> u64 {
        self.lock_held().bytes
    }

    fn lock_held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BodyPermit {
    /// Charges `bytes` more, such as those added by decompressing a body. Fails and charges nothing if they
    /// do not fit into the budget.
    pub fn charge(&mut self, bytes: u64) -> Result<(), BudgetExceeded> {
        let mut held = self.budget.lock_held();
        let owner = match &self.tenant {
            Some(tenant) => held.tenants.get(tenant).copied().unwrap_or_default(),
            None => self.bytes,
        };
        // Check and charge under one lock; otherwise two requests could both take the last bytes.
        self.budget.bounds.check_charge(held.bytes, owner, bytes)?;
        held.bytes += bytes;
        if let Some(tenant) = &self.tenant {
            *held.tenants.entry(tenant.clone()).or_default() += bytes;
        }
        drop(held);
        self.bytes += bytes;
        Ok(())
    }

    /// Raises the charge to `bytes`; does nothing if it is already that high. Fails and charges nothing if
    /// the difference does not fit into the budget.
    pub fn charge_up_to(&mut self, bytes: u64) -> Result<(), BudgetExceeded> {
        match bytes.saturating_sub(self.bytes) {
            0 => Ok(()),
            missing => self.charge(missing),
        }
    }

    /// Returns the number of bytes charged to this permit.
    pub const fn held_bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for BodyPermit {
    fn drop(&mut self) {
        let mut held = self.budget.lock_held();
        held.bytes -= self.bytes;
        let Some(tenant) = &self.tenant else { return };
        if let Some(of_tenant) = held.tenants.get_mut(tenant) {
            *of_tenant -= self.bytes;
            // Otherwise the map would grow with every tenant name that a client makes up.
            if *of_tenant == 0 {
                held.tenants.remove(tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests;
