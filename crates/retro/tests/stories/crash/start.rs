//! Crashes in `retro migrate` and at the start of `retro up`, while tables, streams and consumers are created
//! or updated.

use std::time::Duration;

use retro_bus::{Bus, BusConfig, StreamSizes, topology};
use retro_fault::Label;

use super::harness::{CrashHarness, CrashPoint, RUNS, compare_with_undisturbed};
use crate::world::{DatabaseKind, build_correcting_runs};

pub(super) const LABELS: [Label; 7] = [
    Label::MigrateFile,
    Label::MigrateCommit,
    Label::StreamCreate,
    Label::ConsumerCreate,
    Label::StreamUpdate,
    Label::ConsumerUpdate,
    Label::IdempotencyPurgeCommit,
];

#[test]
fn killed_while_provisioning_the_next_start_continues() {
    println!("{}", compare_with_undisturbed(list_labels, run_script));
}

/// Returns the labels that a start reaches. Postgres has no file that a start could create.
fn list_labels(kind: DatabaseKind) -> &'static [Label] {
    if kind == DatabaseKind::Sqlite { &LABELS } else { &LABELS[1..] }
}

/// Each start gets further than the previous one.
async fn run_script(ground: &mut CrashHarness) {
    for point in CrashPoint::for_labels(list_labels(ground.kind())) {
        match point.label {
            Label::StreamUpdate | Label::ConsumerUpdate => {
                provision_other_settings(ground).await;
                run_killed_start(ground, point, &["migrate"]).await;
            }
            Label::IdempotencyPurgeCommit => {
                run_killed_start(ground, point, &["up", "--http-listen", "127.0.0.1:0"]).await
            }
            _ => run_killed_start(ground, point, &["migrate"]).await,
        }
    }
    ground.run_to_success(&["migrate"]).await;
    ground.up().await;
    ground.publish_events("after-all", &build_correcting_runs("after-all", "deploy_service", 0..RUNS)).await;
    ground.wait_until_finished("after-all", RUNS).await;
}

async fn run_killed_start(ground: &mut CrashHarness, point: CrashPoint, arguments: &[&str]) {
    if ground.is_killed() {
        ground.run_killed_command(point, arguments).await;
        ground.record_recovery();
    }
}

/// Provisions streams with another size and consumers with another acknowledgement wait.
async fn provision_other_settings(ground: &CrashHarness) {
    let sizes = StreamSizes { work_bytes: 64 * 1024 * 1024, ..StreamSizes::divide(608) };
    let config = BusConfig { sizes, ..BusConfig::new(ground.nats_url(), "test") };
    let bus = Bus::connect(config).await.expect("an address");
    ground.wait_for("the broker answers", async || bus.is_connected().then_some(())).await;
    topology::ensure_topology(&bus, Duration::from_secs(7)).await.expect("the broker creates them");
}

impl CrashHarness {
    async fn run_to_success(&self, arguments: &[&str]) {
        let answer = self.run_retro(arguments).await;
        assert_eq!(answer.code, Some(0), "{answer:?}");
    }
}
