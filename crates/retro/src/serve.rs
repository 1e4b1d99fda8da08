//! `retro serve`: one or more roles of a fleet, over a broker and a database that are somebody else's.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::bail;
use retro_bus::{Bus, BusConfig, Role, Upkeep};
use retro_config::Config;
use retro_http::Scrape;

use crate::commands::Exit;
use crate::policies::PolicyBook;
use crate::process::{Doors, Process};
use crate::store::Stores;
use crate::{embedder, output, store};

/// Runs until a signal asks it to stop. Waits for broker, database, migrations and streams as long as it takes.
pub(crate) async fn serve(config: Config, roles: BTreeSet<Role>, metrics: Scrape) -> anyhow::Result<Exit> {
    let Some(url) = &config.nats_url else {
        bail!("`retro serve` needs a broker: set NATS_URL or nats_url. `retro up` starts one by itself");
    };
    let policies = Arc::new(PolicyBook::load(config.pipelines.as_deref())?);
    let vectors = embedder::of_roles(&config, &roles)?;
    let names = roles.iter().map(|role| role.as_str()).collect::<Vec<_>>().join(", ");
    let name = format!("retro {names}");
    let bus = Bus::connect(BusConfig { upkeep: Upkeep::Look, ..BusConfig::new(url.expose(), name) }).await?;
    let doors = Doors::open(&config, &roles).await?;
    let at = |what, url: Option<String>| url.map_or(String::new(), |url| format!("; {what} at {url}"));
    let (http, health) = (at("HTTP", doors.http_url()), at("health", doors.health_url()));
    let bridge = at("webhooks", doors.bridge_url());
    output::told(&format!("retro serve: {names}; on {}{http}{bridge}{health}", store::name(&config)));
    let Stores { store, agents } = store::lazy(&config)?;
    let process = Process { config, roles, store, agents, bus, policies, vectors, supervised: None, metrics };
    process.run(doors, || Ok(())).await
}
