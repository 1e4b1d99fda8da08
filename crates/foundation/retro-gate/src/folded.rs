//! Folds text to one canonical spelling.
//!
//! An attacker can spell a word in a thousand ways, but a pattern has only one spelling, so text is folded
//! before anything is matched: compatibility forms become plain letters, combining marks are removed, letters
//! become lower case, look-alikes from other alphabets become Latin letters, and invisible characters are
//! removed. Patterns then match one of three views of the folded text:
//!
//! - [`View::Plain`] keeps punctuation: for commands, addresses and markup;
//! - [`View::Words`] has only words and single spaces, so punctuation or a line break between two words makes
//!   no difference;
//! - [`View::Sentences`] adds ` | ` at the start of each sentence and line: for commands to the reader.
//!
//! Every byte of a view is mapped to its source, so people see the text as it was written.

use std::ops::Range;

use unicode_normalization::char::{decompose_compatible, is_combining_mark};

/// Lower-case letters that are hard to distinguish from Latin ones at a glance: Cyrillic, Greek and Armenian
/// letters, and some of the phonetic alphabet. Typographic quotation marks are included, because patterns use
/// only one kind.
const LOOK_ALIKES: &[(&str, char)] = &[
    ("аαɑ", 'a'),
    ("ьв", 'b'),
    ("сϲ", 'c'),
    ("ԁ", 'd'),
    ("еєҽε", 'e'),
    ("ғ", 'f'),
    ("ɡց", 'g'),
    ("һнհ", 'h'),
    ("іιıӏɩ", 'i'),
    ("јϳ", 'j'),
    ("кκ", 'k'),
    ("ⅼ", 'l'),
    ("м", 'm'),
    ("ոп", 'n'),
    ("оοօσ", 'o'),
    ("рρ", 'p'),
    ("ԛ", 'q'),
    ("гᴦ", 'r'),
    ("ѕ", 's'),
    ("тτ", 't'),
    ("υս", 'u'),
    ("νѵ", 'v'),
    ("ѡԝω", 'w'),
    ("хχ", 'x'),
    ("уγү", 'y'),
    ("ᴢ", 'z'),
    ("‘’ʼ`´′", '\''),
    ("“”″", '"'),
];

/// Returns `true` if a character has no visible form.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(
        u32::from(c),
        0x00AD | 0x034F | 0x061C | 0x115F..=0x1160 | 0x17B4..=0x17B5 | 0x180B..=0x180F | 0x200B..=0x200F
            | 0x202A..=0x202E | 0x2060..=0x206F | 0x3164 | 0xFE00..=0xFE0F | 0xFEFF | 0xFFA0 | 0xFFF9..=0xFFFB
            | 0x1D173..=0x1D17A | 0xE0000..=0xE0FFF
    )
}

/// Returns the Latin letter that a letter of another alphabet resembles, if any.
pub(crate) fn look_alike(c: char) -> Option<char> {
    if c.is_ascii() && c != '`' {
        return None;
    }
    LOOK_ALIKES.iter().find(|(from, _)| from.contains(c)).map(|(_, to)| *to)
}

/// Folds text to the spelling in which patterns are written. Folding is idempotent.
pub fn fold_text(text: &str) -> String {
    FoldedViews::new(text).plain.text
}

/// View of a folded text that a pattern matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    Plain,
    Words,
    Sentences,
}

/// A folded text, with the offset of the original character for each of its bytes.
#[derive(Debug, Default)]
pub(crate) struct Folded {
    pub(crate) text: String,
    sources: Vec<usize>,
}

impl Folded {
    fn push(&mut self, c: char, from: usize) {
        self.text.push(c);
        self.sources.extend(std::iter::repeat_n(from, c.len_utf8()));
    }

    /// Returns the range of the original text that a match in the folded text comes from. The range may end
    /// within a character; [`crate::Reason`] widens it.
    pub(crate) fn source_range(&self, at: Range<usize>) -> Range<usize> {
        let start = self.sources.get(at.start).copied().unwrap_or_default();
        let last = at.end.checked_sub(1).and_then(|last| self.sources.get(last)).copied().unwrap_or(start);
        start..last.max(start) + 1
    }
}

/// Three views of one folded text.
#[derive(Debug, Default)]
pub(crate) struct FoldedViews {
    pub(crate) plain: Folded,
    pub(crate) words: Folded,
    pub(crate) sentences: Folded,
}

impl FoldedViews {
    pub(crate) fn new(text: &str) -> Self {
        let mut plain = Folded::default();
        for (at, c) in text.char_indices() {
            fold_char(c, &mut |folded| {
                if folded != ' ' || !plain.text.ends_with([' ', '\n']) {
                    plain.push(folded, at);
                }
            });
        }
        let mut views = Self { plain, ..Self::default() };
        views.split_words();
        views
    }

