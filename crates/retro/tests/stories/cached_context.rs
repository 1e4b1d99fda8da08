//! Two gateways cache memories, and a person withdraws one: once the withdrawal is answered, no gateway hands
//! it out, neither one that works nor one that stood still meanwhile.

use retro_eval::http_client::configure_client;
use serde_json::{Value, json};

use crate::world::{DatabaseKind, Fleet, build_correcting_runs, json_items, json_text};

const WORKFLOW: &str = "release";
/// Requests after which a step must be cached: a lease begins with the first one.
const REQUESTS_MAX: usize = 2_000;

/// A gateway of a fleet.
struct CachingGateway {
    nth: usize,
    url: String,
}

impl CachingGateway {
    async fn start(fleet: &mut Fleet) -> Self {
        let nth = fleet.serve("gateway");
        let url = fleet.http_url().to_owned();
        fleet.wait_until_ready(nth).await;
        Self { nth, url }
    }

    async fn ask(&self) -> Value {
        let url = format!("{}/v1/context", self.url);
        let question = json!({"workflow": WORKFLOW, "step": "deploy"});
        let request = build_client().post(url).header("Retro-Tenant", "default").json(&question);
        let response = request.send().await.expect("the gateway answers");
        response.error_for_status().expect("a context").json().await.expect("JSON")
    }

    async fn shows(&self, id: &str) -> bool {
        json_items(&self.ask().await["memories"]).iter().any(|memory| memory["id"] == id)
    }

    /// Asks until memories are handed out without the database, of which the metrics tell.
    async fn fill_cache(&self, id: &str) {
        let before = self.count_cached().await;
        for _ in 0..REQUESTS_MAX {
            assert!(self.shows(id).await);
            if self.count_cached().await > before {
                return;
            }
        }
        panic!("nothing is cached after {REQUESTS_MAX} requests");
    }

    /// Returns the number of scopes that were handed out from memory.
    async fn count_cached(&self) -> u64 {
        let metrics = build_client().get(format!("{}/metrics", self.url)).send().await.expect("an answer");
        let metrics = metrics.text().await.expect("text");
        let line = metrics
            .lines()
            .find(|line| line.starts_with("retro_context_scopes_total") && line.contains("memory"));
        let value = line.and_then(|line| line.rsplit(' ').next()).unwrap_or("0");
        value.parse::<f64>().expect("a number") as u64
    }
}

fn build_client() -> reqwest::Client {
    configure_client().build().expect("a client for plain HTTP")
}

async fn check_withdrawals(kind: DatabaseKind) {
    let mut fleet = Fleet::start(kind, &[("counter,sampler,investigator,writer,relay", 1)]).await;
    let [working, still] = [CachingGateway::start(&mut fleet).await, CachingGateway::start(&mut fleet).await];
    fleet
        .emit_and_wait("default", "runs.jsonl", &build_correcting_runs(WORKFLOW, "deploy_service", 0..10))
        .await;
    let memories = fleet.run_json(&["memories", "list", "--status", "active"]).await;
    let id =
        json_text(json_items(&memories).first().expect("ten runs leave an active memory"), "id").to_owned();
    working.fill_cache(&id).await;
    still.fill_cache(&id).await;

    let disable = ["memories", "disable", &id, "--reason", "it is wrong", "--by", "ann"];
    assert_eq!(fleet.run_json(&disable).await["result"], "disabled");
    assert!(!working.shows(&id).await && !still.shows(&id).await, "both have confirmed");

    let enable = ["memories", "enable", &id, "--reason", "it is right", "--by", "ann"];
    assert_eq!(fleet.run_json(&enable).await["result"], "enabled");
    working.fill_cache(&id).await;
    still.fill_cache(&id).await;
    fleet.freeze_between_writes(still.nth).await;
    let retire = ["memories", "retire", &id, "--reason", "it is wrong after all", "--by", "ann"];
    assert_eq!(fleet.run_json(&retire).await["result"], "deleted", "the lease has run out");
    assert!(!working.shows(&id).await);
    fleet.resume(still.nth);
    assert!(!still.shows(&id).await, "it has stood still with the memory");
    fleet.verify_store().await;
    fleet.stop_all().await;
}

#[tokio::test]
async fn a_withdrawn_memory_is_handed_out_by_no_gateway_on_sqlite() {
    check_withdrawals(DatabaseKind::Sqlite).await;
}

#[tokio::test]
async fn a_withdrawn_memory_is_handed_out_by_no_gateway_on_postgres() {
    check_withdrawals(DatabaseKind::Postgres).await;
}
