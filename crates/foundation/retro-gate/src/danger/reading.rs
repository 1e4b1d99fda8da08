//! Reads a folded text as words with what stands between them.

use super::words::{Parts, is_one_of};

/// What stands between two words, as bits.
pub(super) mod gap {
    pub(in crate::danger) const SPACE: u16 = 1;
    pub(in crate::danger) const STOP: u16 = 1 << 1;
    pub(in crate::danger) const COMMA: u16 = 1 << 2;
    pub(in crate::danger) const COLON: u16 = 1 << 3;
    pub(in crate::danger) const ASSIGN: u16 = 1 << 4;
    pub(in crate::danger) const QUOTE: u16 = 1 << 5;
    pub(in crate::danger) const TICK: u16 = 1 << 6;
    pub(in crate::danger) const SHELL: u16 = 1 << 7;
    pub(in crate::danger) const BRACKET: u16 = 1 << 8;
    /// The edge of a quotation of several words.
    pub(in crate::danger) const SPEECH: u16 = 1 << 9;
    /// Ends a clause.
    pub(in crate::danger) const ENDS: u16 = STOP | COMMA | COLON | SHELL | SPEECH;
}

use gap::{ASSIGN, BRACKET, COLON, COMMA, ENDS, QUOTE, SHELL, SPACE, SPEECH, STOP, TICK};

/// Words before a quotation that say that it is the answer of a tool.
const ANSWERS: &str = "answers answered answer prints printed returns returned reports reported fails failed error errors shows showed logs logged complains warns warned output message raises raised throws";

/// Words before a quotation that say that it is a message or a pattern to search for.
const QUOTES: &str =
    "-m -am -sm -asm --message grep rg ag ack egrep --grep pattern regex needle old_str old_string query";

/// Number of words in a quotation from which it is read as speech of its own.
const SPEECH_WORDS_MIN: usize = 4;

/// A word, option, path or address of a folded text.
#[derive(Debug)]
pub(super) struct Word<'t> {
    pub(super) text: &'t str,
    pub(super) start: usize,
    pub(super) end: usize,
    /// What stands between the previous word and this one.
    pub(super) gap: u16,
    /// The word is part of a quoted answer of a tool.
    pub(super) in_answer: bool,
    /// The word is part of such an answer, and the text goes on with advice of its own.
    pub(super) in_hint: bool,
    /// The word is part of a message or of a pattern to search for, which nothing acts upon.
    pub(super) in_message: bool,
    pub(super) parts: Parts,
}

impl Word<'_> {
    pub(super) fn is_option(&self) -> bool {
        self.text.starts_with('-') && self.text.len() > 1
    }

    pub(super) fn is(&self, table: &str) -> bool {
        is_one_of(self.text, table)
    }

    pub(super) fn is_address(&self) -> bool {
        self.text.contains("://")
    }

    /// Returns `true` if the word is written as code: an option, or a name of several parts.
    pub(super) fn is_name(&self) -> bool {
        self.is_option() || self.text.contains(['_', '.', '-'])
    }
}

/// A folded text, read.
#[derive(Debug)]
pub(super) struct Reading<'t> {
    pub(super) plain: &'t str,
    pub(super) words: Vec<Word<'t>>,
}

