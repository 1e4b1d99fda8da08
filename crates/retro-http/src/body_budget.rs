//! Bounds the bytes of request bodies that are in memory at once.
//!
//! **The need.** A request that announces a size and sends nothing must not block others, one owner's burst must not
//! push out another's request, and a body that arrives a byte at a time must not hold memory for long.
//!
//! **The design.** A body is charged for the bytes that have arrived, never for the size that its head
//! announces. An owner (a tenant, or a single request whose tenant is unknown) gets a share of the total. A
//! small reserve on top serves owners that hold little, so requests of a tenant are still accepted while
//! others use up the budget. A body that exceeds its total time, or brings too few bytes in any interval, is
//! abandoned ([`BodyLimits`]).
//!
//! **Limits.** The budget never waits for free bytes: a request that does not fit is refused, and its client
//! sends it again later. Waiting requests would hold connections, and two half-read bodies could wait for
//! each other forever.

mod read;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use retro_core::id::Tenant;

pub(crate) use read::read_body;
pub use read::{BodyLimits, BufferedBody, ReadBodyError};

/// Number of bytes that any owner may hold, regardless of how much the others hold. It covers one request of the
/// usual size, including the cost of handling it.
pub const OWNER_RESERVE_BYTES: u64 = 256 * 1024;
/// Number of owners that may hold [`OWNER_RESERVE_BYTES`] each when the rest is used up. It exceeds the number of
/// tenants that a gateway serves at their limit at the same time. Together these owners hold at most 6 MiB.
const RESERVED_OWNERS: u64 = 24;

/// Upper bounds of a budget, in bytes of request bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetBounds {
    /// Maximum number of bytes that all owners together may hold, without the reserve for owners that hold little.
    pub bytes_max: u64,
    /// Maximum number of bytes that a single owner may hold.
    pub owner_bytes_max: u64,
}

/// A budget of bytes that requests share. Clones share the same bytes.
#[derive(Debug, Clone)]
pub struct BodyBudget {
    bounds: BudgetBounds,
    held: Arc<Mutex<Held>>,
}

#[derive(Debug, Default)]
struct Held {
    bytes: u64,
    /// Number of bytes that each tenant holds. A tenant that holds none has no entry.
    tenants: HashMap<Tenant, u64>,
}

/// The budget has no free bytes for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BudgetExceeded {
    /// The owner has reached its limit.
    #[error("this sender holds as many bytes of requests as it may")]
    Owner,
    /// The process has reached its limit.
    #[error("this server holds as many bytes of requests as it may")]
    Process,
}

/// Permit for the bytes of a budget that one request holds. Dropping the permit frees them.
#[derive(Debug)]
pub struct BodyPermit {
    budget: BodyBudget,
    tenant: Option<Tenant>,
    bytes: u64,
}

impl BudgetBounds {
    /// Checks whether an owner that holds `owner` of the `total` bytes in use may charge `more` bytes.
    fn check_charge(self, total: u64, owner: u64, more: u64) -> Result<(), BudgetExceeded> {
        let (total, owner) = (total.saturating_add(more), owner.saturating_add(more));
        // Owners that hold little may also use the reserve, so that owners that hold much cannot lock them
        // out.
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
    /// Creates an unused budget.
    pub fn new(bounds: BudgetBounds) -> Self {
        Self { bounds, held: Arc::default() }
    }

    /// Returns a permit that holds no bytes yet. A request without a tenant is a separate owner.
    pub fn open_permit(&self, tenant: Option<&Tenant>) -> BodyPermit {
        BodyPermit { budget: self.clone(), tenant: tenant.cloned(), bytes: 0 }
    }

    /// Returns the bytes that all permits hold together.
    pub fn held_bytes(&self) -> u64 {
        self.lock_held().bytes
    }

    fn lock_held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BodyPermit {
    /// Charges `bytes` more, such as those that decompressing a body adds. Fails and charges nothing when
    /// they do not fit into the budget.
    pub fn charge(&mut self, bytes: u64) -> Result<(), BudgetExceeded> {
        let mut held = self.budget.lock_held();
        let owner = match &self.tenant {
            Some(tenant) => held.tenants.get(tenant).copied().unwrap_or_default(),
            None => self.bytes,
        };
        // Check and charge happen under one lock: otherwise two requests could both take the last bytes.
        self.budget.bounds.check_charge(held.bytes, owner, bytes)?;
        held.bytes += bytes;
        if let Some(tenant) = &self.tenant {
            *held.tenants.entry(tenant.clone()).or_default() += bytes;
        }
        drop(held);
        self.bytes += bytes;
        Ok(())
    }

    /// Charges as many bytes as the permit lacks to hold `bytes`. Fails and charges nothing when they do not fit
    /// into the budget.
    pub fn charge_up_to(&mut self, bytes: u64) -> Result<(), BudgetExceeded> {
        match bytes.saturating_sub(self.bytes) {
            0 => Ok(()),
            missing => self.charge(missing),
        }
    }

    /// Returns the bytes that this permit holds.
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
            // Without this the map would grow with every tenant name that a client makes up.
            if *of_tenant == 0 {
                held.tenants.remove(tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests;
