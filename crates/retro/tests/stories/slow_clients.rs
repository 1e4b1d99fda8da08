//! Tests that idle, slow or greedy clients do not delay others.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::world::{DatabaseKind, Fleet, World, build_correcting_runs, json_items};

const SINGLE: &str = "application/cloudevents+json";
/// Maximum size of an event.
const LARGEST_BYTES: usize = 17 * 1024 * 1024;

/// Opens a connection and sends these bytes.
async fn send_bytes(world: &World, bytes: &[u8]) -> TcpStream {
    let address = world.http_url().trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(&address).await.expect("the program listens");
    stream.write_all(bytes).await.expect("the connection is open");
    stream
}

fn build_request_head(tenant: &str, bytes: usize) -> Vec<u8> {
    let head = format!(
        "POST /v1/events HTTP/1.1\r\nhost: localhost\r\nretro-tenant: {tenant}\r\ncontent-type: {SINGLE}\r\n\
         content-length: {bytes}\r\n\r\n"
    );
    head.into_bytes()
}

/// Returns `true` if the server has neither responded nor closed the connection.
fn is_open(stream: &TcpStream) -> bool {
    stream.try_read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

#[tokio::test]
async fn slow_requests_with_large_announced_bodies_do_not_block_others() {
    let mut world = World::empty();
    world.up_with_env(&[("RETRO_INTAKE_MIB", "17"), ("RETRO_INTAKE_TENANT_MIB", "17")]).await;
    let event = build_correcting_runs("release", "deploy_service", 0..1).remove(0).to_string();
    let mut slow = Vec::new();
    for tenant in ["acme", "acme", "acme", "a", "b", "c", "d", "e", "f", "g", "h"] {
        slow.push(send_bytes(&world, &[&build_request_head(tenant, LARGEST_BYTES)[..], b" "].concat()).await);
    }
    for tenant in ["acme", "other"] {
        let posted = world.post_events(tenant, SINGLE, &[], event.clone()).await;
        assert_eq!(posted.status, 202, "{tenant}: {posted:?}");
    }
    drop(slow);
    world.wait_until_counted("acme", 1).await;
    world.wait_until_counted("other", 1).await;
    world.stop().await;
}

#[tokio::test]
async fn a_tenant_that_fills_the_body_budget_does_not_block_another_tenants_request() {
    let mut world = World::empty();
    world.up_with_env(&[("RETRO_INTAKE_MIB", "17"), ("RETRO_INTAKE_TENANT_MIB", "17")]).await;
    let event = build_correcting_runs("release", "deploy_service", 0..1).remove(0).to_string();
    let mut slow = send_body_but_last_byte(&world).await;
    let full = world.wait_for("the body budget is exhausted", async || {
        let posted = world.post_events("acme", SINGLE, &[], event.clone()).await;
        // A stalled body times out; replace it with another.
        if !is_open(&slow) {
            slow = send_body_but_last_byte(&world).await;
        }
        (posted.status != 202).then_some(posted)
    });
    let full = full.await;
    assert_eq!(
        (full.status, full.retry_after.as_deref(), &full.body["code"]),
        (429, Some("1"), &json!("tenant_busy"))
    );
    assert_eq!(world.post_events("other", SINGLE, &[], event.clone()).await.status, 202);
    drop(slow);
    let room =
        async || (world.post_events("acme", SINGLE, &[], event.clone()).await.status == 202).then_some(());
    world.wait_for("the body budget is free again", room).await;
    world.wait_until_counted("acme", 1).await;
    world.stop().await;
}

/// Opens a request of `acme` and sends a body of maximum size without its last byte.
async fn send_body_but_last_byte(world: &World) -> TcpStream {
    let mut bytes = build_request_head("acme", LARGEST_BYTES);
    bytes.resize(bytes.len() + LARGEST_BYTES - 1, b' ');
    send_bytes(world, &bytes).await
}

#[tokio::test]
async fn six_hundred_connections_with_incomplete_heads_do_not_delay_agents() {
    let mut world = World::start().await;
    let mut slow = Vec::new();
    for _ in 0..600 {
        slow.push(send_bytes(&world, b"POST /v1/context HTTP/1.1\r\nhost: local").await);
    }
    let context = world.fetch_context("default", &json!({"workflow": "release", "step": "deploy"})).await;
    assert_eq!(context["memories"], json!([]));
    // The context arrived before the slow connections timed out, so most of the admitted ones are still open.
    let open = slow.iter().filter(|stream| is_open(stream)).count();
    assert!((300..600).contains(&open), "{open} of 600 are open");
    drop(slow);
    world.stop().await;
}

/// More agents than the database has connections request context while presentations cannot be recorded.
#[tokio::test]
async fn blocked_presentation_records_do_not_delay_memories_on_postgres() {
    const LOCK_TABLE: &str = "DO $$ BEGIN
            LOCK TABLE pending_presentations IN ACCESS EXCLUSIVE MODE;
            PERFORM pg_sleep_for('1 hour');
        EXCEPTION WHEN query_canceled THEN NULL; END $$";
    const FIND_LOCK: &str = "SELECT pid FROM pg_locks
        WHERE relation = 'pending_presentations'::regclass AND mode = 'AccessExclusiveLock' AND granted";
    const RELEASE_LOCK: &str = "SELECT pg_cancel_backend(pid) FROM pg_locks
        WHERE relation = 'pending_presentations'::regclass AND mode = 'AccessExclusiveLock' AND granted";
    let mut fleet =
        Fleet::start(DatabaseKind::Postgres, &[("counter,sampler,investigator,writer,reviewer,relay", 1)])
            .await;
    let gateway = fleet.serve_with_env("gateway", &[("RETRO_CONTEXT_TIMEOUT_MS", "3000")]);
    fleet.wait_until_ready(gateway).await;
    fleet
        .emit_and_wait("default", "runs.jsonl", &build_correcting_runs("release", "deploy_service", 0..10))
        .await;
    let ask = async |run: Option<String>| {
        let question = json!({"workflow": "release", "step": "deploy", "run_id": run});
        fleet.fetch_context("default", &question).await
    };
    let learnt = async || (!json_items(&ask(None).await["memories"]).is_empty()).then_some(());
    fleet.wait_for("a memory is learned", learnt).await;
    let requests = async {
        let held = async || (!fleet.postgres().execute_sql(FIND_LOCK).await.is_empty()).then_some(());
        fleet.wait_for("presentations are locked", held).await;
        let runs = futures::future::join_all((0..24).map(|nth| ask(Some(format!("run-{nth}")))));
        let previews = futures::future::join_all((0..24).map(|_| ask(None)));
        let (runs, previews): (Vec<Value>, Vec<Value>) = tokio::join!(runs, previews);
        for answer in &runs {
            // Chance withholds the only memory from some of the runs.
            let handed = json_items(&answer["memories"]).len();
            assert_eq!(answer["withheld_by_chance"], 1 - handed, "{answer}");
            assert_eq!(answer["recorded"], "queued", "{answer}");
        }
        for answer in &previews {
            assert_eq!(json_items(&answer["memories"]).len(), 1, "{answer}");
        }
        fleet.postgres().execute_sql(RELEASE_LOCK).await;
    };
    tokio::join!(fleet.postgres().execute_sql(LOCK_TABLE), requests);
    const COUNT: &str = "SELECT count(DISTINCT run_id) FROM memory_assignments WHERE run_id LIKE 'run-%'";
    let recorded =
        async || (fleet.postgres().execute_sql(COUNT).await[0][0].as_deref() == Some("24")).then_some(());
    fleet.wait_for("what was queued is recorded", recorded).await;
    fleet.verify_store().await;
    fleet.stop_all().await;
}
