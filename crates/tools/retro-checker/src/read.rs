//! Reads states with its own SQL and broker requests, so the check shares no code with the program.

mod broker;
mod database;

use crate::CheckError;
use crate::state::{State, WorkCounts};
use database::Database;

/// Open database, and optionally broker, from which states are read.
#[derive(Debug)]
pub struct StateSource {
    database: Database,
    nats_url: Option<String>,
}

impl StateSource {
    /// Opens a database, given as `sqlite:<file>` or `postgres://…`, and optionally a broker. Without a
    /// broker, its invariants are not checked.
    pub async fn open(database_url: &str, nats_url: Option<&str>) -> Result<Self, CheckError> {
        let database = Database::open(database_url).await?;
        Ok(Self { database, nats_url: nats_url.map(str::to_owned) })
    }

    /// Reads the current state of the database and the broker. The error names the unreadable table or
    /// stream.
    pub async fn read_state(&self) -> Result<State, CheckError> {
        let mut state = self.read_database_only().await?;
        if let Some(url) = &self.nats_url {
            // Read the broker first, then the database again: effects are committed before the
            // acknowledgement, so the second read contains the effects of every acknowledged message.
            let broker = broker::read_broker(url).await?;
            state = self.read_database_only().await?;
            state.broker = broker;
        }
        Ok(state)
    }

    /// Counts what is done and under way in the database. Unlike a state, it can be read every millisecond.
    pub async fn count_work(&self) -> Result<WorkCounts, CheckError> {
        self.database.count_work().await
    }

    /// Reads the current state of the database only, for use while the broker may be down.
    pub async fn read_database_only(&self) -> Result<State, CheckError> {
        self.database.read_state().await
    }
}
