//! Stops a relay while it sends messages, until another relay has sent them.

use retro_checker::ProgressFloor;

use super::{assert_each_sent_once, assert_sound_and_complete, encode_payloads};
use crate::world::{DatabaseKind, Fleet, Observer, build_correcting_runs};

const RUNS: u64 = 10;

/// The relay has published or is about to, and is resumed after another relay has published everything.
#[tokio::test]
async fn a_relay_resumed_within_its_step_sends_nothing_twice() {
    for moment in ["relay.publish:before", "relay.publish:after", "relay.mark.commit:before"] {
        let mut fleet =
            Fleet::start(DatabaseKind::Postgres, &[("counter,sampler,investigator,writer", 1)]).await;
        let zombie = fleet.serve_with_env("relay", &[("FAULT_STOP", moment)]);
        fleet.wait_until_ready(zombie).await;
        let mut witness = Observer::start(&fleet, &fleet.path("history.jsonl")).await;
        let engine = witness.create_emitter("an engine");
        engine
            .emit_until_stored(
                "release",
                &encode_payloads(&build_correcting_runs("release", "deploy_service", 0..RUNS)),
            )
            .await;
        fleet.wait_until_stopped(zombie).await;
        witness.record_fault("stop", moment);
        witness.capture_state().await;
        let successor = fleet.serve("relay");
        fleet.wait_until_ready(successor).await;
        fleet.wait_until_idle().await;
        let before = (fleet.export_canonical().await, assert_each_sent_once(&fleet).await);
        fleet.resume(zombie);
        // The relay responds again once it is resumed.
        fleet.wait_until_ready(zombie).await;
        engine
            .emit_until_stored(
                "more",
                &encode_payloads(&build_correcting_runs("more", "deploy_service", 0..RUNS)),
            )
            .await;
        assert_sound_and_complete(&fleet, 2 * RUNS).await;
        let floor = ProgressFloor { counted: 2 * RUNS, closed: 2, ..ProgressFloor::default() };
        witness.check_when_idle(&fleet, &floor.with_fault("stop", 1)).await.assert_sound();
        assert_eq!(
            assert_each_sent_once(&fleet).await,
            2 * before.1,
            "{moment}: the second ten runs caused as many messages"
        );
        fleet.stop_all().await;
    }
}
