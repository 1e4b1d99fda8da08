//! Crashes around messages that cannot be handled, are retried or are replayed by an operator.

use retro_fault::{Label, Side};
use serde_json::json;

use super::harness::{CrashHarness, CrashPoint, POISON_MESSAGE, RUNS, compare_with_undisturbed};
use crate::world::{RunBuilder, build_correcting_runs, build_event, json_items, json_text};

pub(super) const LABELS: [Label; 8] = [
    Label::DeadLetterCommit,
    Label::DeadLetterAck,
    Label::AttemptCommit,
    Label::AttemptDeleteCommit,
    Label::FailureCommit,
    Label::DeferNak,
    Label::ReopenCommit,
    Label::EditCommit,
];

#[test]
fn killed_at_every_step_of_giving_up_and_retrying_each_dead_letter_is_stored_once() {
    println!("{}", compare_with_undisturbed(|_| &LABELS, run_script));
}

async fn run_script(ground: &mut CrashHarness) {
    ground.up().await;
    for point in CrashPoint::for_labels(&LABELS) {
        match point.label {
            Label::DeadLetterCommit | Label::DeadLetterAck => {
                dead_letter_unreadable_event(ground, point).await
            }
            Label::AttemptCommit | Label::AttemptDeleteCommit => retry_after_kill(ground, point).await,
            Label::FailureCommit | Label::DeferNak => dead_letter_poisoned_message(ground, point).await,
            Label::EditCommit => edit_dead_letter(ground, point).await,
            _ => replay_failed_retrospective(ground, point).await,
        }
    }
    let dead_letters = ground.run_json(&["dead-letters", "list"]).await;
    let mut codes: Vec<&str> =
        json_items(&dead_letters).iter().map(|dead_letter| json_text(dead_letter, "code")).collect();
    codes.sort_unstable();
    let malformed = ["field_invalid"; 6];
    let (panicked, failed) = (["handler_panicked"; 4], ["retrospective_failed"; 4]);
    let every = [&malformed[..], &panicked, &failed].concat();
    assert_eq!(codes, every, "one for each message, and for each epoch of the failed ones");
}

/// Publishes an event that can never be parsed.
async fn dead_letter_unreadable_event(ground: &mut CrashHarness, point: CrashPoint) {
    let workflow = point.workflow_name();
    let before = ground.count_dead_letters().await;
    ground.arm_crash(point);
    ground
        .publish_events(
            &workflow,
            &[build_event(&workflow, &json!({"workflow": workflow, "outcome": "success"}))],
        )
        .await;
    ground.wait_for_crash_and_restart(point).await;
    let one_more = async || (ground.count_dead_letters().await > before).then_some(());
    ground.wait_for("the dead letter is stored", one_more).await;
    ground.wait_until_idle().await;
    ground.record_recovery();
}

/// Edits a dead letter. The new version exists if and only if the command has committed.
async fn edit_dead_letter(ground: &mut CrashHarness, point: CrashPoint) {
    let workflow = point.workflow_name();
    let before = ground.count_dead_letters().await;
    let unreadable = json!({"workflow": workflow, "outcome": "success"});
    ground.publish_events(&workflow, &[build_event(&workflow, &unreadable)]).await;
    ground
        .wait_for("the dead letter is stored", async || {
            (ground.count_dead_letters().await > before).then_some(())
        })
        .await;
    let listed = ground.run_json(&["dead-letters", "list", "--workflow", &workflow]).await;
    let dead_letter = json_text(&json_items(&listed)[0], "id").to_owned();
    let edit = [
        "dead-letters",
        "edit",
        &dead_letter,
        "--set",
        "data.run_id=r",
        "--by",
        "ann",
        "--reason",
        "it is r",
    ];
    let mut versions = 0;
    if ground.is_killed() {
        ground.run_killed_command(point, &edit).await;
        versions = count_versions(ground, &dead_letter).await;
        assert_eq!(versions, usize::from(point.side == Side::After), "{}", point.to_fault_value());
    }
    if versions == 0 {
        ground.run_json(&edit).await;
    }
    assert_eq!(count_versions(ground, &dead_letter).await, 1);
    ground.record_recovery();
}

async fn count_versions(ground: &CrashHarness, dead_letter: &str) -> usize {
    json_items(&ground.run_json(&["dead-letters", "show", dead_letter]).await["versions"]).len()
}

/// The message of the dead process is redelivered alone, after its attempt is counted.
async fn retry_after_kill(ground: &mut CrashHarness, point: CrashPoint) {
    let workflow = point.workflow_name();
    let counting = CrashPoint { label: Label::CountCommit, side: Side::Before };
    ground.arm_crash(counting);
    ground.publish_events(&workflow, &build_correcting_runs(&workflow, "deploy_service", 0..RUNS)).await;
    if ground.is_killed() {
        ground.fleet.wait_until_program_killed(&counting.to_fault_value()).await;
        ground.record_death(counting).await;
        ground.run_killed_command(point, &["up", "--http-listen", "127.0.0.1:0"]).await;
        ground.up().await;
    }
    ground.wait_until_finished(&workflow, RUNS).await;
}

/// A message whose handler panics is recorded, retried and finally dead-lettered.
async fn dead_letter_poisoned_message(ground: &mut CrashHarness, point: CrashPoint) {
    let workflow = point.workflow_name();
    let before = ground.count_dead_letters().await;
    ground.arm_crash(point);
    let run = RunBuilder::new(&workflow, &format!("{workflow}-0")).with_message(POISON_MESSAGE);
    ground.publish_events(&workflow, &[run.build_event()]).await;
    ground.wait_for_crash_and_restart(point).await;
    ground
        .wait_for("the message is a dead letter", async || {
            (ground.count_dead_letters().await > before).then_some(())
        })
        .await;
    ground.wait_until_idle().await;
    ground.record_recovery();
}

/// All bodies are missing, so the retrospective fails. An operator replays its dead letter, and the next one
/// fails as well.
async fn replay_failed_retrospective(ground: &mut CrashHarness, point: CrashPoint) {
    let workflow = point.workflow_name();
    let before = ground.count_dead_letters().await;
    let lost = |number: u64| {
        let run = format!("{workflow}-{number}");
        let body = json!({"name": format!("default/{number:064x}"), "sha256": format!("{number:064x}"), "bytes": 70_000});
        let data = json!({"workflow": workflow, "run_id": run, "outcome": "success", "dataref": body});
        build_event(&format!("event of {run}"), &data)
    };
    let events: Vec<_> = (0..RUNS).map(lost).collect();
    ground.publish_events(&workflow, &events).await;
    ground
        .wait_for("the retrospective failed", async || {
            (ground.count_dead_letters().await > before).then_some(())
        })
        .await;
    let listed = ground.run_json(&["dead-letters", "list", "--workflow", &workflow]).await;
    let dead_letter = json_text(&json_items(&listed)[0], "id").to_owned();
    let replay = ["dead-letters", "replay", &dead_letter, "--by", "ann", "--reason", "the store is back"];
    ground.run_killed_then_repeat(point, &replay).await;
    ground
        .wait_for("the retrospective failed again", async || {
            (ground.count_dead_letters().await > before + 1).then_some(())
        })
        .await;
}
