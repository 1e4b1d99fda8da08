//! What became of a run's pull request, weeks after its retrospective: credit, once, for what was applied in it.

use jiff::Timestamp;
use retro_core::id::{MemoryId, Tenant};
use retro_core::memory::ChangeCause;
use retro_events::github::{GithubData, PullRequest, RepositoryEvent, event_subject};
use serde_json::{Value, json};

use crate::world::{Fleet, Kind, Run, Sent, Wire, World, items, mending, text};

const WORKFLOW: &str = "release";
const REPO: &str = "Acme/Shop";

/// A run of a workflow in which the memory stood in the prompt and the agent acted on it, behind this pull request.
pub(crate) fn applying(workflow: &str, run: u64, memory: MemoryId, pull_request: u64) -> Value {
    let arguments = json!({"service": "checkout", "region": "eu-west-1"});
    let id = format!("{workflow}-{run}");
    let run = Run::new(workflow, &id).told("Deploy the service.");
    let mut event = run.call("deploy_service", &arguments, "deployed checkout").event();
    event["data"]["memories"] = json!({"presented": [memory]});
    event["data"]["repo"] = json!("acme/shop");
    event["data"]["pull_request"] = json!(pull_request);
    event
}

fn shown(number: u64, closed_at: Option<Timestamp>, merged: bool) -> PullRequest {
    PullRequest {
        number,
        author: None,
        open: closed_at.is_none(),
        merged,
        head_commit: Some(format!("{number:040x}")),
        merge_commit: None,
        opened_at: Some(moment("2026-11-01T10:00:00Z")),
        closed_at,
        url: None,
    }
}

fn moment(text: &str) -> Timestamp {
    text.parse().expect("a moment")
}

fn data(action: &str, pull_request: PullRequest) -> GithubData {
    let what = RepositoryEvent::PullRequest { action: action.to_owned(), pull_request };
    GithubData { repo: REPO.to_owned(), host: "github.com".to_owned(), sender: None, what }
}

/// It was merged.
pub(crate) fn merged(number: u64) -> GithubData {
    data("closed", shown(number, Some(moment("2026-11-15T10:00:00Z")), true))
}

fn closed(number: u64) -> GithubData {
    data("closed", shown(number, Some(moment("2026-11-08T10:00:00Z")), false))
}

/// Publishes what happened at GitHub under a delivery's id, as the bridge does.
pub(crate) async fn happened(world: &World, tenant: &str, delivery: &str, data: &GithubData) {
    let tenant = Tenant::new(tenant).expect("a name");
    let encoded = data.to_envelope(delivery, moment("2026-11-20T10:00:00Z")).to_structured();
    let message = Sent {
        subject: event_subject(&tenant, data),
        headers: encoded.headers,
        payload: encoded.payload.to_vec(),
    };
    let answer = Wire::to(world.nats_url()).await.publish(&message).await;
    assert_eq!(answer["stream"], "RETRO_GITHUB", "{answer}");
}

/// The only active memory of the workflow.
async fn memory(world: &World, tenant: &str) -> MemoryId {
    let listed = ["--tenant", tenant, "memories", "list", "--workflow", WORKFLOW, "--status", "active"];
    text(&items(&world.ask(&listed).await)[0], "id").parse().expect("an id")
}

async fn weight(world: &World, memory: MemoryId) -> u64 {
    let shown = world.ask(&["memories", "show", &memory.to_string()]).await;
    shown["weight"].as_u64().unwrap_or_else(|| panic!("no weight: {shown}"))
}

/// Waits until the memory was credited with what became of a run; returns what it weighs then.
async fn credited(world: &World, memory: MemoryId) -> u64 {
    let (store, tenant) = (world.store().await, Tenant::default_tenant());
    world
        .until("it is credited", async || {
            let history = store.list_memory_changes(&tenant, memory).await.ok()?;
            history.iter().any(|change| matches!(change.cause, ChangeCause::Outcome { .. })).then_some(())
        })
        .await;
    weight(world, memory).await
}

/// Waits until the memory weighs this much.
async fn weighs(world: &World, memory: MemoryId, thousandths: u64) {
    let (store, tenant) = (world.store().await, Tenant::default_tenant());
    world
        .until(&format!("it weighs {thousandths}"), async || {
            let stored = store.find_memory(&tenant, memory).await.ok()??;
            (u64::from(stored.weight.get()) == thousandths).then_some(())
        })
        .await;
}

