//! A fleet in which each process is a user of its own at the broker, with the rights that are shipped.

use retro_bus::Role;
use retro_core::id::Tenant;
use retro_events::permissions::BrokerUser;
use retro_testkit::SecuredNats;
use serde_json::json;

use crate::world::{Fleet, Kind, SECRET, carry_out, mending};

#[tokio::test]
async fn a_fleet_learns_with_each_role_as_its_own_user_of_the_broker() {
    let tenant = Tenant::new("default").expect("a name");
    let nats = SecuredNats::start(std::slice::from_ref(&tenant)).await;
    let mut fleet = Fleet::nowhere(Kind::Sqlite).await;
    fleet.use_broker(nats.url(&BrokerUser::Setup));
    fleet.migrate().await;
    for role in Role::ALL {
        let url = nats.url(&BrokerUser::Role(role));
        let (bridge, secret) = (("RETRO_BRIDGE_LISTEN", "127.0.0.1:0"), ("RETRO_GITHUB_SECRET", SECRET));
        let nth = fleet.serve_with(role.as_str(), &[("NATS_URL", &url), bridge, secret]);
        fleet.ready(nth).await;
    }
    let events = fleet.write_events("runs.jsonl", &mending("release", "deploy_service", 0..20));
    let mut emit = fleet.command(&["emit", &events, "-o", "json"]);
    let sent = carry_out(emit.env("NATS_URL", nats.url(&BrokerUser::Engine(tenant)))).await.json();
    assert_eq!(sent["sent"], json!(20));
    fleet.counted("default", 20).await;
    fleet.still().await;

    let checked = fleet.sound().await;
    assert_eq!((&checked["runs"], &checked["reports"]), (&json!(20), &json!(2)));
    assert_eq!(fleet.ask(&["dead-letters", "list"]).await, json!([]));
    let log = fleet.log();
    assert!(!log.contains("Permissions Violation"), "{log}");
    fleet.stop_all().await;
}
