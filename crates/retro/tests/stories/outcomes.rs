//! Tests that memories applied in a run are credited once if the run's pull request is merged or closed weeks
//! after its retrospective.

use jiff::Timestamp;
use retro_core::id::{MemoryId, Tenant};
use retro_core::memory::ChangeCause;
use retro_events::github::{GithubData, PullRequest, RepositoryEvent, event_subject};
use serde_json::{Value, json};

use crate::world::{
    DatabaseKind, Fleet, NatsConnection, RawMessage, RunBuilder, World, build_correcting_runs, json_items,
    json_text,
};

const WORKFLOW: &str = "release";
const REPO: &str = "Acme/Shop";

/// Returns a run with this pull request in which the memory was presented and the agent acted on it.
pub(crate) fn build_applying_run(workflow: &str, run: u64, memory: MemoryId, pull_request: u64) -> Value {
    let arguments = json!({"service": "checkout", "region": "eu-west-1"});
    let id = format!("{workflow}-{run}");
    let run = RunBuilder::new(workflow, &id).with_message("Deploy the service.");
    let mut event = run.with_call("deploy_service", &arguments, "deployed checkout").build_event();
    event["data"]["memories"] = json!({"presented": [memory]});
    event["data"]["repo"] = json!("acme/shop");
    event["data"]["pull_request"] = json!(pull_request);
    event
}

fn build_pull_request(number: u64, closed_at: Option<Timestamp>, merged: bool) -> PullRequest {
    PullRequest {
        number,
        author: None,
        open: closed_at.is_none(),
        merged,
        head_commit: Some(format!("{number:040x}")),
        merge_commit: None,
        opened_at: Some(parse_timestamp("2026-11-01T10:00:00Z")),
        closed_at,
        url: None,
        reverts: Vec::new(),
    }
}

fn parse_timestamp(text: &str) -> Timestamp {
    text.parse().expect("a timestamp")
}

fn build_pull_request_data(action: &str, pull_request: PullRequest) -> GithubData {
    let what = RepositoryEvent::PullRequest { action: action.to_owned(), pull_request };
    GithubData { repo: REPO.to_owned(), host: "github.com".to_owned(), what }
}

/// Returns the event that reports a merged pull request.
pub(crate) fn build_merged_event(number: u64) -> GithubData {
    build_pull_request_data(
        "closed",
        build_pull_request(number, Some(parse_timestamp("2026-11-15T10:00:00Z")), true),
    )
}

fn build_closed_event(number: u64) -> GithubData {
    build_pull_request_data(
        "closed",
        build_pull_request(number, Some(parse_timestamp("2026-11-08T10:00:00Z")), false),
    )
}

/// Publishes a GitHub event with a delivery id, as the bridge does, and asserts that the broker stored it.
pub(crate) async fn publish_github_delivery(world: &World, tenant: &str, delivery: &str, data: &GithubData) {
    let tenant = Tenant::new(tenant).expect("a name");
    let encoded = data.to_envelope(delivery, parse_timestamp("2026-11-20T10:00:00Z")).to_structured();
    let message = RawMessage {
        subject: event_subject(&tenant, data),
        headers: encoded.headers,
        payload: encoded.payload.to_vec(),
    };
    let answer = NatsConnection::connect(world.nats_url()).await.publish(&message).await;
    assert_eq!(answer["stream"], "RETRO_GITHUB", "{answer}");
}

/// Returns the only active memory of the workflow.
async fn find_active_memory(world: &World, tenant: &str) -> MemoryId {
    let listed = ["--tenant", tenant, "memories", "list", "--workflow", WORKFLOW, "--status", "active"];
    json_text(&json_items(&world.run_json(&listed).await)[0], "id").parse().expect("an id")
}

async fn read_weight(world: &World, memory: MemoryId) -> u64 {
    let shown = world.run_json(&["memories", "show", &memory.to_string()]).await;
    shown["weight"].as_u64().unwrap_or_else(|| panic!("no weight: {shown}"))
}

/// Waits until the memory is credited with the outcome of a run and returns its new weight.
async fn wait_until_credited(world: &World, memory: MemoryId) -> u64 {
    let (store, tenant) = (world.open_store().await, Tenant::default_tenant());
    world
        .wait_for("the memory is credited", async || {
            let history = store.list_memory_changes(&tenant, memory).await.ok()?;
            history.iter().any(|change| matches!(change.cause, ChangeCause::Outcome { .. })).then_some(())
        })
        .await;
    read_weight(world, memory).await
}

/// Waits until the memory has this weight.
async fn wait_for_weight(world: &World, memory: MemoryId, thousandths: u64) {
    let (store, tenant) = (world.open_store().await, Tenant::default_tenant());
    world
        .wait_for(&format!("it weighs {thousandths}"), async || {
            let stored = store.find_memory(&tenant, memory).await.ok()??;
            (u64::from(stored.weight.get()) == thousandths).then_some(())
        })
        .await;
}

