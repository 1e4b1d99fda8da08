//! What became of runs: the event, the runs behind it, and the credit.

use retro_core::id::{MemoryId, Tenant};
use retro_core::memory::ChangeCause;
use retro_fault::Label;

use super::ground::{Ground, Point, RUNS, tell};
use crate::outcomes::{applying, happened, merged};
use crate::world::{Kind, items, mending, text};

pub(super) const LABELS: [Label; 4] =
    [Label::TrackCommit, Label::TrackAck, Label::FollowCommit, Label::CreditCommit];

#[tokio::test]
async fn killed_at_every_step_of_an_outcome_on_sqlite_it_credits_once() {
    println!("{}", tell(Kind::Sqlite, &LABELS, script).await);
}

#[tokio::test]
async fn killed_at_every_step_of_an_outcome_on_postgres_it_credits_once() {
    println!("{}", tell(Kind::Postgres, &LABELS, script).await);
}

async fn script(ground: &mut Ground) {
    ground.up().await;
    for (number, point) in (1..).zip(Point::of(&LABELS)) {
        let workflow = point.workflow();
        ground.publish_all(&workflow, &mending(&workflow, "deploy_service", 0..RUNS)).await;
        ground.finished(&workflow, RUNS).await;
        let listed = ground.ask(&["memories", "list", "--workflow", &workflow]).await;
        let memory: MemoryId = text(&items(&listed)[0], "id").parse().expect("an id");
        let runs: Vec<_> = (RUNS..2 * RUNS).map(|run| applying(&workflow, run, memory, number)).collect();
        // Since the first of them, runs are followed as they come.
        let with_the_runs = point.label == Label::FollowCommit;
        if with_the_runs {
            ground.arm(point);
        }
        ground.publish_all(&workflow, &runs).await;
        if with_the_runs {
            ground.dies(point).await;
        }
        ground.finished(&workflow, 2 * RUNS).await;
        if !with_the_runs {
            ground.arm(point);
        }
        happened(ground, "default", &format!("merged {number}"), &merged(number)).await;
        if !with_the_runs {
            ground.dies(point).await;
        }
        credited(ground, memory).await;
        ground.recovered();
    }
}

/// Waits until the memory was credited with what became of a run.
async fn credited(ground: &Ground, memory: MemoryId) {
    let (store, tenant) = (ground.store().await, Tenant::default_tenant());
    ground
        .until("it is credited", async || {
            let history = store.list_memory_changes(&tenant, memory).await.ok()?;
            history.iter().any(|change| matches!(change.cause, ChangeCause::Outcome { .. })).then_some(())
        })
        .await;
}
