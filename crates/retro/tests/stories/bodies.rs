//! Bodies too large for an event.

use std::collections::BTreeSet;

use retro_core::id::{Ordinal, RetrospectiveId, Tenant, Workflow, WorkflowKey};
use retro_core::policy::Policy;
use retro_core::sample::{self, Sample};
use serde_json::{Value, json};

use crate::world::{Run, Wire, World, items, text};

/// Above what travels within an event.
const BODY_BYTES: usize = 80 * 1024;
/// Runs whose bodies are deleted before the window is full.
const DELETED: u64 = 5;

#[tokio::test]
async fn a_large_trajectory_goes_through_the_object_store_and_is_learned_from() {
    let mut world = World::start().await;
    let events: Vec<Value> = (0..10).map(|number| large("release", number)).collect();
    let file = world.write_events("large.jsonl", &events);
    let sent = world.ask(&["emit", &file, "--pace", "10"]).await;
    assert_eq!((&sent["sent"], &sent["bodies_uploaded"]), (&json!(10), &json!(10)));
    world.still().await;
    for run in items(&world.ask(&["runs"]).await) {
        assert_eq!(run["body"]["in"], "object", "{run}");
    }
    let memories = world.ask(&["memories", "list", "--status", "active"]).await;
    let about: Vec<_> = items(&memories).iter().map(|memory| text(&memory["lesson"], "subject")).collect();
    assert!(about.contains(&"deploy_service"), "{about:?}");
    world.sound().await;
    world.stop().await;
}

#[tokio::test]
async fn a_body_deleted_before_its_investigation_is_reported_and_replaced_from_the_window() {
    let mut world = World::start().await;
    let (workflow, sample) = workflow_that_draws_both();
    let events: Vec<Value> = (0..10).map(|number| large(&workflow, number)).collect();
    let (early, late) = events.split_at(usize::try_from(DELETED).unwrap());
    let early = world.write_events("early.jsonl", early);
    world.ask(&["emit", &early]).await;
    world.counted("default", DELETED).await;
    delete_every_body(world.nats_url()).await;
    world.emit("default", "late.jsonl", late).await;

    let rows = world.ask(&["retrospectives", "list"]).await;
    let report = world.ask(&["reports", "show", text(&rows[0]["retrospective"], "id")]).await;
    assert_eq!(report["ended"], "closed");
    let looked: Vec<(Ordinal, &str, bool)> = items(&report["investigations"])
        .iter()
        .map(|one| (one["ordinal"].as_u64().unwrap(), text(one, "result"), one["replacement"] == true))
        .collect();
    assert_eq!(looked, expected(&sample));
    let gone: Vec<_> =
        items(&report["investigations"]).iter().filter(|one| one["result"] == "body_gone").collect();
    assert!(gone.iter().all(|one| text(one, "problem").contains("no such object")), "{gone:?}");
    let markdown = world.retro(&["reports", "show", text(&report, "id"), "--markdown"]).await.out;
    assert!(markdown.contains("no such object"), "{markdown}");
    world.sound().await;
    world.stop().await;
}

/// A workflow whose first sample draws from both halves of the window: a sample follows from the workflow's name.
fn workflow_that_draws_both() -> (String, Sample) {
    let draw = |name: String| {
        let workflow = Workflow::new(name.clone()).expect("a name");
        let key = WorkflowKey { tenant: Tenant::default_tenant(), workflow };
        let sample =
            sample::draw_sample(RetrospectiveId::of_epoch(&key, 1), (1..=10).collect(), &Policy::default());
        (name, sample)
    };
    let drawn = |sample: &Sample| sample.order[..4].iter().filter(|ordinal| **ordinal <= DELETED).count();
    (1..)
        .map(|nth| draw(format!("release-{nth}")))
        .find(|(_, sample)| drawn(sample) == 2)
        .expect("one of many")
}

/// The sample, and after it one more run for each whose body is gone.
fn expected(sample: &Sample) -> Vec<(Ordinal, &'static str, bool)> {
    let (mut wanted, mut looked, mut seen) = (sample.size, Vec::new(), BTreeSet::new());
    for (nth, ordinal) in sample.order.iter().enumerate() {
        if nth as u32 >= wanted {
            break;
        }
        assert!(seen.insert(ordinal), "an order names a run once");
        let gone = *ordinal <= DELETED;
        wanted += u32::from(gone);
        looked.push((*ordinal, if gone { "body_gone" } else { "found" }, nth as u32 >= sample.size));
    }
    looked
}

fn large(workflow: &str, number: u64) -> Value {
    let listing = format!("release {number}\n{}", "a line of a long listing\n".repeat(BODY_BYTES / 25));
    let run = Run::new(workflow, &format!("{workflow}-{number}")).told("Deploy the service.");
    run.call("list_releases", &json!({}), &listing).mends("deploy_service", "region").event()
}

/// Empties the broker's bucket of bodies, as somebody with too much right could: by the broker's own protocol.
async fn delete_every_body(url: &str) {
    let answer = Wire::to(url).await.ask("STREAM.PURGE.OBJ_retro-bodies", &Value::Null).await;
    assert!(answer["success"] == true && answer["purged"].as_u64() > Some(0), "{answer}");
}
