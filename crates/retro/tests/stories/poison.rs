//! Poison of every kind ends as a dead letter, after as many attempts as there may be, and stops nothing else. The process
//! that it takes along is started again by whoever looks after it.

use retro_bus::OutgoingEvent;
use retro_checker::ProgressFloor;
use retro_core::id::{Epoch, RetrospectiveId, Tenant, Workflow, WorkflowKey};
use retro_core::policy::Policy;
use retro_core::retrospective::InvestigationResult;
use retro_events::subject;
use retro_store::{DeadLetter, DeadLetterFilter};
use serde_json::Value;

use crate::world::{Fleet, Kind, Supervised, Witness, causes, mending};

const ROLES: &str = "counter,sampler,investigator,writer,relay,gateway";
/// Runs around the poison, in workflows whose windows do not fill: nothing else goes on that could be disturbed.
const WORKFLOWS: u64 = 10;
const RUNS: u64 = 5;
const ATTEMPTS_MAX: u32 = 5;
/// What a process says that ended itself over work that hung.
const HUNG: i32 = 5;
const ABORTED: i32 = -6;

#[tokio::test]
async fn a_run_whose_handling_panics_is_one_dead_letter_and_no_process_dies() {
    assert_eq!(amid_fifty_good_runs("panic", Kind::Sqlite).await, [0_i32; 0]);
}

#[tokio::test]
async fn a_run_that_aborts_the_process_is_one_dead_letter_after_five_deaths() {
    assert_eq!(amid_fifty_good_runs("abort", Kind::Postgres).await, [ABORTED; 5]);
}

#[tokio::test]
async fn a_run_that_is_handled_without_end_is_one_dead_letter_after_five_processes_ended_themselves() {
    assert_eq!(amid_fifty_good_runs("loop", Kind::Sqlite).await, [HUNG; 5]);
}

#[tokio::test]
async fn a_run_that_takes_all_memory_is_one_dead_letter_after_five_deaths() {
    assert_eq!(amid_fifty_good_runs("hog", Kind::Sqlite).await, [ABORTED; 5]);
}

/// Broker and database of a fleet in which nothing runs yet. What nobody answered for is delivered again after a second.
async fn fleet(kind: Kind) -> Fleet {
    let mut fleet = Fleet::nowhere(kind).await;
    fleet.start_broker().await;
    fleet.start_database().await;
    let migrated =
        fleet.command(&["migrate"]).env("RETRO_ACK_WAIT_S", "1").status().await.expect("it starts");
    assert!(migrated.success(), "{migrated}");
    fleet
}

/// Emits the poison amid fifty good runs, with an empty message and one that is no UTF-8 beside it; returns how processes
/// died of it.
async fn amid_fifty_good_runs(poison: &str, kind: Kind) -> Vec<i32> {
    let fleet = fleet(kind).await;
    let good: Vec<Value> =
        (0..WORKFLOWS).flat_map(|nth| mending(&format!("good-{nth}"), "deploy", 0..RUNS)).collect();
    let (before, after) = good.split_at(good.len() / 2);
    let poisoned = mending("poisoned", "deploy", 0..1).remove(0).to_string();
    let odd = [poisoned.into_bytes(), Vec::new(), b"\xff\xfe{}".to_vec()];
    let payloads = before.iter().map(bytes).chain(odd.iter().cloned()).chain(after.iter().map(bytes));
    let mut publisher = fleet.publisher().await;
    for payload in payloads {
        let headers = vec![("content-type".to_owned(), "application/cloudevents+json".to_owned())];
        let subject = subject::run_completed_subject(&key(&workflow_of(&payload)));
        publisher
            .publish_event(OutgoingEvent { subject, headers, payload: payload.into() })
            .await
            .expect("the broker takes it");
    }
    publisher.confirm_all().await.expect("the broker has them");

    let fault = format!("counter:{poison}:event of poisoned-0");
    let quick = [
        ("FAULT_POISON", fault.as_str()),
        ("RETRO_RETRY_INITIAL_MS", "50"),
        ("RETRO_HANDLER_TIMEOUT_S", "2"),
    ];
    // Only what never ends is waited for: everything else ends by itself, however slow the machine.
    let quick = if poison == "loop" { &quick[..] } else { &quick[..2] };
    let process = Supervised::start(&fleet, ROLES, quick);
    let letters = buried(&fleet, 3).await;
    fleet.counted("default", WORKFLOWS * RUNS).await;
    fleet.still().await;
    let codes: Vec<&str> = letters.iter().map(|one| one.message.rejection.code.as_str()).collect();
    assert_eq!(codes, ["handler_panicked", "not_json", "not_utf8"]);
    for (letter, sent) in letters.iter().zip(&odd) {
        assert_eq!(letter.message.payload, *sent, "it is kept byte for byte");
        assert!(letter.message.attempts <= ATTEMPTS_MAX, "{letter:?}");
    }
    assert_eq!(letters[0].message.attempts, ATTEMPTS_MAX);
    assert_eq!(fleet.sound().await["runs"], WORKFLOWS * RUNS);
    let floor = ProgressFloor { counted: WORKFLOWS * RUNS, letters: 3, ..ProgressFloor::default() };
    let mut witness = Witness::of(&fleet, &fleet.path("history.jsonl")).await;
    witness.judge(&fleet, &floor).await.assert_sound();
    let deaths = process.stop().await;
    fleet.stop_all().await;
    causes(&deaths)
}

