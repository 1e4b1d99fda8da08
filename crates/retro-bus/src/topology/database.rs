//! Ownership of streams and consumers. Each carries the identity of the database in which the effects of its
//! messages are stored. Otherwise a process with another database could consume some of the messages: their
//! effects would be missing in the first database, and neither process would notice.
//!
//! The process that provisions them sets the identity. Creation is compare-and-set at the broker: if two
//! databases create the same stream concurrently, one of them is refused. Streams of an older release carry
//! no identity and get it at the next `retro migrate`; if two databases do this at the same time, both may
//! succeed, and the first one detects it at its next check.

use std::collections::HashMap;

use crate::{Bus, BusError};

/// Key in the metadata of a stream or consumer.
const DATABASE_KEY: &str = "retro-database";

/// Treatment of streams that belong to another database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ownership {
    /// The streams stay unchanged, and each is an error.
    Respected,
    /// The streams are taken over: from now on they belong to this database.
    TakenOver,
}

impl Bus {
    /// Sets the database in which this process stores the effects of messages. Only the first call has an
    /// effect: the identity of a database never changes.
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
