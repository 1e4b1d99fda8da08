//! Quotes from runs and remarks.

use serde::{Deserialize, Serialize};

use crate::trajectory::QuotePlace;

/// Verbatim quote from a run or a review remark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Quote {
    /// Place that the quoted text comes from.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub place: QuotePlace,
    /// Quoted text, at most [`QUOTE_CHARS_MAX`] characters.
    pub text: String,
}

/// Maximum length of a quote, in characters.
pub const QUOTE_CHARS_MAX: usize = 400;
