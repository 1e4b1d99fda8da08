//! Runs `retro migrate`, which migrates the database and creates the broker's streams. The processes of a
//! fleet do neither, so an old and a new version can run side by side.

use std::time::Duration;

use anyhow::{Context, bail};
use retro_bus::{Bus, topology};
use retro_config::Config;
use serde::Serialize;

use crate::cli::{Migrate, Output};
use crate::exit::Exit;
use crate::{broker, output, store};

/// Timeout for a broker that starts at the same time as the command. The command can be repeated after a
/// failure.
const BROKER_TIMEOUT: Duration = Duration::from_secs(30);

/// Result of `retro migrate`.
#[derive(Serialize)]
struct Migrated {
    database: String,
    /// Names of the migrations applied by this command.
    applied: Vec<String>,
    /// Address of the broker whose streams and consumers are now up to date; `None` if no address is
    /// configured.
    broker: Option<String>,
}

/// Applies the missing migrations and creates the streams. Repeating the command changes nothing. With
/// `--take-over`, streams that belong to another database are assigned to this one.
pub(super) async fn run_command(config: &Config, args: &Migrate, output: Output) -> anyhow::Result<Exit> {
    if args.take_over && config.nats_url.is_none() {
        bail!("--take-over needs a broker: set NATS_URL or nats_url");
    }
    let applied = store::migrate_database(config).await?;
    let broker = match &config.nats_url {
        Some(url) => {
            create_streams(config, url.expose(), args.take_over).await?;
            Some(url.to_string())
        }
        None => None,
    };
    let done = Migrated { database: store::database_name(config), applied, broker };
    output::print_data(output, &done, || describe_migration(&done))?;
    Ok(Exit::Done)
}

fn describe_migration(done: &Migrated) -> String {
    let Migrated { database, applied, broker } = done;
    let database = match applied.as_slice() {
        [] => format!("{database} is up to date"),
        names => format!("{database}: applied {}", names.join(", ")),
    };
    match broker {
        Some(url) => format!("{database}\n{url}: streams and consumers are up to date"),
        None => database,
    }
}

async fn create_streams(config: &Config, url: &str, take_over: bool) -> anyhow::Result<()> {
    let bus = Bus::connect(broker::bus_config(config, url, "retro-migrate")).await?;
    let connected = broker::wait_until_connected(&bus, BROKER_TIMEOUT).await;
    connected.context("the streams could not be created")?;
    store::set_bus_database(config, &bus).await?;
    let ack_wait = Duration::from_secs(config.ack_wait_s);
    if take_over {
        return Ok(topology::take_over(&bus, ack_wait).await?);
    }
    Ok(topology::ensure_topology(&bus, ack_wait).await?)
}