/// Waits until every event of GitHub's is handled and every run followed.
async fn followed(world: &World) {
    let store = world.store().await;
    let runs = async || store.list_untracked_workflows(1).await.ok()?.is_empty().then_some(());
    world.until("every run is followed", runs).await;
    world.still().await;
}

#[tokio::test]
async fn a_merge_weeks_later_credits_what_was_applied_once_on_sqlite() {
    credits_once(Kind::Sqlite).await;
}

#[tokio::test]
async fn a_merge_weeks_later_credits_what_was_applied_once_on_postgres() {
    credits_once(Kind::Postgres).await;
}

async fn credits_once(kind: Kind) {
    let mut world = Fleet::nowhere(kind).await;
    world.start_broker().await;
    world.start_database().await;
    world.write_policy("[policy]\nthreshold_runs = 4\nsample_permille = 1000\nsample_runs_max = 4\n");
    world.up().await;
    world.emit("default", "first.jsonl", &mending(WORKFLOW, "deploy_service", 0..4)).await;
    let memory = memory(&world, "default").await;
    // Of four sampled runs each belongs to a pull request of its own; the last one's is heard of before the run.
    happened(&world, "default", "merged 4", &merged(4)).await;
    let runs: Vec<_> = (4..8).map(|run| applying(WORKFLOW, run, memory, run - 3)).collect();
    world.emit("default", "second.jsonl", &runs).await;
    followed(&world).await;
    let report = world.ask(&["retrospectives", "list", "--workflow", WORKFLOW]).await;
    // The one that had been merged before, as soon as the retrospective has found the memory applied.
    let before = credited(&world, memory).await;
    happened(&world, "default", "merged 1", &merged(1)).await;
    weighs(&world, memory, before + 50).await;
    happened(&world, "default", "closed 2", &closed(2)).await;
    weighs(&world, memory, before - 25).await;
    let export = world.export().await;
    // Another tenant's of the same name, and everything once more: redelivered, and under other ids.
    happened(&world, "acme", "merged 3", &merged(3)).await;
    for again in ["merged 1", "merged once more"] {
        happened(&world, "default", again, &merged(1)).await;
    }
    happened(&world, "default", "closed once more", &closed(2)).await;
    handled(&world).await;
    assert_eq!(weight(&world, memory).await, before - 25);
    assert_eq!(world.export().await, export, "what came again changes nothing");
    let closed = world.ask(&["retrospectives", "list", "--workflow", WORKFLOW]).await;
    assert_eq!(closed, report, "a closed retrospective stays as it is");
    let why = world.ask(&["memories", "why", &memory.to_string()]).await.to_string();
    assert!(why.contains("whose pull request acme/shop#1 was merged"), "{why}");
    assert!(why.contains("whose pull request acme/shop#2 was closed without a merge"), "{why}");
    told(&world).await;
    world.sound().await;
    world.stop_up().await;
    world.stop_all().await;
}

/// Waits until the tracker has nothing pending and the writer nothing to credit.
async fn handled(world: &World) {
    let bus = retro_bus::Bus::connect(retro_bus::BusConfig::new(world.nats_url(), "test"))
        .await
        .expect("an address");
    let pending =
        async || (bus.count_unacknowledged("RETRO_GITHUB", "tracker").await.ok()? == 0).then_some(());
    world.until("the tracker has nothing pending", pending).await;
    let store = world.store().await;
    let waits = async || store.list_overdue_credits(0, 1).await.ok()?.is_empty().then_some(());
    world.until("no credit waits", waits).await;
    world.still().await;
}

/// On the command line and over HTTP, to its own tenant alone.
async fn told(world: &World) {
    let rows = world.ask(&["outcomes", "--workflow", WORKFLOW]).await;
    let row = &items(&rows)[0];
    assert_eq!((&row["runs"], &row["merged"], &row["closed_unmerged"]), (&json!(4), &json!(2), &json!(1)));
    assert_eq!(row["time_to_merge_median_s"], 14 * 24 * 3600);
    let (status, body) = world.get("default", "/v1/outcomes").await;
    let served: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((status, &served["items"]), (200, &rows));
    let (status, body) = world.get("acme", "/v1/outcomes").await;
    let served: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((status, &served["items"]), (200, &json!([])), "another tenant's runs are nobody's");
}
