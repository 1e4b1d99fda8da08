//! Stalls an investigation that a worker has claimed.

use retro_core::id::{RetrospectiveId, Tenant, Workflow, WorkflowKey};
use retro_core::policy::Policy;
use retro_core::retrospective::RetrospectiveState;
use retro_core::sample;
use serde_json::Value;

use super::{Fleet, FreezableProxy, RunBuilder, build_correcting_runs};

/// Ordinal of the run that fills the window. The bodies of the earlier runs are too large for a message.
const LAST_ORDINAL: u64 = 10;

impl Fleet {
    /// Counts ten runs; the last one fills the window after this proxy to the broker is frozen. The worker
    /// that claims the first investigation through the proxy then waits in vain for its body. Returns once
    /// the investigation is claimed.
    ///
    /// A request to the broker times out after five seconds and fails the attempt, so everything that is slow
    /// on a busy machine is done before the proxy is frozen; callers should do the same.
    pub(crate) async fn stall_investigation(&self, line: &FreezableProxy) {
        let workflow = find_workflow_sampling_large_run_first();
        let runs: Vec<Value> = (1..LAST_ORDINAL).map(|ordinal| build_large_run(&workflow, ordinal)).collect();
        let file = self.write_events("large.jsonl", &runs);
        let sent = self.run_json(&["emit", &file]).await;
        assert_eq!(sent["bodies_uploaded"], LAST_ORDINAL - 1, "the bodies are in the broker's store");
        self.wait_until_counted("default", LAST_ORDINAL - 1).await;
        line.freeze();
        let last =
            build_correcting_runs(&workflow, "deploy_service", LAST_ORDINAL..LAST_ORDINAL + 1).remove(0);
        self.publish_event("default", &workflow, &last).await;
        self.wait_until_claimed().await;
    }

    /// Waits until a worker has claimed the investigation.
    async fn wait_until_claimed(&self) {
        let store = self.open_store().await;
        let held = async || {
            let rows = store.list_retrospectives(&Tenant::default_tenant(), None, 1).await.ok()?;
            let begun = rows.first()?.retrospective.state == RetrospectiveState::Investigating;
            (begun && store.count_claimable().await.ok()? == 0).then_some(())
        };
        self.wait_for("the investigation is claimed", held).await;
    }
}

/// Returns a workflow name whose sample begins with a run that has a large body. The sample is derived from
/// the name.
fn find_workflow_sampling_large_run_first() -> String {
    let draws_a_large_one = |name: &String| {
        let workflow = Workflow::new(name.clone()).expect("a name");
        let key = WorkflowKey { tenant: Tenant::default_tenant(), workflow };
        let id = RetrospectiveId::of_epoch(&key, 1);
        sample::draw_sample(id, (1..=LAST_ORDINAL).collect(), &Policy::default()).order[0] < LAST_ORDINAL
    };
    (1..).map(|nth| format!("large-{nth}")).find(draws_a_large_one).expect("nine of ten names do")
}

fn build_large_run(workflow: &str, number: u64) -> Value {
    let message = format!("Deploy the service. {}", "It is the one that answers for checkout. ".repeat(2000));
    let run = RunBuilder::new(workflow, &format!("{workflow}-{number}")).with_message(&message);
    run.with_corrected_call("deploy_service", "region").build_event()
}
