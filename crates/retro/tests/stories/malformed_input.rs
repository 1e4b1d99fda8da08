//! Tests that unreadable input becomes a complete dead letter and does not stop other work.

use retro_bus::OutgoingEvent;
use retro_core::dead_letter::DeadLetterCode;
use retro_core::id::{Tenant, Workflow, WorkflowKey};
use retro_events::envelope::{EncodedEvent, Envelope};
use retro_events::subject;
use retro_events::testing::bad::{self, BadInput, ExpectedOutcome};
use retro_store::{DeadLetter, DeadLetterFilter};
use serde_json::{Value, json};

use crate::world::{World, build_correcting_runs, build_event, json_text};

const WORKFLOW: &str = "release";
const STRUCTURED: &str = "application/cloudevents+json";
/// Made up, in the format of a GitHub token.
const SECRET: &str = concat!("ghp_", "x7Kd93LmQz0pVb5RtYw2Nc8Hs4Jf6Ga1Ue7O");

#[tokio::test]
async fn bad_input_over_nats_becomes_complete_dead_letters_and_other_runs_are_counted() {
    let mut world = World::start().await;
    let table = bad::bad_inputs();
    let mut publisher = world.connect_publisher().await;
    let around = build_correcting_runs("around", "deploy_service", 0..20);
    let first = encode_structured(&bad::valid_event());
    publisher.publish_event(build_outgoing_event(workflow_subject(bad::WORKFLOW), &first)).await.unwrap();
    for (nth, case) in table.iter().enumerate() {
        if case.over_nats == ExpectedOutcome::RefusedByBroker {
            world.assert_too_large_for_broker(&case_subject(case), case.sent.payload.len()).await;
        } else {
            publisher.publish_event(build_outgoing_event(case_subject(case), &case.sent)).await.unwrap();
        }
        if let Some(run) = around.get(nth) {
            let envelope = Envelope::from_document(&run.clone().into()).unwrap();
            let encoded = if nth % 2 == 0 { envelope.to_structured() } else { envelope.to_binary() };
            publisher
                .publish_event(build_outgoing_event(workflow_subject("around"), &encoded))
                .await
                .unwrap();
        }
    }
    publisher.confirm_all().await.unwrap();

    let counted = table.iter().filter(|case| case.over_nats == ExpectedOutcome::Counted).count();
    let runs = 1 + around.len() + counted;
    world.wait_until_counted("default", runs as u64).await;
    let refused =
        table.iter().filter(|case| matches!(case.over_nats, ExpectedOutcome::DeadLetter(..))).count();
    let dead_letters = wait_for_dead_letters(&world, refused).await;
    for case in &table {
        if let ExpectedOutcome::DeadLetter(code, path) = &case.over_nats {
            assert_stored_completely(&world, &dead_letters, case, *code, *path).await;
        }
        print_row("NATS", case, &case.over_nats);
    }
    world.wait_until_idle().await;
    assert_eq!(world.verify_store().await["runs"], runs);
    world.stop().await;
}

#[tokio::test]
async fn bad_input_over_http_is_answered_with_its_code_and_path() {
    let mut world = World::start().await;
    let first = encode_structured(&bad::valid_event());
    assert_eq!(world.post_events("default", STRUCTURED, &[], first.payload).await.status, 202);
    world.wait_until_counted("default", 1).await;
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
    world.wait_until_counted("default", runs as u64).await;
    let conflict = wait_for_dead_letters(&world, 1).await.remove(0).message.rejection;
    assert_eq!((conflict.code, conflict.path.as_deref()), (DeadLetterCode::IdentityConflict, Some("id")));
    world.wait_until_idle().await;
    assert_eq!(world.verify_store().await["runs"], runs);
    world.stop().await;
}

#[tokio::test]
async fn a_body_url_at_an_allowed_host_is_accepted_and_its_query_is_not_shown() {
    let mut world = World::empty();
    world.up_with_env(&[("RETRO_DATAREF_HOSTS", "runs.example.com")]).await;
    let reference =
        json!({"url": "https://runs.example.com/4711.json?right=s3cret", "sha256": "0".repeat(64)});
    let data = json!({"workflow": WORKFLOW, "run_id": "4711", "outcome": "success", "dataref": reference});
    world.publish_event("default", WORKFLOW, &build_event("elsewhere", &data)).await;
    world.wait_until_counted("default", 1).await;
    let runs = world.run_json(&["runs"]).await;
    assert_eq!(runs[0]["body"]["url"], "https://runs.example.com/4711.json", "{runs}");
    world.stop().await;
    assert!(!std::fs::read_to_string(world.path("retro.log")).unwrap().contains("s3cret"));
}

