//! Pacing: a window at a time, each followed by its retrospective.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use retro_bus::{Bus, topology};
use retro_config::Config;
use retro_core::id::{Tenant, Workflow};
use retro_core::policy::Policies;
use retro_store::Store;

use crate::policies::PolicyBook;
use crate::store;

/// The durable consumer whose backlog says whether everything is counted.
const COUNTER: &str = "counter";
/// How often the workflow is looked at while its retrospective runs.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A retrospective that takes longer than this is not waited for.
const PATIENCE: Duration = Duration::from_secs(300);

/// Waits, every so many events of a workflow, until they are counted and no retrospective is due or open.
pub(super) struct Pace {
    runs: u64,
    since: BTreeMap<Workflow, u64>,
    store: Arc<dyn Store>,
    policies: PolicyBook,
    tenant: Tenant,
}

impl Pace {
    /// Looks into the database of the configuration.
    pub(super) async fn every(runs: u64, config: &Config, tenant: &Tenant) -> anyhow::Result<Self> {
        let store = store::open(config).await?;
        let policies = PolicyBook::load(config.pipelines.as_deref())?;
        Ok(Self { runs: runs.max(1), since: BTreeMap::new(), store, policies, tenant: tenant.clone() })
    }

    /// Notes an event of the workflow; whether it is time to wait.
    pub(super) fn full(&mut self, workflow: &Workflow) -> bool {
        let since = self.since.entry(workflow.clone()).or_default();
        *since += 1;
        let full = *since >= self.runs;
        if full {
            *since = 0;
        }
        full
    }

    /// Waits until every event sent so far is counted, and no retrospective of the workflow is open or due.
    pub(super) async fn wait(&self, bus: &Bus, workflow: &Workflow) -> anyhow::Result<()> {
        let mut looks = PATIENCE.as_millis() / LOOK_EVERY.as_millis();
        while !self.settled(bus, workflow).await? {
            looks -= 1;
            if looks == 0 {
                bail!(
                    "the retrospective of {workflow} is not over after {} s; is everything running?",
                    PATIENCE.as_secs()
                );
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    async fn settled(&self, bus: &Bus, workflow: &Workflow) -> anyhow::Result<bool> {
        if bus.backlog(topology::INTAKE, COUNTER).await? > 0 {
            return Ok(false);
        }
        let rows = self.store.workflows(&self.tenant).await?;
        Ok(rows.iter().filter(|row| row.key.workflow == *workflow).all(|row| {
            let policy = self.policies.of(&row.key);
            let due =
                row.state.window() >= u64::from(policy.threshold_runs) && row.state.paused_until.is_none();
            !row.state.open && !due
        }))
    }
}
