//! Defines the failures of edits.

use retro_core::attribution::AttributionError;
use retro_http::Problem;
use retro_store::StoreError;

use super::SetFieldError;
use crate::command::conflict_problem;
use crate::http::ApiError;

/// Failure to edit a dead letter or to read one of its versions. No version is stored.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The actor or the reason is missing or too long.
    #[error(transparent)]
    Attribution(#[from] AttributionError),
    /// A field cannot be set, for example because its path is invalid.
    #[error(transparent)]
    Set(#[from] SetFieldError),
    /// The request is refused, for this reason.
    #[error("{0}")]
    Refused(String),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

pub(super) fn refuse_edit<T>(why: impl Into<String>) -> Result<T, EditError> {
    Err(EditError::Refused(why.into()))
}

impl From<EditError> for ApiError {
    fn from(error: EditError) -> Self {
        match error {
            EditError::Attribution(error) => error.into(),
            EditError::Set(error) => Problem::invalid_field("set", error.to_string()).into(),
            EditError::Refused(why) => conflict_problem(why).into(),
            EditError::Store(cause) => cause.into(),
        }
    }
}
