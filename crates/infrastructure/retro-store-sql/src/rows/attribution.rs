//! Converts the columns `with_token`, which name the access token with which somebody decided.

use std::fmt::Display;

use retro_core::attribution::{Attribution, DecisionToken};
use retro_store::Result;

use super::location::Location;
use crate::to_json;

/// Returns the value of the column for an attribution.
pub(crate) fn token_column(act: &Attribution) -> Option<String> {
    act.with_token.as_ref().map(to_json)
}

/// Parses the column. Fails if it is damaged.
pub(crate) fn parse_token<I: Display>(
    place: &Location<I>,
    column: Option<&str>,
) -> Result<Option<DecisionToken>> {
    column.map(|json| place.parse_json(json)).transpose()
}