impl<'t> Reading<'t> {
    /// Reads a folded text once from left to right.
    pub(super) fn new(plain: &'t str) -> Self {
        let json = plain.trim_start().starts_with(['{', '[']);
        let mut reading = Self { plain, words: Vec::new() };
        let (mut at, mut between, mut long) = (0, 0, false);
        let (mut in_answer, mut in_message) = (false, false);
        // Where the quotation that is open ends, and the first word of the answer that it is.
        let (mut quoted_until, mut answer_begin) = (None, 0);
        while let Some(c) = plain[at..].chars().next() {
            let length = word_length(&plain[at..]);
            if length > 0 {
                let text = &plain[at..at + length];
                reading.words.push(Word {
                    text,
                    start: at,
                    end: at + length,
                    gap: between,
                    in_answer,
                    in_hint: false,
                    in_message,
                    parts: Parts::split(text),
                });
                (at, between) = (at + length, 0);
                continue;
            }
            if json && plain[at..].starts_with("\\n") {
                (at, between) = (at + 2, between | STOP);
                continue;
            }
            if c == '"' && quoted_until.is_some_and(|end| at < end) {
                between |= QUOTE;
            } else if c == '"' {
                if quoted_until.is_none() {
                    in_answer = reading.words.iter().rev().take(3).any(|word| word.is(ANSWERS));
                    in_message = between & COMMA == 0
                        && reading.words.iter().rev().take(2).any(|word| word.is(QUOTES));
                    answer_begin = reading.words.len();
                    let rest = &plain[at + 1..];
                    let end = if in_answer { answer_length(rest) } else { None }.or_else(|| rest.find('"'));
                    let quoted = &rest[..end.unwrap_or(0)];
                    long = quoted.split_whitespace().take(SPEECH_WORDS_MIN).count() >= SPEECH_WORDS_MIN;
                    quoted_until = Some(end.map_or(plain.len(), |end| at + 1 + end));
                } else {
                    if in_answer && gives_advice(&plain[at + 1..]) {
                        reading.words[answer_begin..].iter_mut().for_each(|word| word.in_hint = true);
                    }
                    (in_answer, in_message, quoted_until) = (false, false, None);
                }
                between |= if long { QUOTE | SPEECH } else { QUOTE };
            }
            between |= match c {
                '\n' | ';' | '!' | '?' => STOP,
                '.' if !plain[at + 1..].starts_with(|next: char| next.is_alphanumeric()) => STOP,
                ',' | '\u{2013}' | '\u{2014}' => COMMA,
                ':' => COLON,
                '=' => ASSIGN,
                '\'' => TICK,
                '|' | '&' => SHELL,
                '(' | ')' | '{' | '}' | '[' | ']' | '<' | '>' => BRACKET,
                c if c.is_whitespace() => SPACE,
                _ => 0,
            };
            at += c.len_utf8();
        }
        reading
    }

    /// Returns `true` if a clause ends before the word.
    pub(super) fn begins_clause(&self, at: usize) -> bool {
        at == 0 || self.words.get(at).is_none_or(|word| word.gap & ENDS != 0)
    }

    /// Returns the text of a word, or nothing if there is none.
    pub(super) fn text(&self, at: usize) -> &'t str {
        self.words.get(at).map_or("", |word| word.text)
    }

    /// Returns the word that a byte of the folded text belongs to or follows.
    pub(super) fn word_at(&self, byte: usize) -> usize {
        self.words.partition_point(|word| word.end <= byte).min(self.words.len().saturating_sub(1))
    }

    /// Returns the last word that begins before a byte of the folded text.
    pub(super) fn word_before(&self, byte: usize) -> usize {
        self.words.partition_point(|word| word.start < byte).saturating_sub(1)
    }

    /// Returns the words after `at` in the same clause, at most `most`.
    pub(super) fn rest_of_clause(&self, at: usize, most: usize) -> impl Iterator<Item = usize> + '_ {
        (at + 1..self.words.len()).take(most).take_while(|next| !self.begins_clause(*next))
    }
}

/// Maximum length of an answer with quotations in it, in bytes.
const ANSWER_BYTES_MAX: usize = 4096;

/// Returns the length of the answer that a quotation mark begins. An inner quotation follows a space, so that
/// `integrity check failed for "lodash"` is one answer.
fn answer_length(text: &str) -> Option<usize> {
    let (mut depth, mut before) = (0_usize, ' ');
    for (at, c) in text.char_indices().take_while(|(at, _)| *at < ANSWER_BYTES_MAX) {
        if c == '"' {
            let opens = matches!(before, ' ' | '(' | '[' | '{' | '=' | ',')
                && text[at + 1..].starts_with(|next: char| !next.is_whitespace());
            match depth {
                0 if !opens => return Some(at),
                _ if opens => depth += 1,
                _ => depth -= 1,
            }
        }
        before = c;
    }
    None
}

/// Number of words after an answer that say if the text has advice of its own.
const ADVICE_WORDS: usize = 6;

