//! What `retro up` stands on: its broker, its database with every migration, and the broker's streams.
//!
//! A disk without room, or a Postgres that is away, is no reason to be away oneself: agents ask for context and have to
//! get an answer. So the attempt is repeated until it succeeds, and meanwhile the doors are open: `/readyz` says what
//! is missing, `POST /v1/context` hands out what the database can still be read for, or nothing and the reason, and
//! every other route answers 503 with that reason. Any other failure is a mistake that waiting does not mend: it ends
//! the start.

use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use retro_bus::server::{NatsServer, ServerConfig};
use retro_bus::{Bus, BusConfig, topology};
use retro_config::Config;
use retro_gateway::Gateway;
use retro_http::{Probes, Readiness, Scrape};
use retro_store::StoreError;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use crate::policies::PolicyBook;
use crate::process::Doors;
use crate::{data_folder, store};

/// Between two attempts: soon after somebody made room, and a start of the broker every few seconds costs little.
const TRY_EVERY: Duration = Duration::from_secs(2);
/// Less than this cannot be a start: the smallest migration and the broker's own files take more.
const ROOM_BYTES: usize = 256 * 1024;

/// A broker and a database that are ready to be worked on.
pub(super) struct Ground {
    /// The broker that this process supervises, if it does.
    pub(super) server: Option<NatsServer>,
    pub(super) nats_url: String,
    pub(super) bus: Bus,
}

/// Prepares broker and database, and serves meanwhile what can be served. Fails on what waiting does not mend.
pub(super) async fn prepare(
    config: &Config,
    policies: &Arc<PolicyBook>,
    doors: &Doors,
    metrics: &Scrape,
) -> anyhow::Result<Ground> {
    let problem = match try_prepare(config).await {
        Ok(ground) => return Ok(ground),
        Err(problem) => await_reason(config, problem)?,
    };
    let (stop, served) = (CancellationToken::new(), TaskTracker::new());
    let (reason, reasons) = watch::channel(problem);
    warn!("not ready: {}", *reason.borrow());
    let gateway = Gateway::new(store::lazy(config)?.agents, policies.clone());
    let gateway = gateway.answering_within(Duration::from_millis(config.answer_ms));
    let ready = Arc::new(move || Readiness::NotReady(reasons.borrow().clone()));
    let probes = Probes { ready, metrics: metrics.clone() };
    doors.serve_waiting(&gateway, &probes, &stop, &served)?;
    let ground = loop {
        tokio::time::sleep(TRY_EVERY).await;
        match try_prepare(config).await {
            Ok(ground) => break ground,
            Err(problem) => {
                let problem = await_reason(config, problem)?;
                if reason.send_if_modified(|told| std::mem::replace(told, problem) != *told) {
                    warn!("not ready: {}", *reason.borrow());
                }
            }
        }
    };
    info!("broker and database are there now");
    stop.cancel();
    served.close();
    served.wait().await;
    Ok(ground)
}

async fn try_prepare(config: &Config) -> anyhow::Result<Ground> {
    // The database first: while it is away no broker is started and stopped again and again.
    store::migrate(config).await?;
    let server = supervise(config).await?;
    let nats_url = match (&server, &config.nats_url) {
        (Some(server), _) => server.url().to_owned(),
        (None, Some(url)) => url.expose().to_owned(),
        (None, None) => unreachable!("without an address a server is supervised"),
    };
    let bus = Bus::connect(BusConfig::new(&nats_url, "retro-up")).await?;
    store::introduce(config, &bus).await?;
    let ack_wait = Duration::from_secs(config.ack_wait_s);
    let made = match &server {
        // Nobody else works with the broker in our own folder: whatever database it had before, it has this one now.
        Some(_) => topology::take_over(&bus, ack_wait).await,
        None => topology::ensure(&bus, ack_wait).await,
    };
    made.context("cannot set up the broker's streams")?;
    Ok(Ground { server, nats_url, bus })
}

/// Starts a nats-server of our own, unless an address was given.
async fn supervise(config: &Config) -> anyhow::Result<Option<NatsServer>> {
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

/// What is waited for, in a sentence; the problem itself when waiting does not mend it.
fn await_reason(config: &Config, problem: anyhow::Error) -> anyhow::Result<String> {
    if config.database_url.is_some()
        && let Some(StoreError::Unavailable(away)) = problem.downcast_ref()
    {
        return Ok(format!("the database is not available: {away}"));
    }
    match room(&config.data_dir) {
        Err(full) if is_full(full.kind()) => Ok(format!(
            "the disk of {} has no room ({problem:#}); free some, and everything goes on by itself",
            config.data_dir.display()
        )),
        _ => Err(problem),
    }
}

const fn is_full(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// Whether a file of [`ROOM_BYTES`] can be written in a folder. Tried, since what a disk says is free may be another's.
fn room(folder: &Path) -> std::io::Result<()> {
    let path = folder.join("room.probe");
    let written = std::fs::File::create(&path).and_then(|mut file| {
        file.write_all(&vec![0; ROOM_BYTES])?;
        file.sync_all()
    });
    // A probe that could not be made leaves nothing to remove.
    let _ = std::fs::remove_file(&path);
    written
}

#[cfg(test)]
mod tests {
    use retro_config::Secret;

    use super::*;

    #[test]
    fn only_a_full_disk_and_a_database_that_is_away_are_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config { data_dir: folder.path().to_owned(), ..Config::default() };
        let mistake = || anyhow::anyhow!("no nats-server was found");
        assert!(await_reason(&config, mistake()).is_err(), "there is room");
        let away = || anyhow::Error::new(StoreError::Unavailable("refused".to_owned()));
        assert!(await_reason(&config, away()).is_err(), "a file that cannot be opened is a mistake");
        config.database_url = Some(Secret::new("postgres://nowhere/retro"));
        assert_eq!(await_reason(&config, away()).unwrap(), "the database is not available: refused");
        assert!(await_reason(&config, mistake()).is_err());
        assert!(is_full(ErrorKind::StorageFull) && !is_full(ErrorKind::PermissionDenied));
    }
}
