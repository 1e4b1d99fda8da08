//! What agents ask over HTTP, and what GitHub posts. Whoever gets no answer asks again; at GitHub a person does.

use retro_core::id::{Step, Tenant, Workflow, WorkflowKey};
use retro_fault::{Label, Side};
use serde_json::{Value, json};

use super::ground::{Ground, Point, RUNS, tell};
use crate::world::{Kind, Run, Webhook, items, mending, text};

pub(super) const LABELS: [Label; 10] = [
    Label::PresentedCommit,
    Label::ReadCommit,
    Label::IntakeOnePublish,
    Label::IntakeFirstPublish,
    Label::IntakeNextPublish,
    Label::IntakeLastPublish,
    Label::BridgePublish,
    Label::ObjectPut,
    Label::RequestBeginCommit,
    Label::RequestEndCommit,
];

/// The workflow whose memory agents ask for.
const TAUGHT: &str = "taught";
/// Above what travels within an event.
const BODY_BYTES: usize = 80 * 1024;
const ONE: &str = "application/cloudevents+json";
const BATCH: &str = "application/cloudevents-batch+json";

#[tokio::test]
async fn killed_at_every_step_of_answering_an_agent_on_sqlite_it_answers_the_next_time() {
    println!("{}", tell(Kind::Sqlite, &LABELS, script).await);
}

#[tokio::test]
async fn killed_at_every_step_of_answering_an_agent_on_postgres_it_answers_the_next_time() {
    println!("{}", tell(Kind::Postgres, &LABELS, script).await);
}

async fn script(ground: &mut Ground) {
    ground.up().await;
    ground.publish_all(TAUGHT, &mending(TAUGHT, "deploy_service", 0..RUNS)).await;
    ground.finished(TAUGHT, RUNS).await;
    for point in Point::of(&LABELS) {
        match point.label {
            Label::PresentedCommit => presented(ground, point).await,
            Label::ReadCommit => read(ground, point).await,
            Label::IntakeOnePublish => posted(ground, point, &[], runs(point, 1)).await,
            Label::BridgePublish => delivered(ground, point).await,
            Label::ObjectPut => posted(ground, point, &[], large(point)).await,
            Label::RequestBeginCommit | Label::RequestEndCommit => {
                let key = point.workflow();
                posted(ground, point, &[("Idempotency-Key", &key)], runs(point, 1)).await;
            }
            _ => posted(ground, point, &[], runs(point, usize::MAX)).await,
        }
    }
    let key =
        WorkflowKey { tenant: Tenant::default_tenant(), workflow: Workflow::new(TAUGHT).expect("a name") };
    let step = Step::new("deploy").expect("a name");
    let candidates = ground.store().await.load_candidates(&key, &step, 0).await.expect("it can be read");
    let presentations: Vec<u64> = candidates.iter().map(|one| one.presentations).collect();
    assert_eq!(presentations, [Side::ALL.len() as u64], "once for each run, however often it asked");
}

/// Asks until it is answered; the first time the program dies of it.
async fn asked(
    ground: &mut Ground,
    point: Point,
    ask: impl Fn(&Ground) -> reqwest::RequestBuilder,
) -> (u16, Value) {
    ground.arm(point);
    let (first, died) = {
        let sent = ask(ground).send();
        match sent.await {
            Ok(response) => {
                (Some((response.status().as_u16(), response.json().await.unwrap_or_default())), false)
            }
            Err(_) => (None, true),
        }
    };
    assert!(ground.is_killed() || !died, "an undisturbed question is answered");
    ground.dies(point).await;
    match first {
        Some(answer) if !ground.is_killed() => answer,
        _ => {
            let response = ask(ground).send().await.expect("it answers");
            (response.status().as_u16(), response.json().await.expect("JSON"))
        }
    }
}

