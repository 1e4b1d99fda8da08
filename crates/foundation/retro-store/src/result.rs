//! Defines what the storage ports return.

use retro_core::similarity::ScopeChanged;

/// Error returned by a storage port.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database is unreachable, busy or full. The call may or may not have committed; retrying it is safe
    /// either way.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// The caller lost its claim, for example because another worker took it over. The caller must stop and must not publish
    /// anything.
    #[error("fenced: the lease of {work} was taken over")]
    Fenced {
        /// What was claimed, such as `investigation 2 of retrospective …` or `the reviews of acme/shop#7`.
        work: String,
    },
    /// The memories to compare changed each time while the vectors of their texts were resolved. Nothing was
    /// decided or stored; retrying later is safe. Reported by the `VectorResolver`, never by a port.
    #[error("nothing was decided: the memories to compare changed in each of {attempts} attempts")]
    Undecided {
        /// Number of attempts.
        attempts: u32,
    },
    /// Stored data cannot be decoded or is inconsistent. Retrying does not help; the data needs manual
    /// repair.
    #[error("{place} is damaged: {problem}")]
    Damaged {
        /// Table, column and key of the damaged data.
        place: String,
        /// Human-readable description of the damage.
        problem: String,
    },
}

/// [`Result`](std::result::Result) whose error is a [`StoreError`].
pub type Result<T> = std::result::Result<T, StoreError>;

/// Result of a decision that compares texts. If it was not made, because its scope has changed since the vectors
/// were resolved, nothing is stored and the caller resolves them again (`VectorResolver`).
pub type Decision<T> = std::result::Result<T, ScopeChanged>;

/// Outcome of an idempotent transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitResult {
    /// This call committed the transaction.
    Done,
    /// An earlier call committed the transaction. Nothing changed.
    AlreadyDone,
    /// The tenant has no such object. Nothing changed.
    NotFound,
}
