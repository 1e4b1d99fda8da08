//! Makes text safe to print.
//!
//! **Problem.** Almost everything that Retrospect prints was written by others: quotes from runs, titles,
//! file names and error messages of servers. Printed unchanged, such text can clear the screen, overwrite the
//! lines above it, reverse the direction of a line, or contain invisible words.
//!
//! **Properties**, each of which has a test. The output contains no character that controls a terminal or is
//! invisible. Such a character is not removed but printed as its code (`\u{202e}`). All other characters
//! stay. Escaping text twice has the same result as escaping it once. The output is at most six times as long
//! as the input, in bytes.
//!
//! **Characters that are not printable.**
//! - Controls: C0 including ESC, DEL, and C1, which some terminals treat as ESC sequences. A line break and a
//!   tab stay where multi-line text is expected.
//! - Marks that change the direction of the text after them, and line and paragraph separators.
//! - Invisible characters: zero-width spaces, soft hyphens, fillers, invisible operators, the tag block and
//!   the supplementary variation selectors. The last two can spell any sentence invisibly, so the three flags
//!   of regions and the rare ideographs that use them are printed as codes.
//! - Private use and noncharacters, because no standard defines their appearance.
//!
//! **Characters that stay where they have a function.** A joiner or non-joiner stays between two visible
//! non-ASCII characters, because Persian, Indic scripts and emoji need it; between Latin letters it would
//! only split words. One variation selector stays after such a character, or as part of a keycap. Elsewhere,
//! joiners and selectors are printed as codes.
//!
//! Lone surrogates cannot occur: Rust strings have none, and JSON writes them as ASCII escapes.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Replaces every unprintable character of a multi-line text with its code. Line breaks and tabs stay.
pub fn make_printable(text: &str) -> Cow<'_, str> {
    escape_unprintable(text, |c| matches!(c, '\n' | '\t'), push_code)
}

/// Replaces every unprintable character with its code, for output on one line: a line break becomes `\n`.
pub fn make_printable_line(text: &str) -> Cow<'_, str> {
    escape_unprintable(text, |_| false, push_code)
}

/// Replaces every unprintable character of a JSON document with a JSON escape. The result parses to the same
/// value.
///
/// A valid document contains such characters only in strings, where an escape may replace them. Line breaks
/// and tabs between tokens stay.
pub fn make_printable_json(document: &str) -> Cow<'_, str> {
    escape_unprintable(document, |c| matches!(c, '\n' | '\t' | '\r'), push_json_escape)
}

/// Returns `true` if [`make_printable`] leaves the text unchanged.
pub fn is_printable(text: &str) -> bool {
    matches!(make_printable(text), Cow::Borrowed(_))
}

/// Escapes the characters that are neither printable nor accepted by `keep`. Returns the input itself if
/// there are none.
fn escape_unprintable(
    text: &str,
    keep: impl Fn(char) -> bool,
    push: impl Fn(&mut String, char),
) -> Cow<'_, str> {
    let mut out: Option<String> = None;
    // The previous character as printed. An escape ends in ASCII, so a character that depended on the escaped
    // one is escaped in the same pass. Otherwise a second pass would change the text again.
    let mut previous = None;
    for (at, c) in text.char_indices() {
        let next = text[at + c.len_utf8()..].chars().next();
        if keep(c) || is_visible(previous, c, next) {
            previous = Some(c);
            if let Some(out) = &mut out {
                out.push(c);
            }
        } else {
            previous = Some('}');
            push(out.get_or_insert_with(|| text[..at].to_owned()), c);
        }
    }
    out.map_or(Cow::Borrowed(text), Cow::Owned)
}

fn push_code(out: &mut String, c: char) {
    out.extend(c.escape_default());
}

/// Appends the JSON escape of a character. JSON escapes are UTF-16, so a character beyond the basic
/// multilingual plane needs two.
fn push_json_escape(out: &mut String, c: char) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        write!(out, "\\u{unit:04x}").expect("writing to a string never fails");
    }
}

fn is_visible(previous: Option<char>, c: char, next: Option<char>) -> bool {
    match c {
        ' '..='~' => true,
        '\u{200c}' | '\u{200d}' => {
            previous.is_some_and(|c| is_base(c) || is_selector(c)) && next.is_some_and(is_base)
        }
        // A digit with its selector is a keycap: 1️⃣.
        '\u{fe0f}' if matches!(previous, Some('0'..='9' | '#' | '*')) => next == Some('\u{20e3}'),
        c if is_selector(c) => previous.is_some_and(is_base),
        c => !is_hidden(c),
    }
}

/// Returns `true` if a joiner or variation selector may follow the character: it is visible on its own and
/// not ASCII.
fn is_base(c: char) -> bool {
    let depends = matches!(c, '\u{200c}' | '\u{200d}') || is_selector(c);
    !c.is_ascii() && !c.is_whitespace() && !depends && !is_hidden(c)
}

/// Returns `true` for variation selectors, including the Mongolian vowel separator and Mongolian selectors.
fn is_selector(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{180b}'..='\u{180f}')
}

/// Returns `true` if the character controls a terminal, is invisible or has no standard appearance,
/// regardless of context.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Soft hyphen, grapheme joiner, Arabic letter mark.
            '\u{ad}' | '\u{34f}' | '\u{61c}'
            // Fillers of Hangul, inherent vowels of Khmer.
            | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{17b4}' | '\u{17b5}'
            // Zero-width space, marks of direction, separators, embeddings and overrides.
            | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            // Word joiner, invisible operators, isolates, deprecated format characters.
            | '\u{2060}'..='\u{206f}'
            // Byte order mark, unassigned specials, annotations.
            | '\u{feff}' | '\u{fff0}'..='\u{fffb}'
            // Format characters of shorthand and music.
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            // Private use, noncharacters; tags, supplementary selectors and more private use.
            | '\u{e000}'..='\u{f8ff}' | '\u{fdd0}'..='\u{fdef}' | '\u{e0000}'..='\u{10ffff}')
        || u32::from(c) & 0xfffe == 0xfffe
}

#[cfg(test)]
mod tests;
