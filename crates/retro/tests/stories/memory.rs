//! Small messages that are large as trees of values, played against a program that may not grow: it refuses them or counts
//! them, goes on, and is as small again as it was.

use bytes::Bytes;
use retro_bus::OutgoingEvent;
use retro_core::id::{Tenant, Workflow, WorkflowKey};
use retro_events::run_completed::TYPE;
use retro_events::subject;

use crate::world::{World, mending};

const SINGLE: &str = "application/cloudevents+json";
const BATCH: &str = "application/cloudevents-batch+json";
const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
/// What the program may have of private memory: the limit of a gateway in `deploy/kubernetes`, and the stacks of its threads,
/// which are counted whole though little of them is used.
const LIMIT_KIB: usize = (256 + 128) * KIB;
/// What may be left of the bombs when they are done.
const LEFT_KIB: usize = 24 * KIB;

/// A text of so many bytes at least: `item` again and again.
fn filled(bytes: usize, open: &str, item: &str, close: &str) -> String {
    let items = vec![item; bytes / (item.len() + 1) + 1];
    format!("{open}{}{close}", items.join(","))
}

/// An event with this in its data, of the workflow `bombs`.
fn event(id: &str, more: &str) -> String {
    format!(
        r#"{{"specversion":"1.0","type":"{TYPE}","source":"s","id":"{id}","data":{{"workflow":"bombs","run_id":"{id}","outcome":"success",{more}}}}}"#
    )
}

/// Places for a value of an event's data.
fn places(value: &str) -> [(&'static str, String); 4] {
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

/// Values of about so many bytes that would be many times larger as a tree.
fn bombs(bytes: usize) -> Vec<(&'static str, String)> {
    vec![
        ("objects", filled(bytes, "[", "{}", "]")),
        ("members", filled(bytes, "[", r#"{"a":0}"#, "]")),
        ("numbers", filled(bytes, "[", "0", "]")),
        ("nested", filled(bytes, "[", r#"[[{"a":[{}]}]]"#, "]")),
        ("string", serde_json::to_string(&filled(bytes, r#"{"a":["#, "{}", "]}")).expect("a text")),
        ("number", "1".repeat(bytes)),
    ]
}

fn gzip(text: &str) -> Bytes {
    use std::io::Write as _;
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(text.as_bytes()).expect("memory");
    packer.finish().expect("memory").into()
}

/// What the program has of memory now, KiB.
fn resident_kib(pid: u32) -> Option<usize> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

async fn post(world: &World, form: &str, body: Bytes) -> u16 {
    let posted = world.post_events("default", form, &[("content-encoding", "gzip")], body).await;
    assert!(posted.status < 500, "{posted:?}");
    posted.status
}

#[tokio::test]
async fn bombs_over_http_and_nats_neither_end_a_small_program_nor_stay_in_its_memory() {
    let mut world = World::empty();
    world.up_under_limit(LIMIT_KIB).await;
    let first = mending("release", "deploy_service", 0..1).remove(0).to_string();
    assert_eq!(world.post_events("acme", SINGLE, &[], first).await.status, 202);
    world.counted("acme", 1).await;
    let (pid, before) = (world.pid(), resident_kib(world.pid()).expect("it runs"));
    let bombs_workflow = Workflow::new("bombs").expect("a name");
    let key = WorkflowKey { tenant: Tenant::default_tenant(), workflow: bombs_workflow };
    let mut publisher = world.publisher().await;
    let mut taken = 0;
    for (name, value) in bombs(900 * KIB) {
        for (place, data) in places(&value) {
            let id = format!("{name}-{place}");
            let packed = gzip(&event(&format!("http-{id}"), &data));
            taken += u64::from(post(&world, SINGLE, packed).await == 202);
            let headers = vec![("content-encoding".to_owned(), "gzip".to_owned())];
            let payload = gzip(&event(&format!("nats-{id}"), &data));
            let message = OutgoingEvent { subject: subject::run_completed_subject(&key), headers, payload };
            publisher.publish_event(message).await.expect("the broker takes it");
        }
    }
    publisher.confirm_all().await.expect("the broker has them");
    for (name, value) in bombs(16 * MIB) {
        // Two of the largest at once, as single events and as batches.
        let [one, other] = ["one", "other"].map(|which| {
            let [(_, data), ..] = places(&value);
            gzip(&event(&format!("{name}-{which}"), &data))
        });
        let statuses = tokio::join!(post(&world, SINGLE, one), post(&world, SINGLE, other));
        assert_eq!(statuses, (413, 413), "{name}");
        let batch = gzip(&value);
        tokio::join!(post(&world, BATCH, batch.clone()), post(&world, BATCH, batch));
    }
    let store = world.store().await;
    let tenant = Tenant::default_tenant();
    world
        .until("every bomb of the broker's is counted or a dead letter", async || {
            let filter = retro_store::DeadLetterFilter { limit: 1000, ..Default::default() };
            let letters = store.list_dead_letters(&tenant, &filter).await.ok()?.len() as u64;
            let rows = store.list_workflows(&tenant).await.ok()?;
            let counted: u64 = rows.iter().map(|row| row.state.counted).sum();
            (counted >= taken && counted - taken + letters == 24).then_some(())
        })
        .await;
    world
        .until("the memory is given back", async || (resident_kib(pid)? <= before + LEFT_KIB).then_some(()))
        .await;
    assert_eq!(world.pid(), pid, "it is the same process");
    let last = mending("release", "deploy_service", 1..2).remove(0).to_string();
    assert_eq!(world.post_events("acme", SINGLE, &[], last).await.status, 202);
    world.counted("acme", 2).await;
    world.stop().await;
}
