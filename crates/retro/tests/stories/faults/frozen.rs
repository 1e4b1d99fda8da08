//! Stops a process for longer than its lease and resumes it.

use super::{assert_each_sent_once, assert_sound_and_complete, list_samples_and_attempts};
use crate::world::{DatabaseKind, Fleet, FreezableProxy, build_correcting_runs};

#[tokio::test]
async fn a_zombie_on_a_shared_file_commits_nothing_and_publishes_nothing() {
    check_zombie_does_nothing(DatabaseKind::Sqlite).await;
}

#[tokio::test]
async fn a_zombie_on_postgres_commits_nothing_and_publishes_nothing() {
    check_zombie_does_nothing(DatabaseKind::Postgres).await;
}

/// The process has claimed an investigation whose body does not arrive. While it is stopped, another process
/// takes over and finishes everything. Then the body arrives and the zombie continues.
async fn check_zombie_does_nothing(kind: DatabaseKind) {
    let mut fleet = Fleet::start(kind, &[("counter,sampler,writer,relay", 1)]).await;
    let line = FreezableProxy::start(fleet.nats_url()).await;
    let soon_lost = [("NATS_URL", line.url()), ("RETRO_LEASE_S", "2")];
    let zombie = fleet.serve_with_env("investigator,relay", &soon_lost);
    fleet.wait_until_ready(zombie).await;
    fleet.stall_investigation(&line).await;
    fleet.freeze_between_writes(zombie).await;
    let [(sample, _)] = &list_samples_and_attempts(&fleet).await[..] else { panic!("one retrospective") };

    let successor = fleet.serve("investigator,relay");
    fleet.wait_until_ready(successor).await;
    fleet.wait_until_idle().await;
    let before = (fleet.export_canonical().await, assert_each_sent_once(&fleet).await);
    let log_length = fleet.read_log().len();
    line.thaw();
    fleet.resume(zombie);
    fleet.wait_for_log_after(log_length, "fenced").await;
    fleet.wait_until_ready(zombie).await;
    assert_eq!(
        (fleet.export_canonical().await, assert_each_sent_once(&fleet).await),
        before,
        "the zombie had an effect"
    );

    // The zombie keeps working alongside the other process, and no message is sent twice.
    fleet
        .emit_and_wait("default", "more.jsonl", &build_correcting_runs("small", "deploy_service", 0..10))
        .await;
    assert_sound_and_complete(&fleet, 20).await;
    let after = list_samples_and_attempts(&fleet).await;
    let [(same, attempts)] = &after.iter().filter(|(one, _)| one == sample).collect::<Vec<_>>()[..] else {
        panic!("the sample was drawn anew: {sample} and then {after:?}")
    };
    // On a busy machine, the claim may have been lost and taken again before the zombie was stopped.
    assert_eq!(same, sample);
    assert!(attempts[0] >= 2, "its first investigation was taken over: {attempts:?}");
    assert!(assert_each_sent_once(&fleet).await > before.1);
    fleet.stop_all().await;
}
