//! `retro migrate`: everything that processes find made. They make nothing themselves, so that an old one and a new one
//! can run side by side.

use std::time::Duration;

use anyhow::bail;
use retro_bus::{Bus, BusConfig, topology};
use retro_config::Config;
use serde::Serialize;

use super::Exit;
use crate::cli::{Migrate, Output};
use crate::{output, store};

/// A broker that is started at the same time is there within this; whoever started us may start us again.
const BROKER_WITHIN: Duration = Duration::from_secs(30);
/// How often the connection is looked at until then.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What was done.
#[derive(Serialize)]
struct Migrated {
    database: String,
    /// Names of the migrations that were applied now.
    applied: Vec<String>,
    /// The broker whose streams and consumers are as they have to be; none when no address was given.
    broker: Option<String>,
}

/// Does what is missing; done twice, the second changes nothing.
/// `--take-over` says that this database takes the place of the one that the broker's streams belonged to.
pub(super) async fn run(config: &Config, args: &Migrate, output: Output) -> anyhow::Result<Exit> {
    if args.take_over && config.nats_url.is_none() {
        bail!("--take-over is about a broker: set NATS_URL or nats_url");
    }
    let applied = store::migrate(config).await?;
    let broker = match &config.nats_url {
        Some(url) => {
            make_streams(config, url.expose(), args.take_over).await?;
            Some(url.to_string())
        }
        None => None,
    };
    let done = Migrated { database: store::name(config), applied, broker };
    output::data(output, &done, || sentences(&done))?;
    Ok(Exit::Done)
}

fn sentences(done: &Migrated) -> String {
    let Migrated { database, applied, broker } = done;
    let database = match applied.as_slice() {
        [] => format!("{database} is up to date"),
        names => format!("{database}: applied {}", names.join(", ")),
    };
    match broker {
        Some(url) => format!("{database}\n{url}: streams and consumers are there"),
        None => database,
    }
}

async fn make_streams(config: &Config, url: &str, take_over: bool) -> anyhow::Result<()> {
    let bus = Bus::connect(BusConfig::new(url, "retro-migrate")).await?;
    let mut looks = tokio::time::interval(LOOK_EVERY);
    let connected = async {
        while bus.problem().is_some() {
            looks.tick().await;
        }
    };
    if tokio::time::timeout(BROKER_WITHIN, connected).await.is_err()
        && let Some(problem) = bus.problem()
    {
        bail!("the streams could not be made within {} s: {problem}", BROKER_WITHIN.as_secs());
    }
    store::introduce(config, &bus).await?;
    let ack_wait = Duration::from_secs(config.ack_wait_s);
    if take_over {
        return Ok(topology::take_over(&bus, ack_wait).await?);
    }
    Ok(topology::ensure(&bus, ack_wait).await?)
}
