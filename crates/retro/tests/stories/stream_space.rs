//! Tests that the streams reserve the configured space at the broker.

use serde_json::Value;

use crate::world::{DatabaseKind, Fleet, NatsConnection, World};

/// Returns the limit of the intake stream, in MiB.
async fn load_intake_mib(nats_url: &str) -> u64 {
    let mut wire = NatsConnection::connect(nats_url).await;
    let info = wire.request_api("STREAM.INFO.RETRO_INTAKE", &Value::Null).await;
    info["config"]["max_bytes"].as_u64().expect("the stream has a limit") / (1024 * 1024)
}

#[tokio::test]
async fn the_program_and_its_migration_divide_the_configured_space() {
    let mut world = World::empty();
    world.up_with_env(&[("RETRO_STREAMS_MIB", "304")]).await;
    assert_eq!(load_intake_mib(world.nats_url()).await, 128, "8 of 19 parts");
    world.stop().await;
    world.up_with_env(&[("RETRO_STREAMS_MIB", "456")]).await;
    assert_eq!(load_intake_mib(world.nats_url()).await, 192);
    world.stop().await;

    let fleet = Fleet::start(DatabaseKind::Sqlite, &[]).await;
    fleet.migrate_with_env(&[("RETRO_STREAMS_MIB", "304")]).await;
    assert_eq!(load_intake_mib(fleet.nats_url()).await, 128);
    fleet.stop_all().await;
}
