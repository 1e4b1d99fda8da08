//! Finds the words that explain a failure whose own line says little, such as `HTTP 400 Bad Request`,
//! `Validation failed`, `FAILURE:` or the first brace of a document. Many failures begin like that, whatever went
//! wrong, so such a line tells neither one cause from another nor an agent what happened.
//!
//! In a document, the values are read and the keys are not, so its vocabulary need not be known. In a text, it is a line
//! close by that reads as a complaint.

use std::sync::LazyLock;

use regex::Regex;

use super::CallFailure;
use crate::heuristics::complaint::reads_as_complaint;
use crate::heuristics::handled_errors::is_transient_error;
use crate::heuristics::signature::error_signature;

/// Minimum number of words with which a line explains a failure on its own.
const WORDS_MIN: usize = 4;
/// Number of words above which an explanation is not better: the first long one is taken.
const WORDS_COUNTED: usize = 8;
/// Maximum number of bytes of an answer, from its first document on, that are searched for values.
const DOCUMENT_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of lines after and before the failing line that are searched.
const LINES_AFTER: usize = 4;
const LINES_BEFORE: usize = 12;

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($text).expect("constant patterns compile"));
    };
}

// Start of a document on a line of its own, or after a status.
pattern!(DOCUMENT, r"(?m)^(?:.{0,60}?[ \t])?(?:[\[{][\s\[{]*(?:\x22|\z)|<[A-Za-z!?])");
// Strings of a document. A string before a colon is a key.
pattern!(STRING, r#""((?:[^"\\]|\\.)*)"(\s*:)?"#);
// Text between two tags, which may be a section of characters.
pattern!(TAG_TEXT, r"(?:>|<!\[CDATA\[)([^<>]+?)(?:\]\]>|<)");
// Line break in a string of a document.
pattern!(ESCAPED_BREAK, r"\\r?\\n|\\n");

/// Returns the failure with the words that explain it, if its own line says little and the answer says more. `asked` are
/// the arguments of the call, which an answer may repeat.
pub(super) fn explain_failure<'a>(failure: CallFailure<'a>, answer: &'a str, asked: &str) -> CallFailure<'a> {
    let known = count_words(failure.line);
    if known >= WORDS_MIN || is_transient_error(failure.line) || is_transient_error(&failure.error) {
        return failure;
    }
    let found = find_in_document(answer, asked).or_else(|| find_nearby(answer, failure.line, asked));
    match found {
        Some((words, explained)) if words > known && !explained.error.is_empty() => explained,
        _ => failure,
    }
}

/// Returns the number of words of a line: addresses, numbers, codes and names of fields are none, and a document has
/// none.
fn count_words(line: &str) -> usize {
    if is_document(line) {
        return 0;
    }
    let is_word = |word: &&str| {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        word.chars().nth(1).is_some() && word.chars().all(|c| c.is_alphabetic() || "-'’".contains(c))
    };
    line.split_whitespace().filter(is_word).count()
}

/// Returns `true` if a line begins as a document does. Programs put their name in brackets before their messages, too.
fn is_document(line: &str) -> bool {
    let line = line.trim_start();
    let is_list = || line.strip_prefix('[').is_some_and(|rest| rest.starts_with(['{', '[', '"', ']']));
    line.starts_with(['{', '<']) || is_list()
}

/// Returns `true` if a line complains about something that it names: in quotes, by a path or by an identifier.
fn names_its_subject(line: &str) -> bool {
    let is_identifier = |word: &str| {
        let has_hump =
            word.chars().zip(word.chars().skip(1)).any(|(a, b)| a.is_lowercase() && b.is_uppercase());
        word.contains(['/', '_', '\'']) || has_hump
    };
    complains(line) && line.split_whitespace().any(is_identifier)
}

/// Returns `true` if the words of a line complain: the numbers of a log look like status codes.
fn complains(line: &str) -> bool {
    reads_as_complaint(&line.replace(|c: char| c.is_ascii_digit(), ""))
}

/// Returns the value of a document that has the most words, with their number: of several long ones the first.
fn find_in_document<'a>(answer: &'a str, asked: &str) -> Option<(usize, CallFailure<'a>)> {
    let start = DOCUMENT.find(answer)?.start();
    let end = answer.floor_char_boundary(answer.len().min(start + DOCUMENT_BYTES_MAX));
    let document = &answer[start..end];
    let strings = STRING
        .captures_iter(document)
        .filter(|found| found.get(2).is_none())
        .filter_map(|found| found.get(1))
        .flat_map(|value| ESCAPED_BREAK.split(value.as_str()))
        .map(|raw| (raw, unescape(raw)));
    // Help texts write what to fill in between angle brackets, too.
    let tagged = if document.contains("</") { document } else { "" };
    let texts = TAG_TEXT
        .captures_iter(tagged)
        .filter_map(|found| found.get(1))
        .flat_map(|text| text.as_str().lines())
        .map(|raw| (raw.trim(), raw.trim().to_owned()));
    let mut best: Option<(usize, CallFailure<'a>)> = None;
    for (raw, text) in strings.chain(texts) {
        let words = count_words(&text).min(WORDS_COUNTED);
        if words > best.as_ref().map_or(1, |(most, _)| *most) && !asked.contains(raw) {
            best = Some((words, CallFailure { line: raw, error: error_signature(&text) }));
        }
    }
    best
}

/// Returns the text that an escaped string stands for.
fn unescape(raw: &str) -> String {
    if !raw.contains('\\') {
        return raw.to_owned();
    }
    serde_json::from_str(&format!("\"{raw}\"")).unwrap_or_else(|_| raw.to_owned())
}

/// Returns the line close to the failing one that explains it, with the number of its words: the one under a heading,
/// otherwise the closest complaint, first above, because what gives up speaks last.
fn find_nearby<'a>(answer: &'a str, line: &str, asked: &str) -> Option<(usize, CallFailure<'a>)> {
    let at = answer.find(line).filter(|_| !names_its_subject(line))?;
    let explains =
        |other: &&str| count_words(other) >= WORDS_MIN && !asked.contains(*other) && complains(other);
    let below = || lines_of(&answer[at + line.len()..]).take(LINES_AFTER);
    let heads = line.trim_end().ends_with(':') || line.starts_with('#');
    let under = below().next().filter(|_| heads).filter(|other| count_words(other) >= WORDS_MIN);
    let above = || lines_of(&answer[..at]).rev().take(LINES_BEFORE).find(explains);
    let found = under.or_else(above).or_else(|| below().find(explains))?;
    Some((count_words(found), CallFailure::from_line(found)))
}

