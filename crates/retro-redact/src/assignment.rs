//! Checks cheaply whether an assignment follows a keyword, before the expensive expression of the rule is tried.

/// Maximum distance of the operator from the keyword, in bytes. Upstream allows 23 bytes, but names with several
/// parts need more.
const NAME_REST_BYTES_MAX: usize = 64;

/// Returns true when an operator follows the word that ends at `at`. The first byte that can be neither in a name nor
/// between a name and its operator must be an operator. This check rules out nearly all occurrences of frequent words
/// such as `key`, `access` and `auth`.
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