/// Waits until every run is tracked and the program is idle.
async fn wait_until_tracked(world: &World) {
    let store = world.open_store().await;
    let runs = async || store.list_untracked_workflows(1).await.ok()?.is_empty().then_some(());
    world.wait_for("every run is tracked", runs).await;
    world.wait_until_idle().await;
}

#[tokio::test]
async fn a_merge_weeks_later_credits_applied_memories_once_on_sqlite() {
    check_credited_once(DatabaseKind::Sqlite).await;
}

#[tokio::test]
async fn a_merge_weeks_later_credits_applied_memories_once_on_postgres() {
    check_credited_once(DatabaseKind::Postgres).await;
}

async fn check_credited_once(kind: DatabaseKind) {
    let mut world = Fleet::unstarted(kind).await;
    world.start_broker().await;
    world.start_database().await;
    world.write_policy(
        "[trigger]\nthreshold_runs = 4\n[selection]\nsample_permille = 1000\nsample_runs_max = 4\n",
    );
    world.up().await;
    world
        .emit_and_wait("default", "first.jsonl", &build_correcting_runs(WORKFLOW, "deploy_service", 0..4))
        .await;
    let memory = find_active_memory(&world, "default").await;
    // Each of the four sampled runs has its own pull request; the last one is merged before its run arrives.
    publish_github_delivery(&world, "default", "merged 4", &build_merged_event(4)).await;
    let runs: Vec<_> = (4..8).map(|run| build_applying_run(WORKFLOW, run, memory, run - 3)).collect();
    world.emit_and_wait("default", "second.jsonl", &runs).await;
    wait_until_tracked(&world).await;
    let report = world.run_json(&["retrospectives", "list", "--workflow", WORKFLOW]).await;
    // The pull request that was already merged is credited as soon as the retrospective has found the memory
    // applied.
    let before = wait_until_credited(&world, memory).await;
    publish_github_delivery(&world, "default", "merged 1", &build_merged_event(1)).await;
    wait_for_weight(&world, memory, before + 50).await;
    publish_github_delivery(&world, "default", "closed 2", &build_closed_event(2)).await;
    wait_for_weight(&world, memory, before - 25).await;
    let export = world.export_canonical().await;
    // The same pull request number in another tenant, then everything once more: redelivered, and under other
    // ids.
    publish_github_delivery(&world, "acme", "merged 3", &build_merged_event(3)).await;
    for again in ["merged 1", "merged once more"] {
        publish_github_delivery(&world, "default", again, &build_merged_event(1)).await;
    }
    publish_github_delivery(&world, "default", "closed once more", &build_closed_event(2)).await;
    wait_until_handled(&world).await;
    assert_eq!(read_weight(&world, memory).await, before - 25);
    assert_eq!(world.export_canonical().await, export, "repeated events change nothing");
    let closed = world.run_json(&["retrospectives", "list", "--workflow", WORKFLOW]).await;
    assert_eq!(closed, report, "a closed retrospective does not change");
    let why = world.run_json(&["memories", "why", &memory.to_string()]).await.to_string();
    assert!(why.contains("whose pull request acme/shop#1 was merged"), "{why}");
    assert!(why.contains("whose pull request acme/shop#2 was closed without a merge"), "{why}");
    check_outcomes_output(&world).await;
    world.verify_store().await;
    world.stop_up().await;
    world.stop_all().await;
}

/// Waits until the tracker has no pending messages and the writer has nothing to credit.
async fn wait_until_handled(world: &World) {
    let bus = retro_bus::Bus::connect(retro_bus::BusConfig::new(world.nats_url(), "test"))
        .await
        .expect("an address");
    let pending =
        async || (bus.count_unacknowledged("RETRO_GITHUB", "tracker").await.ok()? == 0).then_some(());
    world.wait_for("the tracker has nothing pending", pending).await;
    let store = world.open_store().await;
    let waits = async || store.list_overdue_credits(0, 1).await.ok()?.is_empty().then_some(());
    world.wait_for("no credit waits", waits).await;
    world.wait_until_idle().await;
}

/// Asserts that the outcomes are shown on the command line and over HTTP, but only to their own tenant.
async fn check_outcomes_output(world: &World) {
    let rows = world.run_json(&["outcomes", "--workflow", WORKFLOW]).await;
    let row = &json_items(&rows)[0];
    assert_eq!((&row["runs"], &row["merged"], &row["closed_unmerged"]), (&json!(4), &json!(2), &json!(1)));
    assert_eq!(row["time_to_merge_median_s"], 14 * 24 * 3600);
    let (status, body) = world.get("default", "/v1/outcomes").await;
    let served: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((status, &served["items"]), (200, &rows));
    let (status, body) = world.get("acme", "/v1/outcomes").await;
    let served: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((status, &served["items"]), (200, &json!([])), "another tenant sees no runs");
}
