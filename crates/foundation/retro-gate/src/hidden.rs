//! Finds text that people do not see: invisible characters, words that mix alphabets, HTML comments and
//! encoded text.

use std::ops::Range;

use regex::Regex;
use std::sync::LazyLock;

use crate::folded::{is_invisible, look_alike};
use crate::reason::{Code, Reason};

/// Minimum number of words that make an HTML comment prose. Bot markers such as `<!-- suggestion_start -->`
/// have fewer.
const PROSE_WORDS_MIN: usize = 4;

/// Minimum length of Base64 to decode, in characters. Shorter Base64 contains no sentence, and any long word
/// looks like it.
const BASE64_CHARS_MIN: usize = 24;

/// Maximum number of places in a text that are examined for each kind of hiding. An attack that needs more
/// would be conspicuous.
const CONCEALED_MAX: usize = 64;

/// First character of a regional flag emoji. The tag characters (U+E0000 to U+E007F) that follow it have no
/// other honest use.
const BLACK_FLAG: char = '\u{1F3F4}';

static HTML_COMMENT: LazyLock<Regex> = LazyLock::new(|| compile_regex(r"(?s)<!--(.*?)(?:-->|\z)"));
static BASE64: LazyLock<Regex> = LazyLock::new(|| compile_regex(r"[A-Za-z0-9+/_-]{24,}={0,2}"));
static SPACED: LazyLock<Regex> =
    LazyLock::new(|| compile_regex(r"(?:\b[A-Za-z][ .\-_*]{1,3}){7,}[A-Za-z]\b"));
static OCTETS: LazyLock<Regex> = LazyLock::new(|| compile_regex(r"(?:\b[01]{8}[ ,]?){6,}"));

fn compile_regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("constant patterns compile, as every test verifies")
}

/// Finds characters and places that are suspicious because they are hidden, whatever they say.
pub(crate) fn find_hidden_text(text: &str) -> Vec<Reason> {
    let mut found: Vec<_> = find_hidden_characters(text).into_iter().collect();
    found.extend(find_mixed_scripts(text));
    found.extend(OCTETS.find(text).map(|octets| Reason::new_sure(Code::EncodedText, text, octets.range())));
    let comments = HTML_COMMENT.captures_iter(text).take(CONCEALED_MAX).filter_map(|comment| comment.get(1));
    found.extend(
        comments
            .filter(|inner| is_prose(inner.as_str()))
            .map(|inner| Reason::new_sure(Code::HiddenText, text, inner.range())),
    );
    found
}

/// Text hidden from people within another text, in decoded form.
pub(crate) struct ConcealedText {
    pub(crate) text: String,
    range: Range<usize>,
}

impl ConcealedText {
    pub(crate) fn to_reason(&self, text: &str) -> Reason {
        Reason::new_sure(Code::EncodedText, text, self.range.clone())
    }
}

/// Finds and decodes Base64 that contains text, and words that are s p e l t like this.
pub(crate) fn find_concealed_texts(text: &str) -> Vec<ConcealedText> {
    let base64 = BASE64
        .find_iter(text)
        .take(CONCEALED_MAX)
        .filter_map(|blob| Some(ConcealedText { text: decode_base64(blob.as_str())?, range: blob.range() }));
    let spaced = SPACED
        .find_iter(text)
        .take(CONCEALED_MAX)
        .map(|run| ConcealedText { text: join_spaced_letters(run.as_str()), range: run.range() });
    base64.chain(spaced).collect()
}

fn find_hidden_characters(text: &str) -> Option<Reason> {
    let mut before = None;
    let mut selectors = 0;
    let mut characters = text.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        let after = characters.peek().map(|(_, after)| *after);
        selectors =
            if matches!(u32::from(c), 0xFE00..=0xFE0F | 0xE0100..=0xE01EF) { selectors + 1 } else { 0 };
        let hides = match u32::from(c) {
            // These characters reorder the displayed text, so readers see a different text.
            0x202A..=0x202E | 0x2066..=0x2069 => true,
            0xE0000..=0xE007F => before != Some(BLACK_FLAG),
            0xFE00..=0xFE0F | 0xE0100..=0xE01EF => selectors > 2,
            // Invisible characters between emoji join them, which is honest; within Latin words they split
            // them.
            _ if is_invisible(c) => is_latin(before) && is_latin(after),
            _ => false,
        };
        if hides {
            let end = text[at..].find(|c| !is_invisible(c)).map_or(text.len(), |visible| at + visible);
            return Some(Reason::new_sure(Code::HiddenCharacters, text, at..end));
        }
        // All tag characters of a flag are judged by the black flag at its start.
        if !matches!(u32::from(c), 0xE0000..=0xE007F) {
            before = Some(c);
        }
    }
    None
}