/// Returns `true` if the text after an answer tells what to do in words of its own. What a tool hints at is
/// then no advice: in "… (add --no-verify to bypass)", run `npm run lint`" only the last command is.
fn gives_advice(after: &str) -> bool {
    let is_inner = |c: char| !(c.is_alphanumeric() || matches!(c, '\'' | '-' | '_'));
    let clause = after.split(['.', ';', '\n', '"']).next().unwrap_or(after);
    let words: Vec<&str> =
        clause.split(is_inner).filter(|word| !word.is_empty()).take(ADVICE_WORDS).collect();
    let refers = words.iter().enumerate().any(|(nth, word)| match *word {
        "it" => {
            !words.get(nth + 1).is_some_and(|next| is_one_of(next, "with without in into from again on as at"))
        }
        word => is_one_of(
            word,
            "so that this comply follow obey says said suggests suggested suggestion asks tells hint accordingly works worked helps helped fixes fixed advice instructions",
        ),
    });
    words.len() > 1 && !refers
}

/// Joins the strings of JSON arrays to command lines: in `["curl","-k"]`, what stands between two strings
/// becomes spaces of the same length, so that places in the text stay the same.
pub(super) fn join_arrays(plain: &str) -> String {
    let mut joined = String::with_capacity(plain.len());
    let (mut open, mut in_string, mut escaped) = (Vec::new(), false, false);
    let mut at = 0;
    while let Some(c) = plain[at..].chars().next() {
        let gap = if c == '"' && in_string && !escaped && open.last() == Some(&'[') {
            array_gap(&plain[at..])
        } else {
            0
        };
        if gap > 0 {
            joined.extend(std::iter::repeat_n(' ', gap));
            at += gap;
            continue;
        }
        match c {
            '"' if !escaped => in_string = !in_string,
            '[' | '{' if !in_string => open.push(c),
            ']' | '}' if !in_string => drop(open.pop()),
            _ => {}
        }
        escaped = c == '\\' && !escaped;
        joined.push(c);
        at += c.len_utf8();
    }
    joined
}

/// Returns the length of `", "` between two strings, or 0 if something else follows the first one.
fn array_gap(text: &str) -> usize {
    let next =
        text[1..].trim_start().strip_prefix(',').map(str::trim_start).filter(|next| next.starts_with('"'));
    next.map_or(0, |next| text.len() - next.len() + 1)
}

/// Returns the length of the word that a text begins with, in bytes, or 0.
fn word_length(text: &str) -> usize {
    let is_inner =
        |c: char| c.is_alphanumeric() || matches!(c, '_' | '/' | '@' | '+' | '~' | '$' | '%' | '*' | '\\');
    let mut characters = text.char_indices().peekable();
    let mut length = 0;
    let mut before = ' ';
    let mut address = false;
    while let Some((at, c)) = characters.next() {
        let next = characters.peek().map_or(' ', |(_, next)| *next);
        let inner = match c {
            // A lone backslash escapes; within a path it separates.
            '\\' if !before.is_alphanumeric() || !next.is_alphanumeric() || next == 'n' => false,
            c if is_inner(c) => true,
            '-' => at > 0 || next.is_alphanumeric() || next == '-',
            '.' => {
                next.is_alphanumeric()
                    || matches!(next, '_' | '/')
                    || next == '.' && !before.is_alphanumeric()
                    || at > 0 && next == '*'
            }
            '\'' => before.is_alphabetic() && next.is_alphabetic() && is_contraction(&text[at + 1..]),
            // `https://`, `s3://`, `host:8080`, `std::env`, `github:user/repo`.
            ':' if text[at..].starts_with("://") => {
                address = true;
                true
            }
            ':' => {
                before == ':'
                    || next == ':'
                    || address
                    || at > 0 && before.is_alphanumeric() && is_port(&text[at + 1..])
            }
            '?' | '=' | '&' | '#' => address && (next.is_alphanumeric() || next == '_'),
            _ => false,
        };
        if !inner {
            break;
        }
        before = c;
        length = at + c.len_utf8();
    }
    length
}

/// Returns `true` if an apostrophe belongs to a contraction such as "don't", and does not end a name.
fn is_contraction(after: &str) -> bool {
    let letters = after.chars().take_while(|c| c.is_alphanumeric()).count();
    letters <= 2
}

fn is_port(after: &str) -> bool {
    let digits = after.chars().take_while(char::is_ascii_digit).count();
    (2..=5).contains(&digits)
}
