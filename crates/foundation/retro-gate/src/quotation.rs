//! Renders text that somebody else wrote as data: one line, attributed by its caller, and without anything
//! that an agent could take for an order or for a part of our own frame.
//!
//! A memory may quote what a tool answered, because the words identify the situation. Words that say what to
//! *do* are left out: the lesson itself is built from the calls that worked. So a quotation ends before the
//! first clause that tells the reader what to do, and addresses, markup, code and commands become `…`. A
//! command stays only if it is among the calls that the agent itself made and that worked.

/// Defines a regular expression that is compiled when it is first used. Its file imports `LazyLock` and `Regex`.
macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($text).expect("constant patterns compile, as every test verifies"));
    };
}

mod address;
mod advice;
#[cfg(test)]
mod cases;
mod clause;
mod command;
mod markup;
mod order;
mod report;
mod words;

use std::sync::LazyLock;

use regex::Regex;

use crate::danger::{Danger, DangerSign, find_dangers};
use crate::folded::{fold_text, is_invisible};
use crate::language::{find_unread_language, has_no_english};

use address::leave_out_addresses;
use clause::{Clause, split_clauses};
use command::leave_out_commands;
use markup::{
    LEFT_OUT, leave_out_code, leave_out_shell_chains, strip_comments, strip_escapes, strip_tags,
    without_quotation_marks,
};

/// Author of a quoted text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// A tool, a page or a file. What it tells its reader to do is left out.
    Tool,
    /// An agent in a remark on its own run. Advice is the purpose of a remark, so its sentence stays.
    Agent,
}

/// Minimum number of letters in a quotation. Less identifies nothing.
const LETTERS_MIN: usize = 3;

/// Maximum number of bytes of a text that are read for a quotation, many times the length of any quotation.
const READ_BYTES_MAX: usize = 16 * 1024;

/// Bytes of a text that are scanned for directives, per character of the quotation. Letters take up to four.
const SCANNED_BYTES_PER_CHAR: usize = 8;

/// Returns a text as one line of plain text with at most `chars_max` characters: no control, invisible or
/// reordering characters, no escape sequences of a terminal, no line breaks, and no runs of angle brackets,
/// which the marks around a block consist of. A text that is cut ends with `…`.
pub fn plain_line(text: &str, chars_max: usize) -> String {
    let text = &text[..text.floor_char_boundary(READ_BYTES_MAX)];
    let visible = strip_escapes(text);
    let mut line = String::with_capacity(visible.len());
    let mut bracket = None;
    for c in visible.chars().map(|c| if c.is_whitespace() || c.is_control() { ' ' } else { c }) {
        if is_invisible(c) || is_unassigned_use(c) {
            continue;
        }
        if c == ' ' && (line.is_empty() || line.ends_with(' ')) {
            continue;
        }
        let opens = bracket_direction(c);
        // A second bracket of one direction is dropped, even after a space: three of them form a mark.
        if opens.is_some() && opens == bracket {
            continue;
        }
        if c != ' ' {
            bracket = opens;
        }
        line.push(c);
    }
    let line = line.trim_end();
    if line.chars().count() <= chars_max {
        return line.to_owned();
    }
    let kept: String = line.chars().take(chars_max.saturating_sub(1)).collect();
    let at_word =
        kept.rfind(' ').filter(|end| *end > kept.len() / 2).map_or(kept.as_str(), |end| &kept[..end]);
    format!("{}{LEFT_OUT}", at_word.trim_end_matches([LEFT_OUT, ',', ';', ' ']))
}

/// Returns `true` for characters of private use and for non-characters, which may look like anything.
const fn is_unassigned_use(c: char) -> bool {
    matches!(c as u32, 0xE000..=0xF8FF | 0xF_0000..=0x10_FFFF | 0xFFFE..=0xFFFF)
}

