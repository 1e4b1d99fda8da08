//! A cheap check of the text after a keyword, made before the expression of an assignment is tried there.

/// Maximum distance of the operator from the keyword. Upstream allows 23 bytes; names with several parts need
/// more.
const NAME_REST_BYTES_MAX: usize = 64;

/// Returns whether an operator follows the word that ends at `at`: the first byte that can be neither in a name
/// nor between a name and its operator must be one. `key`, `access` and `auth` occur in every second sentence;
/// this check dismisses nearly all of them.
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
