//! What the process lacks: looked at every second, told by `/readyz`, and logged once per change.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use retro_bus::server::State;
use retro_bus::{Bus, BusError, Role, topology};
use retro_http::{Readiness, ReadyCheck};
use retro_store::{Store, StoreError};
use tokio::sync::watch;
use tracing::{info, warn};

use super::Running;

/// How often is looked while something is missing: a process is at work soon after what it waits for.
const MISSING_LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often otherwise: a loss is known before a probe has asked twice, for a few small questions.
const READY_LOOK_EVERY: Duration = Duration::from_secs(2);
/// A database that takes longer for one small question does not answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

const STOPPING: &str = "the process is stopping";

/// What is missing, a sentence each. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Ready(Arc<watch::Sender<Vec<String>>>);

/// What one look found.
#[derive(Debug, Default)]
struct Missing {
    sentences: Vec<String>,
    /// The broker is another database's.
    is_foreign: bool,
}

impl Default for Ready {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(vec!["the process has just been started".to_owned()])))
    }
}

impl Ready {
    /// Waits until nothing is missing.
    pub(super) async fn met(&self) {
        // The sender is held here, so waiting ends only with what is waited for.
        let _ = self.0.subscribe().wait_for(Vec::is_empty).await;
    }

    /// What `/readyz` asks.
    pub(super) fn check(&self) -> ReadyCheck {
        let ready = self.clone();
        Arc::new(move || match ready.0.borrow().as_slice() {
            [] => Readiness::Ready,
            missing => Readiness::NotReady(missing.join("; ")),
        })
    }

    fn say(&self, missing: Vec<String>) {
        let told = missing.join("; ");
        let changed = self.0.send_if_modified(|known| {
            let changed = *known != missing;
            *known = missing;
            changed
        });
        match (changed, told.as_str()) {
            (false, _) => {}
            (true, "") => info!("ready: broker and database are there"),
            (true, STOPPING) => info!("{STOPPING}"),
            (true, told) => warn!("not ready: {told}"),
        }
    }
}

impl Running {
    /// Looks until the stop.
    pub(super) fn watch(&self) {
        let (ready, stop) = (self.ready.clone(), self.stop.clone());
        let foreign = self.is_foreign.clone();
        let (watchdog, supervised) = (self.watchdog.clone(), self.process.supervised.clone());
        let (bus, store, roles) =
            (self.process.bus.clone(), self.process.store.clone(), self.process.roles.clone());
        self.tasks.spawn(async move {
            let looking = async {
                loop {
                    let Missing { sentences: mut missing, is_foreign } = look(&bus, &*store, &roles).await;
                    foreign.send_replace(is_foreign);
                    missing.extend(watchdog.overdue());
                    missing.extend(supervised.as_ref().and_then(frozen));
                    let pause = if missing.is_empty() { READY_LOOK_EVERY } else { MISSING_LOOK_EVERY };
                    ready.say(missing);
                    tokio::time::sleep(pause).await;
                }
            };
            tokio::select! {
                () = stop.cancelled() => ready.say(vec![STOPPING.to_owned()]),
                () = looking => {}
            }
        });
    }
}

/// Everything that is missing now.
async fn look(bus: &Bus, store: &dyn Store, roles: &BTreeSet<Role>) -> Missing {
    // Whose the broker is can be compared only once this process knows its database, and nothing may work before.
    let first = if bus.knows_database() { None } else { Some(database(bus, store).await) };
    let (mut missing, database) = match first {
        Some(known) => (broker(bus, roles).await, known),
        None => tokio::join!(broker(bus, roles), database(bus, store)),
    };
    missing.sentences.extend(database);
    missing
}

/// Why the broker of this process takes nothing more, if it does not.
fn frozen(broker: &watch::Receiver<State>) -> Option<String> {
    match &*broker.borrow() {
        State::Frozen { problem, .. } => Some(problem.clone()),
        State::Healthy { .. } | State::Down => None,
    }
}

async fn broker(bus: &Bus, roles: &BTreeSet<Role>) -> Missing {
    if let Some(problem) = bus.problem() {
        return Missing { sentences: vec![problem], is_foreign: false };
    }
    let roles: Vec<Role> = roles.iter().copied().collect();
    let problems = topology::check(bus, &roles).await;
    Missing {
        is_foreign: problems.iter().any(|one| matches!(one, BusError::OtherDatabase { .. })),
        sentences: problems.iter().map(ToString::to_string).collect(),
    }
}

async fn database(bus: &Bus, store: &dyn Store) -> Option<String> {
    let asked = async {
        let lacks = store.lacks().await?;
        if lacks.is_empty() && !bus.knows_database() {
            bus.set_database(&store.identity().await?);
        }
        Ok::<_, StoreError>(lacks)
    };
    match tokio::time::timeout(ANSWERS_WITHIN, asked).await {
        Ok(Ok(lacks)) if lacks.is_empty() => None,
        Ok(Ok(lacks)) => Some(format!("the database lacks {}; run `retro migrate`", lacks.join(", "))),
        Ok(Err(problem)) => Some(problem.to_string()),
        Err(_) => Some(format!("the database does not answer within {} s", ANSWERS_WITHIN.as_secs())),
    }
}