/// Asserts that a case's dead letter has its code and path, all bytes and headers, and is the same over HTTP.
async fn assert_stored_completely(
    world: &World,
    dead_letters: &[DeadLetter],
    case: &BadInput,
    code: DeadLetterCode,
    path: Option<&str>,
) {
    let whole = |dead_letter: &&DeadLetter| {
        let dead_letter = &dead_letter.message;
        let headers = case.sent.headers.iter().all(|header| dead_letter.headers.contains(header));
        dead_letter.payload == case.sent.payload && dead_letter.subject == case_subject(case) && headers
    };
    let dead_letter = dead_letters.iter().find(whole);
    let dead_letter =
        dead_letter.unwrap_or_else(|| panic!("{}: no dead letter has its bytes and headers", case.name));
    let rejection = &dead_letter.message.rejection;
    assert_eq!((rejection.code, rejection.path.as_deref()), (code, path), "{}: {rejection}", case.name);
    let (status, shown) = world.get("default", &format!("/v1/dead-letters/{}", dead_letter.id)).await;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!((status, json_text(&shown, "code"), shown["path"].as_str()), (200, code.as_str(), path));
}

/// Prints one line of the table for readers of the test's output.
#[expect(clippy::print_stdout, reason = "the test prints its findings")]
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

fn case_subject(case: &BadInput) -> String {
    format!("{}.default.{}", subject::RUN_COMPLETED, case.subject)
}

#[tokio::test]
async fn a_secret_in_a_dead_letter_is_stored_exactly_and_shown_nowhere() {
    let mut world = World::start().await;
    let mut publisher = world.connect_publisher().await;
    let bad = encode_structured(&build_event(
        "bad",
        &json!({"workflow": WORKFLOW, "note": format!("token {SECRET}")}),
    ));
    publisher.publish_event(build_outgoing_event(workflow_subject(WORKFLOW), &bad)).await.unwrap();
    publisher.confirm_all().await.unwrap();
    let dead_letter = wait_for_dead_letters(&world, 1).await.remove(0);
    assert_eq!(dead_letter.message.payload, bad.payload, "the stored original is exact");
    let id = dead_letter.id.to_string();
    let (_, over_http) = world.get("default", &format!("/v1/dead-letters/{id}")).await;
    let views = [
        world.run_retro(&["dead-letters", "show", &id]).await.out,
        world.run_retro(&["dead-letters", "show", &id, "-o", "json"]).await.out,
        over_http,
    ];
    for view in views {
        assert!(!view.contains(SECRET) && view.contains("[redacted:"), "{view}");
    }
    assert!(!world.run_retro(&["dead-letters", "list", "-o", "json"]).await.out.contains(SECRET));
    world.stop().await;
    let log = std::fs::read_to_string(world.path("retro.log")).unwrap();
    assert!(!log.contains(SECRET), "the log shows the secret");
}

fn encode_structured(event: &Value) -> EncodedEvent {
    let headers = vec![("content-type".to_owned(), STRUCTURED.to_owned())];
    EncodedEvent { headers, payload: event.to_string().into() }
}

fn workflow_subject(workflow: &str) -> String {
    let workflow = Workflow::new(workflow).expect("a name");
    subject::run_completed_subject(&WorkflowKey { tenant: Tenant::default_tenant(), workflow })
}

fn build_outgoing_event(subject: String, encoded: &EncodedEvent) -> OutgoingEvent {
    let EncodedEvent { headers, payload } = encoded.clone();
    OutgoingEvent { subject, headers, payload }
}

/// Waits until the default tenant has this many dead letters and returns them as stored.
async fn wait_for_dead_letters(world: &World, count: usize) -> Vec<DeadLetter> {
    let (store, tenant) = (world.open_store().await, Tenant::default_tenant());
    let filter = DeadLetterFilter { limit: 1000, ..DeadLetterFilter::default() };
    world
        .wait_for(&format!("{count} dead letters"), async || {
            let dead_letters = store.list_dead_letters(&tenant, &filter).await.ok()?;
            assert!(dead_letters.len() <= count, "{dead_letters:?}");
            (dead_letters.len() == count).then_some(dead_letters)
        })
        .await
}
