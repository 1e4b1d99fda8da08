//! Paces the events of `retro emit`: after each window, waits until its retrospective has ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use retro_bus::{Bus, BusError, topology};
use retro_config::Config;
use retro_core::id::{Tenant, Workflow};
use retro_core::policy::Policies;
use retro_store::Store;

use crate::policies::PolicySource;
use crate::store;

/// Name of the durable consumer whose backlog is empty once all events are counted.
const COUNTER_DURABLE: &str = "counter";
/// Interval at which a workflow is polled during its retrospective.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Number of looks in a row that have to find nothing to do. The broker counts a message for its consumer a moment after it
/// has confirmed it.
const IDLE_LOOKS: u32 = 2;
/// Timeout for the end of a retrospective.
const WAIT_MAX: Duration = Duration::from_secs(300);

/// Pauses after a fixed number of events per workflow until they are counted and no retrospective is due or
/// open.
pub(super) struct Pace {
    runs: u64,
    since: BTreeMap<Workflow, u64>,
    store: Arc<dyn Store>,
    policies: PolicySource,
    tenant: Tenant,
}

impl Pace {
    /// Opens the configured database, from which the state of the workflows is read.
    pub(super) async fn open(runs: u64, config: &Config, tenant: &Tenant) -> anyhow::Result<Self> {
        let store = store::open_store(config).await?;
        let policies = PolicySource::load(config.pipelines.as_deref())?;
        Ok(Self { runs: runs.max(1), since: BTreeMap::new(), store, policies, tenant: tenant.clone() })
    }

    /// Counts an event of a workflow. Returns `true` if it is time to wait.
    pub(super) fn count_event(&mut self, workflow: &Workflow) -> bool {
        let since = self.since.entry(workflow.clone()).or_default();
        *since += 1;
        let full = *since >= self.runs;
        if full {
            *since = 0;
        }
        full
    }

    /// Waits until all events sent so far are counted and no retrospective of the workflow is due or open.
    /// Fails after [`WAIT_MAX`], and if the broker refuses to say what is counted.
    pub(super) async fn wait_until_idle(&self, bus: &Bus, workflow: &Workflow) -> anyhow::Result<()> {
        let idle = async {
            let mut idle_looks = 0;
            while idle_looks < IDLE_LOOKS {
                idle_looks = if self.is_idle(bus, workflow).await? { idle_looks + 1 } else { 0 };
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            Ok(())
        };
        match tokio::time::timeout(WAIT_MAX, idle).await {
            Ok(ended) => ended,
            Err(_) => bail!(
                "the retrospective of {workflow} has not finished after {} s; are all roles running?",
                WAIT_MAX.as_secs()
            ),
        }
    }

    async fn is_idle(&self, bus: &Bus, workflow: &Workflow) -> anyhow::Result<bool> {
        // Check the backlog first: rows read before it is empty may lack the last events.
        let uncounted = match bus.count_unacknowledged(topology::INTAKE, COUNTER_DURABLE).await {
            Err(refused @ BusError::Refused { .. }) => bail!(
                "`--pause-every` waits until the counter has counted what was sent, and its broker user may not ask: {refused}. \
                 Emit without it, or as a user that may publish to `$JS.API.CONSUMER.INFO.{}.{COUNTER_DURABLE}`",
                topology::INTAKE
            ),
            uncounted => uncounted?,
        };
        if uncounted > 0 {
            return Ok(false);
        }
        let rows = self.store.list_workflows(&self.tenant).await?;
        Ok(rows.iter().filter(|row| row.key.workflow == *workflow).all(|row| {
            let policy = self.policies.policy_for(&row.key);
            let due = row.state.window_size() >= u64::from(policy.threshold_runs)
                && row.state.paused_until.is_none();
            !row.state.open && !due
        }))
    }
}
