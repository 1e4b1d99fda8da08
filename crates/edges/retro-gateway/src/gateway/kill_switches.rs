//! Asks whether a person has stopped that memories are handed out.

use retro_core::id::{RunId, Step, Tenant, Workflow};
use retro_core::kill_switch::KillSwitchScope;
use retro_store::KILL_SWITCHES_MAX;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::{CachedParts, Gateway};
use crate::answer::{ContextAnswer, SearchAnswer};

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

    /// Returns the context of a run that is handed nothing.
    pub(super) fn answer_context(self, run: Option<&RunId>) -> ContextAnswer {
        retro_telemetry::metrics::CONTEXT_ANSWERS.add(1, [self.label()]);
        ContextAnswer::empty(run, self.into_reason())
    }

    /// Returns the answer to a search of a run that is handed nothing.
    pub(super) fn answer_search(self, run: Option<&RunId>) -> SearchAnswer {
        retro_telemetry::metrics::SEARCH_ANSWERS.add(1, [self.label()]);
        SearchAnswer::empty(run, &self.into_reason())
    }

    pub(super) fn into_reason(self) -> String {
        match self {
            Self::SwitchedOff(reason) | Self::Unknown(reason) => format!("no memories: {reason}"),
        }
    }
}

impl Gateway {
    /// Returns why nothing may be handed out for a request, as far as the gateway knows without asking the database:
    /// while it has a lease. Spares a request the rest of its work.
    pub(super) fn find_known_stop(
        &self,
        tenant: &Tenant,
        workflow: Option<&Workflow>,
        step: Option<&Step>,
    ) -> Option<Stop> {
        let CachedParts { cache, .. } = self.cached.as_ref()?;
        find_covering(&cache.find_kill_switches()?, tenant, workflow, step)
    }

    /// Returns why nothing may be handed out for a request, or `None` if it may.
    ///
    /// Called after everything that is to be handed out is read. Without a lease nobody waits for this gateway, so a
    /// person may engage a switch while it reads. What remains is the time from here to the answer.
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