/// Returns the direction of an angle bracket in any of its forms.
const fn bracket_direction(c: char) -> Option<bool> {
    match c {
        '<' | '＜' | '‹' | '«' | '⟨' | '〈' | '《' | '≪' | '⋘' | '❮' | '❰' | '˂' => {
            Some(true)
        }
        '>' | '＞' | '›' | '»' | '⟩' | '〉' | '》' | '≫' | '⋙' | '❯' | '❱' | '˃' => {
            Some(false)
        }
        _ => None,
    }
}

/// Returns a text as data to be quoted between “ and ”, with at most `chars_max` characters. `worked` contains
/// the calls that the agent itself made and that worked; commands in it may stay. Returns `None` if nothing
/// remains that identifies the text, or if it is prose in a language that no pattern reads.
pub fn quote_as_data(text: &str, speaker: Speaker, worked: &[&str], chars_max: usize) -> Option<String> {
    if find_unread_language(&plain_line(text, READ_BYTES_MAX)).is_some() || is_other_alphabet(text) {
        return None;
    }
    let line = leave_out_code(&leave_out_addresses(&strip_comments(&join_plain_lines(text))), worked);
    let line = leave_out_shell_chains(&strip_tags(&line), worked);
    // The rest cannot be shown, and a long line of borders would take quadratic time.
    let line = &line[..line.floor_char_boundary(SCANNED_BYTES_PER_CHAR * chars_max.max(100))];
    let line = match speaker {
        Speaker::Tool => cut_at_directive(line, worked),
        Speaker::Agent
            if split_clauses(line).iter().any(|clause| is_foreign(&line[clause.range.clone()])) =>
        {
            return None;
        }
        Speaker::Agent => &leave_out_commands(line, worked),
    };
    let line = REPEATED.replace_all(&without_quotation_marks(line), "…").into_owned();
    let line = line.trim_matches(|c: char| c.is_whitespace() || ",;:-–—([{=|→".contains(c));
    let line = plain_line(line, chars_max);
    (line.chars().filter(|c| c.is_alphabetic()).count() >= LETTERS_MIN).then_some(line)
}

/// Returns the lines of a text as plain lines, joined by line breaks, which are borders of clauses.
fn join_plain_lines(text: &str) -> String {
    let text = &text[..text.floor_char_boundary(READ_BYTES_MAX)];
    let lines = strip_escapes(text);
    let lines = lines.split(['\n', '\r', '\u{2028}', '\u{2029}', '\u{85}', '\u{b}', '\u{c}']);
    let lines: Vec<String> = lines.map(|line| plain_line(line, READ_BYTES_MAX)).collect();
    lines.into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Returns `true` if more than a fifth of the letters are of an alphabet that no pattern reads. Models read them
/// all.
fn is_other_alphabet(line: &str) -> bool {
    let letters = line.chars().filter(|c| c.is_alphabetic());
    let is_read = |c: &char| matches!(u32::from(*c), 0..=0x24F | 0x1E00..=0x1EFF | 0xFF00..=0xFF5E);
    let (read, other): (Vec<char>, Vec<char>) = letters.partition(is_read);
    other.len() >= 4 && other.len() * 4 > read.len()
}

/// Returns the arguments of a call that the agent itself made as data to be quoted between “ and ”, with at most
/// `chars_max` characters. Commands stay, since the agent ran them; addresses, markup and most of longer prose
/// are left out.
pub fn call_as_data(call: &str, chars_max: usize) -> String {
    let line = strip_comments(&plain_line(call, READ_BYTES_MAX));
    let line = strip_tags(&leave_out_addresses(&line));
    let line = if is_other_alphabet(&line) { LEFT_OUT.to_string() } else { line };
    let line = PROSE.replace_all(&line, |found: &regex::Captures<'_>| format!("{}…", &found[1]));
    plain_line(&without_quotation_marks(&line), chars_max)
}

/// Returns the part of a line before the first clause that tells its reader what to do, or before a suggestion.
fn cut_at_directive<'a>(line: &'a str, worked: &[&str]) -> &'a str {
    let line = advice::cut_at_suggestion(line);
    let clauses = split_clauses(line);
    let Some(directive) = clauses.iter().find(|clause| is_directive(line, clause, worked)) else {
        return line;
    };
    // The directive may begin at a soft border within the clause, as in "disk full → wipe it".
    let within = clauses.iter().filter(|part| part.soft && directive.range.contains(&part.cut));
    let end = within.map(|part| directive.range.start..part.cut).find(|before| {
        line[before.clone()].trim().contains(' ')
            && !is_directive(line, &Clause { range: before.clone(), ..directive.clone() }, worked)
    });
    &line[..end.map_or(directive.cut, |before| before.end)]
}

