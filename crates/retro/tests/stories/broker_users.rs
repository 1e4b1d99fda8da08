//! Runs a fleet in which each process is a separate broker user with the permissions that we ship.

use retro_bus::Role;
use retro_core::id::Tenant;
use retro_events::permissions::BrokerUser;
use retro_testkit::SecuredNats;
use serde_json::json;

use crate::world::{DatabaseKind, Fleet, WEBHOOK_SECRET, build_correcting_runs, run_command};

#[tokio::test]
async fn a_fleet_learns_with_each_role_as_its_own_user_of_the_broker() {
    let tenant = Tenant::new("default").expect("a name");
    let nats = SecuredNats::start(std::slice::from_ref(&tenant)).await;
    let mut fleet = Fleet::unstarted(DatabaseKind::Sqlite).await;
    fleet.set_broker_url(nats.url(&BrokerUser::Setup));
    fleet.migrate().await;
    for &role in Role::ALL {
        let url = nats.url(&BrokerUser::Role(role));
        let (bridge, secret) =
            (("RETRO_BRIDGE_LISTEN", "127.0.0.1:0"), ("RETRO_GITHUB_SECRET", WEBHOOK_SECRET));
        let nth = fleet.serve_with_env(role.as_str(), &[("NATS_URL", &url), bridge, secret]);
        fleet.wait_until_ready(nth).await;
    }
    let events = fleet.write_events("runs.jsonl", &build_correcting_runs("release", "deploy_service", 0..20));
    let mut emit = fleet.command(&["emit", &events, "-o", "json"]);
    let sent =
        run_command(emit.env("NATS_URL", nats.url(&BrokerUser::Engine(tenant.clone())))).await.parse_json();
    assert_eq!(sent["sent"], json!(20));
    fleet.wait_until_counted("default", 20).await;
    fleet.wait_until_idle().await;

    let checked = fleet.verify_store().await;
    assert_eq!((&checked["runs"], &checked["reports"]), (&json!(20), &json!(2)));
    assert_eq!(fleet.run_json(&["dead-letters", "list"]).await, json!([]));
    let log = fleet.log_tail();
    assert!(!log.contains("Permissions Violation"), "{log}");

    // An engine may send and not ask what is counted, so it is told what it lacks instead of waiting.
    let mut emit = fleet.command(&["emit", &events, "--pause-every", "20"]);
    let refused = run_command(emit.env("NATS_URL", nats.url(&BrokerUser::Engine(tenant)))).await;
    let lacks = "may publish to `$JS.API.CONSUMER.INFO.RETRO_INTAKE.counter`";
    assert!(refused.code == Some(1) && refused.err.contains(lacks), "{refused:?}");
    fleet.wait_until_idle().await;
    fleet.stop_all().await;
}
