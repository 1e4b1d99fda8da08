//! `retro up`: every role in one process, which also keeps the broker running and the database migrated.

mod ground;

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use retro_bus::Role;
use retro_bus::server::NatsServer;
use retro_config::Config;
use retro_http::Scrape;

use crate::commands::Exit;
use crate::instance::Instance;
use crate::policies::PolicyBook;
use crate::process::{Doors, Process};
use crate::store::Stores;
use crate::{data_folder, embedder, output, store};
use ground::Ground;

/// Runs until a signal asks it to stop.
pub(crate) async fn up(config: Config, metrics: Scrape) -> anyhow::Result<Exit> {
    let policies = Arc::new(PolicyBook::load(config.pipelines.as_deref())?);
    let vectors = embedder::source(&config)?;
    data_folder::secure(&config.data_dir)?;
    let _lock = lock(&config.data_dir)?;
    let roles = roles(&config);
    let doors = Doors::open(&config, &roles).await?;
    let Ground { server, nats_url, bus } = ground::prepare(&config, &policies, &doors, &metrics).await?;
    let http_url = doors.http_url().context("a gateway has an HTTP side")?;
    let bridge_url = doors.bridge_url();
    let Stores { store, agents } = store::lazy(&config)?;
    let data_dir = config.data_dir.clone();
    let supervised = server.as_ref().map(NatsServer::watch);
    let process = Process { config, roles, store, agents, bus, policies, vectors, supervised, metrics };
    let ended = process.run(doors, || at_work(&data_dir, nats_url, http_url, bridge_url)).await;
    if let (Some(server), Ok(Exit::Done) | Err(_)) = (server, &ended) {
        server.stop().await;
    }
    Instance::remove(&data_dir);
    ended
}

/// All of them; a bridge only where there is a secret for it.
fn roles(config: &Config) -> BTreeSet<Role> {
    let bridged = config.is_bridged();
    Role::ALL.into_iter().filter(|role| *role != Role::Bridge || bridged).collect()
}

fn at_work(
    data_dir: &Path,
    nats_url: String,
    http_url: String,
    bridge_url: Option<String>,
) -> anyhow::Result<()> {
    let webhooks = bridge_url.as_ref().map_or(String::new(), |url| format!("; webhooks at {url}"));
    let told = format!("retro is up: {http_url} (data in {}){webhooks}", data_dir.display());
    Instance { pid: std::process::id(), nats_url, http_url, bridge_url }.write(data_dir)?;
    output::told(&told);
    Ok(())
}

/// Two processes on one data folder would fight over the broker's store.
fn lock(data_dir: &Path) -> anyhow::Result<File> {
    let path = data_dir.join("lock");
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    if file.try_lock().is_err() {
        bail!("another `retro up` uses {}; stop it or give another --data-dir", data_dir.display());
    }
    Ok(file)
}
