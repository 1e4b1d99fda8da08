//! Finds failures that are reported in prose: answers that ask for something that the agent does next.
//!
//! "The template exists in several languages, none was chosen" neither begins like an error nor is flagged as
//! one, and no list of words distinguishes it from a success. The next calls do distinguish it: the same call
//! follows with one parameter added or changed, or it is repeated unchanged after one other call. The answer
//! was a failure if a sentence of it, about something lacking or too small, names that parameter or that
//! call, and if the answer is not returned again. The answer to a look-up is never a failure, because asking
//! for the next page is not a remedy.

use std::sync::LazyLock;

use regex::Regex;
use retro_gate::is_plain_name;

use super::call::Call;
use super::lookup;
use super::outcome::{CallFailure, CallOutcome};
use super::prerequisite;

/// Maximum length of a refusal in prose, in bytes. A longer answer is the requested content.
const ANSWER_BYTES_MAX: usize = 400;
const LINES_MAX: usize = 2;
/// Maximum number of calls after a possible refusal that are considered, because look-ups may precede the
/// next attempt.
const CALLS_AFTER_MAX: usize = 4;
/// Minimum length, in characters, of a word in a parameter's name that is searched for in an answer.
const WORD_CHARS_MIN: usize = 4;

static LACKS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i)\b(?:no|none|neither|not|cannot|can't|without|missing|lacks?|needs?|needed|requires?|required|must|until|only|",
        r"specify|choose|which|exceed(?:s|ed)?|at least)\b"
    ))
    .expect("constant patterns compile")
});

// Requests that do not occur in the answer to a successful call.
static PLEASE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\bplease (?:enter|provide|use|specify|choose|select|give|pass|supply|correct|fill)\b")
        .expect("constant patterns compile")
});

// Tools that return a human's words.
static TALKS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)(?:^|[_.\-/ ])(?:ask|chat|talk|interview|user|human)(?:$|[_.\-/ ])")
        .expect("constant patterns compile")
});

/// Judges the calls of a step again, based on the calls that follow them.
pub(super) fn rejudge_calls(calls: &mut [Call<'_>]) {
    for at in 0..calls.len() {
        if !may_be_refusal(&calls[at]) {
            continue;
        }
        let mut acts = calls[at + 1..]
            .iter()
            .take(CALLS_AFTER_MAX)
            .filter(|later| lookup::lookup_label(later).is_none());
        let next = acts.next();
        let given = next.and_then(|next| parameter_added_by(&calls[at], next));
        let done =
            || next.zip(acts.next()).and_then(|(act, next)| prerequisite_done_by(&calls[at], act, next));
        let line =
            given.map(str::to_owned).or_else(done).and_then(|named| find_request(calls[at].answer, &named));
        if let Some(line) = line {
            calls[at].outcome = CallOutcome::Failed(CallFailure::from_line(line));
        }
    }
}

/// Returns `true` if the answer to a call is short prose that may be a refusal, and nothing marks it as
/// success or failure.
fn may_be_refusal(call: &Call<'_>) -> bool {
    let answer = call.answer.trim();
    let in_words = !answer.starts_with(['{', '[', '<', '(']) && answer.lines().count() <= LINES_MAX;
    let short = answer.len() <= ANSWER_BYTES_MAX && (LACKS.is_match(answer) || PLEASE.is_match(answer));
    let works = lookup::lookup_label(call).is_none() && !TALKS.is_match(call.tool);
    call.succeeded() && !call.flagged && in_words && short && works
}

/// Returns the sentence of an answer that asks for `name` or for another attempt, or `None`.
fn find_request<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    split_sentences(answer).find(|sentence| {
        PLEASE.is_match(sentence) || (LACKS.is_match(sentence) && names_parameter(sentence, name))
    })
}

/// Returns the only parameter that the next call adds or changes, if that call succeeded with a different
/// answer.
fn parameter_added_by<'n>(call: &Call<'_>, next: &'n Call<'_>) -> Option<&'n str> {
    let arguments = call.arguments.parameters_named_by(&next.arguments)?;
    let second = next.arguments.parameters().filter(|_| gets_past(call, next))?;
    let mut differ = second.iter().filter(|(key, value)| arguments.get(*key) != Some(value));
    let (Some((parameter, _)), None) = (differ.next(), differ.next()) else { return None };
    let keeps_all = arguments.keys().all(|key| second.contains_key(key));
    (keeps_all && is_plain_name(parameter)).then_some(parameter)
}

/// Returns the label of the call between two identical calls, if the second one succeeded with a different
/// answer.
fn prerequisite_done_by(call: &Call<'_>, act: &Call<'_>, next: &Call<'_>) -> Option<String> {
    let same = next.raw == call.raw && gets_past(call, next) && act.succeeded();
    prerequisite::prerequisite_label(act).filter(|_| same)
}

fn gets_past(call: &Call<'_>, next: &Call<'_>) -> bool {
    next.tool == call.tool && next.succeeded() && next.answer.trim() != call.answer.trim()
}

fn split_sentences(answer: &str) -> impl Iterator<Item = &str> {
    answer.lines().flat_map(|line| line.split(". ")).map(str::trim)
}

