//! Reads a state with its own SQL statements and broker requests, so that the check does not depend on any
//! code of the program.

mod broker;
mod database;

use crate::CheckError;
use crate::state::State;
use database::Database;

/// Database and broker from which states are read. It is opened once and can be read several times.
#[derive(Debug)]
pub struct StateSource {
    database: Database,
    nats_url: Option<String>,
}

impl StateSource {
    /// Opens a database, given as `sqlite:<file>` or `postgres://…`, and optionally a broker. Without a broker, the
    /// invariants about it are not checked.
    pub async fn open(database_url: &str, nats_url: Option<&str>) -> Result<Self, CheckError> {
        let database = Database::open(database_url).await?;
        Ok(Self { database, nats_url: nats_url.map(str::to_owned) })
    }

    /// Reads the current state. The error names the table or stream that could not be read.
    pub async fn read_state(&self) -> Result<State, CheckError> {
        let mut state = self.read_database_only().await?;
        if let Some(url) = &self.nats_url {
            // The broker first, then the database again: effects are committed before the acknowledgement, so
            // the second read contains the effects of every acknowledged message.
            let broker = broker::read_broker(url).await?;
            state = self.read_database_only().await?;
            state.broker = broker;
        }
        Ok(state)
    }

    /// Reads only the database, for use while the broker may be down.
    pub async fn read_database_only(&self) -> Result<State, CheckError> {
        self.database.read_state().await
    }
}
