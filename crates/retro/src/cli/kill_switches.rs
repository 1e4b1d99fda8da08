//! Defines the arguments of `retro kill-switches`.

use clap::{ArgGroup, Args, Subcommand};
use retro_core::id::{Step, Tenant, Workflow};
use retro_core::kill_switch::KillSwitchScope;

use super::audit::AuditArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum KillSwitches {
    /// List the switches that are engaged.
    List(ListKillSwitches),
    /// Stop that memories are handed out. Returns when every gateway does so. What is learnt is not affected; a single
    /// memory is stopped by `retro memories disable`.
    Engage(SetKillSwitch),
    /// Hand out memories again.
    Disengage(SetKillSwitch),
}

#[derive(Debug, Args)]
pub(crate) struct ListKillSwitches {
    /// Include switches that are not engaged any more.
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("stopped").required(true).args(["workflow", "whole_tenant", "every_tenant"])))]
pub(crate) struct SetKillSwitch {
    #[command(flatten)]
    pub(crate) scope: KillSwitchScopeArgs,
    #[command(flatten)]
    pub(crate) act: AuditArgs,
}

#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct KillSwitchScopeArgs {
    /// Runs of this workflow of the tenant.
    #[arg(long)]
    workflow: Option<Workflow>,
    /// Only this step of the workflow.
    #[arg(long, requires = "workflow")]
    step: Option<Step>,
    /// All runs of the tenant that `--tenant` names.
    #[arg(long)]
    whole_tenant: bool,
    /// All runs of every tenant.
    #[arg(long)]
    every_tenant: bool,
}

impl KillSwitchScopeArgs {
    /// Returns the scope for a command of this tenant.
    pub(crate) fn scope(&self, tenant: &Tenant) -> KillSwitchScope {
        let tenant = (!self.every_tenant).then(|| tenant.clone());
        KillSwitchScope { tenant, workflow: self.workflow.clone(), step: self.step.clone() }
    }
}
