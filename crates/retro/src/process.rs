//! Runs one process: a set of roles over one broker and one database.
//!
//! **The need.** A laptop runs all roles in one process, and a team runs many processes with single roles; both
//! are assembled here. Processes are started in any order, also before their broker and database, and stopped at
//! any moment.
//!
//! **The design.** Nothing here waits for a connection: the handles of broker and database connect in the
//! background. HTTP is served from the start, and `/readyz` lists the missing parts; agents get an empty answer
//! with the reason. The roles start working once nothing is missing. From then on each of them survives an
//! outage (messages are deferred, failed sweeps and checks are repeated), and `/readyz` reports it.
//!
//! **Shutdown.** No further messages are pulled and no further investigations are claimed. Work in progress may
//! continue for `shutdown_grace_s`. Then an investigation's lease is released, so that any other process can
//! continue it immediately, and all other work is left as if the process had been killed. Acknowledgements are
//! flushed.
//!
//! **Hanging work.** Work that computes without end cannot be stopped. Work that exceeds its time and does not
//! end when cancelled is reported on `/readyz`, and after a grace period the process exits with a specific code.
//! Its supervisor starts another one; the attempt was counted before.
//!
//! **No leader.** Every role, including its sweep, may run any number of times. When two of them find the same
//! work, the database decides: the row shows whether it is already counted, sampled, claimed, closed or marked
//! as sent.

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

/// Time that the shutdown may take beyond `shutdown_grace_s`, for releasing leases, flushing acknowledgements,
/// and a slow database.
const SHUTDOWN_MARGIN: Duration = Duration::from_secs(8);

/// The parts from which a process is assembled.
pub(crate) struct Process {
    pub(crate) config: Config,
    pub(crate) roles: BTreeSet<Role>,
    pub(crate) store: Arc<dyn Store>,
    /// Handle of the same database with a separate connection pool, for agents' requests.
    pub(crate) agents: Arc<dyn RecallStore>,
    pub(crate) bus: Bus,
    pub(crate) policies: Arc<PolicySource>,
    /// Source of the vectors by which texts are compared; `None` for the built-in embedder.
    pub(crate) vectors: Option<Arc<dyn EmbeddingSource>>,
    /// State of the supervised broker; `None` when an external broker is configured.
    pub(crate) supervised: Option<watch::Receiver<ServerState>>,
    /// Callback that renders the metrics for `/metrics`.
    pub(crate) metrics: Scrape,
}

/// A process after its start, with the state that its tasks share.
struct RunningProcess {
    process: Process,
    /// Notified when there may be messages to send.
    outbox: Arc<Notify>,
    ready: ReadinessState,
    stop: CancellationToken,
    /// True when the last check found that the broker belongs to another database.
    is_foreign: Arc<watch::Sender<bool>>,
    tasks: TaskTracker,
    watchdog: Watchdog,
}

impl Process {
    /// Returns the hosts besides the broker from which bodies may be fetched.
    fn dataref_hosts(&self) -> DatarefHosts {
        self.config.allowed_hosts().expect("invalid hosts were rejected when the configuration was loaded")
    }

    /// Runs until a signal arrives, and then shuts down gracefully. `at_work` is called once, when the roles
    /// have started to work. Fails when the shutdown takes too long.
    pub(crate) async fn run(
        self,
        doors: Listeners,
        at_work: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<Exit> {
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
                    // Messages of a broker that another database took over must not be consumed into this one.
                    _ = is_foreign.wait_for(|is_foreign| *is_foreign) => was_taken_over = true,
                }
            }
            _ = signals.next() => {}
        }
        let exit = running.shut_down(&mut signals).await;
        // Health is served until here, so that probes can see that the process is shutting down.
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

/// Ends the process because work hangs. Called on the watchdog's own thread. There is no graceful shutdown,
/// since the code for it may hang as well. The process ends as if it had been killed.
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
