//! An investigation that a worker has in hand and cannot go on with.

use retro_core::id::{RetrospectiveId, Tenant, Workflow, WorkflowKey};
use retro_core::policy::Policy;
use retro_core::retrospective::RetrospectiveState;
use retro_core::sample;
use serde_json::Value;

use super::{Fleet, Line, Run, mending};

/// The run that fills a window; those before it have bodies that are too large for a message.
const LAST: u64 = 10;

impl Fleet {
    /// Counts ten runs of which the last one fills the window once this line to the broker is frozen: whoever claims the
    /// first investigation over it waits for its body in vain. Returns when somebody has claimed it.
    ///
    /// A question to the broker is given up after five seconds, and the attempt with it. So everything that takes a busy
    /// machine long is done before, and whoever calls this does the same.
    pub(crate) async fn hold_up(&self, line: &Line) {
        let workflow = workflow_that_draws_a_large_run_first();
        let runs: Vec<Value> = (1..LAST).map(|ordinal| large_run(&workflow, ordinal)).collect();
        let file = self.write_events("large.jsonl", &runs);
        let sent = self.ask(&["emit", &file]).await;
        assert_eq!(sent["bodies_uploaded"], LAST - 1, "the bodies are in the broker's store");
        self.counted("default", LAST - 1).await;
        line.freeze();
        let last = mending(&workflow, "deploy_service", LAST..LAST + 1).remove(0);
        self.publish("default", &workflow, &last).await;
        self.in_hand().await;
    }

    /// Waits until an investigation is held by somebody.
    async fn in_hand(&self) {
        let store = self.store().await;
        let held = async || {
            let rows = store.list_retrospectives(&Tenant::default_tenant(), None, 1).await.ok()?;
            let begun = rows.first()?.retrospective.state == RetrospectiveState::Investigating;
            (begun && store.count_claimable().await.ok()? == 0).then_some(())
        };
        self.until("the investigation is claimed", held).await;
    }
}

/// A sample follows from the workflow's name.
fn workflow_that_draws_a_large_run_first() -> String {
    let draws_a_large_one = |name: &String| {
        let workflow = Workflow::new(name.clone()).expect("a name");
        let key = WorkflowKey { tenant: Tenant::default_tenant(), workflow };
        let id = RetrospectiveId::of_epoch(&key, 1);
        sample::draw_sample(id, (1..=LAST).collect(), &Policy::default()).order[0] < LAST
    };
    (1..).map(|nth| format!("large-{nth}")).find(draws_a_large_one).expect("nine of ten do")
}

fn large_run(workflow: &str, number: u64) -> Value {
    let said = format!("Deploy the service. {}", "It is the one that answers for checkout. ".repeat(2000));
    let run = Run::new(workflow, &format!("{workflow}-{number}")).told(&said);
    run.mends("deploy_service", "region").event()
}
