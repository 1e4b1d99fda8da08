//! What cannot be read becomes a dead letter, whole, and stops nothing.

use retro_bus::OutgoingEvent;
use retro_core::dead_letter::Code;
use retro_core::id::{Tenant, Workflow, WorkflowKey};
use retro_events::envelope::{Encoded, Envelope};
use retro_events::subject;
use retro_store::{DeadLetter, DeadLetterFilter};
use serde_json::{Value, json};

use crate::world::{World, event, mending, text};

const WORKFLOW: &str = "release";
/// Made up, in the shape of a GitHub token.
const SECRET: &str = concat!("ghp_", "x7Kd93LmQz0pVb5RtYw2Nc8Hs4Jf6Ga1Ue7O");

/// A message, and what is to become of it.
struct Case {
    what: &'static str,
    subject: String,
    encoded: Encoded,
    code: Code,
    path: Option<&'static str>,
}

#[tokio::test]
async fn what_cannot_be_read_becomes_a_dead_letter_whole_and_the_runs_around_it_are_counted() {
    let mut world = World::start().await;
    let mut publisher = world.publisher().await;
    let good = mending(WORKFLOW, "deploy_service", 0..40);
    let cases = cases(&good[0]);
    assert!(cases.len() < good.len());
    for (nth, run) in good.iter().enumerate() {
        let envelope = Envelope::from_json(run.clone()).unwrap();
        let encoded = if nth % 2 == 0 { envelope.structured() } else { envelope.binary() };
        publisher.publish_event(outgoing(about(WORKFLOW), &encoded)).await.unwrap();
        if let Some(case) = cases.get(nth) {
            publisher.publish_event(outgoing(case.subject.clone(), &case.encoded)).await.unwrap();
        }
    }
    publisher.finish().await.unwrap();

    world.counted("default", good.len() as u64).await;
    let letters = letters(&world, cases.len()).await;
    for case in &cases {
        let found = letters.iter().find(|letter| letter.letter.payload == case.encoded.payload);
        let letter = found.unwrap_or_else(|| panic!("{}: no letter holds its bytes", case.what));
        let rejection = &letter.letter.rejection;
        assert_eq!((rejection.code, rejection.path.as_deref()), (case.code, case.path), "{}", case.what);
        assert_eq!(letter.letter.subject, case.subject, "{}", case.what);
        assert!(case.encoded.headers.iter().all(|header| letter.letter.headers.contains(header)));
        let id = letter.id.to_string();
        let shown = world.ask(&["dead-letters", "show", &id]).await;
        assert_eq!(text(&shown, "code"), case.code.as_str(), "{}", case.what);
        assert_eq!(shown["path"].as_str(), case.path, "{}", case.what);
    }
    world.still().await;
    assert_eq!(world.sound().await["runs"], good.len());
    world.stop().await;
}

#[tokio::test]
async fn a_secret_in_a_dead_letter_is_stored_exactly_and_shown_nowhere() {
    let mut world = World::start().await;
    let mut publisher = world.publisher().await;
    let bad = structured(&event("bad", &json!({"workflow": WORKFLOW, "note": format!("token {SECRET}")})));
    publisher.publish_event(outgoing(about(WORKFLOW), &bad)).await.unwrap();
    publisher.finish().await.unwrap();
    let letter = letters(&world, 1).await.remove(0);
    assert_eq!(letter.letter.payload, bad.payload, "the stored original is exact");
    let id = letter.id.to_string();
    let (_, over_http) = world.get("default", &format!("/v1/dead-letters/{id}")).await;
    let views = [
        world.retro(&["dead-letters", "show", &id]).await.out,
        world.retro(&["dead-letters", "show", &id, "-o", "json"]).await.out,
        over_http,
    ];
    for view in views {
        assert!(!view.contains(SECRET) && view.contains("[redacted:"), "{view}");
    }
    assert!(!world.retro(&["dead-letters", "list", "-o", "json"]).await.out.contains(SECRET));
    world.stop().await;
    let log = std::fs::read_to_string(world.path("retro.log")).unwrap();
    assert!(!log.contains(SECRET), "the log shows it");
}

