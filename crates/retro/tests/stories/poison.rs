//! Tests that a poisoned message of any kind becomes a dead letter after the maximum number of attempts and
//! does not stop other work. If it kills its process, the supervisor restarts the process.

use retro_bus::OutgoingEvent;
use retro_checker::ProgressFloor;
use retro_core::id::{Epoch, RetrospectiveId, Tenant, Workflow, WorkflowKey};
use retro_core::policy::Policy;
use retro_core::retrospective::InvestigationResult;
use retro_events::subject;
use retro_store::{DeadLetter, DeadLetterFilter};
use serde_json::Value;

use crate::world::{DatabaseKind, Fleet, Observer, SupervisedProcess, build_correcting_runs, exit_causes};

const ROLES: &str = "counter,sampler,investigator,writer,relay,gateway";
/// Runs around the poison, in workflows whose windows do not fill, so no retrospective runs.
const WORKFLOWS: u64 = 10;
const RUNS: u64 = 5;
const ATTEMPTS_MAX: u32 = 5;
/// Exit code of a process that ended itself because its work hung.
const HUNG: i32 = 5;
const ABORTED: i32 = -6;

#[tokio::test]
async fn a_run_whose_handling_panics_is_one_dead_letter_and_no_process_dies() {
    assert_eq!(run_poison_amid_good_runs("panic", DatabaseKind::Sqlite).await, [0_i32; 0]);
}

#[tokio::test]
async fn a_run_that_aborts_the_process_is_one_dead_letter_after_five_deaths() {
    assert_eq!(run_poison_amid_good_runs("abort", DatabaseKind::Postgres).await, [ABORTED; 5]);
}

#[tokio::test]
async fn a_run_whose_handling_hangs_is_one_dead_letter_after_five_processes_ended_themselves() {
    assert_eq!(run_poison_amid_good_runs("loop", DatabaseKind::Sqlite).await, [HUNG; 5]);
}

#[tokio::test]
async fn a_run_that_takes_all_memory_is_one_dead_letter_after_five_deaths() {
    assert_eq!(run_poison_amid_good_runs("hog", DatabaseKind::Sqlite).await, [ABORTED; 5]);
}

/// Starts the broker and the database without a process. Unacknowledged messages are redelivered after a
/// second.
async fn start_fleet(kind: DatabaseKind) -> Fleet {
    let mut fleet = Fleet::unstarted(kind).await;
    fleet.start_broker().await;
    fleet.start_database().await;
    let migrated =
        fleet.command(&["migrate"]).env("RETRO_ACK_WAIT_S", "1").status().await.expect("the command starts");
    assert!(migrated.success(), "{migrated}");
    fleet
}

