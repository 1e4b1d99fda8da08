//! Storage port of kill switches.

use async_trait::async_trait;
use retro_core::attribution::Attribution;
use retro_core::id::Tenant;
use retro_core::kill_switch::{KillSwitch, KillSwitchScope};

use crate::Result;

/// Maximum number of engaged kill switches that are loaded. Beyond it, a gateway hands out nothing: it cannot know what
/// the others stop.
pub const KILL_SWITCHES_MAX: u32 = 10_000;

/// Stores kill switches. A row is never deleted, so it says for ever who stopped what.
#[async_trait]
pub trait KillSwitchStore: Send + Sync {
    /// Engages a switch. Returns `false` if it was engaged before.
    async fn engage_kill_switch(&self, scope: &KillSwitchScope, act: &Attribution) -> Result<bool>;

    /// Disengages a switch. Returns `false` if it is not engaged.
    async fn disengage_kill_switch(&self, scope: &KillSwitchScope, act: &Attribution) -> Result<bool>;

    /// Loads the switches that are engaged, of every tenant: at most one more than [`KILL_SWITCHES_MAX`].
    async fn load_engaged_kill_switches(&self) -> Result<Vec<KillSwitchScope>>;

    /// Lists the switches of a tenant and of everybody, also those that are not engaged any more: the newest first, at
    /// most `limit`.
    async fn list_kill_switches(&self, tenant: &Tenant, limit: u32) -> Result<Vec<KillSwitch>>;
}
