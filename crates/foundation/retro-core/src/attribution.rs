//! The attribution of an operator's action, which is stored with the action.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Maximum length of an attribution's name or reason, in characters (about a paragraph). Both are stored
/// permanently and shown in lists and logs.
pub const ATTRIBUTION_CHARS_MAX: usize = 1000;

/// Access token with which a decision was requested. Unlike the name that a request gives, it is proven.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DecisionToken {
    /// Public part of the token, as `retro tokens list` shows it.
    pub id: String,
    /// Name of the token.
    pub name: String,
}

impl fmt::Display for DecisionToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "with token {} (id {})", self.name, self.id)
    }
}

/// Attribution of an operator's action: who requested it, why, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Attribution {
    /// Name of the operator, as the request gives it. Nobody has verified it.
    pub by: String,
    /// Access token of the request; `None` for a request without one, from the command line, or from before tokens
    /// were stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_token: Option<DecisionToken>,
    /// Reason for the action, in the operator's own words.
    pub reason: String,
    /// Policy time at which the action was requested.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub at: Timestamp,
}

/// Error for an attribution whose name or reason is empty or too long.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {problem}")]
pub struct AttributionError {
    /// Name of the invalid field: `by` or `reason`.
    pub field: &'static str,
    /// Description of the problem, such as `is empty`.
    pub problem: String,
}

impl Attribution {
    /// Creates an attribution from a name and a reason, which are trimmed. Fails if either is empty or longer
    /// than [`ATTRIBUTION_CHARS_MAX`].
    pub fn new(by: &str, reason: &str, at: Timestamp) -> Result<Self, AttributionError> {
        let (by, reason) = (validate_text("by", by)?, validate_text("reason", reason)?);
        Ok(Self { by, with_token: None, reason, at })
    }

    /// Names the access token of the request.
    #[must_use]
    pub fn with_token(self, with_token: Option<DecisionToken>) -> Self {
        Self { with_token, ..self }
    }
}

fn validate_text(field: &'static str, text: &str) -> Result<String, AttributionError> {
    let text = text.trim();
    let problem = match text.chars().count() {
        0 => "is empty".to_owned(),
        long if long > ATTRIBUTION_CHARS_MAX => {
            format!("is {long} characters long; at most {ATTRIBUTION_CHARS_MAX} are kept")
        }
        _ => return Ok(text.to_owned()),
    };
    Err(AttributionError { field, problem })
}
