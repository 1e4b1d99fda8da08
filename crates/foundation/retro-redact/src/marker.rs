//! Text that stands in place of a secret.

/// First characters of every replacement. They mark text that is already redacted and must not be redacted
/// again.
pub(crate) const MARKER_PREFIX: &str = "[redacted:";

/// Returns the replacement of a secret that this rule found.
pub(crate) fn format_marker(rule: &str) -> String {
    format!("{MARKER_PREFIX}{rule}]")
}
