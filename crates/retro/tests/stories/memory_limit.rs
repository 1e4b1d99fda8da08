//! Sends small messages that become large when parsed to a program with limited memory: it rejects or counts
//! them, continues and releases the memory.

use bytes::Bytes;
use retro_bus::OutgoingEvent;
use retro_core::id::{Tenant, Workflow, WorkflowKey};
use retro_events::run_completed::TYPE;
use retro_events::subject;

use crate::world::{World, build_correcting_runs};

const SINGLE: &str = "application/cloudevents+json";
const BATCH: &str = "application/cloudevents-batch+json";
const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
/// Limit of the program's private memory: that of a gateway in `deploy/kubernetes`, plus the stacks of its
/// threads, which count in full although little of them is used.
const LIMIT_KIB: usize = (256 + 128) * KIB;
/// Maximum number of posts of one body.
const POSTS_MAX: usize = 20;
/// Memory that may remain in use after the bombs.
const REMAINING_KIB: usize = 24 * KIB;

/// Returns a string of at least this many bytes that repeats `item`.
fn repeat_item(bytes: usize, open: &str, item: &str, close: &str) -> String {
    let items = vec![item; bytes / (item.len() + 1) + 1];
    format!("{open}{}{close}", items.join(","))
}

/// Returns an event of the workflow `bombs` with these members in its data.
fn build_event(id: &str, more: &str) -> String {
    format!(
        r#"{{"specversion":"1.0","type":"{TYPE}","source":"s","id":"{id}","data":{{"workflow":"bombs","run_id":"{id}","outcome":"success",{more}}}}}"#
    )
}

/// Returns the members of an event's data that can contain this value.
fn place_in_event(value: &str) -> [(&'static str, String); 4] {
    let atif = |steps: &str| format!(r#""trajectory":{{"schema_version":"ATIF-v1.4","steps":{steps}}}"#);
    let call = format!(
        r#"[{{"source":"agent","tool_calls":[{{"tool_call_id":"c","function_name":"f","arguments":{value}}}]}}]"#
    );
    let observed = format!(r#"[{{"source":"agent","message":"m","observation":{{"results":{value}}}}}]"#);
    [
        ("extra", format!(r#""extra":{value}"#)),
        ("steps", atif(value)),
        ("arguments", atif(&call)),
        ("results", atif(&observed)),
    ]
}

/// Returns values of about this many bytes that are many times larger when parsed.
fn build_bombs(bytes: usize) -> Vec<(&'static str, String)> {
    vec![
        ("objects", repeat_item(bytes, "[", "{}", "]")),
        ("members", repeat_item(bytes, "[", r#"{"a":0}"#, "]")),
        ("numbers", repeat_item(bytes, "[", "0", "]")),
        ("nested", repeat_item(bytes, "[", r#"[[{"a":[{}]}]]"#, "]")),
        ("string", serde_json::to_string(&repeat_item(bytes, r#"{"a":["#, "{}", "]}")).expect("a text")),
        ("number", "1".repeat(bytes)),
    ]
}

fn compress_text(text: &str) -> Bytes {
    use std::io::Write as _;
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(text.as_bytes()).expect("writing to memory");
    packer.finish().expect("writing to memory").into()
}

/// Returns the resident memory of a process, in KiB.
fn read_resident_kib(pid: u32) -> Option<usize> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

async fn post_compressed(world: &World, form: &str, body: Bytes) -> u16 {
    for _ in 0..POSTS_MAX {
        let posted = world.post_events("default", form, &[("content-encoding", "gzip")], body.clone()).await;
        // A small program on a busy machine may ask to send it again, as it does any client.
        if posted.status != 503 {
            assert!(posted.status < 500, "{posted:?}");
            return posted.status;
        }
    }
    panic!("not answered after {POSTS_MAX} posts: {}", world.log_tail());
}

#[tokio::test]
async fn bombs_over_http_and_nats_neither_kill_a_small_program_nor_stay_in_its_memory() {
    let mut world = World::empty();
    world.up_with_memory_limit(LIMIT_KIB).await;
    let first = build_correcting_runs("release", "deploy_service", 0..1).remove(0).to_string();
    assert_eq!(world.post_events("acme", SINGLE, &[], first).await.status, 202);
    world.wait_until_counted("acme", 1).await;
    let (pid, before) = (world.pid(), read_resident_kib(world.pid()).expect("a running process"));
    let bombs_workflow = Workflow::new("bombs").expect("a name");
    let key = WorkflowKey { tenant: Tenant::default_tenant(), workflow: bombs_workflow };
    let mut publisher = world.connect_publisher().await;
    let mut accepted = 0;
    for (name, value) in build_bombs(900 * KIB) {
        for (place, data) in place_in_event(&value) {
            let id = format!("{name}-{place}");
            let packed = compress_text(&build_event(&format!("http-{id}"), &data));
            accepted += u64::from(post_compressed(&world, SINGLE, packed).await == 202);
            let headers = vec![("content-encoding".to_owned(), "gzip".to_owned())];
            let payload = compress_text(&build_event(&format!("nats-{id}"), &data));
            let message = OutgoingEvent { subject: subject::run_completed_subject(&key), headers, payload };
            publisher.publish_event(message).await.expect("the broker accepts it");
        }
    }
    publisher.confirm_all().await.expect("the broker confirms them");
    for (name, value) in build_bombs(16 * MIB) {
        // Two of the largest values at once, as single events and as batches.
        let [one, other] = ["one", "other"].map(|which| {
            let [(_, data), ..] = place_in_event(&value);
            compress_text(&build_event(&format!("{name}-{which}"), &data))
        });
        let statuses =
            tokio::join!(post_compressed(&world, SINGLE, one), post_compressed(&world, SINGLE, other));
        assert_eq!(statuses, (413, 413), "{name}");
        let batch = compress_text(&value);
        tokio::join!(post_compressed(&world, BATCH, batch.clone()), post_compressed(&world, BATCH, batch));
    }
    let store = world.open_store().await;
    let tenant = Tenant::default_tenant();
    world
        .wait_for("every bomb sent over NATS is counted or a dead letter", async || {
            let filter = retro_store::DeadLetterFilter { limit: 1000, ..Default::default() };
            let dead_letters = store.list_dead_letters(&tenant, &filter).await.ok()?.len() as u64;
            let rows = store.list_workflows(&tenant).await.ok()?;
            let counted: u64 = rows.iter().map(|row| row.state.counted).sum();
            (counted >= accepted && counted - accepted + dead_letters == 24).then_some(())
        })
        .await;
    world
        .wait_for("the memory is returned", async || {
            (read_resident_kib(pid)? <= before + REMAINING_KIB).then_some(())
        })
        .await;
    assert_eq!(world.pid(), pid, "the process was not restarted");
    let last = build_correcting_runs("release", "deploy_service", 1..2).remove(0).to_string();
    assert_eq!(world.post_events("acme", SINGLE, &[], last).await.status, 202);
    world.wait_until_counted("acme", 2).await;
    world.stop().await;
}