fn cases(good: &Value) -> Vec<Case> {
    let data = |data: Value| structured(&event("event of a bad one", &data));
    let with = |key: &str, value: Value| {
        let mut event = good.clone();
        event[key] = value;
        event["id"] = json!(format!("event with another {key}"));
        structured(&event)
    };
    let raw = |payload: &[u8]| Encoded { headers: Vec::new(), payload: payload.to_vec().into() };
    let case = |what, encoded, code, path| Case { what, subject: about(WORKFLOW), encoded, code, path };
    let mut changed = good.clone();
    changed["data"]["outcome"] = json!("failure");
    let bad_trajectory = json!({"schema_version": "ATIF-v1.6", "steps": [{"source": "agent", "message": "a"},
        {"source": "agent", "message": "b", "tool_calls": [{"arguments": {}}]}]});
    let elsewhere = json!("https://example.com/run.json");
    let mut by_reference = event("by reference", &json!({"workflow": WORKFLOW, "run_id": "by-reference"}));
    by_reference["dataref"] = elsewhere;
    vec![
        case("not JSON", raw(b"run 7 is over"), Code::NotJson, None),
        case("not UTF-8", raw(b"{\"id\": \"\xff\xfe\"}"), Code::NotUtf8, None),
        case("nothing at all", raw(b""), Code::NotJson, None),
        case("no CloudEvent", raw(b"{\"run\": 7}"), Code::NotCloudEvent, Some("specversion")),
        case("nested too deep", raw("[".repeat(100_000).as_bytes()), Code::TooDeep, None),
        case(
            "no run id",
            data(json!({"workflow": WORKFLOW, "outcome": "success"})),
            Code::FieldInvalid,
            Some("data.run_id"),
        ),
        case(
            "a count that is a text",
            data(json!({"workflow": WORKFLOW, "run_id": "r", "outcome": "success",
                "usage": {"input_tokens": "many"}})),
            Code::FieldInvalid,
            Some("data.usage.input_tokens"),
        ),
        case(
            "a later version",
            with("specversion", json!("2.0")),
            Code::SpecVersionUnknown,
            Some("specversion"),
        ),
        case(
            "another type",
            with("type", json!("dev.retrospect.run.started.v1")),
            Code::TypeUnknown,
            Some("type"),
        ),
        case(
            "another workflow",
            data(json!({"workflow": "other", "run_id": "r", "outcome": "success"})),
            Code::WorkflowMismatch,
            Some("data.workflow"),
        ),
        case("another tenant", with("tenant", json!("somebody-else")), Code::TenantMismatch, Some("tenant")),
        case("the same id, other content", structured(&changed), Code::IdentityConflict, Some("id")),
        case(
            "a call without a name",
            data(
                json!({"workflow": WORKFLOW, "run_id": "r", "outcome": "success", "trajectory": bad_trajectory}),
            ),
            Code::TrajectoryInvalid,
            Some("data.trajectory.steps[1].tool_calls[0].function_name"),
        ),
        case("a body somewhere else", structured(&by_reference), Code::DatarefRefused, Some("dataref")),
        Case {
            subject: "retro.run.completed.default.a.b".to_owned(),
            ..case("one token too many", raw(b"{}"), Code::SubjectInvalid, Some("subject"))
        },
    ]
}

fn structured(event: &Value) -> Encoded {
    let headers = vec![("content-type".to_owned(), "application/cloudevents+json".to_owned())];
    Encoded { headers, payload: event.to_string().into() }
}

fn about(workflow: &str) -> String {
    let workflow = Workflow::new(workflow).expect("a name");
    subject::run_completed(&WorkflowKey { tenant: Tenant::default_tenant(), workflow })
}

fn outgoing(subject: String, encoded: &Encoded) -> OutgoingEvent {
    let Encoded { headers, payload } = encoded.clone();
    OutgoingEvent { subject, headers, payload }
}

/// The default tenant's dead letters, as stored, when there are so many.
async fn letters(world: &World, count: usize) -> Vec<DeadLetter> {
    let (store, tenant) = (world.store().await, Tenant::default_tenant());
    let filter = DeadLetterFilter { limit: 1000, ..DeadLetterFilter::default() };
    world
        .until(&format!("{count} dead letters"), async || {
            let letters = store.dead_letters(&tenant, &filter).await.ok()?;
            assert!(letters.len() <= count, "{letters:?}");
            (letters.len() == count).then_some(letters)
        })
        .await
}
