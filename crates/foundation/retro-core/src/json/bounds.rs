//! Limits on JSON texts from untrusted senders.

/// Maximum nesting depth, one less than the recursion limit of `serde_json`. Events of real engines stay
/// below 20.
pub const DEPTH_MAX: usize = 127;
/// Maximum number of values and keys in one text, which need 12 MiB at twelve bytes each. A trajectory with
/// one call per turn has about eight per turn, so 100,000 turns fit.
pub const VALUES_MAX: usize = 1024 * 1024;
/// Maximum length of a key as written, including its quotes, in bytes. Agents use paths and addresses as
/// keys, and sometimes whole commands.
pub const KEY_BYTES_MAX: usize = 64 * 1024;
/// Maximum length of a number, in bytes. The largest `f64` written without an exponent has 309 digits.
pub const NUMBER_BYTES_MAX: usize = 400;

/// Limits that [`JsonDocument::parse`](super::JsonDocument::parse) enforces on a JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonBounds {
    /// Maximum length of the text, in bytes.
    pub bytes_max: usize,
    /// Maximum number of values and object keys, counted together.
    pub values_max: usize,
}

impl JsonBounds {
    /// Returns bounds for texts of at most `bytes_max` bytes with at most [`VALUES_MAX`] values and keys.
    pub const fn with_bytes_max(bytes_max: usize) -> Self {
        Self { bytes_max, values_max: VALUES_MAX }
    }
}
