//! One trace from an emitter's event to the change that it caused, as a collector receives it.

use std::collections::BTreeMap;

use retro_bus::OutgoingEvent;
use retro_core::id::{Tenant, Workflow, WorkflowKey};
use retro_events::subject;
use retro_testkit::{Collector, ReceivedSpan};
use serde_json::{Value, json};

use crate::world::{BRIDGED, Webhook, World, carry_out, event, items, mending, text};

const EMIT: &str = "retro emit";
const SENT_EVENT: &str = "send retro.run.completed";
const COUNTED: &str = "count run";
const SENT_DUE: &str = "send retro.work.retrospective.due";
const SAMPLED: &str = "process retro.work.retrospective.due";
const INVESTIGATED: &str = "investigate run";
const SETTLED: &str = "settle";
const SENT_MUTATIONS: &str = "send retro.work.mutations.due";
const WRITTEN: &str = "process retro.work.mutations.due";
const SENT_CHANGE: &str = "send retro.memory.changed";

/// What a traced process is given; spans leave at once, so that a test does not wait for a full batch.
fn traced(collector: &Collector) -> [(&'static str, String); 2] {
    [("RETRO_OTLP_ENDPOINT", collector.url().to_owned()), ("OTEL_BSP_SCHEDULE_DELAY", "50".to_owned())]
}

async fn up_traced(world: &mut World, collector: &Collector, more: &[(&str, &str)]) {
    let traced = traced(collector);
    let given = traced.iter().map(|(name, value)| (*name, value.as_str()));
    world.up_with(&given.chain(more.iter().copied()).collect::<Vec<_>>()).await;
}

/// Emits as a tool that traces calls it; returns the trace's id.
async fn emit_traced(world: &World, collector: &Collector, events: &[Value], trace: u128) -> String {
    let file = world.write_events("traced.jsonl", events);
    let mut emit = world.command(&["emit", &file]);
    emit.envs(traced(collector)).env("TRACEPARENT", format!("00-{trace:032x}-00f067aa0ba902b7-01"));
    let answer = carry_out(&mut emit).await;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    format!("{trace:032x}")
}

/// The spans of one trace, and who is whose parent.
struct Tree {
    spans: Vec<ReceivedSpan>,
}

impl Tree {
    fn of(spans: &[ReceivedSpan], trace: &str) -> Self {
        let mut spans: Vec<_> = spans.iter().filter(|span| span.trace == trace).cloned().collect();
        spans.sort_by_key(|span| span.start);
        Self { spans }
    }

    fn named(&self, name: &str) -> Vec<&ReceivedSpan> {
        self.spans.iter().filter(|span| span.name == name).collect()
    }

    fn only(&self, name: &str) -> &ReceivedSpan {
        let found = self.named(name);
        assert_eq!(found.len(), 1, "{name}:\n{}", self.printed());
        found[0]
    }

    fn parent(&self, span: &ReceivedSpan) -> &ReceivedSpan {
        let parent = self.spans.iter().find(|one| one.id == span.parent);
        parent.unwrap_or_else(|| panic!("{} has no parent:\n{}", span.name, self.printed()))
    }

    /// The names from a span up to the first of its trace.
    fn way_up(&self, span: &ReceivedSpan) -> Vec<&str> {
        let mut names = vec![];
        let mut at = span.parent.clone();
        while let Some(parent) = self.spans.iter().find(|one| one.id == at) {
            names.push(parent.name.as_str());
            at.clone_from(&parent.parent);
        }
        names
    }

    /// For people: each span under its parent, with who sent it, how long it took and what it says.
    fn printed(&self) -> String {
        let mut below: BTreeMap<&str, Vec<&ReceivedSpan>> = BTreeMap::new();
        let is_known = |id: &str| self.spans.iter().any(|span| span.id == id);
        for span in &self.spans {
            let parent = if is_known(&span.parent) { span.parent.as_str() } else { "" };
            below.entry(parent).or_default().push(span);
        }
        let mut out = String::new();
        print_below(&below, "", 0, &mut out);
        out
    }
}

fn print_below(below: &BTreeMap<&str, Vec<&ReceivedSpan>>, parent: &str, depth: usize, out: &mut String) {
    const SAID: [&str; 9] = [
        "cicd.pipeline.run.id",
        "retro.ordinal",
        "retro.investigation.number",
        "retro.investigation.attempt",
        "retro.investigation.result",
        "retro.mutations",
        "retro.delivered",
        "messaging.consumer.group.name",
        "error.type",
    ];
    for span in below.get(parent).into_iter().flatten() {
        let took = (span.end - span.start) as f64 / 1e6;
        let said = SAID.iter().filter_map(|name| {
            let short = name.rsplit('.').next().unwrap_or(name);
            Some(format!(" {short}={}", span.attributes.get(*name)?))
        });
        let mut links: BTreeMap<&str, usize> = BTreeMap::new();
        for link in &span.links {
            *links.entry(link.attributes["retro.relation"].as_str()).or_default() += 1;
        }
        let links = links.iter().map(|(relation, count)| format!(" [{count} linked: {relation}]"));
        let line: String = said.chain(links).collect();
        out.push_str(&format!("{}{} ({took:.1} ms){line}\n", "  ".repeat(depth), span.name));
        print_below(below, &span.id, depth + 1, out);
    }
}

#[tokio::test]
async fn one_trace_leads_from_an_emitters_event_to_the_change() {
    let collector = Collector::start().await;
    let mut world = World::empty();
    up_traced(&mut world, &collector, &[]).await;
    let trace = emit_traced(&world, &collector, &mending("w", "deploy_service", 0..10), 0xa11).await;
    world.counted("default", 10).await;
    world.still().await;
    // Each is sent on its own, in whatever order it ends; what is not sent while the process runs may be lost with it.
    let sent = |spans: &[ReceivedSpan], name: &str| {
        spans.iter().filter(|span| span.trace == trace && span.name == name).count()
    };
    let all = [(EMIT, 1), (COUNTED, 10), (INVESTIGATED, 4), (SETTLED, 1), (WRITTEN, 1), (SENT_CHANGE, 1)];
    let spans =
        collector.wait_for_spans(|spans| all.iter().all(|(name, times)| sent(spans, name) >= *times)).await;
    world.stop().await;
    let tree = Tree::of(&spans, &trace);
    println!("{}", tree.printed());

    assert_eq!(tree.only(EMIT).parent, "00f067aa0ba902b7", "it continues what called it");
    assert_eq!((tree.named(SENT_EVENT).len(), tree.named(COUNTED).len()), (10, 10));
    let (due, sampled) = (tree.only(SENT_DUE), tree.only(SAMPLED));
    assert_eq!(tree.way_up(sampled), [SENT_DUE, COUNTED, SENT_EVENT, EMIT]);
    assert_eq!(tree.parent(due).attributes["cicd.pipeline.run.id"], "w-9", "the run that filled the window");
    let relations = |span: &ReceivedSpan, relation: &str| {
        span.links.iter().filter(|link| link.attributes["retro.relation"] == relation).count()
    };
    assert_eq!(relations(sampled, "window"), 9, "the others of the window");

    let investigated = tree.named(INVESTIGATED);
    assert_eq!(investigated.len(), 4);
    let mut before = sampled;
    for (one, number) in investigated.iter().zip(1..) {
        assert_eq!(one.attributes["retro.investigation.number"], number.to_string());
        assert_eq!(one.parent, before.id, "{number}:\n{}", tree.printed());
        assert_eq!(relations(one, "run"), 1, "to where its run was counted");
        before = one;
    }
    assert_eq!(tree.only(SETTLED).parent, before.id);
    assert_eq!(tree.only(SENT_MUTATIONS).parent, before.id);
    let written = tree.only(WRITTEN);
    assert_eq!(tree.parent(written).name, SENT_MUTATIONS);
    let changes = tree.named(SENT_CHANGE);
    assert!(changes.iter().all(|change| change.parent == written.id), "{}", tree.printed());
    assert!(spans.iter().all(|span| !span.failed), "{}", tree.printed());
    says_nothing_of_tenants_or_contents(&spans);
}

/// What stands in runs stays there.
fn says_nothing_of_tenants_or_contents(spans: &[ReceivedSpan]) {
    for span in spans {
        for (name, value) in &span.attributes {
            assert!(!value.contains("default") && !value.contains("missing required"), "{name}: {value}");
        }
    }
}

#[tokio::test]
async fn what_is_delivered_again_is_linked_to_its_trace_and_does_not_continue_it() {
    let collector = Collector::start().await;
    let mut world = World::empty();
    let quick = [("RETRO_ACK_WAIT_S", "1")];
    up_traced(&mut world, &collector, &[quick[0], ("FAULT_CRASH", "sample.commit:before")]).await;
    let trace = emit_traced(&world, &collector, &mending("w", "deploy_service", 0..10), 0xa12).await;
    world.crashed().await;
    up_traced(&mut world, &collector, &quick).await;
    world.counted("default", 10).await;
    world.still().await;
    let again = |span: &&ReceivedSpan| span.name == SAMPLED && span.attributes["retro.delivered"] != "1";
    let spans = collector.wait_for_spans(|spans| spans.iter().any(|span| again(&span))).await;
    let sampled = spans.iter().find(again).expect("it was waited for");
    println!("{}", Tree::of(&spans, &sampled.trace).printed());
    assert_eq!(sampled.parent, "");
    assert_ne!(sampled.trace, trace);
    let links: Vec<_> = sampled
        .links
        .iter()
        .map(|link| (link.trace.as_str(), link.attributes.get("retro.relation")))
        .collect();
    assert!(links.contains(&(trace.as_str(), Some(&"again".to_owned()))), "{links:?}");
    world.stop().await;
}

#[tokio::test]
async fn a_replayed_dead_letter_is_linked_to_its_trace_and_does_not_continue_it() {
    let collector = Collector::start().await;
    let mut world = World::empty();
    up_traced(&mut world, &collector, &[]).await;
    // A body at a host that is not allowed.
    let body = json!({"url": "https://runs.example.com/one.json", "sha256": "0".repeat(64)});
    let data = json!({"workflow": "shop", "run_id": "one", "outcome": "success", "dataref": body});
    publish_traced(&world, "shop", &event("event of one", &data), 0xa15).await;
    let letter = only_letter(&world).await;
    world.stop().await;

    up_traced(&mut world, &collector, &[("RETRO_DATAREF_HOSTS", "runs.example.com")]).await;
    let told = world.ask(&["dead-letters", "replay", &letter, "--reason", "the host is allowed"]).await;
    assert_eq!(told["did"], "done", "{told}");
    world.counted("default", 1).await;
    let spans = collector.wait_for_spans(|spans| spans.iter().any(|span| span.name == COUNTED)).await;
    let counted: Vec<_> = spans.iter().filter(|span| span.name == COUNTED).collect();
    assert_eq!(counted.len(), 1, "what is refused is no run");
    let trace = format!("{:032x}", 0xa15);
    assert_eq!(counted[0].parent, "");
    assert_ne!(counted[0].trace, trace);
    assert_eq!(linked(counted[0], "again"), [trace]);
    world.stop().await;
}

#[tokio::test]
async fn a_failed_retrospective_that_is_replayed_is_linked_to_its_runs_and_continues_none() {
    let collector = Collector::start().await;
    let mut world = World::empty();
    up_traced(&mut world, &collector, &[]).await;
    let runs = 0..10;
    for number in runs.clone() {
        // Bodies that are nowhere.
        let body = json!({"name": format!("default/{number:064x}"), "sha256": format!("{number:064x}"), "bytes": 70_000});
        let run = format!("shop-{number}");
        let data = json!({"workflow": "shop", "run_id": run, "outcome": "success", "dataref": body});
        publish_traced(&world, "shop", &event(&format!("event of {run}"), &data), 0xb00 + number).await;
    }
    let letter = only_letter(&world).await;
    let told = world.ask(&["dead-letters", "replay", &letter, "--reason", "the bodies are back"]).await;
    assert_eq!((&told["did"], &told["epoch"]), (&json!("done"), &json!(2)), "{told}");
    let sampled = |spans: &[ReceivedSpan]| -> Vec<ReceivedSpan> {
        spans.iter().filter(|span| span.name == SAMPLED).cloned().collect()
    };
    let spans = collector.wait_for_spans(|spans| sampled(spans).len() == 2).await;
    let traces: Vec<String> = runs.map(|number| format!("{:032x}", 0xb00 + number)).collect();
    let (first, second): (Vec<_>, Vec<_>) =
        sampled(&spans).into_iter().partition(|span| traces.contains(&span.trace));
    assert_eq!((first.len(), second.len()), (1, 1), "only the first continues a run");
    let (first, second) = (&first[0], &second[0]);
    assert_ne!(first.parent, "");
    assert_eq!(second.parent, "", "a replay is no part of what it repeats");
    let mut window = linked(second, "window");
    window.sort_unstable();
    assert_eq!(window, traces);
    world.stop().await;
}

/// The traces that a span is linked to in one way.
fn linked(span: &ReceivedSpan, relation: &str) -> Vec<String> {
    let links = span.links.iter().filter(|link| link.attributes["retro.relation"] == relation);
    links.map(|link| link.trace.clone()).collect()
}

/// Publishes an event as an engine that traces does.
async fn publish_traced(world: &World, workflow: &str, event: &Value, trace: u128) {
    let workflow = Workflow::new(workflow).expect("a name");
    let subject = subject::run_completed_subject(&WorkflowKey { tenant: Tenant::default_tenant(), workflow });
    let headers = vec![
        ("content-type".to_owned(), "application/cloudevents+json".to_owned()),
        ("traceparent".to_owned(), format!("00-{trace:032x}-00f067aa0ba902b7-01")),
    ];
    let event = OutgoingEvent { subject, headers, payload: event.to_string().into() };
    let mut publisher = world.publisher().await;
    publisher.publish_event(event).await.expect("the broker takes it");
    publisher.confirm_all().await.expect("the broker has it");
}

/// Waits for the only dead letter; returns its id.
async fn only_letter(world: &World) -> String {
    let listed = async || {
        let listed = world.ask(&["dead-letters", "list"]).await;
        (!items(&listed).is_empty()).then_some(listed)
    };
    let listed = world.until("a letter is there", listed).await;
    assert_eq!(items(&listed).len(), 1, "{listed}");
    text(&items(&listed)[0], "id").to_owned()
}

#[tokio::test]
async fn a_request_over_http_continues_its_callers_trace() {
    let collector = Collector::start().await;
    let mut world = World::empty();
    up_traced(&mut world, &collector, &[]).await;
    let event = mending("w", "deploy_service", 0..1).remove(0);
    let trace = format!("{:032x}", 0xa13);
    let answer = reqwest::Client::new()
        .post(format!("{}/v1/events", world.http_url()))
        .header("content-type", "application/cloudevents+json")
        .header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01"))
        .body(event.to_string())
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 202);
    let counted =
        |spans: &[ReceivedSpan]| spans.iter().any(|span| span.trace == trace && span.name == COUNTED);
    let spans =
        collector.wait_for_spans(|spans| counted(spans) && spans.iter().any(|span| span.kind == 2)).await;
    let tree = Tree::of(&spans, &trace);
    assert_eq!(tree.way_up(tree.only(COUNTED)), [SENT_EVENT, "POST /v1/events"]);
    assert_eq!(tree.only("POST /v1/events").attributes["http.response.status_code"], "202");
    world.stop().await;
}

