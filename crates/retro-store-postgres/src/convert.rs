//! Translates errors of the database into errors of the port, and provides the conversions of `retro-store-sql`.

use retro_store::{Result, StoreError};
use sqlx::error::DatabaseError;

/// Translates errors of the database into errors of the port.
pub(crate) trait OnTable<T> {
    /// Translates an error. `table` is the name of the table that the error message states.
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

/// Returns true when the class of its SQLSTATE says that an error is a temporary condition rather than damaged data:
/// a problem with the connection, resources or a lock, or a server that stops or is read-only.
fn is_transient(answer: &dyn DatabaseError) -> bool {
    const CONNECTION: &str = "08";
    /// Class of invalid transaction states: the server became a standby, or ended the transaction of a silent client.
    const TRANSACTION: &str = "25";
    const AUTHORIZATION: &str = "28";
    const NO_SUCH_DATABASE: &str = "3D";
    /// Class of deadlocks and serialization failures.
    const ROLLED_BACK: &str = "40";
    const RIGHTS: &str = "42501";
    const RESOURCES: &str = "53";
    /// Class of objects that are not in the required state, which includes lock timeouts.
    const STATE: &str = "55";
    /// Class of interventions by an operator: a shutdown or a cancelled statement.
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

/// Returns a text with each NUL replaced by U+FFFD, because a text column cannot store NUL. Values that have to be
/// exact are stored as JSON or bytes.
pub(crate) fn storable_text(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}