#[tokio::test]
async fn a_wake_up_that_its_stage_cannot_handle_is_a_dead_letter_and_the_sweep_does_the_work() {
    let fleet = fleet(Kind::Sqlite).await;
    let events = [mending("poisoned", "deploy", 0..10), mending("good", "deploy", 0..10)].concat();
    let fault = "sampler:panic:poisoned,investigator:panic:poisoned,writer:abort:poisoned";
    let quick = [("FAULT_POISON", fault), ("RETRO_RETRY_INITIAL_MS", "50")];
    let process = Supervised::start(&fleet, ROLES, &quick);
    fleet.emit("default", "both.jsonl", &events).await;
    // One for the sampler, one for each of the four that were looked into, one for the writer.
    let letters = buried(&fleet, 6).await;
    assert!(
        letters.iter().all(|one| one.message.rejection.code.as_str() == "handler_panicked"),
        "{letters:?}"
    );
    assert!(letters.iter().all(|one| one.message.subject.ends_with(".poisoned")), "{letters:?}");
    assert!(letters.iter().all(|one| one.message.attempts == ATTEMPTS_MAX), "{letters:?}");
    fleet.still().await;
    let checked = fleet.sound().await;
    assert_eq!((&checked["runs"], &checked["reports"]), (&Value::from(20), &Value::from(2)));
    assert_eq!(causes(&process.stop().await), [ABORTED; 5]);
    fleet.stop_all().await;
}

#[tokio::test]
async fn a_message_is_given_up_after_five_attempts_however_often_its_process_dies_meanwhile_on_sqlite() {
    dies_before_it_has_given_up(Kind::Sqlite).await;
}

#[tokio::test]
async fn a_message_is_given_up_after_five_attempts_however_often_its_process_dies_meanwhile_on_postgres() {
    dies_before_it_has_given_up(Kind::Postgres).await;
}

/// A process dies with a message that it did not handle; each of those after it, as if of a neighbour, once it has counted
/// its own attempt at the message or seen that none is left.
async fn dies_before_it_has_given_up(kind: Kind) {
    let mut fleet = fleet(kind).await;
    let quick = ("RETRO_ACK_WAIT_S", "1");
    let crash = |point: &'static str| [quick, ("FAULT_CRASH", point)];
    let first = fleet.serve_with("counter", &crash("count.commit:before"));
    let file = fleet.write_events("one.jsonl", &mending("unlucky", "deploy", 0..1));
    fleet.ask(&["emit", &file]).await;
    assert_eq!(fleet.ended(first).await, None, "a signal ended it");
    for _ in 2..=ATTEMPTS_MAX + 2 {
        let next = fleet.serve_with("counter", &crash("attempt.commit:after"));
        assert_eq!(fleet.ended(next).await, None, "a signal ended it");
    }
    fleet.serve_with("counter,relay", &[quick]);
    let letters = buried(&fleet, 1).await;
    assert_eq!(letters[0].message.attempts, ATTEMPTS_MAX);
    assert_eq!(letters[0].message.rejection.code.as_str(), "handler_panicked");
    let history = fleet.store().await.list_attempts(&Tenant::default_tenant(), letters[0].id).await;
    let attempts: Vec<_> = history.expect("it can be read").iter().map(|one| one.attempt).collect();
    assert_eq!(attempts, (2..=ATTEMPTS_MAX).collect::<Vec<_>>(), "the first delivery is not written down");
    let mut witness = Witness::of(&fleet, &fleet.path("history.jsonl")).await;
    witness.judge(&fleet, &ProgressFloor { letters: 1, ..ProgressFloor::default() }).await.assert_sound();
    fleet.stop_all().await;
}

/// The process dies between the letter and the acknowledgement, and the message comes again to one that must not handle it.
#[tokio::test]
async fn a_dead_letter_whose_acknowledgement_was_lost_kills_nobody_again() {
    const KILLED: i32 = -9;
    let fleet = fleet(Kind::Sqlite).await;
    let events = [mending("poisoned", "deploy", 0..1), mending("good", "deploy", 0..RUNS)].concat();
    let file = fleet.write_events("runs.jsonl", &events);
    fleet.ask(&["emit", &file]).await;
    let faults =
        [("FAULT_POISON", "counter:abort:event of poisoned-0"), ("FAULT_CRASH", "bury.commit:after")];
    let process = Supervised::start(&fleet, ROLES, &faults);
    let letters = buried(&fleet, 1).await;
    assert_eq!(letters[0].message.attempts, ATTEMPTS_MAX);
    // It is at rest when the broker has an answer for every message.
    let mut witness = Witness::of(&fleet, &fleet.path("history.jsonl")).await;
    witness
        .judge(&fleet, &ProgressFloor { counted: RUNS, letters: 1, ..ProgressFloor::default() })
        .await
        .assert_sound();
    let deaths = causes(&process.stop().await);
    assert_eq!(deaths, [&[ABORTED; 5][..], &[KILLED]].concat());
    fleet.stop_all().await;
}

