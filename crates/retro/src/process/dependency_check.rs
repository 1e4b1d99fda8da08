//! Checks the process's broker and database continuously while it runs.

use std::collections::BTreeSet;
use std::time::Duration;

use retro_bus::server::ServerState;
use retro_bus::{Bus, BusError, Role, topology};
use retro_store::{Store, StoreError};
use tokio::sync::watch;

use super::readiness::STOPPING;
use super::running::RunningProcess;

/// Interval between checks while something is missing. Short, so work starts soon after the missing part is
/// available.
const NOT_READY_INTERVAL: Duration = Duration::from_millis(500);
/// Interval between checks while nothing is missing. A failure is detected before the second probe of
/// `/readyz`, at the cost of a few small requests.
const READY_INTERVAL: Duration = Duration::from_secs(2);
/// Timeout for a small query, after which the database counts as unavailable.
const DATABASE_TIMEOUT: Duration = Duration::from_secs(2);

/// Missing parts found by one check.
#[derive(Debug, Default)]
struct Missing {
    reasons: Vec<String>,
    /// `true` if the broker belongs to another database.
    is_foreign: bool,
}

impl RunningProcess {
    /// Starts the checks, which run until the process stops.
    pub(super) fn watch_readiness(&self) {
        let (ready, stop) = (self.ready.clone(), self.stop.clone());
        let foreign = self.is_foreign.clone();
        let (watchdog, supervised) = (self.watchdog.clone(), self.process.supervised.clone());
        let (bus, store, roles) =
            (self.process.bus.clone(), self.process.store.clone(), self.process.roles.clone());
        self.tasks.spawn(async move {
            let looking = async {
                loop {
                    let Missing { reasons: mut missing, is_foreign } =
                        check_dependencies(&bus, &*store, &roles).await;
                    foreign.send_replace(is_foreign);
                    missing.extend(watchdog.overdue());
                    missing.extend(supervised.as_ref().and_then(describe_frozen_broker));
                    let pause = if missing.is_empty() { READY_INTERVAL } else { NOT_READY_INTERVAL };
                    ready.update_missing(missing);
                    tokio::time::sleep(pause).await;
                }
            };
            tokio::select! {
                // Not ready while stopping, so load balancers send no more requests.
                () = stop.cancelled() => ready.update_missing(vec![STOPPING.to_owned()]),
                () = looking => {}
            }
        });
    }
}

/// Checks the broker and the database and returns everything that is currently missing.
async fn check_dependencies(bus: &Bus, store: &dyn Store, roles: &BTreeSet<Role>) -> Missing {
    // The process must know its database before it can check who owns the broker, and nothing may start
    // before that check.
    let first = if bus.has_database() { None } else { Some(check_database(bus, store).await) };
    let (mut missing, database) = match first {
        Some(known) => (check_broker(bus, roles).await, known),
        None => tokio::join!(check_broker(bus, roles), check_database(bus, store)),
    };
    missing.reasons.extend(database);
    missing
}

/// Returns the reason why the supervised broker accepts no messages, or `None` if it does.
fn describe_frozen_broker(broker: &watch::Receiver<ServerState>) -> Option<String> {
    match &*broker.borrow() {
        ServerState::WriteBlocked { problem, .. } => Some(problem.clone()),
        ServerState::Healthy { .. } | ServerState::Down => None,
    }
}

async fn check_broker(bus: &Bus, roles: &BTreeSet<Role>) -> Missing {
    if let Some(problem) = bus.connection_problem() {
        return Missing { reasons: vec![problem], is_foreign: false };
    }
    let roles: Vec<Role> = roles.iter().copied().collect();
    let problems = topology::find_problems(bus, &roles).await;
    let mut reasons: Vec<String> = problems.iter().map(ToString::to_string).collect();
    // A refused inbox is reported for each request.
    reasons.dedup();
    Missing { is_foreign: problems.iter().any(|one| matches!(one, BusError::OtherDatabase { .. })), reasons }
}

async fn check_database(bus: &Bus, store: &dyn Store) -> Option<String> {
    let query = async {
        let missing = store.list_missing_migrations().await?;
        if missing.is_empty() && !bus.has_database() {
            bus.set_database(&store.load_database_id().await?);
        }
        Ok::<_, StoreError>(missing)
    };
    match tokio::time::timeout(DATABASE_TIMEOUT, query).await {
        Ok(Ok(missing)) if missing.is_empty() => None,
        Ok(Ok(missing)) => Some(format!("the database lacks {}; run `retro migrate`", missing.join(", "))),
        Ok(Err(problem)) => Some(problem.to_string()),
        Err(_) => Some(format!("the database does not answer within {} s", DATABASE_TIMEOUT.as_secs())),
    }
}
