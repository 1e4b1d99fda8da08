//! Crashes in commands of operators and in `retro emit`. A command that died is repeated.

use jiff::Timestamp;
use retro_core::count::{Arrival, IntakeProgress, count_arrivals};
use retro_core::id::{EventKey, RunId, Tenant, Workflow, WorkflowKey};
use retro_core::policy::Policy;
use retro_core::{investigate, sample};
use retro_fault::Label;
use retro_store::{DrawnSample, IncomingBody, IncomingRun, Store, WindowsToCheck};
use serde_json::json;

use super::harness::{CrashHarness, CrashPoint, RUNS, compare_with_undisturbed};
use crate::world::{build_correcting_runs, hold_memory, json_items, json_text};

pub(super) const LABELS: [Label; 12] = [
    Label::EmitPublish,
    Label::TriggerCommit,
    Label::ProposalCommit,
    Label::DeleteCommit,
    Label::MemoryReleaseCommit,
    Label::MemoryDecisionCommit,
    Label::MemoryAddCommit,
    Label::RuleAddCommit,
    Label::KillSwitchCommit,
    Label::TokenCreateCommit,
    Label::TokenRevokeCommit,
    Label::CancelCommit,
];

#[test]
fn a_command_killed_at_its_step_and_repeated_takes_effect_once() {
    println!("{}", compare_with_undisturbed(|_| &LABELS, run_script));
}

async fn run_script(ground: &mut CrashHarness) {
    ground.up().await;
    for point in CrashPoint::for_labels(&LABELS) {
        match point.label {
            Label::EmitPublish => emit_runs(ground, point).await,
            Label::TriggerCommit => trigger_retrospective(ground, point).await,
            Label::ProposalCommit => accept_proposal(ground, point).await,
            Label::DeleteCommit => delete_memory(ground, point).await,
            Label::MemoryReleaseCommit => release_memory(ground, point).await,
            Label::MemoryDecisionCommit => pin_memory(ground, point).await,
            Label::MemoryAddCommit => add_memory(ground, point).await,
            Label::RuleAddCommit => add_rule(ground, point).await,
            Label::KillSwitchCommit => engage_kill_switch(ground, point).await,
            Label::TokenCreateCommit => create_token(ground, point).await,
            Label::TokenRevokeCommit => revoke_token(ground, point).await,
            _ => cancel_retrospective(ground, point).await,
        }
    }
}

async fn emit_runs(ground: &mut CrashHarness, point: CrashPoint) {
    let workflow = point.workflow_name();
    let file = ground.write_events(&workflow, &build_correcting_runs(&workflow, "deploy_service", 0..RUNS));
    ground.run_killed_then_repeat(point, &["emit", &file]).await;
    ground.wait_until_finished(&workflow, RUNS).await;
}

async fn trigger_retrospective(ground: &mut CrashHarness, point: CrashPoint) {
    let trigger = prepare_trigger(ground, point).await;
    let trigger: Vec<&str> = trigger.iter().map(String::as_str).collect();
    ground.run_killed_then_repeat(point, &trigger).await;
    wait_for_proposal(ground, &point.workflow_name()).await;
}

