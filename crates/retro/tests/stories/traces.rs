//! Follows one trace from an emitted event to the memory change that it caused, as a collector receives it.

use std::collections::BTreeMap;

use retro_bus::OutgoingEvent;
use retro_core::id::{Tenant, Workflow, WorkflowKey};
use retro_eval::http_client::configure_client;
use retro_events::subject;
use retro_testkit::{Collector, ReceivedSpan};
use serde_json::{Value, json};

use crate::world::{
    BRIDGE_ENV, Webhook, World, build_correcting_runs, build_event, json_items, json_text, run_command,
};

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

/// Environment of a traced process. Spans are exported at once, so a test does not wait for a full batch.
fn tracing_variables(collector: &Collector) -> [(&'static str, String); 2] {
    [("RETRO_OTLP_ENDPOINT", collector.url().to_owned()), ("OTEL_BSP_SCHEDULE_DELAY", "50".to_owned())]
}

async fn up_with_tracing(world: &mut World, collector: &Collector, more: &[(&str, &str)]) {
    let traced = tracing_variables(collector);
    let given = traced.iter().map(|(name, value)| (*name, value.as_str()));
    world.up_with_env(&given.chain(more.iter().copied()).collect::<Vec<_>>()).await;
}

/// Runs `retro emit` within a caller's trace and returns the trace id.
async fn emit_with_trace(world: &World, collector: &Collector, events: &[Value], trace: u128) -> String {
    let file = world.write_events("traced.jsonl", events);
    let mut emit = world.command(&["emit", &file]);
    emit.envs(tracing_variables(collector))
        .env("TRACEPARENT", format!("00-{trace:032x}-00f067aa0ba902b7-01"));
    let answer = run_command(&mut emit).await;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    format!("{trace:032x}")
}

/// The spans of one trace, sorted by start time.
struct SpanTree {
    spans: Vec<ReceivedSpan>,
}

impl SpanTree {
    fn of_trace(spans: &[ReceivedSpan], trace: &str) -> Self {
        let mut spans: Vec<_> = spans.iter().filter(|span| span.trace == trace).cloned().collect();
        spans.sort_by_key(|span| span.start);
        Self { spans }
    }

    fn find_named(&self, name: &str) -> Vec<&ReceivedSpan> {
        self.spans.iter().filter(|span| span.name == name).collect()
    }

    fn find_only(&self, name: &str) -> &ReceivedSpan {
        let found = self.find_named(name);
        assert_eq!(found.len(), 1, "{name}:\n{}", self.render_tree());
        found[0]
    }

    fn find_parent(&self, span: &ReceivedSpan) -> &ReceivedSpan {
        let parent = self.spans.iter().find(|one| one.id == span.parent);
        parent.unwrap_or_else(|| panic!("{} has no parent:\n{}", span.name, self.render_tree()))
    }

    /// Returns the names of a span's ancestors, nearest first.
    fn ancestor_names(&self, span: &ReceivedSpan) -> Vec<&str> {
        let mut names = vec![];
        let mut at = span.parent.clone();
        while let Some(parent) = self.spans.iter().find(|one| one.id == at) {
            names.push(parent.name.as_str());
            at.clone_from(&parent.parent);
        }
        names
    }

    /// Renders the spans as a tree for the test's output, with duration, attributes and links.
    fn render_tree(&self) -> String {
        let mut below: BTreeMap<&str, Vec<&ReceivedSpan>> = BTreeMap::new();
        let is_known = |id: &str| self.spans.iter().any(|span| span.id == id);
        for span in &self.spans {
            let parent = if is_known(&span.parent) { span.parent.as_str() } else { "" };
            below.entry(parent).or_default().push(span);
        }
        let mut out = String::new();
        render_children(&below, "", 0, &mut out);
        out
    }
}

fn render_children(below: &BTreeMap<&str, Vec<&ReceivedSpan>>, parent: &str, depth: usize, out: &mut String) {
    const SHOWN_ATTRIBUTES: [&str; 9] = [
        "cicd.pipeline.run.id",
        "retro.ordinal",
        "retro.investigation.number",
        "retro.investigation.attempt",
        "retro.investigation.result",
        "retro.mutations",
        "retro.delivery_count",
        "messaging.consumer.group.name",
        "error.type",
    ];
    for span in below.get(parent).into_iter().flatten() {
        let took = (span.end - span.start) as f64 / 1e6;
        let attributes = SHOWN_ATTRIBUTES.iter().filter_map(|name| {
            let short = name.rsplit('.').next().unwrap_or(name);
            Some(format!(" {short}={}", span.attributes.get(*name)?))
        });
        let mut links: BTreeMap<&str, usize> = BTreeMap::new();
        for link in &span.links {
            *links.entry(link.attributes["retro.relation"].as_str()).or_default() += 1;
        }
        let links = links.iter().map(|(relation, count)| format!(" [{count} linked: {relation}]"));
        let line: String = attributes.chain(links).collect();
        out.push_str(&format!("{}{} ({took:.1} ms){line}\n", "  ".repeat(depth), span.name));
        render_children(below, &span.id, depth + 1, out);
    }
}

#[tokio::test]
async fn one_trace_leads_from_an_emitters_event_to_the_change() {
    let collector = Collector::start().await;
    let mut world = World::empty();
    up_with_tracing(&mut world, &collector, &[]).await;
    let trace =
        emit_with_trace(&world, &collector, &build_correcting_runs("w", "deploy_service", 0..10), 0xa11)
            .await;
    world.wait_until_counted("default", 10).await;
    world.wait_until_idle().await;
    // Spans are exported one by one as they end; those not exported while the process runs may be lost with
    // it.
    let sent = |spans: &[ReceivedSpan], name: &str| {
        spans.iter().filter(|span| span.trace == trace && span.name == name).count()
    };
    let all = [(EMIT, 1), (COUNTED, 10), (INVESTIGATED, 4), (SETTLED, 1), (WRITTEN, 1), (SENT_CHANGE, 1)];
    let spans =
        collector.wait_for_spans(|spans| all.iter().all(|(name, times)| sent(spans, name) >= *times)).await;
    world.stop().await;
    let tree = SpanTree::of_trace(&spans, &trace);
    println!("{}", tree.render_tree());

    assert_eq!(tree.find_only(EMIT).parent, "00f067aa0ba902b7", "the span continues the caller's trace");
    assert_eq!((tree.find_named(SENT_EVENT).len(), tree.find_named(COUNTED).len()), (10, 10));
    let (due, sampled) = (tree.find_only(SENT_DUE), tree.find_only(SAMPLED));
    assert_eq!(tree.ancestor_names(sampled), [SENT_DUE, COUNTED, SENT_EVENT, EMIT]);
    assert_eq!(
        tree.find_parent(due).attributes["cicd.pipeline.run.id"],
        "w-9",
        "the run that filled the window"
    );
    let relations = |span: &ReceivedSpan, relation: &str| {
        span.links.iter().filter(|link| link.attributes["retro.relation"] == relation).count()
    };
    assert_eq!(relations(sampled, "window"), 9, "the others of the window");

    let investigated = tree.find_named(INVESTIGATED);
    assert_eq!(investigated.len(), 4);
    let mut before = sampled;
    for (one, number) in investigated.iter().zip(1..) {
        assert_eq!(one.attributes["retro.investigation.number"], number.to_string());
        assert_eq!(one.parent, before.id, "{number}:\n{}", tree.render_tree());
        assert_eq!(relations(one, "run"), 1, "linked to the span that counted its run");
        before = one;
    }
    assert_eq!(tree.find_only(SETTLED).parent, before.id);
    assert_eq!(tree.find_only(SENT_MUTATIONS).parent, before.id);
    let written = tree.find_only(WRITTEN);
    assert_eq!(tree.find_parent(written).name, SENT_MUTATIONS);
    let changes = tree.find_named(SENT_CHANGE);
    assert!(changes.iter().all(|change| change.parent == written.id), "{}", tree.render_tree());
    assert!(spans.iter().all(|span| !span.failed), "{}", tree.render_tree());
    assert_no_tenants_or_contents(&spans);
}

/// Asserts that no attribute contains a tenant or the content of a run.
fn assert_no_tenants_or_contents(spans: &[ReceivedSpan]) {
    for span in spans {
        for (name, value) in &span.attributes {
            assert!(!value.contains("default") && !value.contains("missing required"), "{name}: {value}");
        }
    }
}

#[tokio::test]
async fn a_redelivered_message_is_linked_to_its_trace_and_does_not_continue_it() {
    let collector = Collector::start().await;
    let mut world = World::empty();
    let quick = [("RETRO_ACK_WAIT_S", "1")];
    up_with_tracing(&mut world, &collector, &[quick[0], ("FAULT_CRASH", "sample.commit:before")]).await;
    let trace =
        emit_with_trace(&world, &collector, &build_correcting_runs("w", "deploy_service", 0..10), 0xa12)
            .await;
    world.wait_for_crash().await;
    up_with_tracing(&mut world, &collector, &quick).await;
    world.wait_until_counted("default", 10).await;
    world.wait_until_idle().await;
    let again = |span: &&ReceivedSpan| span.name == SAMPLED && span.attributes["retro.delivery_count"] != "1";
    let spans = collector.wait_for_spans(|spans| spans.iter().any(|span| again(&span))).await;
    let sampled = spans.iter().find(again).expect("the span was awaited");
    println!("{}", SpanTree::of_trace(&spans, &sampled.trace).render_tree());
    assert_eq!(sampled.parent, "");
    assert_ne!(sampled.trace, trace);
    let links: Vec<_> = sampled
        .links
        .iter()
        .map(|link| (link.trace.as_str(), link.attributes.get("retro.relation")))
        .collect();
    assert!(links.contains(&(trace.as_str(), Some(&"retry".to_owned()))), "{links:?}");
    world.stop().await;
}

#[tokio::test]
async fn a_replayed_dead_letter_is_linked_to_its_trace_and_does_not_continue_it() {
    let collector = Collector::start().await;
    let mut world = World::empty();
    up_with_tracing(&mut world, &collector, &[]).await;
    // The body is on a host that is not allowed.
    let body = json!({"url": "https://runs.example.com/one.json", "sha256": "0".repeat(64)});
    let data = json!({"workflow": "shop", "run_id": "one", "outcome": "success", "dataref": body});
    publish_with_trace(&world, "shop", &build_event("event of one", &data), 0xa15).await;
    let dead_letter = wait_for_only_dead_letter(&world).await;
    world.stop().await;

    up_with_tracing(&mut world, &collector, &[("RETRO_DATAREF_HOSTS", "runs.example.com")]).await;
    let replay_answer =
        world.run_json(&["dead-letters", "replay", &dead_letter, "--reason", "the host is allowed"]).await;
    assert_eq!(replay_answer["status"], "done", "{replay_answer}");
    world.wait_until_counted("default", 1).await;
    let spans = collector.wait_for_spans(|spans| spans.iter().any(|span| span.name == COUNTED)).await;
    let counted: Vec<_> = spans.iter().filter(|span| span.name == COUNTED).collect();
    assert_eq!(counted.len(), 1, "a refused event is not a run");
    let trace = format!("{:032x}", 0xa15);
    assert_eq!(counted[0].parent, "");
    assert_ne!(counted[0].trace, trace);
    assert_eq!(linked_traces(counted[0], "retry"), [trace]);
    world.stop().await;
}

#[tokio::test]
async fn a_replayed_failed_retrospective_is_linked_to_its_runs_and_continues_none() {
    let collector = Collector::start().await;
    let mut world = World::empty();
    up_with_tracing(&mut world, &collector, &[]).await;
    let runs = 0..10;
    for number in runs.clone() {
        // These bodies do not exist.
        let body = json!({"name": format!("default/{number:064x}"), "sha256": format!("{number:064x}"), "bytes": 70_000});
        let run = format!("shop-{number}");
        let data = json!({"workflow": "shop", "run_id": run, "outcome": "success", "dataref": body});
        publish_with_trace(&world, "shop", &build_event(&format!("event of {run}"), &data), 0xb00 + number)
            .await;
    }
    let dead_letter = wait_for_only_dead_letter(&world).await;
    let replay_answer =
        world.run_json(&["dead-letters", "replay", &dead_letter, "--reason", "the bodies are back"]).await;
    assert_eq!(
        (&replay_answer["status"], &replay_answer["epoch"]),
        (&json!("done"), &json!(2)),
        "{replay_answer}"
    );
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
    assert_eq!(second.parent, "", "a replay starts a new trace");
    let mut window = linked_traces(second, "window");
    window.sort_unstable();
    assert_eq!(window, traces);
    world.stop().await;
}

/// Returns the traces to which a span is linked by this relation.
fn linked_traces(span: &ReceivedSpan, relation: &str) -> Vec<String> {
    let links = span.links.iter().filter(|link| link.attributes["retro.relation"] == relation);
    links.map(|link| link.trace.clone()).collect()
}

/// Publishes an event with a trace context, as a traced engine does.
async fn publish_with_trace(world: &World, workflow: &str, event: &Value, trace: u128) {
    let workflow = Workflow::new(workflow).expect("a name");
    let subject = subject::run_completed_subject(&WorkflowKey { tenant: Tenant::default_tenant(), workflow });
    let headers = vec![
        ("content-type".to_owned(), "application/cloudevents+json".to_owned()),
        ("traceparent".to_owned(), format!("00-{trace:032x}-00f067aa0ba902b7-01")),
    ];
    let event = OutgoingEvent { subject, headers, payload: event.to_string().into() };
    let mut publisher = world.connect_publisher().await;
    publisher.publish_event(event).await.expect("the broker accepts it");
    publisher.confirm_all().await.expect("the broker confirms it");
}

/// Waits for the only dead letter and returns its id.
async fn wait_for_only_dead_letter(world: &World) -> String {
    let listed = async || {
        let listed = world.run_json(&["dead-letters", "list"]).await;
        (!json_items(&listed).is_empty()).then_some(listed)
    };
    let listed = world.wait_for("a dead letter is stored", listed).await;
    assert_eq!(json_items(&listed).len(), 1, "{listed}");
    json_text(&json_items(&listed)[0], "id").to_owned()
}

#[tokio::test]
async fn a_request_over_http_continues_its_callers_trace() {
    let collector = Collector::start().await;
    let mut world = World::empty();
    up_with_tracing(&mut world, &collector, &[]).await;
    let event = build_correcting_runs("w", "deploy_service", 0..1).remove(0);
    let trace = format!("{:032x}", 0xa13);
    let client = configure_client().build().unwrap();
    let answer = client
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
    let tree = SpanTree::of_trace(&spans, &trace);
    assert_eq!(tree.ancestor_names(tree.find_only(COUNTED)), [SENT_EVENT, "POST /v1/events"]);
    assert_eq!(tree.find_only("POST /v1/events").attributes["http.response.status_code"], "202");
    world.stop().await;
}

/// A consumer that handles messages in batches has one span per batch, linked to each message's trace.
#[tokio::test]
async fn a_webhook_is_one_trace_through_its_consumers() {
    const PROCESSED: &str = "process retro.github";
    let collector = Collector::start().await;
    let mut world = World::empty();
    up_with_tracing(&mut world, &collector, &BRIDGE_ENV).await;
    let trace = format!("{:032x}", 0xa16);
    let webhook = world.build_webhook_request(&Webhook::from_fixture("pull_request", "delivery-1", "opened"));
    let webhook = webhook.header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01"));
    assert_eq!(webhook.send().await.expect("the program answers").status(), 202);
    let by = |span: &ReceivedSpan, consumer: &str| {
        span.name == PROCESSED && span.attributes["messaging.consumer.group.name"] == consumer
    };
    let spans = collector
        .wait_for_spans(|spans| {
            let is_processed = |consumer| spans.iter().any(|span| by(span, consumer));
            is_processed("tracker")
                && is_processed("reviewer")
                && spans.iter().any(|span| span.trace == trace && span.kind == 2)
        })
        .await;
    let tree = SpanTree::of_trace(&spans, &trace);
    println!("{}", tree.render_tree());
    assert_eq!(tree.find_only("POST /github/webhook").attributes["http.response.status_code"], "202");
    assert_eq!(tree.ancestor_names(tree.find_only(PROCESSED)), ["send retro.github", "POST /github/webhook"]);
    assert!(by(tree.find_only(PROCESSED), "tracker"));
    let reviewed = spans.iter().find(|span| by(span, "reviewer")).expect("the span was awaited");
    assert_eq!(linked_traces(reviewed, "message"), [trace]);
    world.stop().await;
}

#[tokio::test]
async fn without_a_collector_no_spans_are_sent_and_the_trace_is_still_propagated() {
    let mut world = World::start().await;
    let file = world.write_events("runs.jsonl", &build_correcting_runs("w", "deploy_service", 0..10));
    let mut emit = world.command(&["emit", &file]);
    let answer = run_command(emit.env("TRACEPARENT", format!("00-{:032x}-00f067aa0ba902b7-01", 0xa14))).await;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    world.wait_until_counted("default", 10).await;
    world.wait_until_idle().await;
    let store = world.open_store().await;
    let tenant = retro_core::id::Tenant::default_tenant();
    let row = store.list_retrospectives(&tenant, None, 1).await.unwrap().remove(0);
    let trace = store.find_retrospective_trace(&tenant, row.retrospective.id).await.unwrap();
    assert_eq!(trace.map(|trace| trace.trace_id), Some(0xa14));
    assert!(!world.export_canonical().await.contains("00f067aa0ba902b7"), "an export contains no traces");
    world.stop().await;
}
