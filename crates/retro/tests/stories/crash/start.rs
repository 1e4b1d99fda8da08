//! `retro migrate` and the first moments of `retro up`: everything is made, or made what it has to be.

use std::time::Duration;

use retro_bus::{Bus, BusConfig, StreamSizes, topology};
use retro_fault::Label;

use super::ground::{Ground, Point, RUNS, tell};
use crate::world::{Kind, mending};

pub(super) const LABELS: [Label; 7] = [
    Label::MigrateFile,
    Label::MigrateCommit,
    Label::StreamCreate,
    Label::ConsumerCreate,
    Label::StreamUpdate,
    Label::ConsumerUpdate,
    Label::RequestForgetCommit,
];

#[tokio::test]
async fn killed_while_it_makes_what_it_works_on_with_sqlite_it_goes_on_the_next_time() {
    println!("{}", tell(Kind::Sqlite, &LABELS, script).await);
}

#[tokio::test]
async fn killed_while_it_makes_what_it_works_on_with_postgres_it_goes_on_the_next_time() {
    println!("{}", tell(Kind::Postgres, &LABELS[1..], script).await);
}

/// Each start goes further than the one before.
async fn script(ground: &mut Ground) {
    let labels = if ground.kind() == Kind::Sqlite { &LABELS[..] } else { &LABELS[1..] };
    for point in Point::of(labels) {
        match point.label {
            Label::StreamUpdate | Label::ConsumerUpdate => {
                made_differently(ground).await;
                starts(ground, point, &["migrate"]).await;
            }
            Label::RequestForgetCommit => {
                starts(ground, point, &["up", "--http-listen", "127.0.0.1:0"]).await
            }
            _ => starts(ground, point, &["migrate"]).await,
        }
    }
    ground.given_at_last(&["migrate"]).await;
    ground.up().await;
    ground.publish_all("after-all", &mending("after-all", "deploy_service", 0..RUNS)).await;
    ground.finished("after-all", RUNS).await;
}

async fn starts(ground: &mut Ground, point: Point, arguments: &[&str]) {
    if ground.is_killed() {
        ground.command_dies(point, arguments).await;
        ground.recovered();
    }
}

/// Somebody has streams of other sizes and consumers of another patience made.
async fn made_differently(ground: &Ground) {
    let sizes = StreamSizes { work_bytes: 64 * 1024 * 1024, ..StreamSizes::default() };
    let config = BusConfig { sizes, ..BusConfig::new(ground.nats_url(), "test") };
    let bus = Bus::connect(config).await.expect("an address");
    ground.until("the broker answers", async || bus.is_connected().then_some(())).await;
    topology::ensure_topology(&bus, Duration::from_secs(7)).await.expect("the broker makes them");
}

impl Ground {
    async fn given_at_last(&self, arguments: &[&str]) {
        let answer = self.retro(arguments).await;
        assert_eq!(answer.code, Some(0), "{answer:?}");
    }
}
