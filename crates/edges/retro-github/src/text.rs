//! Limits the length of strings in a payload, because an event must fit into a message even if a payload is
//! hostile.

use retro_events::github::TEXT_BYTES_MAX;

/// Maximum number of hex digits in a commit hash: the length of SHA-256, which GitHub may introduce.
const HASH_DIGITS_MAX: usize = 64;

/// Truncates a user's text to [`TEXT_BYTES_MAX`] bytes at a character boundary and replaces each NUL, which
/// no database stores. Also returns `true` if the text was cut.
pub(crate) fn truncate_body(text: &str) -> (String, bool) {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut kept = text[..end].replace('\0', "\u{fffd}");
    // Each replaced NUL takes three bytes, so the text may exceed the limit again.
    while kept.len() > TEXT_BYTES_MAX {
        kept.pop();
    }
    let cut = end < text.len() || kept.chars().count() < text[..end].chars().count();
    (kept, cut)
}

/// Returns a name or URL if it has 1 to `bytes_max` bytes and no control characters, otherwise `None`. A
/// longer one is dropped, not cut.
pub(crate) fn bounded_text(text: Option<String>, bytes_max: usize) -> Option<String> {
    text.filter(|text| (1..=bytes_max).contains(&text.len()) && !text.chars().any(char::is_control))
}

/// Returns `text` if it is a commit hash, otherwise `None`. GitHub sends the zero hash for a deleted branch;
/// it counts as no hash.
pub(crate) fn commit_hash(text: Option<String>) -> Option<String> {
    text.filter(|text| {
        (1..=HASH_DIGITS_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_hexdigit())
            && text.bytes().any(|byte| byte != b'0')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_a_character_and_says_so() {
        assert_eq!(truncate_body("short"), ("short".to_owned(), false));
        let whole = "x".repeat(TEXT_BYTES_MAX);
        assert_eq!(truncate_body(&whole), (whole.clone(), false));
        let (cut, is_cut) = truncate_body(&format!("{}ßß", &whole[1..]));
        assert_eq!((cut.len(), is_cut), (TEXT_BYTES_MAX - 1, true));
        assert_eq!(truncate_body("a\0b"), ("a\u{fffd}b".to_owned(), false));
        let (cut, is_cut) = truncate_body(&"\0".repeat(TEXT_BYTES_MAX));
        assert!(is_cut && cut.len() <= TEXT_BYTES_MAX);
    }

    #[test]
    fn invalid_names_and_hashes_are_dropped() {
        let short = |text: &str| super::bounded_text(Some(text.to_owned()), 5).is_some();
        assert!(short("abcde") && !short("abcdef") && !short("") && !short("a\nb"));
        let hash = |text: &str| super::commit_hash(Some(text.to_owned())).is_some();
        assert!(hash("c9abcadf") && !hash(&"0".repeat(40)) && !hash("HEAD") && !hash(&"a".repeat(65)));
    }
}
