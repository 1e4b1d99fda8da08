//! Takes apart what an answer says, and finds the statement that is its complaint.

use serde_json::Value;

use super::complaint::reads_as_complaint;
use super::quote::first_chars;

/// Number of lines at the beginning and at the end of an answer that may say what it is.
const FIRST_LINES: usize = 6;
const LAST_LINES: usize = 4;
/// Minimum number of words of a text of a document that is a sentence.
const SENTENCE_WORDS_MIN: usize = 4;
/// Maximum number of sentences of a document that reports an error: what is wrong, a hint, where to read more.
const ERROR_SENTENCES_MAX: usize = 3;

/// Returns the first of the lines that reads as a complaint of this answer. One sentence among many of a document is none: an
/// error is what an answer is about, and rules or reviews say what is not allowed without refusing anything.
pub(super) fn find_complaint<'a>(answer: &str, lines: &[&'a str]) -> Option<&'a str> {
    let complaint = lines.iter().find(|line| reads_as_complaint(line))?;
    let Ok(document) = parse_json(answer) else { return Some(complaint) };
    let mut texts = Vec::new();
    collect_texts(&document, &mut texts);
    let sentences = texts.iter().filter(|text| text.split_whitespace().nth(SENTENCE_WORDS_MIN - 1).is_some());
    let lengths: Vec<usize> = sentences.map(|text| text.len()).collect();
    let is_one_of_many =
        lengths.len() > ERROR_SENTENCES_MAX && complaint.len() * 2 < lengths.iter().sum::<usize>();
    (!is_one_of_many).then_some(*complaint)
}

/// Returns what an answer says: the texts of a document, and its first and last lines.
pub(super) fn statements_of(answer: &str) -> Vec<&str> {
    let mut statements = Vec::new();
    if let Ok(document) = parse_json(answer) {
        let mut texts = Vec::new();
        collect_texts(&document, &mut texts);
        let sentences = texts.iter().filter(|text| text.contains(' '));
        statements.extend(sentences.filter_map(|text| find_verbatim(answer, text)).take(FIRST_LINES));
    }
    let lines: Vec<&str> = answer.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines.len().saturating_sub(LAST_LINES).max(FIRST_LINES.min(lines.len()));
    statements.extend(lines.iter().take(FIRST_LINES).chain(&lines[last..]));
    statements
}

fn collect_texts<'v>(value: &'v Value, texts: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(items) => items.iter().take(FIRST_LINES).for_each(|item| collect_texts(item, texts)),
        Value::Object(map) => map.values().for_each(|item| collect_texts(item, texts)),
        _ => {}
    }
}

pub(super) fn parse_json(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(first_chars(text.trim(), 65_536))
}

fn find_verbatim<'a>(answer: &'a str, text: &str) -> Option<&'a str> {
    let at = answer.find(text)?;
    Some(&answer[at..at + text.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint_of(answer: &str) -> Option<&str> {
        find_complaint(answer, &statements_of(answer))
    }

    #[test]
    fn a_rule_among_many_of_a_document_is_no_complaint() {
        let rules = r#"{"topic": "exchange", "rules": {
            "same": "An exchange for the same product is made as a return.",
            "cheaper": "A cheaper item: the difference is store credit (not original payment).",
            "dearer": "A dearer item: the customer pays the difference.",
            "window": "The window of a return applies to it as well."}}"#;
        assert_eq!(complaint_of(rules), None);
    }

    #[test]
    fn what_an_answer_is_about_is_its_complaint() {
        for (answer, complaint) in [
            (r#"{"status": "ok", "note": "this zone is not known here"}"#, "this zone is not known here"),
            (
                r#"{"error": "The zone is not known.", "hint": "See the list of all zones.", "more": "Ask the desk for help."}"#,
                "The zone is not known.",
            ),
            // Lines of a log are no document.
            (
                "started\nread 4 files of it\nwrote 3 files of it\nthe last file is not readable\n",
                "the last file is not readable",
            ),
        ] {
            assert_eq!(complaint_of(answer), Some(complaint), "{answer}");
        }
    }
}
