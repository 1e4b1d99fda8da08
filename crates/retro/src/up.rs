//! Runs `retro up`: all roles in one process, with a supervised broker and a migrated database.

mod backends;

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use retro_bus::Role;
use retro_bus::server::NatsServer;
use retro_config::Config;
use retro_http::Scrape;

use crate::exit::Exit;
use crate::instance::Instance;
use crate::model::ModelUsers;
use crate::policies::PolicySource;
use crate::process::{Listeners, Process};
use crate::store::Stores;
use crate::{broker, data_folder, embedder, github, model, output, store};
use backends::Backends;

/// Runs all roles until a signal arrives.
pub(crate) async fn run_up(config: Config, metrics: Scrape) -> anyhow::Result<Exit> {
    let policies = Arc::new(PolicySource::load(config.pipelines.as_deref())?);
    let vectors = embedder::load_vector_source(&config)?;
    let roles = select_roles(&config);
    let ModelUsers { engine, reader } = model::build_model_users(&config, &roles, &policies)?;
    let job_logs = github::job_log_fetcher(&config)?;
    data_folder::ensure_private(&config.data_dir)?;
    // Locked until the process ends; the operating system unlocks it even after a kill.
    let _lock = lock_data_folder(&config.data_dir)?;
    let listeners = Listeners::open(&config, &roles).await?;
    let Backends { server, nats_url, bus } =
        backends::prepare_backends(&config, &policies, &listeners, &metrics).await?;
    let agents_bus = match config.nats_agents {
        true => Some(broker::connect_for_agents(&config, &nats_url).await?),
        false => None,
    };
    let http_url = listeners.http_url().context("the gateway has an HTTP listener")?;
    let bridge_url = listeners.bridge_url();
    let Stores { store, agents } = store::build_lazy_stores(&config)?;
    let data_dir = config.data_dir.clone();
    let supervised = server.as_ref().map(NatsServer::subscribe_state);
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
    let ended = process.run(listeners, || report_running(&data_dir, nats_url, http_url, bridge_url)).await;
    // A second signal requests an immediate exit, without stopping the broker gracefully.
    if let (Some(server), Ok(Exit::Done) | Err(_)) = (server, &ended) {
        server.shut_down().await;
    }
    Instance::remove(&data_dir);
    ended
}

/// Returns all roles, but the bridge only if a webhook secret is configured.
fn select_roles(config: &Config) -> BTreeSet<Role> {
    let bridged = config.has_bridge_secret();
    Role::ALL.iter().copied().filter(|role| *role != Role::Bridge || bridged).collect()
}

fn report_running(
    data_dir: &Path,
    nats_url: String,
    http_url: String,
    bridge_url: Option<String>,
) -> anyhow::Result<()> {
    let webhooks = bridge_url.as_ref().map_or(String::new(), |url| format!("; webhooks at {url}"));
    let nats = describe_broker(&nats_url, data_dir);
    let message = format!("retro is up: {http_url} (data in {}){webhooks}{nats}", data_dir.display());
    Instance { pid: std::process::id(), nats_url, http_url, bridge_url }.write(data_dir)?;
    output::print_notice(&message);
    Ok(())
}

/// Describes how to reach the broker, without its password.
fn describe_broker(nats_url: &str, data_dir: &Path) -> String {
    let address = nats_url.rsplit_once('@').map_or(nats_url, |(_, address)| address);
    let address = address.trim_start_matches("nats://");
    format!("; NATS at {address}, with its login in {}", Instance::path(data_dir).display())
}

/// Locks the data folder and returns the lock file. Two processes on one data folder would corrupt the
/// broker's store.
fn lock_data_folder(data_dir: &Path) -> anyhow::Result<File> {
    let path = data_dir.join("lock");
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    if file.try_lock().is_err() {
        bail!("another `retro up` uses {}; stop it or give another --data-dir", data_dir.display());
    }
    Ok(file)
}
