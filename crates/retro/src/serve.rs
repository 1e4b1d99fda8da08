//! Runs `retro serve`: one or more roles of a fleet, with an external broker and database.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::bail;
use retro_bus::{Bus, BusConfig, Role, TopologyMode};
use retro_config::{Config, LoadedConfig};
use retro_http::Scrape;

use crate::exit::Exit;
use crate::model::ModelUsers;
use crate::policies::PolicySource;
use crate::process::{Listeners, Process};
use crate::store::Stores;
use crate::{broker, embedder, github, model, output, store};

/// Fails if no database is configured. The default is a SQLite file in the current directory, into which this
/// process would count its share of the fleet's events.
pub(crate) fn require_database(loaded: &LoadedConfig) -> anyhow::Result<()> {
    if loaded.config.database_url.is_none() && !loaded.origins.contains_key("data_dir") {
        bail!(
            "`retro serve` needs a database: set DATABASE_URL or database_url to the fleet's Postgres. To use \
             SQLite, for processes of one machine, name its folder by --data-dir, RETRO_DATA_DIR or data_dir"
        );
    }
    Ok(())
}

/// Runs the roles until a signal arrives. Waits as long as necessary for the broker, the database, migrations
/// and streams.
pub(crate) async fn run_serve(
    config: Config,
    roles: BTreeSet<Role>,
    metrics: Scrape,
) -> anyhow::Result<Exit> {
    let Some(url) = &config.nats_url else {
        bail!("`retro serve` needs a broker: set NATS_URL or nats_url. `retro up` starts its own");
    };
    let policies = Arc::new(PolicySource::load(config.pipelines.as_deref())?);
    let vectors = embedder::load_for_roles(&config, &roles)?;
    let ModelUsers { engine, reader } = model::build_model_users(&config, &roles, &policies)?;
    let job_logs = github::job_log_fetcher(&config)?;
    let names = roles.iter().map(|role| role.as_str()).collect::<Vec<_>>().join(", ");
    let name = format!("retro {names}");
    let bus = Bus::connect(BusConfig {
        topology_mode: TopologyMode::Verify,
        ..broker::bus_config(&config, url.expose(), name)
    })
    .await?;
    let agents_bus = match roles.contains(&Role::Gateway) && config.nats_agents {
        true => Some(broker::connect_for_agents(&config, url.expose()).await?),
        false => None,
    };
    let listeners = Listeners::open(&config, &roles).await?;
    let at = |what, url: Option<String>| url.map_or(String::new(), |url| format!("; {what} at {url}"));
    let (http, health) = (at("HTTP", listeners.http_url()), at("health", listeners.health_url()));
    let bridge = at("webhooks", listeners.bridge_url());
    output::print_notice(&format!(
        "retro serve: {names}; on {}{http}{bridge}{health}",
        store::database_name(&config)
    ));
    let Stores { store, agents } = store::build_lazy_stores(&config)?;
    let supervised = None;
    let process = Process {
        config,
        roles,
        store,
        agents,
        bus,
        agents_bus,
        policies,
        engine,
        reader,
        job_logs,
        vectors,
        supervised,
        metrics,
    };
    process.run(listeners, || Ok(())).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_a_fleet_needs_a_configured_database() {
        let load = |variables: &[(&str, &str)]| {
            let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            require_database(&retro_config::load_config(None, variables).unwrap())
        };
        let refused = load(&[("NATS_URL", "nats://broker")]).unwrap_err().to_string();
        assert!(refused.contains("DATABASE_URL") && refused.contains("--data-dir"), "{refused}");
        assert!(load(&[("DATABASE_URL", "postgres://db/retro")]).is_ok());
        assert!(load(&[("RETRO_DATA_DIR", "/var/lib/retro")]).is_ok());
    }
}