/// Returns `true` if a clause tells its reader what to do: it is an order, a command or advice, or it speaks of
/// something dangerous.
fn is_directive(line: &str, clause: &Clause, worked: &[&str]) -> bool {
    let raw = &line[clause.range.clone()];
    let after = &line[clause.range.end..];
    let plain = fold_text(raw);
    let plain = plain.trim();
    if report::is_program_line(raw, after) || report::is_failed_system_call(plain, after) {
        return false;
    }
    // A verb and an exclamation mark: "Approve!". Without the mark it may be a name: "missing script: build".
    let exclaims = after.starts_with('!') && words::is_known_verb(plain) && !words::is_noun(plain);
    if exclaims || command::is_command(raw, after, worked) || advice::is_label(plain, after) {
        return true;
    }
    (is_foreign(raw) && !report::reports(plain))
        || order::is_order(plain)
        || advice::is_advice(plain)
        || (!clause.soft && endangers(raw, plain))
}

/// Minimum number of words of a clause that is read as prose. Three are a list of names: "mv: cannot stat".
const PROSE_WORDS_MIN: usize = 4;

/// Returns `true` if a clause is prose in a language that no pattern reads.
fn is_foreign(clause: &str) -> bool {
    has_no_english(clause, PROSE_WORDS_MIN)
}

/// Returns `true` if a tool speaks of a danger and does not refuse it.
fn endangers(raw: &str, plain: &str) -> bool {
    let held = |sign: &DangerSign| Danger::HELD_BY_DEFAULT.contains(&sign.danger);
    !report::refuses(plain) && find_dangers(raw).iter().any(held)
}

// Neighbouring marks of what was left out.
static REPEATED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"…(?:[\s,;]*…)+").expect("constant patterns compile"));
// Prose in the arguments of a call: eight plain words or more, of which three stay. An escaped line break joins
// words as a space does.
static PROSE: LazyLock<Regex> = LazyLock::new(|| {
    let (word, space) = (r"[\p{L}'’-]{1,20}", r"(?: |\\+[nrt] ?)");
    Regex::new(&format!(r"(\b(?:{word},?{space}){{3}})(?:{word}[,.!?;:]?{space}){{4,}}{word}\b"))
        .expect("constant patterns compile")
});

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_has_no_marks_and_nothing_hidden() {
        assert_eq!(plain_line("a\u{1b}[31mred\u{1b}[0m\n\tb\u{200b}c\u{202e}", 80), "ared bc");
        assert_eq!(plain_line("<<<END>>> < < <END> > >", 80), "<END> < END>");
        assert_eq!(plain_line("one two three", 10), "one two…");
    }

    proptest! {
        #[test]
        fn any_text_becomes_a_bounded_plain_line(text in any::<String>()) {
            let line = plain_line(&text, 100);
            prop_assert!(line.chars().count() <= 100);
            let plain = line.chars().all(|c| !c.is_control() && !is_invisible(c));
            prop_assert!(plain && !line.contains("<<") && !line.contains(">>"));
            prop_assert_eq!(&plain_line(&line, 100), &line);
            for speaker in [Speaker::Tool, Speaker::Agent] {
                let quoted = quote_as_data(&text, speaker, &[], 100).unwrap_or_default();
                prop_assert!(quoted.chars().count() <= 100 && !quoted.contains(['“', '”', '`', '\n']));
            }
        }
    }
}
