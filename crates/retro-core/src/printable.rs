//! Text that is safe to print.
//!
//! **The need.** Almost everything that a person reads was written by somebody else: quotes of runs, titles, file names,
//! errors of servers. Printed raw, such a text clears the screen, rewrites the lines above it, turns a line around, or
//! carries words that nobody sees.
//!
//! **The properties**, each a test below. What comes out holds no character that steers a terminal or shows nothing;
//! nothing disappears, since such a character is written as its code (`\u{202e}`); everything else stays as it is; doing it twice changes
//! nothing more; six bytes come out for each byte at most.
//!
//! **What is not printable.**
//! - Controls: C0 with ESC, DEL, and C1, which some terminals take for ESC sequences. A line break and a tab stay where a
//!   text of several lines is wanted.
//! - Marks that change the direction of what follows, and the separators of lines and paragraphs.
//! - What shows nothing: zero-width spaces, soft hyphens, fillers, invisible operators, the tag block and the supplementary
//!   variation selectors. The last two spell any sentence without a trace, so the three flags of regions and the rare
//!   ideographs that use them show their codes.
//! - Private use and noncharacters: what they look like is no standard's matter.
//!
//! **What stays, where it does its work.** A joiner or non-joiner stands between two visible characters that are not
//! ASCII: Persian, Indic scripts and emoji need them, and Latin words are only torn apart by them. One variation
//! selector stands behind such a character, or makes a keycap. Everywhere else they are codes.
//!
//! A lone surrogate cannot be here: Rust's text has none, and in JSON it is an escape, which is ASCII.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns a text of several lines with every character that is not printable as its code. Line breaks and tabs stay.
pub fn make_printable(text: &str) -> Cow<'_, str> {
    escape(text, |c| matches!(c, '\n' | '\t'), push_code)
}

/// Returns a text on one line, with every character that is not printable as its code: a line break is `\n`.
pub fn make_printable_line(text: &str) -> Cow<'_, str> {
    escape(text, |_| false, push_code)
}

/// Returns a JSON document with every character that is not printable as a JSON escape. It parses to the same value.
///
/// A valid document has such characters only within strings, where an escape may stand for them; the line breaks
/// between its parts stay.
pub fn make_printable_json(document: &str) -> Cow<'_, str> {
    escape(document, |c| matches!(c, '\n' | '\t' | '\r'), push_json_escape)
}

/// Whether [`make_printable`] leaves a text as it is.
pub fn is_printable(text: &str) -> bool {
    matches!(make_printable(text), Cow::Borrowed(_))
}

/// Writes the characters that are neither printable nor to be kept by `push`; borrows the text when there is none.
fn escape(text: &str, keep: impl Fn(char) -> bool, push: impl Fn(&mut String, char)) -> Cow<'_, str> {
    let mut out: Option<String> = None;
    // The character before, as it is printed. After an escape it is ASCII, so that what depended on the escaped one is
    // escaped at once and not the next time.
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

/// JSON escapes are UTF-16: two of them beyond the basic plane.
fn push_json_escape(out: &mut String, c: char) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        write!(out, "\\u{unit:04x}").expect("a string takes everything");
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

/// Whether a joiner or a selector may depend on it: visible by itself, and not ASCII.
fn is_base(c: char) -> bool {
    let depends = matches!(c, '\u{200c}' | '\u{200d}') || is_selector(c);
    !c.is_ascii() && !c.is_whitespace() && !depends && !is_hidden(c)
}

/// Selectors of a glyph, and the separators and selectors of Mongolian.
fn is_selector(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{180b}'..='\u{180f}')
}

/// Characters that steer what shows them, show nothing, or have no agreed look: wherever they stand.
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
