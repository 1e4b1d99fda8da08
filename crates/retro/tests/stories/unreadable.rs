//! What cannot be read becomes a dead letter, whole, and stops nothing.

use retro_bus::OutgoingEvent;
use retro_core::dead_letter::Code;
use retro_core::id::{Tenant, Workflow, WorkflowKey};
use retro_events::envelope::{EncodedEvent, Envelope};
use retro_events::subject;
use retro_events::testing::bad::{self, BadInput, ExpectedOutcome};
use retro_store::{DeadLetter, DeadLetterFilter};
use serde_json::{Value, json};

use crate::world::{World, event, mending, text};

const WORKFLOW: &str = "release";
const STRUCTURED: &str = "application/cloudevents+json";
/// Made up, in the shape of a GitHub token.
const SECRET: &str = concat!("ghp_", "x7Kd93LmQz0pVb5RtYw2Nc8Hs4Jf6Ga1Ue7O");

#[tokio::test]
async fn bad_input_over_nats_becomes_dead_letters_whole_and_the_runs_around_it_are_counted() {
    let mut world = World::start().await;
    let table = bad::bad_inputs();
    let mut publisher = world.publisher().await;
    let around = mending("around", "deploy_service", 0..20);
    let first = structured(&bad::valid_event());
    publisher.publish_event(outgoing(about(bad::WORKFLOW), &first)).await.unwrap();
    for (nth, case) in table.iter().enumerate() {
        if case.over_nats == ExpectedOutcome::RefusedByBroker {
            world.not_carried(&subject_of(case), case.sent.payload.len()).await;
        } else {
            publisher.publish_event(outgoing(subject_of(case), &case.sent)).await.unwrap();
        }
        if let Some(run) = around.get(nth) {
            let envelope = Envelope::from_document(&run.clone().into()).unwrap();
            let encoded = if nth % 2 == 0 { envelope.to_structured() } else { envelope.to_binary() };
            publisher.publish_event(outgoing(about("around"), &encoded)).await.unwrap();
        }
    }
    publisher.confirm_all().await.unwrap();

    let counted = table.iter().filter(|case| case.over_nats == ExpectedOutcome::Counted).count();
    let runs = 1 + around.len() + counted;
    world.counted("default", runs as u64).await;
    let refused =
        table.iter().filter(|case| matches!(case.over_nats, ExpectedOutcome::DeadLetter(..))).count();
    let letters = letters(&world, refused).await;
    for case in &table {
        if let ExpectedOutcome::DeadLetter(code, path) = &case.over_nats {
            is_kept_whole(&world, &letters, case, *code, *path).await;
        }
        print_row("NATS", case, &case.over_nats);
    }
    world.still().await;
    assert_eq!(world.sound().await["runs"], runs);
    world.stop().await;
}

#[tokio::test]
async fn bad_input_over_http_is_answered_with_its_code_and_path() {
    let mut world = World::start().await;
    let first = structured(&bad::valid_event());
    assert_eq!(world.post_events("default", STRUCTURED, &[], first.payload).await.status, 202);
    world.counted("default", 1).await;
    let table = bad::bad_inputs();
    for case in table.iter().filter(|case| case.over_http != ExpectedOutcome::NotExpressible) {
        let more: Vec<_> = case.sent.headers[1..].iter().map(|(name, value)| (&**name, &**value)).collect();
        let posted = world.post_events("default", STRUCTURED, &more, case.sent.payload.clone()).await;
        let problem = (posted.status, posted.body["code"].as_str(), posted.body["path"].as_str());
        let expected = match case.over_http {
            ExpectedOutcome::Problem(status, code, path) => (status, Some(code.as_str()), path),
            _ => (202, None, None),
        };
        assert_eq!(problem, expected, "{}: {}", case.name, posted.body);
        print_row("HTTP", case, &case.over_http);
    }
    let runs = 1 + table.iter().filter(|case| case.over_http == ExpectedOutcome::Counted).count();
    world.counted("default", runs as u64).await;
    let conflict = letters(&world, 1).await.remove(0).message.rejection;
    assert_eq!((conflict.code, conflict.path.as_deref()), (Code::IdentityConflict, Some("id")));
    world.still().await;
    assert_eq!(world.sound().await["runs"], runs);
    world.stop().await;
}

