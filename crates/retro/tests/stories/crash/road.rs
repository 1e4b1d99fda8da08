//! The road of a run: from the broker to a memory.

use retro_fault::Label;

use super::ground::{Ground, Point, RUNS, tell};
use crate::world::{Kind, mending};

pub(super) const LABELS: [Label; 13] = [
    Label::CountCommit,
    Label::CountAck,
    Label::RelayPublish,
    Label::RelayMarkCommit,
    Label::SampleCommit,
    Label::SampleAck,
    Label::InvestigateAck,
    Label::ClaimCommit,
    Label::JournalBriefedCommit,
    Label::JournalAnsweredCommit,
    Label::FinishCommit,
    Label::CloseCommit,
    Label::WriteAck,
];

#[tokio::test]
async fn killed_at_every_step_of_the_road_on_sqlite_it_learns_what_it_would_have_learnt() {
    println!("{}", tell(Kind::Sqlite, &LABELS, script).await);
}

#[tokio::test]
async fn killed_at_every_step_of_the_road_on_postgres_it_learns_what_it_would_have_learnt() {
    println!("{}", tell(Kind::Postgres, &LABELS, script).await);
}

async fn script(ground: &mut Ground) {
    ground.up().await;
    for point in Point::of(&LABELS) {
        let workflow = point.workflow();
        ground.arm(point);
        ground.publish_all(&workflow, &mending(&workflow, "deploy_service", 0..RUNS)).await;
        if ground.is_killed() {
            ground.fleet.up_died(&point.word()).await;
            ground.dead(point).await;
            ground.nothing_is_acknowledged_too_early().await;
            ground.up().await;
        }
        ground.finished(&workflow, RUNS).await;
    }
    assert_eq!(ground.ask(&["dead-letters", "list"]).await, serde_json::json!([]));
}
