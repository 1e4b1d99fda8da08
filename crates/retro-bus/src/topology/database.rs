//! Whose streams and consumers these are. Each carries the identity of the database that its messages are handled into,
//! so that a process with another database does not take a share of them: what it would count, the other one would
//! miss, and neither would know.
//!
//! The identity is set by whoever makes the streams. Making is compare-and-set at the broker: of two databases that make
//! the same stream at once one is refused. Streams of an older release carry none, and get it at the next
//! `retro migrate`; two that do this at once may both succeed, and the first is told at its next look.

use std::collections::HashMap;

use crate::{Bus, BusError};

/// The key in the metadata of a stream or consumer.
const KEY: &str = "retro-database";

/// What happens to streams of another database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ownership {
    /// They are left to it, and that is an error.
    Respected,
    /// They are this database's from now on.
    TakenOver,
}

impl Bus {
    /// Says which database this process handles messages into. Said once: a database keeps its identity for life.
    pub fn set_database(&self, identity: &str) {
        let _ = self.database.set(identity.to_owned());
    }

    /// Whether it was said already.
    pub fn knows_database(&self) -> bool {
        self.database.get().is_some()
    }
}

/// Fails when the metadata names another database. Nothing is compared before the process knows its own.
pub(super) fn check(bus: &Bus, name: &str, metadata: &HashMap<String, String>) -> Result<(), BusError> {
    match (bus.database.get(), metadata.get(KEY)) {
        (Some(ours), Some(theirs)) if ours != theirs => {
            Err(BusError::OtherDatabase { name: name.to_owned(), theirs: theirs.clone(), ours: ours.clone() })
        }
        _ => Ok(()),
    }
}

/// The metadata with this process's database in it. Fails when another one stands there and is to be respected.
pub(super) fn claim(
    bus: &Bus,
    name: &str,
    mut metadata: HashMap<String, String>,
    ownership: Ownership,
) -> Result<HashMap<String, String>, BusError> {
    match (check(bus, name, &metadata), ownership) {
        (Err(other), Ownership::Respected) => return Err(other),
        (Err(other), Ownership::TakenOver) => tracing::warn!("taking over: {other}"),
        (Ok(()), _) => {}
    }
    if let Some(ours) = bus.database.get() {
        metadata.insert(KEY.to_owned(), ours.clone());
    }
    Ok(metadata)
}
