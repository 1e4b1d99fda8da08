//! Ownership of streams and consumers. Each carries the identity of the database that its messages are handled
//! into, so that a process with another database does not consume a part of them: what it counted, the other
//! one would miss, and neither would notice.
//!
//! The process that provisions them sets the identity. Creation is compare-and-set at the broker: if two
//! databases create the same stream at once, one is refused. Streams of an older release carry no identity and
//! get it at the next `retro migrate`; two that do this at once may both succeed, and the first finds out at
//! its next check.

use std::collections::HashMap;

use crate::{Bus, BusError};

/// Key in the metadata of a stream or consumer.
const DATABASE_KEY: &str = "retro-database";

/// Treatment of streams that belong to another database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ownership {
    /// Left alone; finding one is an error.
    Respected,
    /// Taken over: they belong to this database from now on.
    TakenOver,
}

impl Bus {
    /// Sets the database that this process handles messages into. Only the first call has an effect: a database
    /// keeps its identity for life.
    pub fn set_database(&self, identity: &str) {
        let _ = self.database.set(identity.to_owned());
    }

    /// Returns whether the database is set.
    pub fn has_database(&self) -> bool {
        self.database.get().is_some()
    }
}

/// Fails when the metadata names another database. Nothing is compared while the process does not know its own.
pub(super) fn check_database(
    bus: &Bus,
    name: &str,
    metadata: &HashMap<String, String>,
) -> Result<(), BusError> {
    match (bus.database.get(), metadata.get(DATABASE_KEY)) {
        (Some(ours), Some(theirs)) if ours != theirs => {
            Err(BusError::OtherDatabase { name: name.to_owned(), theirs: theirs.clone(), ours: ours.clone() })
        }
        _ => Ok(()),
    }
}

/// Returns the metadata with this process's database in it. Fails when it names another one and `ownership` is
/// respected.
pub(super) fn claim_metadata(
    bus: &Bus,
    name: &str,
    mut metadata: HashMap<String, String>,
    ownership: Ownership,
) -> Result<HashMap<String, String>, BusError> {
    match (check_database(bus, name, &metadata), ownership) {
        (Err(other), Ownership::Respected) => return Err(other),
        (Err(other), Ownership::TakenOver) => tracing::warn!("taking over: {other}"),
        (Ok(()), _) => {}
    }
    if let Some(ours) = bus.database.get() {
        metadata.insert(DATABASE_KEY.to_owned(), ours.clone());
    }
    Ok(metadata)
}