/// Returns `true` if a sentence contains a word of the parameter's name, in the singular or plural.
fn names_parameter(sentence: &str, parameter: &str) -> bool {
    let singular = |word: &str| word.strip_suffix('s').unwrap_or(word).to_owned();
    let lower = sentence.to_lowercase();
    let sentence_words: Vec<String> = lower.split(|c: char| !c.is_alphanumeric()).map(singular).collect();
    parameter
        .to_lowercase()
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.chars().count() >= WORD_CHARS_MIN)
        .any(|word| sentence_words.contains(&singular(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call<'a>(tool: &'a str, raw: &'a str, answer: &'a str) -> Call<'a> {
        Call::with_answer(tool, raw, answer)
    }

    fn refused(tool: &str, answer: &str, parameter: &str) -> Option<String> {
        let with = format!(r#"{{"id":7,"{parameter}":1}}"#);
        let mut calls = [call(tool, r#"{"id":7}"#, answer), call(tool, &with, "sent")];
        rejudge_calls(&mut calls);
        calls[0].failure().map(|failure| failure.line.to_owned())
    }

    #[test]
    fn an_answer_that_asks_for_the_next_parameter_is_a_failure() {
        for (answer, parameter, line) in [
            (
                "the letter exists in several languages, none was chosen",
                "language",
                "the letter exists in several languages, none was chosen",
            ),
            (
                "test_a passed 9 times: nothing to show. Error: no seed was given",
                "seed",
                "Error: no seed was given",
            ),
            (
                "More than 1073741824 bytes would be read, the limit is exceeded. Try less.",
                "max_bytes",
                "More than 1073741824 bytes would be read, the limit is exceeded",
            ),
            (
                "a transfer of this size needs an approver",
                "approver",
                "a transfer of this size needs an approver",
            ),
        ] {
            assert_eq!(refused("send", answer, parameter).as_deref(), Some(line));
        }
    }

    #[test]
    fn a_parameter_added_to_a_command_counts_too() {
        let refused = "the query would read 7000 bytes, the limit of bytes is exceeded";
        let mut calls = [
            call("estimate", r#"{"sql":"SELECT a FROM t"}"#, refused),
            call("estimate", r#"{"sql":"SELECT a FROM t","max_bytes":9000}"#, "7 MB"),
        ];
        rejudge_calls(&mut calls);
        assert_eq!(calls[0].failure().map(|failure| failure.line), Some(refused));
    }

    #[test]
    fn an_answer_that_asks_for_nothing_is_a_success() {
        for (tool, answer, parameter) in [
            // The state is transient, so the changed parameter has nothing to do with the answer.
            ("close", "the case is being edited by another agent, not now", "instant"),
            ("send", "sent in the default language", "language"),
            ("send", "queue is full", "priority"),
            ("list_orders", "3 orders, no more on this page", "page"),
            ("send", r#"{"language": "none"}"#, "language"),
            ("send", "no id", "id_of_it"),
            ("ask_user", "I need a language, please choose one", "language"),
        ] {
            assert_eq!(refused(tool, answer, parameter), None, "{answer}");
        }
    }

    #[test]
    fn only_one_added_parameter_and_a_new_answer_count() {
        const ASKS: &str = "several languages, none was chosen";
        for (flagged, after, answer) in [
            (false, r#"{"id":8,"language":"en"}"#, "sent"),
            (false, r#"{"id":8}"#, "sent"),
            (false, r#"{"id":7,"language":"en","fast":true}"#, "sent"),
            (false, r#"{"id":7,"language":"en"}"#, ASKS),
            (true, r#"{"id":7,"language":"en"}"#, "sent"),
        ] {
            let mut calls =
                [Call { flagged, ..call("send", r#"{"id":7}"#, ASKS) }, call("send", after, answer)];
            rejudge_calls(&mut calls);
            assert!(calls[0].failure().is_none(), "{after} {answer}");
        }
    }

    #[test]
    fn another_value_of_the_named_parameter_counts_too() {
        let mut calls = [
            call("list", r#"{"id":7,"limit":5000}"#, "the limit must not be more than 1000"),
            call("list", r#"{"id":7,"limit":1000}"#, "1000 rows"),
        ];
        calls.iter_mut().for_each(|call| call.tool = "export");
        rejudge_calls(&mut calls);
        assert!(calls[0].failure().is_some());
    }

    #[test]
    fn the_same_call_after_the_named_prerequisite_counts_too() {
        let written = |answer| call("write_index", r#"{"id":7}"#, answer);
        let refused = || written("the index is read only until you hold its lock");
        let act = |tool, answer| call(tool, r#"{"name":"index"}"#, answer);
        for (act, after, failed) in [
            (act("acquire_lock", "held"), "written", true),
            (act("rename_report", "done"), "written", false),
            (act("acquire_lock", "held"), "the index is read only until you hold its lock", false),
            (act("get_lock", "held"), "written", false),
        ] {
            let tool = act.tool;
            let mut calls = [refused(), act, written(after)];
            rejudge_calls(&mut calls);
            assert_eq!(calls[0].failure().is_some(), failed, "{tool} {after}");
        }
    }
}
