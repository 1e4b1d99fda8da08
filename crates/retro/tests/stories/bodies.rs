//! Tests bodies that are too large for an event.

use std::collections::BTreeSet;

use retro_core::id::{Ordinal, RetrospectiveId, Tenant, Workflow, WorkflowKey};
use retro_core::policy::Policy;
use retro_core::sample::{self, Sample};
use serde_json::{Value, json};

use crate::world::{NatsConnection, RunBuilder, World, json_items, json_text};

/// Larger than a body may be inside an event.
const BODY_BYTES: usize = 80 * 1024;
/// Number of runs whose bodies are deleted before the window is full.
const DELETED_RUNS: u64 = 5;

#[tokio::test]
async fn a_large_trajectory_goes_through_the_object_store_and_is_learned_from() {
    let mut world = World::start().await;
    let events: Vec<Value> = (0..10).map(|number| build_large_run("release", number)).collect();
    let file = world.write_events("large.jsonl", &events);
    let sent = world.run_json(&["emit", &file, "--pause-every", "10"]).await;
    assert_eq!((&sent["sent"], &sent["bodies_uploaded"]), (&json!(10), &json!(10)));
    world.wait_until_idle().await;
    for run in json_items(&world.run_json(&["runs"]).await) {
        assert_eq!(run["body"]["location"], "object", "{run}");
    }
    let memories = world.run_json(&["memories", "list", "--status", "active"]).await;
    let about: Vec<_> =
        json_items(&memories).iter().map(|memory| json_text(&memory["lesson"], "subject")).collect();
    assert_eq!(about, ["deploy_service region"], "the runs agree on its value");
    world.verify_store().await;
    world.stop().await;
}

#[tokio::test]
async fn a_body_deleted_before_its_investigation_is_reported_and_replaced_from_the_window() {
    let mut world = World::start().await;
    let (workflow, sample) = find_workflow_sampling_both_halves();
    let events: Vec<Value> = (0..10).map(|number| build_large_run(&workflow, number)).collect();
    let (early, late) = events.split_at(usize::try_from(DELETED_RUNS).unwrap());
    let early = world.write_events("early.jsonl", early);
    world.run_json(&["emit", &early]).await;
    world.wait_until_counted("default", DELETED_RUNS).await;
    delete_every_body(world.nats_url()).await;
    world.emit_and_wait("default", "late.jsonl", late).await;

    let rows = world.run_json(&["retrospectives", "list"]).await;
    let report = world.run_json(&["reports", "show", json_text(&rows[0]["retrospective"], "id")]).await;
    assert_eq!(report["ended"], "closed");
    let investigated: Vec<(Ordinal, &str, bool)> = json_items(&report["investigations"])
        .iter()
        .map(|one| (one["ordinal"].as_u64().unwrap(), json_text(one, "result"), one["replacement"] == true))
        .collect();
    assert_eq!(investigated, expected_investigations(&sample));
    let gone: Vec<_> =
        json_items(&report["investigations"]).iter().filter(|one| one["result"] == "body_gone").collect();
    assert!(gone.iter().all(|one| json_text(one, "error").contains("no such object")), "{gone:?}");
    let markdown = world.run_retro(&["reports", "show", json_text(&report, "id"), "--markdown"]).await.out;
    assert!(markdown.contains("no such object"), "{markdown}");
    world.verify_store().await;
    world.stop().await;
}

/// Returns a workflow whose first sample draws from both halves of the window, and that sample. The sample is
/// derived from the workflow's name.
fn find_workflow_sampling_both_halves() -> (String, Sample) {
    let draw = |name: String| {
        let workflow = Workflow::new(name.clone()).expect("a name");
        let key = WorkflowKey { tenant: Tenant::default_tenant(), workflow };
        let sample =
            sample::draw_sample(RetrospectiveId::of_epoch(&key, 1), (1..=10).collect(), &Policy::default());
        (name, sample)
    };
    let drawn =
        |sample: &Sample| sample.order[..4].iter().filter(|ordinal| **ordinal <= DELETED_RUNS).count();
    (1..)
        .map(|nth| draw(format!("release-{nth}")))
        .find(|(_, sample)| drawn(sample) == 2)
        .expect("one of many names")
}

/// Returns the sampled runs, followed by one replacement for each run without a body.
fn expected_investigations(sample: &Sample) -> Vec<(Ordinal, &'static str, bool)> {
    let (mut sample_size, mut investigated, mut seen) = (sample.size, Vec::new(), BTreeSet::new());
    for (nth, ordinal) in sample.order.iter().enumerate() {
        if nth as u32 >= sample_size {
            break;
        }
        assert!(seen.insert(ordinal), "an order contains a run once");
        let gone = *ordinal <= DELETED_RUNS;
        sample_size += u32::from(gone);
        investigated.push((*ordinal, if gone { "body_gone" } else { "found" }, nth as u32 >= sample.size));
    }
    investigated
}

fn build_large_run(workflow: &str, number: u64) -> Value {
    let listing = format!("release {number}\n{}", "a line of a long listing\n".repeat(BODY_BYTES / 25));
    let run = RunBuilder::new(workflow, &format!("{workflow}-{number}")).with_message("Deploy the service.");
    run.with_call("list_releases", &json!({}), &listing)
        .with_corrected_call("deploy_service", "region")
        .build_event()
}

/// Deletes all bodies from the broker, as a client with too many permissions could.
async fn delete_every_body(url: &str) {
    let answer =
        NatsConnection::connect(url).await.request_api("STREAM.PURGE.OBJ_retro-bodies", &Value::Null).await;
    assert!(answer["success"] == true && answer["purged"].as_u64() > Some(0), "{answer}");
}
