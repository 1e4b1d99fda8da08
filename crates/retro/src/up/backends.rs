//! Prepares the backends of `retro up`: the broker, the migrated database and the broker's streams.
//!
//! If the disk is full or Postgres is unavailable, the attempt is repeated until it succeeds, because agents
//! must get a response to their requests for context. Meanwhile `/readyz` lists the missing parts,
//! `POST /v1/context` returns the memories that can still be read from the database, or an empty response
//! with the reason, and every other route responds with 503 and that reason. For any other failure, waiting
//! is pointless and the start fails.

use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use retro_bus::server::{NatsServer, ServerConfig};
use retro_bus::{Bus, topology};
use retro_config::Config;
use retro_http::{Probes, Readiness, Scrape};
use retro_store::StoreError;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use crate::policies::PolicySource;
use crate::process::Listeners;
use crate::{broker, data_folder, store};

/// Interval between attempts. Short enough to continue soon after space is freed; starting the broker every
/// few seconds costs little.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// Timeout for connecting to the broker. A supervised one listens already.
const BROKER_TIMEOUT: Duration = Duration::from_secs(5);
/// Minimum free disk space for a start, in bytes. Even the smallest migration and the broker's own files need
/// more.
const PROBE_BYTES: usize = 256 * 1024;

/// Broker and database of `retro up`, ready for use.
pub(super) struct Backends {
    /// The supervised broker; `None` if the broker is external.
    pub(super) server: Option<NatsServer>,
    pub(super) nats_url: String,
    pub(super) bus: Bus,
}

/// Prepares the broker and the database, and meanwhile serves the routes that already work. Fails if waiting
/// cannot help.
pub(super) async fn prepare_backends(
    config: &Config,
    policies: &Arc<PolicySource>,
    listeners: &Listeners,
    metrics: &Scrape,
) -> anyhow::Result<Backends> {
    let problem = match try_prepare(config).await {
        Ok(ground) => return Ok(ground),
        Err(problem) => find_wait_reason(config, problem)?,
    };
    let (stop, served) = (CancellationToken::new(), TaskTracker::new());
    let (reason, reasons) = watch::channel(problem);
    warn!("not ready: {}", *reason.borrow());
    let ready = Arc::new(move || Readiness::NotReady(reasons.borrow().clone()));
    let probes = Probes { ready, metrics: metrics.clone() };
    listeners.serve_not_ready(config, policies, &probes, &stop, &served)?;
    let ground = loop {
        tokio::time::sleep(RETRY_INTERVAL).await;
        match try_prepare(config).await {
            Ok(ground) => break ground,
            Err(problem) => {
                let problem = find_wait_reason(config, problem)?;
                if reason.send_if_modified(|current| std::mem::replace(current, problem) != *current) {
                    warn!("not ready: {}", *reason.borrow());
                }
            }
        }
    };
    info!("broker and database are available now");
    stop.cancel();
    served.close();
    // Both routers accept from the same sockets: wait, or the old one would still answer with 503.
    served.wait().await;
    Ok(ground)
}

async fn try_prepare(config: &Config) -> anyhow::Result<Backends> {
    // The database comes first: while it is unavailable, the broker should not be started and stopped
    // repeatedly.
    store::migrate_database(config).await?;
    let server = start_broker(config).await?;
    let nats_url = match (&server, &config.nats_url) {
        (Some(server), _) => server.url().to_owned(),
        (None, Some(url)) => url.expose().to_owned(),
        (None, None) => unreachable!("a broker is supervised if no address is configured"),
    };
    let bus = Bus::connect(broker::bus_config(config, &nats_url, "retro-up")).await?;
    broker::wait_until_connected(&bus, BROKER_TIMEOUT).await.context("cannot set up the broker's streams")?;
    store::set_bus_database(config, &bus).await?;
    let ack_wait = Duration::from_secs(config.ack_wait_s);
    let created = match &server {
        // No other process uses the broker in our own folder, so it belongs to this database, even if it
        // belonged to another one before.
        Some(_) => topology::take_over(&bus, ack_wait).await,
        None => topology::ensure_topology(&bus, ack_wait).await,
    };
    created.context("cannot set up the broker's streams")?;
    Ok(Backends { server, nats_url, bus })
}

/// Starts a supervised nats-server, or returns `None` if an external broker is configured.
async fn start_broker(config: &Config) -> anyhow::Result<Option<NatsServer>> {
    if config.nats_url.is_some() {
        return Ok(None);
    }
    let server = NatsServer::start(ServerConfig {
        binary: config.nats_server.clone(),
        data_dir: config.data_dir.join(data_folder::BROKER_FOLDER),
        port: Some(config.nats_port).filter(|port| *port != 0),
    })
    .await?;
    Ok(Some(server))
}

/// Describes the missing backend to wait for, or returns the error if waiting cannot help.
fn find_wait_reason(config: &Config, problem: anyhow::Error) -> anyhow::Result<String> {
    if config.database_url.is_some()
        && let Some(StoreError::Unavailable(error)) = problem.downcast_ref()
    {
        return Ok(format!("the database is not available: {error}"));
    }
    match probe_disk_space(&config.data_dir) {
        Err(full) if is_disk_full(full.kind()) => Ok(format!(
            "the disk of {} has no room ({problem:#}); free some space, and the process continues by itself",
            config.data_dir.display()
        )),
        _ => Err(problem),
    }
}

const fn is_disk_full(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// Writes and removes a file of [`PROBE_BYTES`]. Asking for the free space is not enough, because part of it
/// may be reserved for other users.
fn probe_disk_space(folder: &Path) -> std::io::Result<()> {
    let path = folder.join("room.probe");
    let written = std::fs::File::create(&path).and_then(|mut file| {
        file.write_all(&vec![0; PROBE_BYTES])?;
        file.sync_all()
    });
    // A probe that could not be created leaves nothing to remove.
    let _ = std::fs::remove_file(&path);
    written
}

#[cfg(test)]
mod tests {
    use retro_bus::StreamSizes;
    use retro_config::Secret;

    use super::*;

    #[test]
    fn streams_have_the_same_sizes_with_and_without_a_configuration() {
        assert_eq!(StreamSizes::divide(Config::default().streams_mib), StreamSizes::default());
    }

    #[test]
    fn only_a_full_disk_and_an_unavailable_database_are_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config { data_dir: folder.path().to_owned(), ..Config::default() };
        let mistake = || anyhow::anyhow!("no nats-server was found");
        assert!(find_wait_reason(&config, mistake()).is_err(), "the disk is not full");
        let away = || anyhow::Error::new(StoreError::Unavailable("refused".to_owned()));
        assert!(find_wait_reason(&config, away()).is_err(), "a file that cannot be opened is a mistake");
        config.database_url = Some(Secret::new("postgres://nowhere/retro"));
        assert_eq!(find_wait_reason(&config, away()).unwrap(), "the database is not available: refused");
        assert!(find_wait_reason(&config, mistake()).is_err());
        assert!(is_disk_full(ErrorKind::StorageFull) && !is_disk_full(ErrorKind::PermissionDenied));
    }
}
