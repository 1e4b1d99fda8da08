//! Extracts verbatim quotes within the length limit of the core.

use retro_core::finding::{QUOTE_CHARS_MAX, Quote};
use retro_core::trajectory::QuotePlace;

/// Quotes `words`, which must be a slice of the text at `place`. Returns `None` if only white space would
/// remain.
pub(super) fn quote_at(place: QuotePlace, words: &str) -> Option<Quote> {
    let text = first_chars(words.trim(), QUOTE_CHARS_MAX).trim_end();
    (!text.is_empty()).then(|| Quote { place, text: text.to_owned() })
}

/// Returns at most the first `chars_max` characters of a text.
pub(super) fn first_chars(text: &str, chars_max: usize) -> &str {
    text.char_indices().nth(chars_max).map_or(text, |(end, _)| &text[..end])
}

/// Shortens a text to one line of at most `chars_max` characters. Cuts it between words if that keeps more
/// than half of it, and marks the cut with `…`.
pub(super) fn shorten_text(text: &str, chars_max: usize) -> String {
    // Bounded before the words are split, so a huge text stays cheap. White space shrinks, so more is read
    // than kept.
    let line =
        first_chars(text, chars_max.saturating_mul(4)).split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= chars_max {
        return line;
    }
    let cut = first_chars(&line, chars_max.saturating_sub(1));
    let at_word = cut.rfind(' ').filter(|end| *end > cut.len() / 2).map_or(cut, |end| &cut[..end]);
    format!("{}…", at_word.trim_end_matches(['…', ',', ';', ' ']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_is_cut_at_characters_and_never_blank() {
        let place = QuotePlace::Message { turn: 0 };
        assert_eq!(quote_at(place, "  \n "), None);
        let long = "ü".repeat(QUOTE_CHARS_MAX + 7);
        assert_eq!(quote_at(place, &long).unwrap().text.chars().count(), QUOTE_CHARS_MAX);
    }

    #[test]
    fn a_shortened_text_ends_at_a_word() {
        assert_eq!(shorten_text("one  two\nthree", 40), "one two three");
        assert_eq!(shorten_text("one two three", 10), "one two…");
        assert_eq!(shorten_text("abcdefghijkl", 5), "abcd…");
    }
}
