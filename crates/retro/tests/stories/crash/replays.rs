//! Crashes while an operator replays or discards dead letters; the replayed messages are rejected again.

use retro_fault::Label;
use serde_json::{Value, json};

use super::harness::{CrashHarness, CrashPoint, RUNS, compare_with_undisturbed};
use crate::world::{build_correcting_runs, build_event, json_items, json_text};

pub(super) const LABELS: [Label; 9] = [
    Label::ReplayCommit,
    Label::DiscardCommit,
    Label::BatchStartCommit,
    Label::BatchStepCommit,
    Label::ReplayPublish,
    Label::ReplayMarkCommit,
    Label::ReplayOutcomeCommit,
    Label::ReplayRefuseCommit,
    Label::BatchCancelCommit,
];
/// Maximum size of a message at the broker, including headers.
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// Space for the headers of the original message, but not for those of a replay.
const HEADER_BYTES: usize = 100;

#[test]
fn killed_at_every_step_of_a_replay_each_dead_letter_is_stored_once() {
    println!("{}", compare_with_undisturbed(|_| &LABELS, run_script));
}

async fn run_script(ground: &mut CrashHarness) {
    ground.up().await;
    // A learned memory to compare, because replays that fail again leave none.
    ground.publish_events("learnt", &build_correcting_runs("learnt", "deploy_service", 0..RUNS)).await;
    ground.wait_until_finished("learnt", RUNS).await;
    for point in CrashPoint::for_labels(&LABELS) {
        let workflow = point.workflow_name();
        let dead_letter = match point.label {
            Label::ReplayRefuseCommit => {
                create_dead_letter(ground, &workflow, build_oversized_event(&workflow)).await
            }
            _ => create_dead_letter(ground, &workflow, build_unreadable_event(&workflow)).await,
        };
        let why = ["--by", "ann", "--reason", "to see"];
        let one = [&["dead-letters", "replay", dead_letter.as_str()], &why[..]].concat();
        let many =
            [&["dead-letters", "replay", "--workflow", workflow.as_str(), "--detach"], &why[..]].concat();
        let discard = [&["dead-letters", "discard", dead_letter.as_str()], &why[..]].concat();
        match point.label {
            Label::ReplayCommit => ground.run_killed_then_repeat(point, &one).await,
            Label::DiscardCommit => ground.run_killed_then_repeat(point, &discard).await,
            Label::BatchStartCommit => ground.run_killed_then_repeat(point, &many).await,
            Label::BatchCancelCommit => {
                // A batch with a single dead letter might end before it is cancelled.
                create_dead_letter(ground, &workflow, build_second_unreadable_event(&workflow)).await;
                cancel_batch(ground, point, &[&many[..], &["--rate", "0.01"]].concat()).await
            }
            label => {
                if label == Label::ReplayOutcomeCommit {
                    // Only a handled replay is settled, so add the missing run id first.
                    let edit = ["dead-letters", "edit", dead_letter.as_str(), "--set", "data.run_id=r"];
                    ground.run_json(&[&edit[..], &why[..]].concat()).await;
                    let mut edited = build_unreadable_event(&workflow);
                    edited["data"]["run_id"] = json!("r");
                    ground.begin_emission("ann", &workflow, &edited).finish_ok();
                }
                ground.arm_crash(point);
                ground.run_json(if label == Label::BatchStepCommit { &many } else { &one }).await;
                ground.wait_for_crash_and_restart(point).await;
                ground.record_recovery();
            }
        }
        ground.wait_until_idle().await;
    }
    let messages = 2 * (LABELS.len() as u64 + 1);
    assert_eq!(
        ground.count_dead_letters().await,
        messages,
        "one for each message, however often it was sent"
    );
}

/// Starts a batch and cancels it.
async fn cancel_batch(ground: &mut CrashHarness, point: CrashPoint, slowly: &[&str]) {
    let started = ground.run_json(slowly).await;
    let batch = json_text(&started, "batch");
    let cancel = ["dead-letters", "cancel", batch, "--by", "bob", "--reason", "not now"];
    ground.run_killed_then_repeat(point, &cancel).await;
}

/// Returns an event without a run id.
fn build_unreadable_event(workflow: &str) -> Value {
    build_event(workflow, &json!({"workflow": workflow, "outcome": "success"}))
}

/// Returns a second event of the workflow without a run id.
fn build_second_unreadable_event(workflow: &str) -> Value {
    build_event(&format!("{workflow}, another"), &json!({"workflow": workflow, "outcome": "success"}))
}

/// Returns an event so large that the broker accepts it once, but not with the headers of a replay.
fn build_oversized_event(workflow: &str) -> Value {
    let padded = |bytes: usize| {
        build_event(
            workflow,
            &json!({"workflow": workflow, "outcome": "success", "padding": "x".repeat(bytes)}),
        )
    };
    let alone = padded(0).to_string().len();
    padded(MESSAGE_BYTES_MAX - HEADER_BYTES - alone)
}

/// Publishes an event that is rejected and returns the id of its dead letter.
async fn create_dead_letter(ground: &mut CrashHarness, workflow: &str, event: Value) -> String {
    let before = ground.count_dead_letters().await;
    ground.publish_events(workflow, &[event]).await;
    ground
        .wait_for("the dead letter is stored", async || {
            (ground.count_dead_letters().await > before).then_some(())
        })
        .await;
    let listed = ground.run_json(&["dead-letters", "list", "--workflow", workflow]).await;
    json_text(&json_items(&listed)[0], "id").to_owned()
}
