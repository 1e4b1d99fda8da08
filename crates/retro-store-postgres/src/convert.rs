//! Translates the database's errors into the port's, and provides the conversions of `retro-store-sql`.

use retro_store::{Result, StoreError};
use sqlx::error::DatabaseError;

/// Turns the database's errors into the port's.
pub(crate) trait OnTable<T> {
    /// Translates an error; `table` names the table for the reader of the message.
    fn on_table(self, table: &'static str) -> Result<T>;
}

impl<T> OnTable<T> for std::result::Result<T, sqlx::Error> {
    fn on_table(self, table: &'static str) -> Result<T> {
        self.map_err(|error| translate_error(table, &error))
    }
}

/// Translates an error of the database into an error of the port.
pub(crate) fn translate_error(table: &str, error: &sqlx::Error) -> StoreError {
    retro_store_sql::translate_error(table, error, is_transient)
}

/// Returns true when an error describes a temporary condition (connection, resources, a lock, a server that stops or is
/// read-only) rather than damaged data, by the class of its SQLSTATE.
fn is_transient(answer: &dyn DatabaseError) -> bool {
    const CONNECTION: &str = "08";
    /// Transaction over or read-only: the server became a standby, or timed out on a silent client.
    const TRANSACTION: &str = "25";
    const AUTHORIZATION: &str = "28";
    const NO_SUCH_DATABASE: &str = "3D";
    /// A deadlock or a serialization failure.
    const ROLLED_BACK: &str = "40";
    const RIGHTS: &str = "42501";
    const RESOURCES: &str = "53";
    /// A lock timeout.
    const STATE: &str = "55";
    /// Operator intervention: a shutdown or a cancelled statement.
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

/// Returns a text in the form that a text column can store, with each NUL replaced by U+FFFD. Values that
/// have to be exact are stored as JSON or bytes.
pub(crate) fn storable_text(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}
