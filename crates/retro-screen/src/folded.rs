//! One spelling for everything that reads alike.
//!
//! An attacker has a thousand spellings of a word, a pattern has one. So letters are folded before anything is matched:
//! compatibility forms to plain ones, marks off, lower case, look-alikes of other alphabets to Latin, and what cannot be
//! seen goes. Patterns then look at one of three views of the folded text, whichever makes them simple:
//!
//! - [`View::Plain`] keeps punctuation: for commands, addresses and markup;
//! - [`View::Words`] has words and single spaces and nothing else: punctuation or a line break between two words
//!   changes nothing;
//! - [`View::Sentences`] is the same with ` | ` where a sentence or a line begins: for what is commanded.
//!
//! Every byte of a view knows where it came from, so that a person is shown the text as it was written.

use std::ops::Range;

use unicode_normalization::char::{decompose_compatible, is_combining_mark};

/// Look-alikes of Latin letters, lower case: Cyrillic, Greek, Armenian, and a few of the phonetic alphabet. Only what is
/// hard to tell apart at a glance; typographic quotes are folded too, since patterns know one kind.
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

/// Characters that take no room: a reader does not see that they are there.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(
        u32::from(c),
        0x00AD | 0x034F | 0x061C | 0x115F..=0x1160 | 0x17B4..=0x17B5 | 0x180B..=0x180F | 0x200B..=0x200F
            | 0x202A..=0x202E | 0x2060..=0x206F | 0x3164 | 0xFE00..=0xFE0F | 0xFEFF | 0xFFA0 | 0xFFF9..=0xFFFB
            | 0x1D173..=0x1D17A | 0xE0000..=0xE0FFF
    )
}

/// The Latin letter that this one of another alphabet looks like.
pub(crate) fn look_alike(c: char) -> Option<char> {
    if c.is_ascii() && c != '`' {
        return None;
    }
    LOOK_ALIKES.iter().find(|(from, _)| from.contains(c)).map(|(_, to)| *to)
}

/// A text in the one spelling that patterns are written in. Folding it again changes nothing.
pub fn fold(text: &str) -> String {
    Views::of(text).plain.text
}

/// Which form of a text a pattern is matched against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    Plain,
    Words,
    Sentences,
}

/// A folded text, and for each of its bytes the first byte of the character that it came from.
#[derive(Debug, Default)]
pub(crate) struct Folded {
    pub(crate) text: String,
    from: Vec<usize>,
}

impl Folded {
    fn push(&mut self, c: char, from: usize) {
        self.text.push(c);
        self.from.extend(std::iter::repeat_n(from, c.len_utf8()));
    }

    /// Where a match stands in the text as it came; the last character is whole once a reason widens it.
    pub(crate) fn origin(&self, at: Range<usize>) -> Range<usize> {
        let start = self.from.get(at.start).copied().unwrap_or_default();
        let last = at.end.checked_sub(1).and_then(|last| self.from.get(last)).copied().unwrap_or(start);
        start..last.max(start) + 1
    }
}

/// The three views of one text.
#[derive(Debug, Default)]
pub(crate) struct Views {
    pub(crate) plain: Folded,
    pub(crate) words: Folded,
    pub(crate) sentences: Folded,
}

impl Views {
    pub(crate) fn of(text: &str) -> Self {
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

    /// How many bytes patterns look at.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        [&self.plain, &self.words, &self.sentences].map(|folded| folded.text.len()).iter().sum()
    }

    fn split_words(&mut self) {
        let (mut in_word, mut begins) = (false, true);
        let mut characters = self.plain.text.char_indices().peekable();
        while let Some((at, c)) = characters.next() {
            let from = self.plain.from[at];
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
            // An apostrophe within a word is not worth two spellings of "don't".
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
            let from = self.plain.from.last().copied().unwrap_or_default();
            self.words.push(' ', from);
            self.sentences.push(' ', from);
        }
    }
}

/// What one character becomes: nothing, itself, or a few plain ones.
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
                // A lower case letter may have a mark of its own.
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
        assert_eq!(fold(text), folded, "from {text:?}");
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
    fn words_and_sentences_keep_their_places() {
        let text = "Now: *don't*\n> go.to it";
        let views = Views::of(text);
        assert_eq!(views.words.text, "now dont go to it ");
        assert_eq!(views.sentences.text, "| now | dont | go to it ");
        let at = views.words.text.find("dont").unwrap();
        let origin = views.words.origin(at..at + 4);
        assert_eq!(&text[origin], "don't");
    }

    proptest! {
        #[test]
        fn folding_twice_changes_nothing(text in any::<String>()) {
            let once = fold(&text);
            prop_assert_eq!(fold(&once), once);
        }

        #[test]
        fn folding_every_character_twice_changes_nothing(c in any::<char>()) {
            let once = fold(&c.to_string());
            prop_assert_eq!(fold(&once), once);
        }

        #[test]
        fn what_patterns_look_at_grows_with_the_text_alone(text in any::<String>()) {
            // A character that falls apart into most is U+FDFA with 18; none is shorter than its bytes by more.
            prop_assert!(Views::of(&text).bytes() <= 8 + 40 * text.len());
        }
    }
}
