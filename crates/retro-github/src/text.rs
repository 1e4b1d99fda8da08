//! Texts of a payload, within bounds: an event has to fit into a message, whoever wrote it.

use retro_events::github::TEXT_BYTES_MAX;

/// The longest hash of a commit, hex digits: SHA-256, for when GitHub takes it.
const HASH_DIGITS_MAX: usize = 64;

/// A text of a person, and whether it was cut. Cut at a character, at most [`TEXT_BYTES_MAX`] bytes. No database takes a NUL.
pub(crate) fn of_person(text: &str) -> (String, bool) {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut kept = text[..end].replace('\0', "\u{fffd}");
    // Each NUL has become three bytes.
    while kept.len() > TEXT_BYTES_MAX {
        kept.pop();
    }
    let cut = end < text.len() || kept.chars().count() < text[..end].chars().count();
    (kept, cut)
}

/// A name or an address of at most so many bytes without control characters; what is longer is no such thing.
pub(crate) fn short(text: Option<String>, bytes_max: usize) -> Option<String> {
    text.filter(|text| (1..=bytes_max).contains(&text.len()) && !text.chars().any(char::is_control))
}

/// The hash of a commit. What stands for "none", as in the push that deletes a branch, is none.
pub(crate) fn hash(text: Option<String>) -> Option<String> {
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
        assert_eq!(of_person("short"), ("short".to_owned(), false));
        let whole = "x".repeat(TEXT_BYTES_MAX);
        assert_eq!(of_person(&whole), (whole.clone(), false));
        let (cut, is_cut) = of_person(&format!("{}ßß", &whole[1..]));
        assert_eq!((cut.len(), is_cut), (TEXT_BYTES_MAX - 1, true));
        assert_eq!(of_person("a\0b"), ("a\u{fffd}b".to_owned(), false));
        let (cut, is_cut) = of_person(&"\0".repeat(TEXT_BYTES_MAX));
        assert!(is_cut && cut.len() <= TEXT_BYTES_MAX);
    }

    #[test]
    fn what_is_no_name_or_hash_is_left_out() {
        let short = |text: &str| super::short(Some(text.to_owned()), 5).is_some();
        assert!(short("abcde") && !short("abcdef") && !short("") && !short("a\nb"));
        let hash = |text: &str| super::hash(Some(text.to_owned())).is_some();
        assert!(hash("c9abcadf") && !hash(&"0".repeat(40)) && !hash("HEAD") && !hash(&"a".repeat(65)));
    }
}
