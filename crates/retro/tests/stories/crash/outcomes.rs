//! Crashes around the outcomes of runs: the event, the linked runs and the credit.

use retro_core::id::{MemoryId, Tenant};
use retro_core::memory::ChangeCause;
use retro_fault::Label;

use super::harness::{CrashHarness, CrashPoint, RUNS, compare_with_undisturbed};
use crate::outcomes::{build_applying_run, build_merged_event, publish_github_delivery};
use crate::world::{build_correcting_runs, json_items, json_text};

pub(super) const LABELS: [Label; 4] =
    [Label::TrackCommit, Label::TrackAck, Label::TrackRunsCommit, Label::CreditCommit];

#[test]
fn killed_at_every_step_of_an_outcome_credit_is_given_once() {
    println!("{}", compare_with_undisturbed(|_| &LABELS, run_script));
}

async fn run_script(ground: &mut CrashHarness) {
    ground.up().await;
    for (number, point) in (1..).zip(CrashPoint::for_labels(&LABELS)) {
        let workflow = point.workflow_name();
        ground.publish_events(&workflow, &build_correcting_runs(&workflow, "deploy_service", 0..RUNS)).await;
        ground.wait_until_finished(&workflow, RUNS).await;
        let listed = ground.run_json(&["memories", "list", "--workflow", &workflow]).await;
        let memory: MemoryId = json_text(&json_items(&listed)[0], "id").parse().expect("an id");
        let runs: Vec<_> =
            (RUNS..2 * RUNS).map(|run| build_applying_run(&workflow, run, memory, number)).collect();
        // After the first outcome, runs are tracked as they arrive.
        let with_the_runs = point.label == Label::TrackRunsCommit;
        if with_the_runs {
            ground.arm_crash(point);
        }
        ground.publish_events(&workflow, &runs).await;
        if with_the_runs {
            ground.wait_for_crash_and_restart(point).await;
        }
        ground.wait_until_finished(&workflow, 2 * RUNS).await;
        wait_until_tracked(ground).await;
        if !with_the_runs {
            ground.arm_crash(point);
        }
        publish_github_delivery(ground, "default", &format!("merged {number}"), &build_merged_event(number))
            .await;
        if !with_the_runs {
            ground.wait_for_crash_and_restart(point).await;
        }
        wait_until_credited(ground, memory).await;
        ground.record_recovery();
    }
}

/// Waits until every run is linked to its pull request. A run that was on its way when the program died is counted after
/// those that were published later, and would be credited after them too.
async fn wait_until_tracked(ground: &CrashHarness) {
    let store = ground.open_store().await;
    ground
        .wait_for("the runs are tracked", async || {
            store.list_untracked_workflows(1).await.ok()?.is_empty().then_some(())
        })
        .await;
}

/// Waits until the memory is credited with the outcome of a run.
async fn wait_until_credited(ground: &CrashHarness, memory: MemoryId) {
    let (store, tenant) = (ground.open_store().await, Tenant::default_tenant());
    ground
        .wait_for("the memory is credited", async || {
            let history = store.list_memory_changes(&tenant, memory).await.ok()?;
            history.iter().any(|change| matches!(change.cause, ChangeCause::Outcome { .. })).then_some(())
        })
        .await;
}
