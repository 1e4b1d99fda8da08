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

mod dependency_check;
mod gauges;
mod listeners;
mod readiness;
mod replay;
mod retention;
mod roles;
mod running;
mod shutdown;

use std::sync::Arc;

use anyhow::{Context, bail};
use retro_consumer::Watchdog;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::error;

use crate::exit::Exit;
use crate::policies;
pub(crate) use listeners::Listeners;
use readiness::ReadinessState;
pub(crate) use running::Process;
use running::RunningProcess;
pub(crate) use shutdown::Signals;

impl Process {
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
        self.start_outbox_announcements();
    }
}
