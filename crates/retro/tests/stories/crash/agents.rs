//! Crashes during HTTP requests of agents and webhooks of GitHub. Clients without a response send the request
//! again; a webhook is redelivered by hand.

use retro_core::id::{RunId, Step, Tenant, Workflow, WorkflowKey};
use retro_eval::http_client::configure_client;
use retro_fault::{Label, Side};
use serde_json::{Value, json};

use super::harness::{CrashHarness, CrashPoint, RUNS, compare_with_undisturbed};
use crate::world::{RunBuilder, Webhook, build_correcting_runs, json_items, json_text};

pub(super) const LABELS: [Label; 15] = [
    Label::PresentedCommit,
    Label::PresentationsApplyCommit,
    Label::ContextLeaseCommit,
    Label::ReadCommit,
    Label::TokenUseCommit,
    Label::FeedbackCommit,
    Label::LessonSaveCommit,
    Label::IntakeOnePublish,
    Label::IntakeFirstPublish,
    Label::IntakeNextPublish,
    Label::IntakeLastPublish,
    Label::BridgePublish,
    Label::ObjectPut,
    Label::IdempotencyBeginCommit,
    Label::IdempotencyEndCommit,
];

/// Workflow whose memory the agents request.
const TAUGHT_WORKFLOW: &str = "taught";
/// Larger than a body may be inside an event.
const BODY_BYTES: usize = 80 * 1024;
const SINGLE: &str = "application/cloudevents+json";
const BATCH: &str = "application/cloudevents-batch+json";

#[test]
fn killed_at_every_step_of_answering_an_agent_the_next_attempt_succeeds() {
    println!("{}", compare_with_undisturbed(|_| &LABELS, run_script));
}

async fn run_script(ground: &mut CrashHarness) {
    ground.up().await;
    ground
        .publish_events(TAUGHT_WORKFLOW, &build_correcting_runs(TAUGHT_WORKFLOW, "deploy_service", 0..RUNS))
        .await;
    ground.wait_until_finished(TAUGHT_WORKFLOW, RUNS).await;
    for point in CrashPoint::for_labels(&LABELS) {
        match point.label {
            Label::PresentedCommit | Label::PresentationsApplyCommit | Label::ContextLeaseCommit => {
                request_context(ground, point).await;
            }
            Label::ReadCommit => read_memory(ground, point).await,
            Label::TokenUseCommit => use_token(ground, point).await,
            Label::FeedbackCommit => give_feedback(ground, point).await,
            Label::LessonSaveCommit => save_lesson(ground, point).await,
            Label::IntakeOnePublish => post_requests(ground, point, &[], build_requests(point, 1)).await,
            Label::BridgePublish => deliver_webhook(ground, point).await,
            Label::ObjectPut => post_requests(ground, point, &[], build_large_requests(point)).await,
            Label::IdempotencyBeginCommit | Label::IdempotencyEndCommit => {
                let key = point.workflow_name();
                post_requests(ground, point, &[("Idempotency-Key", &key)], build_requests(point, 1)).await;
            }
            _ => post_requests(ground, point, &[], build_requests(point, usize::MAX)).await,
        }
    }
    let key = taught_workflow();
    let step = Step::new("deploy").expect("a name");
    let store = ground.open_store().await;
    while store.apply_presentations(100).await.expect("the store can be written").waiting_max > 0 {}
    let candidates = store.load_candidates(&key, &step, None, 0).await.expect("the store can be read");
    let presentations: Vec<u64> = candidates.iter().map(|one| one.presentations).collect();
    assert_eq!(
        presentations,
        [3 * Side::ALL.len() as u64],
        "one presentation per run, however often it was requested"
    );
}

/// Sends a request until it gets a response. The program dies during the first attempt.
async fn send_until_answered(
    ground: &mut CrashHarness,
    point: CrashPoint,
    ask: impl Fn(&CrashHarness) -> reqwest::RequestBuilder,
) -> (u16, Value) {
    ground.arm_crash(point);
    let (first, died) = {
        let sent = ask(ground).send();
        match sent.await {
            Ok(response) => {
                (Some((response.status().as_u16(), response.json().await.unwrap_or_default())), false)
            }
            Err(_) => (None, true),
        }
    };
    assert!(ground.is_killed() || !died, "an undisturbed request is answered");
    ground.wait_for_crash_and_restart(point).await;
    match first {
        Some(answer) if !ground.is_killed() => answer,
        _ => {
            let response = ask(ground).send().await.expect("the program answers");
            (response.status().as_u16(), response.json().await.expect("JSON"))
        }
    }
}