#[tokio::test]
async fn a_run_whose_investigation_panics_three_times_is_replaced() {
    let (reason, deaths) = investigated("panic").await;
    assert!(reason.contains("panicked") || reason.contains("stopped"), "{reason}");
    assert_eq!(deaths, [0_i32; 0]);
}

#[tokio::test]
async fn a_run_whose_investigation_kills_three_workers_is_replaced() {
    let (reason, deaths) = investigated("abort").await;
    assert!(reason.contains("lost in each of its 3 attempts"), "{reason}");
    assert_eq!(deaths, [ABORTED; 3]);
}

#[tokio::test]
async fn a_run_whose_investigation_never_ends_is_replaced_and_the_process_ends_itself() {
    let (reason, deaths) = investigated("loop").await;
    assert!(reason.contains("no answer within 1 s"), "{reason}");
    // An attempt may fail and be made again while the process still waits for the one before to end.
    assert!(!deaths.is_empty() && deaths.iter().all(|death| *death == HUNG), "{deaths:?}");
}

/// Poisons the first run of a sample; returns why its investigation failed in the end, and how processes died of it.
async fn investigated(poison: &str) -> (String, Vec<i32>) {
    let fleet = fleet(Kind::Sqlite).await;
    let key = key("ci");
    let id = RetrospectiveId::of_epoch(&key, 1 as Epoch);
    let first = retro_core::sample::draw_sample(id, (1..=10).collect(), &Policy::default()).order[0];
    let fault = format!("engine:{poison}:ci-{}", first - 1);
    // One worker, or a machine that stands still may let two of one process claim it before it dies of the first.
    let quick = [
        ("FAULT_POISON", fault.as_str()),
        ("RETRO_INVESTIGATORS", "1"),
        ("RETRO_DEADLINE_S", if poison == "loop" { "1" } else { "60" }),
        ("RETRO_LEASE_S", if poison == "loop" { "5" } else { "2" }),
    ];
    let process = Supervised::start(&fleet, ROLES, &quick);
    fleet.emit("default", "ci.jsonl", &mending("ci", "deploy", 0..10)).await;
    let store = fleet.store().await;
    let found =
        store.find_retrospective(&key.tenant, id).await.expect("it can be read").expect("it is there");
    let ended: Vec<_> = found.investigations.iter().map(|one| (one.ordinal, one.result.as_ref())).collect();
    let (ordinal, result) = ended[0];
    assert_eq!(ordinal, first);
    let Some(InvestigationResult::Failed { reason }) = result else { panic!("{result:?}") };
    assert_eq!(ended.len(), 5, "four of ten, and one in the place of the first: {ended:?}");
    assert!(found.investigations[4].replacement);
    // The last death may come after the attempt was given up, and be the end of a process that was asked to stop.
    let deaths = usize::from(poison == "loop");
    fleet.until("all that die have died", async || (process.deaths().len() >= deaths).then_some(())).await;
    assert_eq!(fleet.sound().await["reports"], 1);
    let (reason, deaths) = (reason.clone(), causes(&process.stop().await));
    fleet.stop_all().await;
    (reason, deaths)
}

/// Waits until there are so many dead letters, and returns them whole, in the order of the stream.
async fn buried(fleet: &Fleet, count: usize) -> Vec<DeadLetter> {
    let store = fleet.store().await;
    let tenant = Tenant::default_tenant();
    let filter = DeadLetterFilter { limit: 100, ..DeadLetterFilter::default() };
    let all = async || store.list_dead_letters(&tenant, &filter).await.ok().filter(|all| all.len() >= count);
    let mut all = fleet.until("the dead letters are there", all).await;
    assert_eq!(all.len(), count, "{all:?}");
    all.sort_by_key(|one| one.message.position.sequence);
    all
}

fn bytes(event: &Value) -> Vec<u8> {
    event.to_string().into_bytes()
}

/// The workflow that an event names; of none for what cannot be read.
fn workflow_of(payload: &[u8]) -> String {
    let event: Option<Value> = serde_json::from_slice(payload).ok();
    event
        .and_then(|event| Some(event["data"]["workflow"].as_str()?.to_owned()))
        .unwrap_or("unreadable".to_owned())
}

fn key(workflow: &str) -> WorkflowKey {
    WorkflowKey { tenant: Tenant::default_tenant(), workflow: Workflow::new(workflow).expect("a name") }
}