/// Whoever takes messages in batches has a span a batch, linked to each.
#[tokio::test]
async fn a_webhook_is_one_trace_to_whoever_takes_it() {
    const TAKEN: &str = "process retro.github";
    let collector = Collector::start().await;
    let mut world = World::empty();
    up_traced(&mut world, &collector, &BRIDGED).await;
    let trace = format!("{:032x}", 0xa16);
    let webhook = world.webhook_request(&Webhook::real("pull_request", "delivery-1", "opened"));
    let webhook = webhook.header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01"));
    assert_eq!(webhook.send().await.expect("it answers").status(), 202);
    let by = |span: &ReceivedSpan, consumer: &str| {
        span.name == TAKEN && span.attributes["messaging.consumer.group.name"] == consumer
    };
    let spans = collector
        .wait_for_spans(|spans| {
            let taken = |consumer| spans.iter().any(|span| by(span, consumer));
            taken("tracker")
                && taken("reviewer")
                && spans.iter().any(|span| span.trace == trace && span.kind == 2)
        })
        .await;
    let tree = Tree::of(&spans, &trace);
    println!("{}", tree.printed());
    assert_eq!(tree.only("POST /github/webhook").attributes["http.response.status_code"], "202");
    assert_eq!(tree.way_up(tree.only(TAKEN)), ["send retro.github", "POST /github/webhook"]);
    assert!(by(tree.only(TAKEN), "tracker"));
    let heard = spans.iter().find(|span| by(span, "reviewer")).expect("it was waited for");
    assert_eq!(linked(heard, "message"), [trace]);
    world.stop().await;
}

#[tokio::test]
async fn without_a_collector_nothing_is_sent_and_a_trace_is_passed_on_all_the_same() {
    let mut world = World::start().await;
    let file = world.write_events("runs.jsonl", &mending("w", "deploy_service", 0..10));
    let mut emit = world.command(&["emit", &file]);
    let answer = carry_out(emit.env("TRACEPARENT", format!("00-{:032x}-00f067aa0ba902b7-01", 0xa14))).await;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    world.counted("default", 10).await;
    world.still().await;
    let store = world.store().await;
    let tenant = retro_core::id::Tenant::default_tenant();
    let row = store.list_retrospectives(&tenant, None, 1).await.unwrap().remove(0);
    let trace = store.find_retrospective_trace(&tenant, row.retrospective.id).await.unwrap();
    assert_eq!(trace.map(|trace| trace.trace_id), Some(0xa14));
    assert!(!world.export().await.contains("00f067aa0ba902b7"), "what is equal has no traces in it");
    world.stop().await;
}