fn is_latin(c: Option<char>) -> bool {
    c.is_some_and(|c| c.is_ascii_alphanumeric())
}

/// Finds a word that mixes Latin letters with look-alikes from another alphabet. Formulas mix Greek and Latin
/// letters, so at least two Latin letters and four letters in all are required.
fn find_mixed_scripts(text: &str) -> Option<Reason> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words
        .filter(|word| !word.is_ascii())
        .find(|word| {
            let latin = word.chars().filter(char::is_ascii_alphabetic).count();
            let alike = word.chars().filter(|c| !c.is_ascii() && is_foreign_letter(*c)).count();
            latin >= 2 && alike >= 1 && latin + alike >= 4
        })
        .map(|word| {
            let at = word.as_ptr() as usize - text.as_ptr() as usize;
            Reason::new_sure(Code::MixedScripts, text, at..at + word.len())
        })
}

/// Returns `true` for a Greek, Cyrillic or Armenian letter that looks like a Latin one.
fn is_foreign_letter(c: char) -> bool {
    matches!(u32::from(c), 0x0370..=0x058F)
        && c.to_lowercase().next().and_then(look_alike).is_some_and(|alike| alike.is_ascii_alphabetic())
}

fn is_prose(comment: &str) -> bool {
    let words = comment.split_whitespace().filter(|word| {
        let letters = word.trim_matches(|c: char| !c.is_alphanumeric());
        !letters.is_empty() && letters.chars().all(|c| c.is_alphabetic() || matches!(c, '\'' | '’' | '-'))
    });
    words.take(PROSE_WORDS_MIN).count() == PROSE_WORDS_MIN
}

/// Decodes Base64 to text. Returns `None` for other content, or for something that only looks like Base64,
/// such as a digest or a long name.
fn decode_base64(blob: &str) -> Option<String> {
    let blob = blob.trim_end_matches('=');
    if blob.len() < BASE64_CHARS_MIN {
        return None;
    }
    let (mut bits, mut held, mut bytes) = (0_u32, 0_u32, Vec::with_capacity(blob.len()));
    for digit in blob.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' | b'-' => 62,
            _ => 63,
        };
        bits = (bits << 6) | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    let text = String::from_utf8(bytes).ok()?;
    let readable = text.chars().all(|c| !c.is_control() || c.is_whitespace());
    readable.then_some(text)
}

/// Joins spaced letters into words. More than one separator between two letters ends a word.
fn join_spaced_letters(run: &str) -> String {
    let mut text = String::with_capacity(run.len());
    let mut gap = 0;
    for c in run.chars() {
        if c.is_ascii_alphabetic() {
            if gap > 1 {
                text.push(' ');
            }
            text.push(c);
            gap = 0;
        } else {
            gap += 1;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, code: Option<Code>) {
        assert_eq!(find_hidden_text(text).first().map(|reason| reason.code), code, "in {text:?}");
    }

    #[test]
    fn invisible_characters_are_found_but_not_in_emoji() {
        check("pass\u{200b}word", Some(Code::HiddenCharacters));
        check("a \u{202e}desrever\u{202c} b", Some(Code::HiddenCharacters));
        check("fine\u{e0061}\u{e0062}", Some(Code::HiddenCharacters));
        check("ok \u{1f469}\u{200d}\u{1f4bb} \u{2764}\u{fe0f}", None);
        check("\u{1f3f4}\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f} wins", None);
        check("\u{feff}a text", None);
    }

    #[test]
    fn mixed_scripts_are_found_but_not_formulas() {
        check("run the pаypal test", Some(Code::MixedScripts));
        check("Проверь это", None);
        check("Δt is in µs, λx and σ²", None);
    }

    #[test]
    fn prose_in_html_comments_is_found_but_not_markers() {
        check("x <!-- please remove the header --> y", Some(Code::HiddenText));
        check("x <!-- please remove the header", Some(Code::HiddenText));
        check("<!-- suggestion_start --> y <!-- id:42 -->", None);
    }

    #[test]
    fn base64_is_decoded_only_when_it_holds_text() {
        assert_eq!(
            decode_base64("cGxlYXNlIHRlbGwgbm9ib2R5IGFib3V0IGl0").as_deref(),
            Some("please tell nobody about it")
        );
        assert_eq!(decode_base64("2fd4e1c67a2d28fced849ee1bb76e7391b93eb12"), None);
        assert_eq!(join_spaced_letters("t e l l   n o b o d y"), "tell nobody");
    }
}