async fn request_context(ground: &mut CrashHarness, point: CrashPoint) {
    let question = json!({"workflow": TAUGHT_WORKFLOW, "step": "deploy", "run_id": point.workflow_name()});
    let ask = |ground: &CrashHarness| {
        build_client()
            .post(format!("{}/v1/context", ground.http_url()))
            .header("Retro-Tenant", "default")
            .json(&question)
    };
    let (status, answer) = send_until_answered(ground, point, ask).await;
    assert_eq!((status, json_items(&answer["memories"]).len()), (200, 1), "{answer}");
    // What was answered is stored a moment later, and the next point may kill the program before that.
    let run = RunId::new(point.workflow_name()).expect("a name");
    let memory = json_text(&answer["memories"][0], "id").parse().expect("an id");
    let (key, store) = (taught_workflow(), ground.open_store().await);
    ground
        .wait_for("the presentation is stored", async || {
            store.was_presented(&key, &run, memory).await.expect("the store can be read").then_some(())
        })
        .await;
    ground.record_recovery();
}

fn taught_workflow() -> WorkflowKey {
    WorkflowKey {
        tenant: Tenant::default_tenant(),
        workflow: Workflow::new(TAUGHT_WORKFLOW).expect("a name"),
    }
}

/// Sends requests with a new token until its use is recorded, which is done beside them.
async fn use_token(ground: &mut CrashHarness, point: CrashPoint) {
    let name = point.workflow_name();
    let create =
        ["tokens", "create", "--name", &name, "--scopes", "context", "--never-expires", "--reason", "r"];
    let created = ground.run_json(&create).await;
    let token = json_text(&created, "token").to_owned();
    ground.arm_crash(point);
    let used = async |ground: &CrashHarness| {
        let request = build_client().get(format!("{}/v1/memories/00000000", ground.http_url()));
        let answered = request.bearer_auth(&token).send().await;
        if answered.is_err() && ground.is_killed() {
            return Some(());
        }
        let listed = ground.run_json(&["tokens", "list"]).await;
        let own = json_items(&listed).iter().find(|one| one["name"] == name.as_str()).cloned();
        own.is_some_and(|own| own["last_used_at"].is_string() && !ground.is_killed()).then_some(())
    };
    ground.wait_for("the use of the token is recorded", async || used(ground).await).await;
    ground.wait_for_crash_and_restart(point).await;
    ground
        .wait_for("the use of the token is recorded", async || {
            let request = build_client().get(format!("{}/v1/memories/00000000", ground.http_url()));
            let status = request.bearer_auth(&token).send().await.expect("the program answers").status();
            assert_eq!(status.as_u16(), 404, "the token is still known");
            let listed = ground.run_json(&["tokens", "list"]).await;
            let own = json_items(&listed).iter().find(|one| one["name"] == name.as_str()).cloned();
            own.is_some_and(|own| own["last_used_at"].is_string()).then_some(())
        })
        .await;
    ground.record_recovery();
}

async fn read_memory(ground: &mut CrashHarness, point: CrashPoint) {
    let listed = ground.run_json(&["memories", "list", "--workflow", TAUGHT_WORKFLOW]).await;
    let memory = json_text(&json_items(&listed)[0], "id").to_owned();
    let ask = |ground: &CrashHarness| {
        let url = format!("{}/v1/memories/{memory}?run={}", ground.http_url(), point.workflow_name());
        build_client().get(url).header("Retro-Tenant", "default")
    };
    let (status, answer) = send_until_answered(ground, point, ask).await;
    assert_eq!((status, json_text(&answer["memory"], "id")), (200, memory.as_str()), "{answer}");
    ground.record_recovery();
}

async fn give_feedback(ground: &mut CrashHarness, point: CrashPoint) {
    let listed = ground.run_json(&["memories", "list", "--workflow", TAUGHT_WORKFLOW]).await;
    let said = json!({
        "memory": json_text(&json_items(&listed)[0], "id"),
        "verdict": "helped",
        "run": point.workflow_name(),
        "workflow": TAUGHT_WORKFLOW,
    });
    let ask = |ground: &CrashHarness| {
        let url = format!("{}/v1/feedback", ground.http_url());
        build_client().post(url).header("Retro-Tenant", "default").json(&said)
    };
    let (status, answer) = send_until_answered(ground, point, ask).await;
    assert!(
        status == 200 && ["recorded", "already_recorded"].contains(&json_text(&answer, "recorded")),
        "{answer}"
    );
    ground.record_recovery();
}