async fn presented(ground: &mut Ground, point: Point) {
    let question = json!({"workflow": TAUGHT, "step": "deploy", "run_id": point.workflow()});
    let ask = |ground: &Ground| {
        client()
            .post(format!("{}/v1/context", ground.http_url()))
            .header("Retro-Tenant", "default")
            .json(&question)
    };
    let (status, answer) = asked(ground, point, ask).await;
    assert_eq!((status, items(&answer["memories"]).len()), (200, 1), "{answer}");
    ground.recovered();
}

async fn read(ground: &mut Ground, point: Point) {
    let listed = ground.ask(&["memories", "list", "--workflow", TAUGHT]).await;
    let memory = text(&items(&listed)[0], "id").to_owned();
    let ask = |ground: &Ground| {
        let url = format!("{}/v1/memories/{memory}?run={}", ground.http_url(), point.workflow());
        client().get(url).header("Retro-Tenant", "default")
    };
    let (status, answer) = asked(ground, point, ask).await;
    assert_eq!((status, text(&answer["memory"], "id")), (200, memory.as_str()), "{answer}");
    ground.recovered();
}

/// Requests of an engine, the first of which is the program's death. It has no answer, so it sends the same again; the key of
/// the dead one is taken for a time, so it goes without.
async fn posted(ground: &mut Ground, point: Point, headers: &[(&str, &str)], requests: Vec<Value>) {
    for (nth, events) in requests.iter().enumerate() {
        let form = if events.is_array() { BATCH } else { ONE };
        let ask = |ground: &Ground| {
            let post =
                client().post(format!("{}/v1/events", ground.http_url())).header("Retro-Tenant", "default");
            let post = post.header("Content-Type", form).body(events.to_string());
            headers.iter().filter(|_| nth == 0).fold(post, |post, (name, value)| post.header(*name, *value))
        };
        let (status, answer) = if nth == 0 {
            asked(ground, point, ask).await
        } else {
            let response = ask(ground).send().await.expect("it answers");
            (response.status().as_u16(), response.json().await.expect("JSON"))
        };
        if status == 409 {
            let (status, answer) = ground.post_plain(form, events).await;
            assert_eq!(status, 202, "{answer}");
            continue;
        }
        assert_eq!(status, 202, "{answer}");
    }
    ground.finished(&point.workflow(), RUNS).await;
}

/// A webhook, delivered again when it failed: however often the broker has it, it is one event.
async fn delivered(ground: &mut Ground, point: Point) {
    let webhook = Webhook::real("pull_request", &point.workflow(), "opened");
    let (status, answer) = asked(ground, point, |ground| ground.webhook_request(&webhook)).await;
    assert_eq!((status, text(&answer, "outcome")), (202, "taken"), "{answer}");
    ground.recovered();
    let events = ground.github_events().await;
    let ids = events.iter().map(|event| text(event, "id")).filter(|id| *id == point.workflow());
    assert!(ids.count() >= 1, "what was answered 202 is there: {events:?}");
}

impl Ground {
    async fn post_plain(&self, form: &str, events: &Value) -> (u16, Value) {
        let posted = self.post_events("default", form, &[], events.to_string()).await;
        (posted.status, posted.body)
    }
}

fn client() -> reqwest::Client {
    reqwest::Client::new()
}

/// The runs of a point's workflow in requests of at most so many events.
fn runs(point: Point, events_max: usize) -> Vec<Value> {
    let events = mending(&point.workflow(), "deploy_service", 0..RUNS);
    if events_max == 1 { events } else { vec![Value::from(events)] }
}

/// Runs whose bodies travel apart.
fn large(point: Point) -> Vec<Value> {
    let workflow = point.workflow();
    let run = |number| {
        let run = Run::new(&workflow, &format!("{workflow}-{number}"))
            .told(&format!("{number} ").repeat(BODY_BYTES / 2));
        run.mends("deploy_service", "region").event()
    };
    (0..RUNS).map(run).collect()
}