fn lines_of(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explain(line: &'static str, answer: &'static str) -> String {
        let explained = explain_failure(CallFailure::from_line(line), answer, r#"{"query":"a b c d e f"}"#);
        assert!(answer.contains(explained.line), "a quote is verbatim");
        explained.error
    }

    #[test]
    fn the_wordiest_value_of_a_document_explains_a_status() {
        for (line, answer, expected) in [
            (
                "HTTP 400 Bad Request",
                "HTTP 400 Bad Request\n{\"messages\":[{\"type\":\"FATAL\",\"text\":\"Unknown search command 'index'.\"}]}",
                "Unknown search command …",
            ),
            (
                "{",
                "{\"codigo\":\"0065\",\"mensaje\":\"El c\\u00f3digo de la unidad no es v\\u00e1lido\",\"fecha\":\"12/03/2024\"}\n[exit status 1]",
                "El código de la unidad no es válido",
            ),
            (
                "HTTP/1.1 406 Not Acceptable",
                "HTTP/1.1 406 Not Acceptable\nCache-Control: no-cache\n\n{\"code\":\"X\",\"message\":\"The accept header is missing or invalid\"}",
                "The accept header is missing or invalid",
            ),
            (
                "<fault>",
                "<fault><faultcode>BSS.3017</faultcode><faultstring>Rufnummer nicht im Bestand</faultstring></fault>",
                "Rufnummer nicht im Bestand",
            ),
            // What was asked is no explanation, and neither are addresses and names of fields.
            ("Not Found", "{\"errors\":\"Not Found\",\"query\":\"a b c d e f\"}", "Not Found"),
            (
                "not_in_channel",
                "{\"ok\":false,\"error\":\"not_in_channel\",\"warning\":\"missing_charset\"}",
                "not_in_channel",
            ),
        ] {
            assert_eq!(explain(line, answer), expected, "{answer}");
        }
    }

    #[test]
    fn a_line_close_by_explains_a_heading_and_a_last_word() {
        for (line, answer, expected) in [
            (
                "FAILURE:",
                "FAILURE:\nCouldn't fetch requested layer gebaeude!",
                "Couldn't fetch requested layer gebaeude!",
            ),
            (
                "Conversion failed!",
                "Input #0\nError while opening encoder for the stream\nConversion failed!",
                "Error while opening encoder for the stream",
            ),
            ("Killed", "reading all of the parts\nKilled\n(exit status 137)", "Killed"),
        ] {
            assert_eq!(explain(line, answer), expected, "{answer}");
        }
    }

    #[test]
    fn a_line_that_explains_itself_and_one_that_passes_stay() {
        let clear = "fatal: the branch has no upstream";
        assert_eq!(
            explain(clear, "fatal: the branch has no upstream\nerror: it is not set at all"),
            error_signature(clear)
        );
        assert_eq!(
            explain(
                "429 Too Many Requests",
                "429 Too Many Requests\n{\"detail\":\"You cannot send more than that\"}"
            ),
            error_signature("429 Too Many Requests")
        );
    }
}
