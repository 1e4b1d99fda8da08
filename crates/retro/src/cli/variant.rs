//! Parses arguments that are one of a few words.

use std::str::FromStr;

use strum::VariantNames;

/// Parses the name of an enum variant. Fails with a list of the known names.
pub(super) fn parse_variant<T: FromStr + VariantNames>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("expected one of: {}", T::VARIANTS.join(", ")))
}
