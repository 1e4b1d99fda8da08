//! Cheap check for an assignment after a keyword, before the expensive expression of a rule is tried.

/// Maximum distance from the keyword to the operator, in bytes. Upstream allows 23 bytes, but names with
/// several parts need more.
const NAME_REST_BYTES_MAX: usize = 64;

/// Returns `true` if an assignment operator follows the word that ends at `at`. Only bytes that may be in a
/// name, or between a name and its operator, may come before it. This check rules out nearly all occurrences
/// of frequent words such as `key`, `access` and `auth`.
pub(crate) fn is_assigned(text: &[u8], at: usize) -> bool {
    let rest = &text[at..text.len().min(at + NAME_REST_BYTES_MAX)];
    rest.iter()
        .find(|&&byte| !is_before_operator(byte))
        .is_some_and(|byte| matches!(byte, b'=' | b'>' | b':' | b'|' | b'?' | b','))
}

fn is_before_operator(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || byte.is_ascii_whitespace()
        || matches!(byte, b'_' | b'.' | b'-' | b'\'' | b'"' | b'`' | b']' | b'\\' | 0x0b)
}