/// Emits the poison among fifty good runs, with an empty message and one that is not UTF-8. Returns how the
/// processes died.
async fn run_poison_amid_good_runs(poison: &str, kind: DatabaseKind) -> Vec<i32> {
    let fleet = start_fleet(kind).await;
    let good: Vec<Value> = (0..WORKFLOWS)
        .flat_map(|nth| build_correcting_runs(&format!("good-{nth}"), "deploy", 0..RUNS))
        .collect();
    let (before, after) = good.split_at(good.len() / 2);
    let poisoned = build_correcting_runs("poisoned", "deploy", 0..1).remove(0).to_string();
    let odd = [poisoned.into_bytes(), Vec::new(), b"\xff\xfe{}".to_vec()];
    let payloads =
        before.iter().map(encode_event).chain(odd.iter().cloned()).chain(after.iter().map(encode_event));
    let mut publisher = fleet.connect_publisher().await;
    for payload in payloads {
        let headers = vec![("content-type".to_owned(), "application/cloudevents+json".to_owned())];
        let subject = subject::run_completed_subject(&default_workflow_key(&workflow_name(&payload)));
        publisher
            .publish_event(OutgoingEvent { subject, headers, payload: payload.into() })
            .await
            .expect("the broker accepts it");
    }
    publisher.confirm_all().await.expect("the broker confirms them");

    let fault = format!("counter:{poison}:event of poisoned-0");
    let quick = [
        ("FAULT_POISON", fault.as_str()),
        ("RETRO_RETRY_INITIAL_MS", "50"),
        ("RETRO_HANDLER_TIMEOUT_S", "2"),
    ];
    // Only the endless poison gets a short handler timeout: everything else ends by itself, no matter how
    // slow the machine is.
    let quick = if poison == "loop" { &quick[..] } else { &quick[..2] };
    let process = SupervisedProcess::start(&fleet, ROLES, quick);
    let dead_letters = wait_for_dead_letters(&fleet, 3).await;
    fleet.wait_until_counted("default", WORKFLOWS * RUNS).await;
    fleet.wait_until_idle().await;
    let codes: Vec<&str> = dead_letters.iter().map(|one| one.message.rejection.code.as_str()).collect();
    assert_eq!(codes, ["handler_panicked", "not_json", "not_utf8"]);
    for (dead_letter, sent) in dead_letters.iter().zip(&odd) {
        assert_eq!(dead_letter.message.payload, *sent, "the message is stored byte for byte");
        assert!(dead_letter.message.attempts <= ATTEMPTS_MAX, "{dead_letter:?}");
    }
    assert_eq!(dead_letters[0].message.attempts, ATTEMPTS_MAX);
    assert_eq!(fleet.verify_store().await["runs"], WORKFLOWS * RUNS);
    let floor = ProgressFloor { counted: WORKFLOWS * RUNS, dead_letters: 3, ..ProgressFloor::default() };
    let mut witness = Observer::start(&fleet, &fleet.path("history.jsonl")).await;
    witness.check_when_idle(&fleet, &floor).await.assert_sound();
    let deaths = process.stop().await;
    fleet.stop_all().await;
    exit_causes(&deaths)
}

#[tokio::test]
async fn a_wake_up_that_its_stage_cannot_handle_is_a_dead_letter_and_the_sweep_does_the_work() {
    let fleet = start_fleet(DatabaseKind::Sqlite).await;
    let events =
        [build_correcting_runs("poisoned", "deploy", 0..10), build_correcting_runs("good", "deploy", 0..10)]
            .concat();
    let fault = "sampler:panic:poisoned,investigator:panic:poisoned,writer:abort:poisoned";
    let quick = [("FAULT_POISON", fault), ("RETRO_RETRY_INITIAL_MS", "50")];
    let process = SupervisedProcess::start(&fleet, ROLES, &quick);
    fleet.emit_and_wait("default", "both.jsonl", &events).await;
    // One for the sampler, one for each of the four investigations, one for the writer.
    let dead_letters = wait_for_dead_letters(&fleet, 6).await;
    assert!(
        dead_letters.iter().all(|one| one.message.rejection.code.as_str() == "handler_panicked"),
        "{dead_letters:?}"
    );
    assert!(dead_letters.iter().all(|one| one.message.subject.ends_with(".poisoned")), "{dead_letters:?}");
    assert!(dead_letters.iter().all(|one| one.message.attempts == ATTEMPTS_MAX), "{dead_letters:?}");
    fleet.wait_until_idle().await;
    let checked = fleet.verify_store().await;
    assert_eq!((&checked["runs"], &checked["reports"]), (&Value::from(20), &Value::from(2)));
    assert_eq!(exit_causes(&process.stop().await), [ABORTED; 5]);
    fleet.stop_all().await;
}

#[tokio::test]
async fn a_message_is_given_up_after_five_attempts_however_often_its_process_dies_meanwhile_on_sqlite() {
    check_attempts_across_deaths(DatabaseKind::Sqlite).await;
}

#[tokio::test]
async fn a_message_is_given_up_after_five_attempts_however_often_its_process_dies_meanwhile_on_postgres() {
    check_attempts_across_deaths(DatabaseKind::Postgres).await;
}

