//! Clients that are idle, slow or greedy: they keep nobody else waiting.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::world::{Fleet, Kind, World, items, mending};

const SINGLE: &str = "application/cloudevents+json";
/// The largest event, in bytes.
const LARGEST: usize = 17 * 1024 * 1024;

/// A connection on which these bytes were sent.
async fn said(world: &World, bytes: &[u8]) -> TcpStream {
    let address = world.http_url().trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(&address).await.expect("it listens");
    stream.write_all(bytes).await.expect("it reads");
    stream
}

fn head(tenant: &str, bytes: usize) -> Vec<u8> {
    let head = format!(
        "POST /v1/events HTTP/1.1\r\nhost: localhost\r\nretro-tenant: {tenant}\r\ncontent-type: {SINGLE}\r\n\
         content-length: {bytes}\r\n\r\n"
    );
    head.into_bytes()
}

/// Whether the other side has neither answered nor closed.
fn is_open(stream: &TcpStream) -> bool {
    stream.try_read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

#[tokio::test]
async fn requests_that_announce_much_and_send_little_keep_nobody_out() {
    let mut world = World::empty();
    world.up_with(&[("RETRO_INTAKE_MIB", "17"), ("RETRO_INTAKE_TENANT_MIB", "17")]).await;
    let event = mending("release", "deploy_service", 0..1).remove(0).to_string();
    let mut slow = Vec::new();
    for tenant in ["acme", "acme", "acme", "a", "b", "c", "d", "e", "f", "g", "h"] {
        slow.push(said(&world, &[&head(tenant, LARGEST)[..], b" "].concat()).await);
    }
    for tenant in ["acme", "other"] {
        let posted = world.post_events(tenant, SINGLE, &[], event.clone()).await;
        assert_eq!(posted.status, 202, "{tenant}: {posted:?}");
    }
    drop(slow);
    world.counted("acme", 1).await;
    world.counted("other", 1).await;
    world.stop().await;
}

#[tokio::test]
async fn a_tenant_whose_bodies_fill_the_room_of_all_leaves_another_s_usual_request_its_own() {
    let mut world = World::empty();
    world.up_with(&[("RETRO_INTAKE_MIB", "17"), ("RETRO_INTAKE_TENANT_MIB", "17")]).await;
    let event = mending("release", "deploy_service", 0..1).remove(0).to_string();
    let mut slow = fills(&world).await;
    let full = world.until("the room is full", async || {
        let posted = world.post_events("acme", SINGLE, &[], event.clone()).await;
        // A body that stands still is given up: another one takes its place.
        if !is_open(&slow) {
            slow = fills(&world).await;
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
    world.until("there is room again", room).await;
    world.counted("acme", 1).await;
    world.stop().await;
}

/// A request of `acme` that has sent all of the largest body but its last byte.
async fn fills(world: &World) -> TcpStream {
    let mut bytes = head("acme", LARGEST);
    bytes.resize(bytes.len() + LARGEST - 1, b' ');
    said(world, &bytes).await
}

#[tokio::test]
async fn six_hundred_connections_without_a_whole_head_keep_no_agent_waiting() {
    let mut world = World::start().await;
    let mut slow = Vec::new();
    for _ in 0..600 {
        slow.push(said(&world, b"POST /v1/context HTTP/1.1\r\nhost: local").await);
    }
    let context = world.context("default", &json!({"workflow": "release", "step": "deploy"})).await;
    assert_eq!(context["memories"], json!([]));
    // It did not wait until their time was over: most of those that have a place are still there.
    let open = slow.iter().filter(|stream| is_open(stream)).count();
    assert!((300..600).contains(&open), "{open} of 600 are open");
    drop(slow);
    world.stop().await;
}

/// Agents ask while what they were shown cannot be recorded, more of them than there are connections for anything.
#[tokio::test]
async fn recordings_that_hang_keep_no_agent_from_its_memories_on_postgres() {
    const HOLD: &str = "DO $$ BEGIN
            LOCK TABLE presentations IN ACCESS EXCLUSIVE MODE;
            PERFORM pg_sleep_for('1 hour');
        EXCEPTION WHEN query_canceled THEN NULL; END $$";
    const HELD: &str = "SELECT pid FROM pg_locks
        WHERE relation = 'presentations'::regclass AND mode = 'AccessExclusiveLock' AND granted";
    const LET_GO: &str = "SELECT pg_cancel_backend(pid) FROM pg_locks
        WHERE relation = 'presentations'::regclass AND mode = 'AccessExclusiveLock' AND granted";
    let mut fleet =
        Fleet::start(Kind::Postgres, &[("counter,sampler,investigator,writer,reviewer,relay", 1)]).await;
    let gateway = fleet.serve_with("gateway", &[("RETRO_CONTEXT_TIMEOUT_MS", "3000")]);
    fleet.ready(gateway).await;
    fleet.emit("default", "runs.jsonl", &mending("release", "deploy_service", 0..10)).await;
    let ask = async |run: Option<String>| {
        let question = json!({"workflow": "release", "step": "deploy", "run_id": run});
        fleet.context("default", &question).await
    };
    let learnt = async || (!items(&ask(None).await["memories"]).is_empty()).then_some(());
    fleet.until("something is learnt", learnt).await;
    let asked = async {
        let held = async || (!fleet.postgres().execute_sql(HELD).await.is_empty()).then_some(());
        fleet.until("presentations are locked", held).await;
        let runs = futures::future::join_all((0..24).map(|nth| ask(Some(format!("run-{nth}")))));
        let previews = futures::future::join_all((0..24).map(|_| ask(None)));
        let (runs, previews): (Vec<Value>, Vec<Value>) = tokio::join!(runs, previews);
        for answer in &runs {
            assert_eq!(
                (items(&answer["memories"]).len(), &answer["recorded"]),
                (1, &json!("unknown")),
                "{answer}"
            );
        }
        for answer in &previews {
            assert_eq!(items(&answer["memories"]).len(), 1, "{answer}");
        }
        fleet.postgres().execute_sql(LET_GO).await;
    };
    tokio::join!(fleet.postgres().execute_sql(HOLD), asked);
    let recorded = async || (ask(Some("later".to_owned())).await["recorded"] == "recorded").then_some(());
    fleet.until("a presentation is recorded again", recorded).await;
    fleet.sound().await;
    fleet.stop_all().await;
}