    pub(crate) fn view(&self, view: View) -> &Folded {
        match view {
            View::Plain => &self.plain,
            View::Words => &self.words,
            View::Sentences => &self.sentences,
        }
    }

    /// Returns the number of bytes that patterns search.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        [&self.plain, &self.words, &self.sentences].map(|folded| folded.text.len()).iter().sum()
    }

    fn split_words(&mut self) {
        let (mut in_word, mut begins) = (false, true);
        let mut characters = self.plain.text.char_indices().peekable();
        while let Some((at, c)) = characters.next() {
            let from = self.plain.sources[at];
            if c.is_alphanumeric() {
                if !in_word {
                    if begins {
                        self.sentences.push('|', from);
                        self.sentences.push(' ', from);
                    }
                    begins = false;
                }
                in_word = true;
                self.words.push(c, from);
                self.sentences.push(c, from);
                continue;
            }
            let next = characters.peek().map(|(_, next)| *next);
            // Dropping an apostrophe within a word saves a second spelling of "don't" in the patterns.
            if c == '\'' && in_word && next.is_some_and(char::is_alphanumeric) {
                continue;
            }
            if in_word {
                self.words.push(' ', from);
                self.sentences.push(' ', from);
            }
            in_word = false;
            let ends =
                matches!(c, '.' | '!' | '?' | ';' | ':') && next.is_none_or(|next| !next.is_alphanumeric());
            begins |= ends || matches!(c, '\n' | '"' | '\u{3002}');
        }
        if in_word {
            let from = self.plain.sources.last().copied().unwrap_or_default();
            self.words.push(' ', from);
            self.sentences.push(' ', from);
        }
    }
}

/// Folds one character to none, itself, or a few plain characters.
fn fold_char(c: char, push: &mut impl FnMut(char)) {
    if c.is_ascii() {
        match c {
            '\n' => push('\n'),
            c if c.is_ascii_whitespace() => push(' '),
            c if c.is_ascii_control() => {}
            '`' => push('\''),
            c => push(c.to_ascii_lowercase()),
        }
        return;
    }
    match c {
        '\u{2028}' | '\u{2029}' | '\u{85}' => push('\n'),
        c if is_invisible(c) || c.is_control() => {}
        c if c.is_whitespace() => push(' '),
        c => decompose_compatible(c, |part| {
            for lower in part.to_lowercase() {
                // A lower-case letter may itself have a combining mark.
                decompose_compatible(lower, |plain| push_plain(plain, push));
            }
        }),
    }
}

fn push_plain(c: char, push: &mut impl FnMut(char)) {
    match c {
        c if is_combining_mark(c) || is_invisible(c) || c.is_control() => {}
        c if c.is_whitespace() => push(' '),
        c => push(look_alike(c).unwrap_or(c).to_ascii_lowercase()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, folded: &str) {
        assert_eq!(fold_text(text), folded, "from {text:?}");
    }

    #[test]
    fn what_reads_alike_is_spelt_alike() {
        check("Ｉｇｎｏｒｅ  ＡＬＬ", "ignore all");
        check("ig\u{200b}no\u{ad}re", "ignore");
        check("іgnоrе", "ignore");
        check("𝐢𝐠𝐧𝐨𝐫𝐞 Ⓐⓛⓛ", "ignore all");
        check("ígñöre", "ignore");
        check("don’t \t do\r\nit", "don't do \nit");
        check("\u{e0069}\u{e0067}", "");
    }

    #[test]
    fn words_and_sentences_map_to_their_source() {
        let text = "Now: *don't*\n> go.to it";
        let views = FoldedViews::new(text);
        assert_eq!(views.words.text, "now dont go to it ");
        assert_eq!(views.sentences.text, "| now | dont | go to it ");
        let at = views.words.text.find("dont").unwrap();
        let origin = views.words.source_range(at..at + 4);
        assert_eq!(&text[origin], "don't");
    }

    proptest! {
        #[test]
        fn folding_twice_changes_nothing(text in any::<String>()) {
            let once = fold_text(&text);
            prop_assert_eq!(fold_text(&once), once);
        }

        #[test]
        fn folding_every_character_twice_changes_nothing(c in any::<char>()) {
            let once = fold_text(&c.to_string());
            prop_assert_eq!(fold_text(&once), once);
        }

        #[test]
        fn the_views_grow_linearly_with_the_text(text in any::<String>()) {
            // U+FDFA expands to 18 characters, the most of any. No expansion is longer in proportion to its
            // bytes.
            prop_assert!(FoldedViews::new(&text).bytes() <= 8 + 40 * text.len());
        }
    }
}
