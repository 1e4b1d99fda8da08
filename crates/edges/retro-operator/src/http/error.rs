//! Turns the errors of this crate's operations into problems, so that handlers only write `?`. The errors of
//! a command are converted beside the command.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use retro_core::attribution::AttributionError;
use retro_http::Problem;
use retro_store::{StoreError, UnresolvedObject, UnresolvedRef};
use tracing::error;

/// Failure of a handler, sent as a problem.
#[derive(Debug)]
pub(crate) struct ApiError(Problem);

/// Result of a handler that responds with JSON.
pub(crate) type JsonResult<T> = Result<Json<T>, ApiError>;

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl From<AttributionError> for ApiError {
    fn from(error: AttributionError) -> Self {
        Self(Problem::invalid_field(error.field, error.problem))
    }
}

impl From<UnresolvedRef> for ApiError {
    fn from(why: UnresolvedRef) -> Self {
        Self(match why {
            UnresolvedRef::Missing(name) => Problem::not_found("memory", name),
            // Returns 409 instead of picking a match: acting on the wrong memory would be worse than asking
            // for more digits.
            UnresolvedRef::Ambiguous(..) => Problem::ambiguous_name(why.to_string()),
        })
    }
}

impl From<UnresolvedObject> for ApiError {
    fn from(why: UnresolvedObject) -> Self {
        Self(match why {
            UnresolvedObject::Missing { kind, name } => Problem::not_found(kind.as_str(), name),
            UnresolvedObject::Ambiguous { .. } => Problem::ambiguous_name(why.to_string()),
        })
    }
}

impl From<StoreError> for ApiError {
    /// Converts a store error. Its text is only logged, because it names tables and may quote rows of other
    /// tenants.
    fn from(cause: StoreError) -> Self {
        Self(match cause {
            StoreError::Unavailable(_) => Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "the database is not available",
                "the database did not answer; ask again",
            ),
            StoreError::Undecided { .. } => Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "the memories are changing",
                "the memories to compare changed again and again; nothing was decided; ask again",
            ),
            StoreError::Fenced { .. } | StoreError::Damaged { .. } => {
                error!(cause = %cause, "a person's request failed: {cause}");
                Problem::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "what is stored cannot be read",
                    "what is stored cannot be read; the server's log says where",
                )
            }
        })
    }
}
