//! Defines what the commands of operators have in common: how a request names its operator, how the command
//! ended, and how a refusal is sent.

use axum::http::StatusCode;
use jiff::Timestamp;
use retro_core::attribution::{Attribution, AttributionError};
use retro_http::{Problem, deciding_token};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::ApiError;

/// Actor that the audit log records if a request names none. Credentials will replace this name.
const ANONYMOUS_ACTOR: &str = "somebody over HTTP";

/// Returns the actor to record for a request that names `by`.
pub(crate) fn actor_name(by: Option<&str>) -> &str {
    by.unwrap_or(ANONYMOUS_ACTOR)
}

/// Builds the attribution of a command: the name and the reason that its request gives, and its access token. Fails
/// like [`Attribution::new`].
pub(crate) fn attribute(by: &str, reason: &str, at: Timestamp) -> Result<Attribution, AttributionError> {
    Attribution::new(by, reason, at).map(|act| act.with_token(deciding_token()))
}

/// Request for a command that needs nothing but a reason.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(crate) struct CommandRequest {
    /// Reason for the command, recorded in the audit log. A dry run needs no reason.
    #[serde(default)]
    pub(crate) reason: String,
    /// Name of the operator. The name is not verified; the access token of the request is stored beside it.
    pub(crate) by: Option<String>,
    /// `true` to return the predicted result and change nothing.
    #[serde(default)]
    pub(crate) dry_run: bool,
}

/// Outcome of an operator command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ActionStatus {
    /// The command took effect.
    Done,
    /// An earlier command had the same effect, so nothing changed.
    AlreadyDone,
    /// The current state does not allow the command, so nothing changed.
    Refused,
}

impl ActionStatus {
    /// Fails with 409 if the current state does not allow the command. `detail` is the result in one sentence.
    pub(crate) fn check_not_refused(self, detail: &str) -> Result<(), ApiError> {
        match self {
            Self::Done | Self::AlreadyDone => Ok(()),
            Self::Refused => Err(conflict_problem(detail).into()),
        }
    }
}

/// Returns the 409 for a command that the current state does not allow.
pub(crate) fn conflict_problem(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::CONFLICT, "not possible in the current state", detail)
}
