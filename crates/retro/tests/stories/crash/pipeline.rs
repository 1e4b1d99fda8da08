//! Crashes along the path of a run from the broker to a memory.

use retro_fault::Label;

use super::harness::{CrashHarness, CrashPoint, RUNS, compare_with_undisturbed};
use crate::world::build_correcting_runs;

pub(super) const LABELS: [Label; 14] = [
    Label::CountCommit,
    Label::CountAck,
    Label::RelayPublish,
    Label::RelayMarkCommit,
    Label::SampleCommit,
    Label::SampleAck,
    Label::InvestigateAck,
    Label::ClaimCommit,
    Label::SummaryBeginCommit,
    Label::SummaryCommit,
    Label::JournalAnsweredCommit,
    Label::FinishCommit,
    Label::CloseCommit,
    Label::WriteAck,
];

#[test]
fn killed_at_every_step_of_the_pipeline_the_same_is_learned() {
    println!("{}", compare_with_undisturbed(|_| &LABELS, run_script));
}

async fn run_script(ground: &mut CrashHarness) {
    ground.up().await;
    for point in CrashPoint::for_labels(&LABELS) {
        let workflow = point.workflow_name();
        ground.arm_crash(point);
        ground.publish_events(&workflow, &build_correcting_runs(&workflow, "deploy_service", 0..RUNS)).await;
        if ground.is_killed() {
            ground.fleet.wait_until_program_killed(&point.to_fault_value()).await;
            ground.record_death(point).await;
            ground.assert_acknowledged_is_stored().await;
            ground.up().await;
        }
        ground.wait_until_finished(&workflow, RUNS).await;
    }
    assert_eq!(ground.run_json(&["dead-letters", "list"]).await, serde_json::json!([]));
}