/// A process dies with an unhandled message. Each of its successors dies, as if because of another message,
/// after it has counted its own attempt or seen that none is left.
async fn check_attempts_across_deaths(kind: DatabaseKind) {
    let mut fleet = start_fleet(kind).await;
    let quick = ("RETRO_ACK_WAIT_S", "1");
    let crash = |point: &'static str| [quick, ("FAULT_CRASH", point)];
    let first = fleet.serve_with_env("counter", &crash("count.commit:before"));
    let file = fleet.write_events("one.jsonl", &build_correcting_runs("unlucky", "deploy", 0..1));
    fleet.run_json(&["emit", &file]).await;
    assert_eq!(fleet.wait_for_exit(first).await, None, "ended by a signal");
    for _ in 2..=ATTEMPTS_MAX + 2 {
        let next = fleet.serve_with_env("counter", &crash("attempt.commit:after"));
        assert_eq!(fleet.wait_for_exit(next).await, None, "ended by a signal");
    }
    fleet.serve_with_env("counter,relay", &[quick]);
    let dead_letters = wait_for_dead_letters(&fleet, 1).await;
    assert_eq!(dead_letters[0].message.attempts, ATTEMPTS_MAX);
    assert_eq!(dead_letters[0].message.rejection.code.as_str(), "handler_panicked");
    let history = fleet.open_store().await.list_attempts(&Tenant::default_tenant(), dead_letters[0].id).await;
    let attempts: Vec<_> = history.expect("the store can be read").iter().map(|one| one.attempt).collect();
    assert_eq!(attempts, (2..=ATTEMPTS_MAX).collect::<Vec<_>>(), "the first delivery is not recorded");
    let mut witness = Observer::start(&fleet, &fleet.path("history.jsonl")).await;
    witness
        .check_when_idle(&fleet, &ProgressFloor { dead_letters: 1, ..ProgressFloor::default() })
        .await
        .assert_sound();
    fleet.stop_all().await;
}

/// The process dies between storing the dead letter and the acknowledgement, and the message is redelivered
/// to a process that must not handle it.
#[tokio::test]
async fn a_dead_letter_whose_acknowledgement_was_lost_is_not_handled_again() {
    const KILLED: i32 = -9;
    let fleet = start_fleet(DatabaseKind::Sqlite).await;
    let events =
        [build_correcting_runs("poisoned", "deploy", 0..1), build_correcting_runs("good", "deploy", 0..RUNS)]
            .concat();
    let file = fleet.write_events("runs.jsonl", &events);
    fleet.run_json(&["emit", &file]).await;
    let faults =
        [("FAULT_POISON", "counter:abort:event of poisoned-0"), ("FAULT_CRASH", "dead_letter.commit:after")];
    let process = SupervisedProcess::start(&fleet, ROLES, &faults);
    let dead_letters = wait_for_dead_letters(&fleet, 1).await;
    assert_eq!(dead_letters[0].message.attempts, ATTEMPTS_MAX);
    // Idle means that the broker has an acknowledgement for every message.
    let mut witness = Observer::start(&fleet, &fleet.path("history.jsonl")).await;
    witness
        .check_when_idle(
            &fleet,
            &ProgressFloor { counted: RUNS, dead_letters: 1, ..ProgressFloor::default() },
        )
        .await
        .assert_sound();
    let deaths = exit_causes(&process.stop().await);
    assert_eq!(deaths, [&[ABORTED; 5][..], &[KILLED]].concat());
    fleet.stop_all().await;
}

#[tokio::test]
async fn a_run_whose_investigation_panics_three_times_is_replaced() {
    let (reason, deaths) = run_poisoned_investigation("panic").await;
    assert!(reason.contains("panicked") || reason.contains("stopped"), "{reason}");
    assert_eq!(deaths, [0_i32; 0]);
}

#[tokio::test]
async fn a_run_whose_investigation_kills_three_workers_is_replaced() {
    let (reason, deaths) = run_poisoned_investigation("abort").await;
    assert!(reason.contains("lost in each of its 3 attempts"), "{reason}");
    assert_eq!(deaths, [ABORTED; 3]);
}

