//! Decodes escapes for the search, so that `\u0041KIA…` is found like `AKIA…`.
//!
//! Decoded are `\u0041`, `\u{41}`, `\x41` and `%41`. A text that has one of them usually is a string literal
//! or a quoted address, so `\n`, `\"` and `\/` are decoded there too. A backslash may itself be escaped any
//! number of times, as in JSON within JSON. Escapes are decoded once: `%2541` becomes `%41`.

use std::ops::Range;

/// Beginnings of escapes that make a text worth decoding, in lower case. The block of `\u2…`, which holds
/// dashes and quotation marks, and the surrogates of emoji are left out: they are frequent, and hide neither
/// a token nor a word for password. `\u{` is left out because each further character makes the automaton of
/// all texts larger.
pub(crate) const ESCAPE_STARTS: [&str; 37] = [
    "\\u0", "\\u1", "\\u3", "\\u4", "\\u5", "\\u6", "\\u7", "\\u8", "\\u9", "\\ua", "\\ub", "\\uc", "\\ud0",
    "\\ud1", "\\ud2", "\\ud3", "\\ud4", "\\ud5", "\\ud6", "\\ud7", "\\x2", "\\x3", "\\x4", "\\x5", "\\x6",
    "\\x7", "%2d", "%2e", "%2f", "%3a", "%3d", "%4", "%5", "%6", "%7", "%22", "%40",
];

/// A text without its escapes, with the positions that its parts come from.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) text: String,
    /// Decoded and original position of each place from which both run in parallel, in ascending order.
    anchors: Vec<(usize, usize)>,
    /// Positions of the decoded characters in the decoded text, in ascending order.
    characters: Vec<usize>,
}

impl Decoded {
    /// Returns the range of the original text that a range of the decoded text comes from.
    pub(crate) fn original_range(&self, range: &Range<usize>) -> Range<usize> {
        self.original_position(range.start)..self.original_position(range.end)
    }

    /// Returns `true` if a range of the decoded text contains a decoded character.
    pub(crate) fn is_decoded_within(&self, range: &Range<usize>) -> bool {
        let next = self.characters.partition_point(|&at| at < range.start);
        self.characters.get(next).is_some_and(|&at| at < range.end)
    }

    fn original_position(&self, position: usize) -> usize {
        let next = self.anchors.partition_point(|&(decoded, _)| decoded <= position);
        let (decoded, original) = next.checked_sub(1).map_or((0, 0), |last| self.anchors[last]);
        original + (position - decoded)
    }
}

/// Decodes the escapes of a text. Returns `None` if it has none.
pub(crate) fn decode_escapes(text: &str) -> Option<Decoded> {
    let bytes = text.as_bytes();
    let mut decoded = Decoded { text: String::new(), anchors: Vec::new(), characters: Vec::new() };
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = bytes[at..].iter().position(|&byte| matches!(byte, b'\\' | b'%')) {
        let start = at + found;
        let Some((character, length)) = decode_escape(&bytes[start..]) else {
            // The rest of a run of backslashes begins no other escape.
            at = start + bytes[start..].iter().take_while(|&&byte| byte == b'\\').count().max(1);
            continue;
        };
        if decoded.text.capacity() == 0 {
            decoded.text.reserve(text.len());
        }
        decoded.text.push_str(&text[copied..start]);
        decoded.anchors.push((decoded.text.len(), start));
        decoded.characters.push(decoded.text.len());
        decoded.text.push(character);
        decoded.anchors.push((decoded.text.len(), start + length));
        at = start + length;
        copied = at;
    }
    if decoded.anchors.is_empty() {
        return None;
    }
    decoded.text.push_str(&text[copied..]);
    Some(decoded)
}

/// Decodes the escape at the start of these bytes. Returns its character and its length in bytes.
fn decode_escape(bytes: &[u8]) -> Option<(char, usize)> {
    if bytes[0] == b'%' {
        return printable(hex_value(bytes, 1, 2)?).map(|character| (character, 3));
    }
    let slashes = bytes.iter().take_while(|&&byte| byte == b'\\').count();
    let after = slashes + 1;
    match *bytes.get(slashes)? {
        b'x' => printable(hex_value(bytes, after, 2)?).map(|character| (character, after + 2)),
        b'u' if bytes.get(after) == Some(&b'{') => {
            let digits = bytes[after + 1..].iter().take(7).position(|&byte| byte == b'}')?;
            let code = hex_value(bytes, after + 1, digits)?;
            visible(code).map(|character| (character, after + digits + 2))
        }
        b'u' => visible(hex_value(bytes, after, 4)?).map(|character| (character, after + 4)),
        b'n' | b'r' => Some(('\n', after)),
        b't' => Some(('\t', after)),
        mark @ (b'"' | b'/' | b'\'') => Some((char::from(mark), after)),
        _ => None,
    }
}

fn hex_value(bytes: &[u8], start: usize, digits: usize) -> Option<u32> {
    let digits = bytes.get(start..start + digits).filter(|digits| !digits.is_empty())?;
    digits.iter().try_fold(0, |value, &digit| Some(value * 16 + char::from(digit).to_digit(16)?))
}

/// Returns the character of a byte, which is one only in ASCII.
fn printable(code: u32) -> Option<char> {
    (0x20..0x7f).contains(&code).then(|| char::from_u32(code)).flatten()
}

fn visible(code: u32) -> Option<char> {
    char::from_u32(code).filter(|character| !character.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_and_ranges_mapped_back() {
        let text = r#"a \u0041KIA\x42 %43d \\u{44} \n"é" \u5bc6 \q %zz \u00"#;
        let decoded = decode_escapes(text).unwrap();
        assert_eq!(decoded.text, "a AKIAB Cd D \n\"é\" 密 \\q %zz \\u00");
        for (part, original) in [
            ("AKIAB", r"\u0041KIA\x42"),
            ("Cd", "%43d"),
            ("D", r"\\u{44}"),
            ("\"é\"", "\"é\""),
            ("密", r"\u5bc6"),
        ] {
            let at = decoded.text.find(part).unwrap();
            let range = at..at + part.len();
            assert_eq!(&text[decoded.original_range(&range)], original);
            assert_eq!(decoded.is_decoded_within(&range), part != original, "{part}");
        }
        assert!(decode_escapes(r"C:\Users\Ada and 100 % of \\").is_none());
    }

    #[test]
    fn each_start_of_an_escape_is_one_that_is_decoded() {
        for start in ESCAPE_STARTS {
            let whole = match start.len() {
                _ if start.starts_with("\\u") => format!("{start:0<6}").replace("\\u0000", "\\u0041"),
                _ if start.starts_with('%') => format!("{start:1<3}"),
                _ => format!("{start:1<4}"),
            };
            assert!(decode_escapes(&whole).is_some(), "{whole}");
        }
    }
}
