//! Texts of strangers as Markdown that says what they say and does nothing.
//!
//! **The need.** A report is pasted into pull requests and shown on pages. A text from a run must make no HTML, no image, no table
//! cell and no heading there, and it must lead nobody anywhere: a link to a foreign place, a mention that notifies somebody,
//! a reference that leaves a mark on another issue.
//!
//! **The design.** Escapes are enough for the syntax of Markdown, and no escape is for links: readers of Markdown look for
//! addresses, mentions and references in the finished text, where an escaped character is itself again. Only code is left
//! alone by all of them. So a word that could become a link is written as code, code stays code, and everything else is escaped.

use crate::words;

/// Where a text stands: in a table's cell, a `|` has to be escaped within code, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In a line of its own, or behind words of ours.
    Line,
    /// In a cell of a table.
    Cell,
}

/// A part of a word.
#[derive(Debug, Clone, Copy)]
enum Part<'a> {
    /// What stands between two runs of as many backticks.
    Code(&'a str),
    Plain(&'a str),
}

/// Returns a text on one line as Markdown that shows it and nothing more.
pub(super) fn escape(text: &str, place: Place) -> String {
    let text = words::line(text);
    let mut out = String::with_capacity(text.len());
    for (nth, (source, parts)) in split_words(&text).into_iter().enumerate() {
        if nth > 0 {
            out.push(' ');
        }
        if parts.iter().any(|part| matches!(part, Part::Plain(plain) if could_link(plain))) {
            push_code(&mut out, source, place);
            continue;
        }
        for part in parts {
            match part {
                Part::Code(code) => push_code(&mut out, code, place),
                Part::Plain(plain) if nth == 0 && place == Place::Line && opens_block(plain) => {
                    push_without_block(&mut out, plain);
                }
                Part::Plain(plain) => push_plain(&mut out, plain),
            }
        }
    }
    out
}

/// Splits a line at its spaces, those within code apart: every word as it stands, and in parts.
fn split_words(text: &str) -> Vec<(&str, Vec<Part<'_>>)> {
    let mut words = Vec::new();
    let (mut parts, mut began, mut plain, mut at) = (Vec::new(), 0, 0, 0);
    while let Some(c) = text[at..].chars().next() {
        let run = count_backticks(&text[at..]);
        let code = (run > 0).then(|| find_code_end(text, at, run)).flatten();
        if c != ' ' && code.is_none() {
            // Backticks without others to close them are backticks.
            at += c.len_utf8().max(run);
            continue;
        }
        if plain < at {
            parts.push(Part::Plain(&text[plain..at]));
        }
        if let Some(end) = code {
            parts.push(Part::Code(&text[at + run..end]));
            at = end + run;
        } else {
            words.push((&text[began..at], std::mem::take(&mut parts)));
            at += 1;
            began = at;
        }
        plain = at;
    }
    if plain < at {
        parts.push(Part::Plain(&text[plain..at]));
    }
    words.push((&text[began..at], parts));
    words
}

/// Where the run begins that closes the code which a run of backticks at `at` opens.
fn find_code_end(text: &str, at: usize, run: usize) -> Option<usize> {
    let mut from = at + run;
    while let Some(found) = text[from..].find('`') {
        let closing = count_backticks(&text[from + found..]);
        if closing == run {
            return Some(from + found);
        }
        from += found + closing;
    }
    None
}

fn count_backticks(text: &str) -> usize {
    text.len() - text.trim_start_matches('`').len()
}

/// Whether some reader of Markdown would take a word, or a part of it, for an address, a mention, a reference to an issue,
/// or mathematics.
fn could_link(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    let refers = |sign: &str| {
        lower
            .match_indices(sign)
            .any(|(at, _)| lower[at + sign.len()..].starts_with(|next: char| next.is_alphanumeric()))
    };
    word.contains(['@', '$'])
        || lower.contains("//")
        || lower.contains("www.")
        || refers("#")
        || refers("gh-")
        || has_domain(word)
}

/// Whether it holds a point with something before it and a name of at least two letters behind it: `example.com`, and
/// `main.rs`, which some take for a host of Serbia.
fn has_domain(word: &str) -> bool {
    word.match_indices('.')
        .any(|(at, _)| at > 0 && word[at + 1..].chars().take_while(|c| c.is_alphabetic()).nth(1).is_some())
}

/// Writes code within backticks, one more than it holds in a row. In a cell it is cut at every `|`, which stands escaped
/// between its parts: readers of tables do not agree on a `|` behind a backslash within code.
fn push_code(out: &mut String, code: &str, place: Place) {
    match place {
        Place::Line => push_code_span(out, code),
        Place::Cell => {
            for (nth, part) in code.split('|').enumerate() {
                if nth > 0 {
                    out.push_str("\\|");
                }
                if !part.is_empty() {
                    push_code_span(out, part);
                }
            }
        }
    }
}

fn push_code_span(out: &mut String, code: &str) {
    let longest = code.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest + 1);
    // A backtick beside the fence would be taken for a part of it; one space on either side is not shown.
    let pad = if code.starts_with('`') || code.ends_with('`') { " " } else { "" };
    for piece in [fence.as_str(), pad, code, pad, fence.as_str()] {
        out.push_str(piece);
    }
}

fn push_plain(out: &mut String, plain: &str) {
    let mut previous = None;
    let mut rest = plain.chars();
    while let Some(c) = rest.next() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // An escaped one could still close code.
            '`' => out.push_str("&#96;"),
            '\\' | '*' | '~' | '^' | '[' | ']' | '|' | '#' => out.extend(['\\', c]),
            // Within a word it is no emphasis: names are full of it.
            '_' if !is_inside_word(previous, rest.as_str()) => out.push_str("\\_"),
            c => out.push(c),
        }
        previous = Some(c);
    }
}

fn is_inside_word(previous: Option<char>, rest: &str) -> bool {
    previous.is_some_and(char::is_alphanumeric) && rest.starts_with(char::is_alphanumeric)
}

/// Whether a first word would open a list, or underline what stands before it.
fn opens_block(word: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    matches!(word, "+")
        || word.bytes().all(|byte| byte == b'-')
        || word.bytes().all(|byte| byte == b'=')
        || word.strip_suffix(['.', ')']).is_some_and(is_number)
}

/// Its last character is escaped: that of a number is its point.
fn push_without_block(out: &mut String, word: &str) {
    let (head, tail) = word.split_at(word.len() - 1);
    if word.starts_with(['-', '=']) {
        out.push('\\');
        out.push_str(word);
    } else {
        out.push_str(head);
        out.push('\\');
        out.push_str(tail);
    }
}

#[cfg(test)]
mod tests;
