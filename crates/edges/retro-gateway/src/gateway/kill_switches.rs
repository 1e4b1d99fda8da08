//! Asks whether a person has stopped that memories are handed out.

use retro_core::id::{Step, Tenant, Workflow};
use retro_core::kill_switch::KillSwitchScope;
use retro_store::KILL_SWITCHES_MAX;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::{CachedParts, Gateway};

/// Reason why a request is answered without memories before any is looked for.
pub(super) enum Stop {
    /// A person has engaged a kill switch.
    SwitchedOff(String),
    /// It cannot be known whether a kill switch is engaged.
    Unknown(String),
}

impl Stop {
    /// Returns the value of the metrics' label.
    pub(super) const fn label(&self) -> &'static str {
        match self {
            Self::SwitchedOff(_) => "switched_off",
            Self::Unknown(_) => "unavailable",
        }
    }

    pub(super) fn into_reason(self) -> String {
        match self {
            Self::SwitchedOff(reason) | Self::Unknown(reason) => format!("no memories: {reason}"),
        }
    }
}

impl Gateway {
    /// Returns why nothing may be handed out for a request, or `None` if it may.
    pub(super) async fn find_stop(
        &self,
        deadline: Instant,
        tenant: &Tenant,
        workflow: Option<&Workflow>,
        step: Option<&Step>,
    ) -> Option<Stop> {
        let cached = self.cached.as_ref().and_then(|CachedParts { cache, .. }| cache.find_kill_switches());
        if let Some(switches) = cached {
            return find_covering(&switches, tenant, workflow, step);
        }
        let reading = self.store.load_engaged_kill_switches();
        match self.read_in_turn(deadline, tenant, reading).await {
            Ok(switches) => find_covering(&switches, tenant, workflow, step),
            Err(reason) => {
                warn!(reason = reason.as_str(), "answered without memories: {reason}");
                Some(Stop::Unknown(reason))
            }
        }
    }
}

fn find_covering(
    switches: &[KillSwitchScope],
    tenant: &Tenant,
    workflow: Option<&Workflow>,
    step: Option<&Step>,
) -> Option<Stop> {
    if switches.len() > KILL_SWITCHES_MAX as usize {
        return Some(Stop::Unknown(format!("more than {KILL_SWITCHES_MAX} kill switches are engaged")));
    }
    let switch = switches.iter().find(|switch| switch.covers(tenant, workflow, step))?;
    debug!("answered without memories: a kill switch is engaged for {switch}");
    // The person's reason is for people.
    Some(Stop::SwitchedOff(format!("a person has switched them off for {switch}")))
}
