//! One process: the roles it was given, over one broker and one database.
//!
//! **The need.** A laptop runs every role in one process, a team runs many processes of single roles; both are put
//! together here. They are started in any order, also before their broker and database, and stopped at any moment.
//!
//! **The design.** Nothing here waits for a connection: broker and database are handles that connect by themselves. HTTP is
//! served from the first moment, and says on `/readyz` what is missing; agents get the empty answer with its reason. The
//! roles start working once nothing is missing. From then on each comes through an absence by itself (messages are
//! put off, sweeps and looks fail and are repeated), and `/readyz` goes on telling.
//!
//! **Stopping.** No more messages are pulled and no more investigations claimed; what is in hand may be finished for
//! `finish_s`; then a lease is released, so that any other process has the investigation at once, and the rest is
//! left as a kill would leave it. Acknowledgements are flushed.
//!
//! **Hanging.** Work that computes without end cannot be stopped. What is over its time and does not end when told to is on
//! `/readyz`, and after a grace the process ends itself with a code of its own. Its supervisor starts another one; the attempt
//! was counted before.
//!
//! **No leader.** Every role may run any number of times, its sweep included. Two that take up the same thing ask the
//! database for it: a row that is counted, sampled, claimed, closed or marked as sent already answers so.

mod doors;
mod keep;
mod levels;
mod ready;
mod replay;
mod roles;
mod stop;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use retro_bus::server::State;
use retro_bus::{Bus, Role};
use retro_config::Config;
use retro_events::hosts::DatarefHosts;
use retro_http::Scrape;
use retro_store::{RecallStore, Store, VectorSource};
use retro_watchdog::Watchdog;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::error;

use crate::commands::Exit;
use crate::policies::{self, PolicyBook};
pub(crate) use doors::Doors;
use ready::Ready;
use stop::Signals;

/// How long ending may take beyond `finish_s`: releasing, flushing, and a database that answers late.
const END_WITHIN: Duration = Duration::from_secs(8);

/// What a process is made of.
pub(crate) struct Process {
    pub(crate) config: Config,
    pub(crate) roles: BTreeSet<Role>,
    pub(crate) store: Arc<dyn Store>,
    /// The same database over connections of its own, for what agents ask.
    pub(crate) agents: Arc<dyn RecallStore>,
    pub(crate) bus: Bus,
    pub(crate) policies: Arc<PolicyBook>,
    /// What lessons are compared by, if it is not built in.
    pub(crate) vectors: Option<Arc<dyn VectorSource>>,
    /// How the broker is that this process supervises, if it does.
    pub(crate) supervised: Option<watch::Receiver<State>>,
    /// What it has measured.
    pub(crate) metrics: Scrape,
}

/// A process at work.
struct Running {
    process: Process,
    /// Rung when there may be something to send.
    outbox: Arc<Notify>,
    ready: Ready,
    stop: CancellationToken,
    /// Whether the broker was another database's at the last look.
    is_foreign: Arc<watch::Sender<bool>>,
    tasks: TaskTracker,
    watchdog: Watchdog,
}

impl Process {
    /// Where else than in the broker bodies may lie.
    fn hosts(&self) -> DatarefHosts {
        self.config.hosts().expect("an entry that is no host was refused when the configuration was read")
    }

    /// Runs until a signal, and stops in order. `at_work` is called once the roles work. Fails when it could not stop in
    /// order in time.
    pub(crate) async fn run(
        self,
        doors: Doors,
        at_work: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<Exit> {
        let mut signals = Signals::listen()?;
        let running = Running {
            process: self,
            outbox: Arc::default(),
            ready: Ready::default(),
            stop: CancellationToken::new(),
            is_foreign: Arc::new(watch::Sender::new(false)),
            tasks: TaskTracker::new(),
            watchdog: Watchdog::start(hung).context("the system gives no thread to the watchdog")?,
        };
        let closed = running.open(doors);
        running.watch();
        let edits = policies::watch(running.process.policies.clone(), running.stop.clone());
        running.tasks.spawn(edits);
        let mut was_taken = false;
        tokio::select! {
            () = running.ready.met() => {
                running.start();
                at_work()?;
                let mut is_foreign = running.is_foreign.subscribe();
                tokio::select! {
                    _ = signals.next() => {}
                    // What was taken over for another database must not be consumed into this one.
                    _ = is_foreign.wait_for(|is_foreign| *is_foreign) => was_taken = true,
                }
            }
            _ = signals.next() => {}
        }
        let exit = running.stop_in_order(&mut signals).await;
        closed.cancel();
        if was_taken {
            bail!(
                "the broker was taken over for another database while this process was at work; it stopped consuming"
            );
        }
        exit
    }
}

/// Ends the process over work that hangs, from the watchdog's own thread. Nothing is asked to stop in order, since what could
/// be asked may hang as well: it is left as a kill would leave it.
fn hung(overdue: &str) {
    error!("{overdue}, although its time is over; the process ends, for its supervisor to start it again");
    std::process::exit(Exit::Hung.code().into());
}

impl Running {
    fn start(&self) {
        self.tasks.spawn(self.looking().at_process());
        for role in &self.process.roles {
            self.start_role(*role);
        }
    }
}