async fn accept_proposal(ground: &mut CrashHarness, point: CrashPoint) {
    let trigger = prepare_trigger(ground, point).await;
    ground.run_json(&trigger.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let proposal = wait_for_proposal(ground, &point.workflow_name()).await;
    ground.run_killed_then_repeat(point, &["proposals", "accept", &proposal, "--by", "ada"]).await;
}

/// Counts two runs and returns the command that triggers a retrospective over them.
async fn prepare_trigger(ground: &mut CrashHarness, point: CrashPoint) -> Vec<String> {
    let workflow = point.workflow_name();
    ground.publish_events(&workflow, &build_correcting_runs(&workflow, "deploy_service", 0..2)).await;
    ground.wait_until_finished(&workflow, 2).await;
    let runs = format!("{workflow}-0,{workflow}-1");
    ["retrospectives", "trigger", "--workflow", &workflow, "--runs", &runs, "--focus", "Which region?"]
        .map(str::to_owned)
        .to_vec()
}

/// Waits for the only proposal of a workflow and returns its id.
async fn wait_for_proposal(ground: &CrashHarness, workflow: &str) -> String {
    let proposals = ground
        .wait_for("a proposal exists", async || {
            let listed = ground.run_json(&["proposals", "list", "--workflow", workflow]).await;
            (!json_items(&listed).is_empty()).then_some(listed)
        })
        .await;
    assert_eq!(json_items(&proposals).len(), 1, "{proposals}");
    json_text(&json_items(&proposals)[0]["proposal"], "id").to_owned()
}

async fn delete_memory(ground: &mut CrashHarness, point: CrashPoint) {
    let memory = learn_memory(ground, point).await;
    ground
        .run_killed_then_repeat(point, &["memories", "delete", &memory, "--reason", "it asks by itself now"])
        .await;
}

async fn release_memory(ground: &mut CrashHarness, point: CrashPoint) {
    let memory = learn_memory(ground, point).await;
    let id = memory.parse().expect("an id");
    hold_memory(&*ground.open_store().await, &Tenant::default_tenant(), id).await;
    let release = ["memories", "release", &memory, "--by", "ada", "--reason", "the region is ours"];
    ground.run_killed_then_repeat(point, &release).await;
}

async fn pin_memory(ground: &mut CrashHarness, point: CrashPoint) {
    let memory = learn_memory(ground, point).await;
    let pin = ["memories", "pin", &memory, "--by", "ada", "--reason", "we always want it"];
    ground.run_killed_then_repeat(point, &pin).await;
}

async fn engage_kill_switch(ground: &mut CrashHarness, point: CrashPoint) {
    let workflow = point.workflow_name();
    let engage = ["kill-switches", "engage", "--workflow", &workflow, "--reason", "an incident"];
    ground.run_killed_then_repeat(point, &engage).await;
    let listed = ground.run_json(&["kill-switches", "list", "--all"]).await;
    let engaged = json_items(&listed).iter().filter(|switch| switch["workflow"] == workflow.as_str()).count();
    assert_eq!(engaged, 1, "{listed}");
}

async fn create_token(ground: &mut CrashHarness, point: CrashPoint) {
    let name = point.workflow_name();
    let create = ["tokens", "create", "--name", &name, "--scopes", "emit", "--never-expires"];
    // Whoever has not seen the token needs another one.
    ground.run_killed_then_repeat(point, &[&create[..], &["--replace", "--reason", "for CI"]].concat()).await;
    let listed = ground.run_json(&["tokens", "list"]).await;
    let named = json_items(&listed).iter().filter(|token| token["name"] == name.as_str()).count();
    assert_eq!(named, 1, "{listed}");
}

async fn revoke_token(ground: &mut CrashHarness, point: CrashPoint) {
    let name = point.workflow_name();
    let create =
        ["tokens", "create", "--name", &name, "--scopes", "emit", "--never-expires", "--reason", "for CI"];
    ground.run_json(&create).await;
    ground.run_killed_then_repeat(point, &["tokens", "revoke", &name, "--reason", "it was in a log"]).await;
    let listed = ground.run_json(&["tokens", "list", "--all"]).await;
    let token = json_items(&listed).iter().find(|token| token["name"] == name.as_str());
    assert_eq!(token.map(|token| token["state"].clone()), Some("revoked".into()), "{listed}");
}

async fn add_memory(ground: &mut CrashHarness, point: CrashPoint) {
    let workflow = point.workflow_name();
    let title = ["--title", "Ask the owner before a deployment."];
    let add = ["memories", "add", "--workflow", &workflow, "--by", "ada", "--reason", "policy"];
    ground.run_killed_then_repeat(point, &[&add[..], &title].concat()).await;
}

async fn add_rule(ground: &mut CrashHarness, point: CrashPoint) {
    let repo = format!("acme/{}", point.workflow_name());
    let title = ["--title", "Always wrap an error with its context."];
    let add = ["rules", "add", "--repo", &repo, "--by", "ada", "--reason", "policy"];
    ground.run_killed_then_repeat(point, &[&add[..], &title].concat()).await;
}

/// Counts runs that leave a memory and returns its id.
async fn learn_memory(ground: &mut CrashHarness, point: CrashPoint) -> String {
    let workflow = point.workflow_name();
    ground.publish_events(&workflow, &build_correcting_runs(&workflow, "deploy_service", 0..RUNS)).await;
    ground.wait_until_finished(&workflow, RUNS).await;
    let listed = ground.run_json(&["memories", "list", "--workflow", &workflow]).await;
    json_text(&json_items(&listed)[0], "id").to_owned()
}

/// Cancels a retrospective whose investigation another process never finishes.
async fn cancel_retrospective(ground: &mut CrashHarness, point: CrashPoint) {
    ground.fleet.stop_up().await;
    let id = open_investigation(&*ground.open_store().await, &point.workflow_name()).await;
    ground
        .run_killed_then_repeat(
            point,
            &["retrospectives", "cancel", &id, "--by", "ann", "--reason", "a load test"],
        )
        .await;
    ground.up().await;
}

/// Counts runs in a database that no process uses, opens a retrospective over them and makes its first
/// investigation due.
pub(super) async fn open_investigation(store: &dyn Store, workflow: &str) -> String {
    let key =
        WorkflowKey { tenant: Tenant::default_tenant(), workflow: Workflow::new(workflow).expect("a name") };
    let batch: Vec<IncomingRun> = (0..RUNS).map(|number| build_incoming_run(&key, number)).collect();
    let now: Timestamp = "2026-11-20T10:00:00Z".parse().expect("a timestamp");
    // A claim whose owner died has used up an attempt, so allow enough of them.
    let policy = Policy { threshold_runs: 3, investigation_attempts_max: 20, ..Policy::default() };
    let count = |facts, arrivals: &[Arrival]| {
        count_arrivals(facts, arrivals, IntakeProgress::NotAwaited, &policy, now)
    };
    store.count_runs(&batch, WindowsToCheck::default(), &count).await.expect("counting");
    let rows = store.list_retrospectives(&key.tenant, None, 1000).await.expect("listing");
    let of_this = rows.into_iter().find(|row| row.retrospective.key == key);
    let id = of_this.expect("a retrospective was opened").retrospective.id;
    let draw = |due: &retro_core::retrospective::Retrospective, window: Vec<u64>| {
        let sample = sample::draw_sample(due.id, window, &due.policy);
        let first = investigate::decide_next_stage(&sample, &[]);
        DrawnSample { sample, first }
    };
    store.draw_sample(&key.tenant, id, &draw).await.expect("sampling");
    id.to_string()
}

fn build_incoming_run(key: &WorkflowKey, number: u64) -> IncomingRun {
    let run_id = RunId::new(format!("{}-{number}", key.workflow)).expect("a name");
    let id = format!("event of {run_id}");
    let event = EventKey { tenant: key.tenant.clone(), source: "/tests/composed".to_owned(), id };
    let run = serde_json::from_value(json!({"run_id": run_id, "outcome": "success"})).expect("facts");
    let arrival =
        Arrival { event, key: key.clone(), content_hash: number.to_string(), position: number, run };
    IncomingRun { arrival, body: IncomingBody::None, trace: None }
}
