//! Kill switches: a person stops that memories are handed out, for a step, a workflow, a tenant or everybody. What is
//! learnt meanwhile is not affected; a single memory is disabled instead.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::attribution::Attribution;
use crate::id::{Step, Tenant, Workflow};

/// What a kill switch stops.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KillSwitchScope {
    /// Tenant whose agents are handed nothing; `None` for every tenant.
    pub tenant: Option<Tenant>,
    /// Only runs of this workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<Workflow>,
    /// Only this step of the workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<Step>,
}

impl KillSwitchScope {
    /// The words of [`Self::kind`], widest first.
    pub const KINDS: [&'static str; 4] = ["everybody", "tenant", "workflow", "step"];

    /// Returns how much the switch stops, in one word without a name: one of [`Self::KINDS`].
    pub const fn kind(&self) -> &'static str {
        match (&self.tenant, &self.workflow, &self.step) {
            (None, ..) => "everybody",
            (Some(_), None, _) => "tenant",
            (Some(_), Some(_), None) => "workflow",
            (Some(_), Some(_), Some(_)) => "step",
        }
    }

    /// Returns `true` if the switch stops what is handed to a run of the workflow at the step. A request that names
    /// neither is stopped by the switches of its tenant and of everybody.
    pub fn covers(&self, tenant: &Tenant, workflow: Option<&Workflow>, step: Option<&Step>) -> bool {
        let is_of = |own: Option<&str>, asked: Option<&str>| own.is_none_or(|own| Some(own) == asked);
        is_of(self.tenant.as_ref().map(Tenant::as_str), Some(tenant.as_str()))
            && is_of(self.workflow.as_ref().map(Workflow::as_str), workflow.map(Workflow::as_str))
            && is_of(self.step.as_ref().map(Step::as_str), step.map(Step::as_str))
    }
}

impl fmt::Display for KillSwitchScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.tenant, &self.workflow, &self.step) {
            (None, ..) => f.write_str("every tenant"),
            (Some(tenant), None, _) => write!(f, "tenant {tenant}"),
            (Some(_), Some(workflow), None) => write!(f, "workflow {workflow}"),
            (Some(_), Some(workflow), Some(step)) => write!(f, "step {step} of workflow {workflow}"),
        }
    }
}

/// A kill switch, engaged now or earlier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KillSwitch {
    /// What the switch stops.
    #[serde(flatten)]
    pub scope: KillSwitchScope,
    /// Who engaged it, when and why.
    pub engaged: Attribution,
    /// Who disengaged it, when and why; `None` while it is engaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disengaged: Option<Attribution>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(tenant: Option<&str>, workflow: Option<&str>, step: Option<&str>) -> KillSwitchScope {
        KillSwitchScope {
            tenant: tenant.map(|tenant| Tenant::new(tenant).unwrap()),
            workflow: workflow.map(|workflow| Workflow::new(workflow).unwrap()),
            step: step.map(|step| Step::new(step).unwrap()),
        }
    }

    #[test]
    fn a_switch_stops_its_scope_and_nothing_beside_it() {
        let asked = [
            ("a", Some("w"), Some("s")),
            ("a", Some("w"), Some("t")),
            ("a", Some("v"), Some("s")),
            ("a", None, None),
            ("b", Some("w"), Some("s")),
        ];
        let stopped = |switch: KillSwitchScope| {
            asked.map(|(tenant, workflow, step)| {
                let asked = scope(Some(tenant), workflow, step);
                switch.covers(&asked.tenant.unwrap(), asked.workflow.as_ref(), asked.step.as_ref())
            })
        };
        assert_eq!(stopped(scope(None, None, None)), [true; 5]);
        assert_eq!(stopped(scope(Some("a"), None, None)), [true, true, true, true, false]);
        assert_eq!(stopped(scope(Some("a"), Some("w"), None)), [true, true, false, false, false]);
        assert_eq!(stopped(scope(Some("a"), Some("w"), Some("s"))), [true, false, false, false, false]);
        assert_eq!(scope(Some("a"), Some("w"), Some("s")).to_string(), "step s of workflow w");
    }
}
