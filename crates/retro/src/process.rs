//! Runs a process: a set of roles over one broker and one database.
//!
//! **The need.** A laptop runs all roles in one process, and a team runs many processes with single roles;
//! both are assembled here. Processes start in any order, even before their broker and database, and stop at
//! any moment.
//!
//! **The design.** Nothing here waits for a connection: the broker and database handles connect in the
//! background. HTTP is served from the start, and `/readyz` lists the missing parts; agents get an empty
//! response with the reason. The roles start once nothing is missing. From then on, each role survives an
//! outage (messages are deferred, failed sweeps and checks are repeated), and `/readyz` reports it.
//!
//! **Shutdown.** No more messages are pulled and no more investigations are claimed. Work in progress may
//! continue for `shutdown_grace_s`. Then the leases of investigations are released, so any other process can
//! continue them immediately, and all other work is left as if the process had been killed. Acknowledgements
//! are flushed.
//!
//! **Hanging work.** Work that computes without end cannot be stopped. If work exceeds its time limit and
//! does not end after being cancelled, `/readyz` reports it, and after a grace period the process exits with
//! its own exit code. The supervisor starts a new process; the attempt has already been counted, so a message
//! that always hangs ends as a dead letter.
//!
//! **No leader.** Every role, including its sweep, may run in any number of processes. If two of them find
//! the same work, the database decides: the row shows that it is already counted, sampled, claimed, closed or
//! marked as sent.

mod gauges;
mod listeners;
mod readiness;
mod replay;
mod retention;
mod roles;
mod shutdown;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use retro_bus::server::ServerState;
use retro_bus::{Bus, Role};
use retro_config::Config;
use retro_events::hosts::DatarefHosts;
use retro_http::Scrape;
use retro_store::{EmbeddingSource, RecallStore, Store};
use retro_watchdog::Watchdog;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::error;

use crate::commands::Exit;
use crate::policies::{self, PolicySource};
pub(crate) use listeners::Listeners;
use readiness::ReadinessState;
use shutdown::Signals;

/// Extra time for the shutdown beyond `shutdown_grace_s`, to release leases, flush acknowledgements and allow
/// for a slow database.
const SHUTDOWN_MARGIN: Duration = Duration::from_secs(8);

/// The parts of a process that is about to run.
pub(crate) struct Process {
    pub(crate) config: Config,
    pub(crate) roles: BTreeSet<Role>,
    pub(crate) store: Arc<dyn Store>,
    /// Handle to the same database with its own connection pool, for agents' requests.
    pub(crate) agents: Arc<dyn RecallStore>,
    pub(crate) bus: Bus,
    pub(crate) policies: Arc<PolicySource>,
    /// Source of the embeddings for comparing lessons; `None` for the built-in embedder.
    pub(crate) vectors: Option<Arc<dyn EmbeddingSource>>,
    /// State of the supervised broker; `None` if the broker is external.
    pub(crate) supervised: Option<watch::Receiver<ServerState>>,
    /// Callback for `/metrics`.
    pub(crate) metrics: Scrape,
}

/// A running process, with the state shared by its tasks.
struct RunningProcess {
    process: Process,
    /// Notified if there may be messages to send.
    outbox: Arc<Notify>,
    ready: ReadinessState,
    stop: CancellationToken,
    /// `true` if the last check found that the broker belongs to another database.
    is_foreign: Arc<watch::Sender<bool>>,
    tasks: TaskTracker,
    watchdog: Watchdog,
}

impl Process {
    /// Returns the hosts, other than the broker, from which bodies may be fetched.
    fn dataref_hosts(&self) -> DatarefHosts {
        self.config.allowed_hosts().expect("invalid hosts were rejected when the configuration was loaded")
    }

    /// Runs until a signal arrives, then shuts down gracefully. `at_work` is called once, after the roles
    /// have started. Fails if the shutdown takes too long.
    pub(crate) async fn run(
        self,
        doors: Listeners,
        at_work: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<Exit> {
        // Listen first, so a signal during the start is not lost.
        let mut signals = Signals::listen()?;
        let running = RunningProcess {
            process: self,
            outbox: Arc::default(),
            ready: ReadinessState::default(),
            stop: CancellationToken::new(),
            is_foreign: Arc::new(watch::Sender::new(false)),
            tasks: TaskTracker::new(),
            watchdog: Watchdog::start(end_hung_process).context("the watchdog thread cannot be started")?,
        };
        let closed = running.serve_listeners(doors);
        running.watch_readiness();
        let edits = policies::watch_policies(running.process.policies.clone(), running.stop.clone());
        running.tasks.spawn(edits);
        let mut was_taken_over = false;
        tokio::select! {
            () = running.ready.wait_until_ready() => {
                running.start_roles();
                at_work()?;
                let mut is_foreign = running.is_foreign.subscribe();
                tokio::select! {
                    _ = signals.next() => {}
                    // Once another database has taken over the broker, its messages must not be consumed into
                    // this one.
                    _ = is_foreign.wait_for(|is_foreign| *is_foreign) => was_taken_over = true,
                }
            }
            _ = signals.next() => {}
        }
        let exit = running.shut_down(&mut signals).await;
        // Health is served until here, so probes see that the process is shutting down.
        closed.cancel();
        if was_taken_over {
            bail!(
                "the broker was taken over for another database while this process was running; it stopped \
                 consuming"
            );
        }
        exit
    }
}

/// Exits because work hangs. Runs on the watchdog's own thread and skips the graceful shutdown, which could
/// hang as well, so the process ends as if killed.
fn end_hung_process(overdue: &str) {
    error!("{overdue} after its time limit; the process exits so that its supervisor restarts it");
    std::process::exit(Exit::Hung.exit_code().into());
}

impl RunningProcess {
    fn start_roles(&self) {
        self.tasks.spawn(self.gauge_updater().update_process_gauges());
        for role in &self.process.roles {
            self.start_role(*role);
        }
    }
}
