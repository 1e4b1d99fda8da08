//! Converts sqlx errors of Postgres to [`StoreError`].

use retro_store::{Result, StoreError};
use sqlx::error::DatabaseError;

/// Converts the error of a sqlx result to a [`StoreError`].
pub(crate) trait OnTable<T> {
    /// Converts the error and names `table` in its message.
    fn on_table(self, table: &'static str) -> Result<T>;
}

impl<T> OnTable<T> for std::result::Result<T, sqlx::Error> {
    fn on_table(self, table: &'static str) -> Result<T> {
        self.map_err(|error| translate_error(table, &error))
    }
}

/// Converts a sqlx error to a [`StoreError`].
pub(crate) fn translate_error(table: &str, error: &sqlx::Error) -> StoreError {
    crate::translate_error(table, error, is_transient)
}

/// Returns `true` if the SQLSTATE describes a transient condition rather than damaged data: a problem with
/// the connection, access rights, resources or locks, or a server that is shutting down or read-only.
fn is_transient(answer: &dyn DatabaseError) -> bool {
    const CONNECTION: &str = "08";
    /// Invalid transaction state: the server became a read-only standby, or ended the transaction of an idle
    /// client.
    const TRANSACTION: &str = "25";
    const AUTHORIZATION: &str = "28";
    const NO_SUCH_DATABASE: &str = "3D";
    /// Transaction rollback: deadlocks and serialization failures.
    const ROLLED_BACK: &str = "40";
    const RIGHTS: &str = "42501";
    const RESOURCES: &str = "53";
    /// Object not in the required state, including lock timeouts.
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
