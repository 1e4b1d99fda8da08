//! Escapes text from runs so that Markdown shows it literally.
//!
//! **Requirement.** A report is pasted into pull requests and shown on pages. Text from a run must not produce HTML,
//! images, table cells or headings there, and must not link anywhere: no URLs, no mentions that notify somebody, no
//! issue references that leave a mark on another issue.
//!
//! **Design.** Escaping is enough for Markdown syntax but not for automatic links: renderers look for URLs,
//! mentions and references in the rendered text, after the escapes are resolved. Only code spans are exempt.
//! Therefore a word that could become a link is written as a code span, existing code spans are kept, and
//! everything else is escaped.

use crate::text;

/// Position of the text in the document. In a table cell, `|` must be escaped even within code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EscapeContext {
    /// The text is on its own line or follows a label.
    Line,
    /// The text is in a table cell.
    Cell,
}

/// Part of a word: a code span or plain text.
#[derive(Debug, Clone, Copy)]
enum WordPart<'a> {
    /// Text between two sequences of backticks of equal length.
    Code(&'a str),
    Plain(&'a str),
}

/// Returns the text as one line of Markdown that shows it literally.
pub(crate) fn escape_markdown(text: &str, place: EscapeContext) -> String {
    let text = text::single_line(text);
    let mut out = String::with_capacity(text.len());
    for (nth, (source, parts)) in split_words(&text).into_iter().enumerate() {
        if nth > 0 {
            out.push(' ');
        }
        // The whole word becomes code, because a link may extend over several of its parts.
        if parts.iter().any(|part| matches!(part, WordPart::Plain(plain) if could_link(plain))) {
            push_code(&mut out, source, place);
            continue;
        }
        for part in parts {
            match part {
                WordPart::Code(code) => push_code(&mut out, code, place),
                // Only the first word of a line can open a block.
                WordPart::Plain(plain) if nth == 0 && place == EscapeContext::Line && opens_block(plain) => {
                    push_without_block(&mut out, plain);
                }
                WordPart::Plain(plain) => push_plain(&mut out, plain),
            }
        }
    }
    out
}

/// Splits a line into words at the spaces outside code spans. Returns the source of each word with its parts.
fn split_words(text: &str) -> Vec<(&str, Vec<WordPart<'_>>)> {
    let mut words = Vec::new();
    let (mut parts, mut began, mut plain, mut at) = (Vec::new(), 0, 0, 0);
    while let Some(c) = text[at..].chars().next() {
        let run = count_backticks(&text[at..]);
        let code = (run > 0).then(|| find_code_end(text, at, run)).flatten();
        if c != ' ' && code.is_none() {
            // Backticks without a closing run are literal.
            at += c.len_utf8().max(run);
            continue;
        }
        if plain < at {
            parts.push(WordPart::Plain(&text[plain..at]));
        }
        if let Some(end) = code {
            parts.push(WordPart::Code(&text[at + run..end]));
            at = end + run;
        } else {
            words.push((&text[began..at], std::mem::take(&mut parts)));
            // A space is one byte: `single_line` has replaced all other white space.
            at += 1;
            began = at;
        }
        plain = at;
    }
    if plain < at {
        parts.push(WordPart::Plain(&text[plain..at]));
    }
    words.push((&text[began..at], parts));
    words
}

/// Returns the offset of the backticks that close the code span opened at `at`, or `None` if it is never
/// closed.
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

/// Returns `true` if a Markdown renderer could turn the word, or a part of it, into a URL, a mention, an
/// issue reference or mathematics.
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

/// Returns `true` if the word contains a dot between a name and at least two letters: `example.com`, but also
/// `main.rs`, which some renderers take for a host name (`.rs` is Serbia's domain).
fn has_domain(word: &str) -> bool {
    word.match_indices('.')
        .any(|(at, _)| at > 0 && word[at + 1..].chars().take_while(|c| c.is_alphabetic()).nth(1).is_some())
}

/// Writes a code span whose fence is one backtick longer than any sequence of backticks in the text. In a table cell
/// the span is split at every `|`, and an escaped `|` is written between the parts, because renderers disagree about
/// an escaped `|` inside a code span.
fn push_code(out: &mut String, code: &str, place: EscapeContext) {
    match place {
        EscapeContext::Line => push_code_span(out, code),
        EscapeContext::Cell => {
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
    // A backtick next to the fence would become part of it. Markdown strips one space from each side if both
    // sides have one, so code with spaces on both sides needs another pair.
    let has_spaces = code.starts_with(' ') && code.ends_with(' ') && !code.trim_matches(' ').is_empty();
    let pad = if has_spaces || code.starts_with('`') || code.ends_with('`') { " " } else { "" };
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
            // A backslash would not keep a backtick from closing a code span.
            '`' => out.push_str("&#96;"),
            '\\' | '*' | '~' | '^' | '[' | ']' | '|' | '#' => out.extend(['\\', c]),
            // An underscore inside a word does not mean emphasis, and names contain many underscores.
            '_' if !is_inside_word(previous, rest.as_str()) => out.push_str("\\_"),
            c => out.push(c),
        }
        previous = Some(c);
    }
}

fn is_inside_word(previous: Option<char>, rest: &str) -> bool {
    previous.is_some_and(char::is_alphanumeric) && rest.starts_with(char::is_alphanumeric)
}

/// Returns `true` if this word, at the start of a line, would begin a list or make the line above a heading.
fn opens_block(word: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    matches!(word, "+")
        || word.bytes().all(|byte| byte == b'-')
        || word.bytes().all(|byte| byte == b'=')
        || word.strip_suffix(['.', ')']).is_some_and(is_number)
}

/// Escapes the character that makes the word open a block: the first character of a rule or underline, or else the
/// last character, such as the dot of `1.`.
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
