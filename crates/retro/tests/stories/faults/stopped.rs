//! A relay that is stopped in the very step in which it says something, until another has said it.

use super::{all_is_well, each_said_once};
use crate::world::{Fleet, Kind, mending};

const RUNS: u64 = 10;

/// It has told the broker, or is about to, and wakes up when another relay has told all of it.
#[tokio::test]
async fn a_relay_that_wakes_up_within_its_step_says_nothing_that_was_not_said() {
    for moment in ["relay.publish:before", "relay.publish:after", "relay.mark.commit:before"] {
        let mut fleet = Fleet::start(Kind::Postgres, &[("counter,sampler,investigator,writer", 1)]).await;
        let zombie = fleet.serve_with("relay", &[("FAULT_STOP", moment)]);
        fleet.ready(zombie).await;
        let file = fleet.write_events("runs.jsonl", &mending("release", "deploy_service", 0..RUNS));
        fleet.ask(&["emit", &file]).await;
        fleet.stopped(zombie).await;
        let heir = fleet.serve("relay");
        fleet.ready(heir).await;
        fleet.still().await;
        let before = (fleet.export().await, each_said_once(&fleet).await);
        fleet.wake(zombie);
        // It answers when it has gone on.
        fleet.ready(zombie).await;
        fleet.emit("default", "more.jsonl", &mending("more", "deploy_service", 0..RUNS)).await;
        all_is_well(&fleet, 2 * RUNS).await;
        assert_eq!(
            each_said_once(&fleet).await,
            2 * before.1,
            "{moment}: as much was said of the second ten"
        );
        fleet.stop_all().await;
    }
}
