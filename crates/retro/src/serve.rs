//! `retro serve`: one or more roles of a fleet, over a broker and a database that are somebody else's.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::bail;
use retro_bus::{Bus, BusConfig, Role, Upkeep};
use retro_config::{Config, Loaded};
use retro_http::Scrape;

use crate::commands::Exit;
use crate::policies::PolicyBook;
use crate::process::{Doors, Process};
use crate::store::Stores;
use crate::{embedder, output, store};

/// Fails when nothing names the database. The default would be a SQLite file in the current directory, into which a
/// process of a fleet would count its share of the events that belong into the fleet's own database.
pub(crate) fn require_database(loaded: &Loaded) -> anyhow::Result<()> {
    if loaded.config.database_url.is_none() && !loaded.origins.contains_key("data_dir") {
        bail!(
            "`retro serve` needs a database: set DATABASE_URL or database_url to the fleet's Postgres. Where SQLite is \
             meant, for processes of one machine, say so by naming its folder: --data-dir, RETRO_DATA_DIR or data_dir"
        );
    }
    Ok(())
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_a_fleet_needs_a_database_that_somebody_named() {
        let load = |variables: &[(&str, &str)]| {
            let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            require_database(&retro_config::load(None, variables).unwrap())
        };
        let refused = load(&[("NATS_URL", "nats://broker")]).unwrap_err().to_string();
        assert!(refused.contains("DATABASE_URL") && refused.contains("--data-dir"), "{refused}");
        assert!(load(&[("DATABASE_URL", "postgres://db/retro")]).is_ok());
        assert!(load(&[("RETRO_DATA_DIR", "/var/lib/retro")]).is_ok());
    }
}
