//! What the process lacks: looked at every second, told by `/readyz`, and logged once per change.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use retro_bus::server::State;
use retro_bus::{Bus, Role, topology};
use retro_http::{Readiness, ReadyCheck};
use retro_store::Store;
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
        let (watchdog, supervised) = (self.watchdog.clone(), self.process.supervised.clone());
        let (bus, store, roles) =
            (self.process.bus.clone(), self.process.store.clone(), self.process.roles.clone());
        self.tasks.spawn(async move {
            let looking = async {
                loop {
                    let mut missing = missing(&bus, &*store, &roles).await;
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
async fn missing(bus: &Bus, store: &dyn Store, roles: &BTreeSet<Role>) -> Vec<String> {
    let (mut missing, database) = tokio::join!(broker(bus, roles), database(store));
    missing.extend(database);
    missing
}

/// Why the broker of this process takes nothing more, if it does not.
fn frozen(broker: &watch::Receiver<State>) -> Option<String> {
    match &*broker.borrow() {
        State::Frozen { problem, .. } => Some(problem.clone()),
        State::Healthy { .. } | State::Down => None,
    }
}

async fn broker(bus: &Bus, roles: &BTreeSet<Role>) -> Vec<String> {
    if let Some(problem) = bus.problem() {
        return vec![problem];
    }
    let roles: Vec<Role> = roles.iter().copied().collect();
    topology::check(bus, &roles).await.iter().map(ToString::to_string).collect()
}

async fn database(store: &dyn Store) -> Option<String> {
    match tokio::time::timeout(ANSWERS_WITHIN, store.lacks()).await {
        Ok(Ok(lacks)) if lacks.is_empty() => None,
        Ok(Ok(lacks)) => Some(format!("the database lacks {}; run `retro migrate`", lacks.join(", "))),
        Ok(Err(problem)) => Some(problem.to_string()),
        Err(_) => Some(format!("the database does not answer within {} s", ANSWERS_WITHIN.as_secs())),
    }
}
