//! Reading a state, with statements of our own: nothing of the program's code stands between what is stored and what
//! is judged.

mod broker;
mod database;

use crate::CheckError;
use crate::state::State;
use database::Database;

/// Where a state is read from. Opened once, read at several moments.
#[derive(Debug)]
pub struct Source {
    database: Database,
    nats_url: Option<String>,
}

impl Source {
    /// A database by `sqlite:<file>` or `postgres://…`, and a broker. Without a broker nothing is judged of it.
    pub async fn open(database_url: &str, nats_url: Option<&str>) -> Result<Self, CheckError> {
        let database = Database::open(database_url).await?;
        Ok(Self { database, nats_url: nats_url.map(str::to_owned) })
    }

    /// What is there now. Fails with the table or the stream that could not be read.
    pub async fn read(&self) -> Result<State, CheckError> {
        let mut state = self.read_database_alone().await?;
        if let Some(url) = &self.nats_url {
            // First the broker, then the database again: what is acknowledged was committed before.
            let broker = broker::read(url).await?;
            state = self.read_database_alone().await?;
            state.broker = broker;
        }
        Ok(state)
    }

    /// The same without the broker, which may be away.
    pub async fn read_database_alone(&self) -> Result<State, CheckError> {
        self.database.read().await
    }
}
