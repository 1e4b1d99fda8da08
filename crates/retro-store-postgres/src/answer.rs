//! What the database answers, in the words of the port.

use retro_store::{Result, StoreError};
use sqlx::error::DatabaseError;

/// Turns the database's errors into the port's.
pub(crate) trait OnTable<T> {
    /// `table` is what was worked on, for the person who reads the error.
    fn on(self, table: &'static str) -> Result<T>;
}

impl<T> OnTable<T> for std::result::Result<T, sqlx::Error> {
    fn on(self, table: &'static str) -> Result<T> {
        self.map_err(|error| translate(table, &error))
    }
}

/// An error of the database in the words of the port.
pub(crate) fn translate(table: &str, error: &sqlx::Error) -> StoreError {
    retro_store_sql::translate(table, error, passes)
}

/// Whether an answer speaks of a state that passes (connection, resources, a lock, a server that stops or only reads)
/// and not of what is stored. By the class of its SQLSTATE.
fn passes(answer: &dyn DatabaseError) -> bool {
    const CONNECTION: &str = "08";
    /// A transaction that is over or reads only: a server that became a standby, or gave up on a silent program.
    const TRANSACTION: &str = "25";
    const AUTHORIZATION: &str = "28";
    const NO_SUCH_DATABASE: &str = "3D";
    /// A deadlock or a serialization failure.
    const ROLLED_BACK: &str = "40";
    const RIGHTS: &str = "42501";
    const RESOURCES: &str = "53";
    /// A lock that did not come in time.
    const STATE: &str = "55";
    /// An operator's hand: a shutdown, a cancelled statement.
    const OPERATOR: &str = "57";
    const SYSTEM: &str = "58";
    let Some(code) = answer.code() else { return false };
    let class = code.get(..2).unwrap_or_default();
    code == RIGHTS
        || [
            CONNECTION,
            TRANSACTION,
            AUTHORIZATION,
            NO_SUCH_DATABASE,
            ROLLED_BACK,
            RESOURCES,
            STATE,
            OPERATOR,
            SYSTEM,
        ]
        .contains(&class)
}

/// A text as a column for people and look-ups takes it, which cannot hold a NUL. What has to be exact stands in a
/// document or in bytes.
pub(crate) fn shown(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}
