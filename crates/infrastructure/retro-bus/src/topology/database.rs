//! Records which database owns each stream and consumer. Their metadata contains the identity of the database
//! in which the effects of their messages are stored. Otherwise a process with another database could consume
//! some of the messages: their effects would be missing in the first database, and neither process would
//! notice.
//!
//! The process that provisions streams and consumers sets the identity. Creation is compare-and-set at the
//! broker: if two databases create the same stream concurrently, one of them is refused. Streams of an older
//! release have no identity and get one at the next `retro migrate`. If two databases do this at the same
//! time, both may succeed, and the processes of the first one detect it at their next check.

use std::collections::HashMap;

use crate::{Bus, BusError};

/// Metadata key under which a stream or consumer stores the identity of its database.
const DATABASE_KEY: &str = "retro-database";

/// Treatment of streams and consumers that belong to another database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ownership {
    /// Streams and consumers of another database stay unchanged, and each one is an error.
    Respected,
    /// Streams and consumers of another database are taken over by this database.
    TakenOver,
}

impl Bus {
    /// Sets the database in which this process stores the effects of messages. Only the first call has an effect,
    /// because the identity of a database never changes.
    pub fn set_database(&self, identity: &str) {
        let _ = self.database.set(identity.to_owned());
    }

    /// Returns `true` if the database of this process is set.
    pub fn has_database(&self) -> bool {
        self.database.get().is_some()
    }
}

/// Fails if the metadata names another database. Always succeeds while this process does not know its own database.
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

/// Returns the metadata with the identity of this process's database added. Fails if the metadata names another
/// database and `ownership` is [`Ownership::Respected`].
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