async fn save_lesson(ground: &mut CrashHarness, point: CrashPoint) {
    let lesson = json!({
        "workflow": point.workflow_name(), "run": "saves", "kind": "add_argument", "tool": "deploy_service",
        "argument": "region", "error_quote": "Error: missing required argument 'region'",
    });
    let ask = |ground: &CrashHarness| {
        let url = format!("{}/v1/lessons", ground.http_url());
        build_client().post(url).header("Retro-Tenant", "default").json(&lesson)
    };
    let (status, answer) = send_until_answered(ground, point, ask).await;
    assert!(status == 200 && ["saved", "known"].contains(&json_text(&answer, "saved")), "{answer}");
    ground.record_recovery();
}

/// Sends an engine's requests and crashes the program during the first. Without a response, the engine sends
/// the same requests again, without the idempotency key, which the dead request keeps locked for a time.
async fn post_requests(
    ground: &mut CrashHarness,
    point: CrashPoint,
    headers: &[(&str, &str)],
    requests: Vec<Value>,
) {
    for (nth, events) in requests.iter().enumerate() {
        let form = if events.is_array() { BATCH } else { SINGLE };
        let ask = |ground: &CrashHarness| {
            let post = build_client()
                .post(format!("{}/v1/events", ground.http_url()))
                .header("Retro-Tenant", "default");
            let post = post.header("Content-Type", form).body(events.to_string());
            headers.iter().filter(|_| nth == 0).fold(post, |post, (name, value)| post.header(*name, *value))
        };
        let (status, answer) = if nth == 0 {
            send_until_answered(ground, point, ask).await
        } else {
            let response = ask(ground).send().await.expect("the program answers");
            (response.status().as_u16(), response.json().await.expect("JSON"))
        };
        if status == 409 {
            let (status, answer) = ground.post_without_headers(form, events).await;
            assert_eq!(status, 202, "{answer}");
            continue;
        }
        assert_eq!(status, 202, "{answer}");
    }
    ground.wait_until_finished(&point.workflow_name(), RUNS).await;
}

/// Posts a webhook and redelivers it after a failure. All copies at the broker have the same event id.
async fn deliver_webhook(ground: &mut CrashHarness, point: CrashPoint) {
    let webhook = Webhook::from_fixture("pull_request", &point.workflow_name(), "opened");
    let (status, answer) =
        send_until_answered(ground, point, |ground| ground.build_webhook_request(&webhook)).await;
    assert_eq!((status, json_text(&answer, "outcome")), (202, "accepted"), "{answer}");
    ground.record_recovery();
    let events = ground.list_github_events().await;
    let ids = events.iter().map(|event| json_text(event, "id")).filter(|id| *id == point.workflow_name());
    assert!(ids.count() >= 1, "an event answered with 202 is stored: {events:?}");
}

impl CrashHarness {
    async fn post_without_headers(&self, form: &str, events: &Value) -> (u16, Value) {
        let posted = self.post_events("default", form, &[], events.to_string()).await;
        (posted.status, posted.body)
    }
}

fn build_client() -> reqwest::Client {
    configure_client().build().expect("a client for plain HTTP")
}

/// Returns the runs of a crash point's workflow, as one request each or as a single batch.
fn build_requests(point: CrashPoint, events_max: usize) -> Vec<Value> {
    let events = build_correcting_runs(&point.workflow_name(), "deploy_service", 0..RUNS);
    if events_max == 1 { events } else { vec![Value::from(events)] }
}

/// Returns runs whose bodies are too large for an event.
fn build_large_requests(point: CrashPoint) -> Vec<Value> {
    let workflow = point.workflow_name();
    let run = |number| {
        let run = RunBuilder::new(&workflow, &format!("{workflow}-{number}"))
            .with_message(&format!("{number} ").repeat(BODY_BYTES / 2));
        run.with_corrected_call("deploy_service", "region").build_event()
    };
    (0..RUNS).map(run).collect()
}