#[tokio::test]
async fn a_run_whose_investigation_never_ends_is_replaced_and_the_process_ends_itself() {
    let (reason, deaths) = run_poisoned_investigation("loop").await;
    assert!(reason.contains("no answer within 1 s"), "{reason}");
    // An attempt may fail and be repeated while the process is still waiting for the previous one to end.
    assert!(!deaths.is_empty() && deaths.iter().all(|death| *death == HUNG), "{deaths:?}");
}

/// Poisons the first run of a sample. Returns why its investigation finally failed and how the processes
/// died.
async fn run_poisoned_investigation(poison: &str) -> (String, Vec<i32>) {
    let fleet = start_fleet(DatabaseKind::Sqlite).await;
    let key = default_workflow_key("ci");
    let id = RetrospectiveId::of_epoch(&key, 1 as Epoch);
    let first = retro_core::sample::draw_sample(id, (1..=10).collect(), &Policy::default()).order[0];
    let fault = format!("engine:{poison}:ci-{}", first - 1);
    // Only one worker: on a stalled machine, two workers of one process could claim the run before the
    // process dies because of the first.
    let quick = [
        ("FAULT_POISON", fault.as_str()),
        ("RETRO_INVESTIGATORS", "1"),
        ("RETRO_INVESTIGATION_TIMEOUT_S", if poison == "loop" { "1" } else { "60" }),
        ("RETRO_LEASE_S", if poison == "loop" { "5" } else { "2" }),
    ];
    let process = SupervisedProcess::start(&fleet, ROLES, &quick);
    fleet.emit_and_wait("default", "ci.jsonl", &build_correcting_runs("ci", "deploy", 0..10)).await;
    let store = fleet.open_store().await;
    let found = store
        .find_retrospective(&key.tenant, id)
        .await
        .expect("the store can be read")
        .expect("the retrospective exists");
    let ended: Vec<_> = found.investigations.iter().map(|one| (one.ordinal, one.result.as_ref())).collect();
    let (ordinal, result) = ended[0];
    assert_eq!(ordinal, first);
    let Some(InvestigationResult::Failed { reason }) = result else { panic!("{result:?}") };
    assert_eq!(ended.len(), 5, "four of ten, and one that replaces the first: {ended:?}");
    assert!(found.investigations[4].replacement);
    // The last death may come after the attempt was abandoned and be that of a process that was asked to
    // stop.
    let deaths = usize::from(poison == "loop");
    fleet
        .wait_for("the expected processes have died", async || {
            (process.deaths().len() >= deaths).then_some(())
        })
        .await;
    assert_eq!(fleet.verify_store().await["reports"], 1);
    let (reason, deaths) = (reason.clone(), exit_causes(&process.stop().await));
    fleet.stop_all().await;
    (reason, deaths)
}

/// Waits until there are this many dead letters and returns them in stream order.
async fn wait_for_dead_letters(fleet: &Fleet, count: usize) -> Vec<DeadLetter> {
    let store = fleet.open_store().await;
    let tenant = Tenant::default_tenant();
    let filter = DeadLetterFilter { limit: 100, ..DeadLetterFilter::default() };
    let all = async || store.list_dead_letters(&tenant, &filter).await.ok().filter(|all| all.len() >= count);
    let mut all = fleet.wait_for("the dead letters are stored", all).await;
    assert_eq!(all.len(), count, "{all:?}");
    all.sort_by_key(|one| one.message.position.sequence);
    all
}

fn encode_event(event: &Value) -> Vec<u8> {
    event.to_string().into_bytes()
}

/// Returns the workflow of an event, or `unreadable` if the event cannot be parsed.
fn workflow_name(payload: &[u8]) -> String {
    let event: Option<Value> = serde_json::from_slice(payload).ok();
    event
        .and_then(|event| Some(event["data"]["workflow"].as_str()?.to_owned()))
        .unwrap_or("unreadable".to_owned())
}

fn default_workflow_key(workflow: &str) -> WorkflowKey {
    WorkflowKey { tenant: Tenant::default_tenant(), workflow: Workflow::new(workflow).expect("a name") }
}
