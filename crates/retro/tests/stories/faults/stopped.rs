//! A relay that is stopped in the very step in which it says something, until another has said it.

use retro_checker::ProgressFloor;

use super::{all_is_well, each_said_once, payloads};
use crate::world::{Fleet, Kind, Witness, mending};

const RUNS: u64 = 10;

/// It has told the broker, or is about to, and wakes up when another relay has told all of it.
#[tokio::test]
async fn a_relay_that_wakes_up_within_its_step_says_nothing_that_was_not_said() {
    for moment in ["relay.publish:before", "relay.publish:after", "relay.mark.commit:before"] {
        let mut fleet = Fleet::start(Kind::Postgres, &[("counter,sampler,investigator,writer", 1)]).await;
        let zombie = fleet.serve_with("relay", &[("FAULT_STOP", moment)]);
        fleet.ready(zombie).await;
        let mut witness = Witness::of(&fleet, &fleet.path("history.jsonl")).await;
        let engine = witness.emitter("an engine");
        engine.emit("release", &payloads(&mending("release", "deploy_service", 0..RUNS))).await;
        fleet.stopped(zombie).await;
        witness.fault("stop", moment);
        witness.moment().await;
        let heir = fleet.serve("relay");
        fleet.ready(heir).await;
        fleet.still().await;
        let before = (fleet.export().await, each_said_once(&fleet).await);
        fleet.wake(zombie);
        // It answers when it has gone on.
        fleet.ready(zombie).await;
        engine.emit("more", &payloads(&mending("more", "deploy_service", 0..RUNS))).await;
        all_is_well(&fleet, 2 * RUNS).await;
        let floor = ProgressFloor { counted: 2 * RUNS, closed: 2, ..ProgressFloor::default() };
        witness.judge(&fleet, &floor.with_fault("stop", 1)).await.assert_sound();
        assert_eq!(
            each_said_once(&fleet).await,
            2 * before.1,
            "{moment}: as much was said of the second ten"
        );
        fleet.stop_all().await;
    }
}
