//! Commands of people and of whoever emits by hand. A command that died is given again.

use jiff::Timestamp;
use retro_core::count::{Arrival, count_arrivals};
use retro_core::id::{EventKey, RunId, Tenant, Workflow, WorkflowKey};
use retro_core::policy::Policy;
use retro_core::{investigate, sample};
use retro_fault::Label;
use retro_store::{DrawnSample, IncomingBody, IncomingRun, Store};
use serde_json::json;

use super::ground::{Ground, Point, RUNS, tell};
use crate::world::{Kind, items, mending, text};

pub(super) const LABELS: [Label; 5] =
    [Label::EmitPublish, Label::TriggerCommit, Label::DecideCommit, Label::DeleteCommit, Label::CancelCommit];

#[tokio::test]
async fn a_command_killed_at_its_step_on_sqlite_is_given_again_and_has_happened_once() {
    println!("{}", tell(Kind::Sqlite, &LABELS, script).await);
}

#[tokio::test]
async fn a_command_killed_at_its_step_on_postgres_is_given_again_and_has_happened_once() {
    println!("{}", tell(Kind::Postgres, &LABELS, script).await);
}

async fn script(ground: &mut Ground) {
    ground.up().await;
    for point in Point::of(&LABELS) {
        match point.label {
            Label::EmitPublish => emitted(ground, point).await,
            Label::TriggerCommit => triggered(ground, point).await,
            Label::DecideCommit => decided(ground, point).await,
            Label::DeleteCommit => deleted(ground, point).await,
            _ => cancelled(ground, point).await,
        }
    }
}

async fn emitted(ground: &mut Ground, point: Point) {
    let workflow = point.workflow();
    let file = ground.write_events(&workflow, &mending(&workflow, "deploy_service", 0..RUNS));
    ground.given_twice(point, &["emit", &file]).await;
    ground.finished(&workflow, RUNS).await;
}

async fn triggered(ground: &mut Ground, point: Point) {
    let trigger = waiting(ground, point).await;
    let trigger: Vec<&str> = trigger.iter().map(String::as_str).collect();
    ground.given_twice(point, &trigger).await;
    proposal(ground, &point.workflow()).await;
}

async fn decided(ground: &mut Ground, point: Point) {
    let trigger = waiting(ground, point).await;
    ground.ask(&trigger.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let proposal = proposal(ground, &point.workflow()).await;
    ground.given_twice(point, &["proposals", "accept", &proposal, "--by", "ada"]).await;
}

/// Two runs that are counted, and the words that ask for a look at them.
async fn waiting(ground: &mut Ground, point: Point) -> Vec<String> {
    let workflow = point.workflow();
    ground.publish_all(&workflow, &mending(&workflow, "deploy_service", 0..2)).await;
    ground.finished(&workflow, 2).await;
    let runs = format!("{workflow}-0,{workflow}-1");
    ["retrospectives", "trigger", "--workflow", &workflow, "--runs", &runs, "--focus", "Which region?"]
        .map(str::to_owned)
        .to_vec()
}

/// Waits for the only proposal of a workflow.
async fn proposal(ground: &Ground, workflow: &str) -> String {
    let looked = ground
        .until("something is proposed", async || {
            let listed = ground.ask(&["proposals", "list", "--workflow", workflow]).await;
            (!items(&listed).is_empty()).then_some(listed)
        })
        .await;
    assert_eq!(items(&looked).len(), 1, "{looked}");
    text(&items(&looked)[0]["proposal"], "id").to_owned()
}

async fn deleted(ground: &mut Ground, point: Point) {
    let workflow = point.workflow();
    ground.publish_all(&workflow, &mending(&workflow, "deploy_service", 0..RUNS)).await;
    ground.finished(&workflow, RUNS).await;
    let listed = ground.ask(&["memories", "list", "--workflow", &workflow]).await;
    let memory = text(&items(&listed)[0], "id").to_owned();
    ground.given_twice(point, &["memories", "delete", &memory, "--reason", "it asks by itself now"]).await;
}

/// An investigation is under way in another process, which never finishes.
async fn cancelled(ground: &mut Ground, point: Point) {
    ground.fleet.stop_up().await;
    let id = under_way(&*ground.store().await, &point.workflow()).await;
    ground
        .given_twice(point, &["retrospectives", "cancel", &id, "--by", "ann", "--reason", "a load test"])
        .await;
    ground.up().await;
}

/// Counted runs in a database on which nothing works, a retrospective over them, and its first investigation due.
pub(super) async fn under_way(store: &dyn Store, workflow: &str) -> String {
    let key =
        WorkflowKey { tenant: Tenant::default_tenant(), workflow: Workflow::new(workflow).expect("a name") };
    let batch: Vec<IncomingRun> = (0..RUNS).map(|number| incoming(&key, number)).collect();
    let now: Timestamp = "2026-11-20T10:00:00Z".parse().expect("a moment");
    // A claim whose holder dies has spent an attempt.
    let policy = Policy { threshold_runs: 3, investigation_attempts_max: 20, ..Policy::default() };
    let count = |facts, arrivals: &[Arrival]| count_arrivals(facts, arrivals, &policy, now);
    store.count_runs(&batch, &[], &count).await.expect("counting");
    let rows = store.list_retrospectives(&key.tenant, None, 1000).await.expect("listing");
    let of_this = rows.into_iter().find(|row| row.retrospective.key == key);
    let id = of_this.expect("one was opened").retrospective.id;
    let draw = |due: &retro_core::retrospective::Retrospective, window: Vec<u64>| {
        let sample = sample::draw_sample(due.id, window, &due.policy);
        let first = investigate::decide_next_stage(&sample, &[]);
        DrawnSample { sample, first }
    };
    store.draw_sample(&key.tenant, id, &draw).await.expect("sampling");
    id.to_string()
}

fn incoming(key: &WorkflowKey, number: u64) -> IncomingRun {
    let run_id = RunId::new(format!("{}-{number}", key.workflow)).expect("a name");
    let id = format!("event of {run_id}");
    let event = EventKey { tenant: key.tenant.clone(), source: "/tests/composed".to_owned(), id };
    let run = serde_json::from_value(json!({"run_id": run_id, "outcome": "success"})).expect("facts");
    let arrival = Arrival { event, key: key.clone(), content_hash: number.to_string(), run };
    IncomingRun { arrival, position: number, body: IncomingBody::None, trace: None }
}
