//! Parses arguments that are one of a few words.

use std::str::FromStr;

use retro_core::run::RunOutcome;
use strum::VariantNames;

/// Parses the name of an enum variant. Fails with a list of the known names.
pub(super) fn parse_variant<T: FromStr + VariantNames>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("expected one of: {}", T::VARIANTS.join(", ")))
}

/// Parses the outcome of a run. Fails with a list of the known words.
pub(super) fn parse_outcome(text: &str) -> Result<RunOutcome, String> {
    serde_json::from_value(text.into()).map_err(|problem| problem.to_string())
}