#[tokio::test]
async fn a_body_at_an_allowed_host_is_taken_and_its_right_to_read_is_not_shown() {
    let mut world = World::empty();
    world.up_with(&[("RETRO_DATAREF_HOSTS", "runs.example.com")]).await;
    let reference =
        json!({"url": "https://runs.example.com/4711.json?right=s3cret", "sha256": "0".repeat(64)});
    let data = json!({"workflow": WORKFLOW, "run_id": "4711", "outcome": "success", "dataref": reference});
    world.publish("default", WORKFLOW, &event("elsewhere", &data)).await;
    world.counted("default", 1).await;
    let runs = world.ask(&["runs"]).await;
    assert_eq!(runs[0]["body"]["url"], "https://runs.example.com/4711.json", "{runs}");
    world.stop().await;
    assert!(!std::fs::read_to_string(world.path("retro.log")).unwrap().contains("s3cret"));
}

/// The letter of a case: code and path, every byte and every header, and the same over HTTP.
async fn is_kept_whole(
    world: &World,
    letters: &[DeadLetter],
    case: &BadInput,
    code: Code,
    path: Option<&str>,
) {
    let whole = |letter: &&DeadLetter| {
        let letter = &letter.message;
        let headers = case.sent.headers.iter().all(|header| letter.headers.contains(header));
        letter.payload == case.sent.payload && letter.subject == subject_of(case) && headers
    };
    let letter = letters.iter().find(whole);
    let letter = letter.unwrap_or_else(|| panic!("{}: no letter holds its bytes and headers", case.name));
    let rejection = &letter.message.rejection;
    assert_eq!((rejection.code, rejection.path.as_deref()), (code, path), "{}: {rejection}", case.name);
    let (status, shown) = world.get("default", &format!("/v1/dead-letters/{}", letter.id)).await;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!((status, text(&shown, "code"), shown["path"].as_str()), (200, code.as_str(), path));
}

/// One line of the table, for whoever reads the test's output.
#[expect(clippy::print_stdout, reason = "a test that shows what it found")]
fn print_row(road: &str, case: &BadInput, fate: &ExpectedOutcome) {
    let (what, code, path) = match fate {
        ExpectedOutcome::RefusedByBroker => ("the broker takes no such message".to_owned(), "", None),
        ExpectedOutcome::DeadLetter(code, path) if road == "NATS" => {
            ("dead letter".to_owned(), code.as_str(), *path)
        }
        ExpectedOutcome::DeadLetter(code, path) => {
            ("202, then a dead letter".to_owned(), code.as_str(), *path)
        }
        ExpectedOutcome::Problem(status, code, path) => (status.to_string(), code.as_str(), *path),
        ExpectedOutcome::Counted => ("counted".to_owned(), "", None),
        ExpectedOutcome::Duplicate => ("known, counted once".to_owned(), "", None),
        ExpectedOutcome::NotExpressible => return,
    };
    println!("| {road} | {} | {what} | {code} | {} |", case.name, path.unwrap_or_default());
}

fn subject_of(case: &BadInput) -> String {
    format!("{}.default.{}", subject::RUN_COMPLETED, case.subject)
}

#[tokio::test]
async fn a_secret_in_a_dead_letter_is_stored_exactly_and_shown_nowhere() {
    let mut world = World::start().await;
    let mut publisher = world.publisher().await;
    let bad = structured(&event("bad", &json!({"workflow": WORKFLOW, "note": format!("token {SECRET}")})));
    publisher.publish_event(outgoing(about(WORKFLOW), &bad)).await.unwrap();
    publisher.confirm_all().await.unwrap();
    let letter = letters(&world, 1).await.remove(0);
    assert_eq!(letter.message.payload, bad.payload, "the stored original is exact");
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

fn structured(event: &Value) -> EncodedEvent {
    let headers = vec![("content-type".to_owned(), STRUCTURED.to_owned())];
    EncodedEvent { headers, payload: event.to_string().into() }
}

fn about(workflow: &str) -> String {
    let workflow = Workflow::new(workflow).expect("a name");
    subject::run_completed_subject(&WorkflowKey { tenant: Tenant::default_tenant(), workflow })
}

fn outgoing(subject: String, encoded: &EncodedEvent) -> OutgoingEvent {
    let EncodedEvent { headers, payload } = encoded.clone();
    OutgoingEvent { subject, headers, payload }
}

/// The default tenant's dead letters, as stored, when there are so many.
async fn letters(world: &World, count: usize) -> Vec<DeadLetter> {
    let (store, tenant) = (world.store().await, Tenant::default_tenant());
    let filter = DeadLetterFilter { limit: 1000, ..DeadLetterFilter::default() };
    world
        .until(&format!("{count} dead letters"), async || {
            let letters = store.list_dead_letters(&tenant, &filter).await.ok()?;
            assert!(letters.len() <= count, "{letters:?}");
            (letters.len() == count).then_some(letters)
        })
        .await
}
