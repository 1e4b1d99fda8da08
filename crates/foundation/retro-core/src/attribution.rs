//! The attribution of an operator's action, which is stored with the action.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Maximum length of an attribution's name or reason, in characters (about a paragraph). Both are stored
/// permanently and shown in lists and logs.
pub const ATTRIBUTION_CHARS_MAX: usize = 1000;

/// Attribution of an operator's action: who requested it, why, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Attribution {
    /// Name of the operator. It is only as reliable as the authentication that provides it.
    pub by: String,
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
        Ok(Self { by: validate_text("by", by)?, reason: validate_text("reason", reason)?, at })
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
