//! Answers in free words that ask for what is then done.
//!
//! "The template exists in several languages, none was chosen" neither begins like an error nor is flagged as one, and no list
//! of words tells it from a success. What happened next does: the same call with one parameter more, or with another value of
//! one, or once more after one other thing was done; and the answer names that parameter, or that thing, in a sentence about
//! what is lacking or too little, and is not given again. Such an answer was a failure. How a look-up answers never is: its
//! next page is no remedy.

use std::sync::LazyLock;

use regex::Regex;

use super::call::Call;
use super::lookup;
use super::manner::is_name;
use super::outcome::{Failure, Outcome};
use super::prerequisite;

/// The longest answer that may be a refusal in free words, in bytes and in lines; longer ones are what was asked for.
const ANSWER_BYTES_MAX: usize = 400;
const LINES_MAX: usize = 2;
/// How many calls after such an answer are looked at: look-ups may stand between it and the next try.
const CALLS_AFTER_MAX: usize = 4;
/// The shortest word of a parameter's name that counts as named, in characters.
const WORD_CHARS_MIN: usize = 4;

static LACKS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i)\b(?:no|none|neither|not|cannot|can't|without|missing|lacks?|needs?|needed|requires?|required|must|until|only|",
        r"specify|choose|which|exceed(?:s|ed)?|at least)\b"
    ))
    .expect("a constant pattern")
});

// What nobody asks whose work is done.
static PLEASE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\bplease (?:enter|provide|use|specify|choose|select|give|pass|supply|correct|fill)\b")
        .expect("a constant pattern")
});

// Tools that answer what somebody says.
static TALKS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)(?:^|[_.\-/ ])(?:ask|chat|talk|interview|user|human)(?:$|[_.\-/ ])")
        .expect("a constant pattern")
});

/// Judges the calls of a step once more, in the light of the calls after them.
pub(super) fn judge_again(calls: &mut [Call<'_>]) {
    for at in 0..calls.len() {
        if !may_refuse(&calls[at]) {
            continue;
        }
        let mut acts =
            calls[at + 1..].iter().take(CALLS_AFTER_MAX).filter(|later| lookup::label(later).is_none());
        let next = acts.next();
        let given = next.and_then(|next| given_by(&calls[at], next));
        let done = || next.zip(acts.next()).and_then(|(act, next)| done_by(&calls[at], act, next));
        let line =
            given.map(str::to_owned).or_else(done).and_then(|named| asks_for(calls[at].answer, &named));
        if let Some(line) = line {
            calls[at].outcome = Outcome::Failed(Failure::said(line));
        }
    }
}

/// Whether the answer of a call is a few free words, of which nothing says what they are.
fn may_refuse(call: &Call<'_>) -> bool {
    let answer = call.answer.trim();
    let in_words = !answer.starts_with(['{', '[', '<', '(']) && answer.lines().count() <= LINES_MAX;
    let short = answer.len() <= ANSWER_BYTES_MAX && (LACKS.is_match(answer) || PLEASE.is_match(answer));
    let works = lookup::label(call).is_none() && !TALKS.is_match(call.tool);
    call.succeeded() && !call.flagged && in_words && short && works
}

/// The sentence of an answer that asks for something of this name, or asks for another try; `None` when there is none.
fn asks_for<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    sentences(answer)
        .find(|sentence| PLEASE.is_match(sentence) || (LACKS.is_match(sentence) && names(sentence, name)))
}

/// The parameter that the next call gives, or gives otherwise, and that gets it another answer.
fn given_by<'n>(call: &Call<'_>, next: &'n Call<'_>) -> Option<&'n str> {
    let arguments = call.arguments.parameters_beside(&next.arguments)?;
    let second = next.arguments.parameters().filter(|_| gets_past(call, next))?;
    let mut differ = second.iter().filter(|(key, value)| arguments.get(*key) != Some(value));
    let (Some((parameter, _)), None) = (differ.next(), differ.next()) else { return None };
    let kept = arguments.keys().all(|key| second.contains_key(key));
    (kept && is_name(parameter)).then_some(parameter)
}

/// What was done before the very same call got another answer.
fn done_by(call: &Call<'_>, act: &Call<'_>, next: &Call<'_>) -> Option<String> {
    let same = next.raw == call.raw && gets_past(call, next) && act.succeeded();
    prerequisite::label(act).filter(|_| same)
}

fn gets_past(call: &Call<'_>, next: &Call<'_>) -> bool {
    next.tool == call.tool && next.succeeded() && next.answer.trim() != call.answer.trim()
}

fn sentences(answer: &str) -> impl Iterator<Item = &str> {
    answer.lines().flat_map(|line| line.split(". ")).map(str::trim)
}

/// Whether a sentence names a parameter, in the singular or in the plural.
fn names(sentence: &str, parameter: &str) -> bool {
    let singular = |word: &str| word.strip_suffix('s').unwrap_or(word).to_owned();
    let lower = sentence.to_lowercase();
    let said: Vec<String> = lower.split(|c: char| !c.is_alphanumeric()).map(singular).collect();
    parameter
        .to_lowercase()
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.chars().count() >= WORD_CHARS_MIN)
        .any(|word| said.contains(&singular(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call<'a>(tool: &'a str, raw: &'a str, answer: &'a str) -> Call<'a> {
        Call::answered(tool, raw, answer)
    }

    fn refused(tool: &str, answer: &str, parameter: &str) -> Option<String> {
        let with = format!(r#"{{"id":7,"{parameter}":1}}"#);
        let mut calls = [call(tool, r#"{"id":7}"#, answer), call(tool, &with, "sent")];
        judge_again(&mut calls);
        calls[0].failure().map(|failure| failure.line.to_owned())
    }

    #[test]
    fn an_answer_that_asks_for_what_comes_next_is_a_failure() {
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
    fn a_parameter_beside_a_command_is_one_too() {
        let refused = "the query would read 7000 bytes, the limit of bytes is exceeded";
        let mut calls = [
            call("estimate", r#"{"sql":"SELECT a FROM t"}"#, refused),
            call("estimate", r#"{"sql":"SELECT a FROM t","max_bytes":9000}"#, "7 MB"),
        ];
        judge_again(&mut calls);
        assert_eq!(calls[0].failure().map(|failure| failure.line), Some(refused));
    }

    #[test]
    fn an_answer_that_asks_for_nothing_is_what_was_asked_for() {
        for (tool, answer, parameter) in [
            // It passes by itself, and what changed has nothing to do with it.
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
    fn only_one_parameter_more_and_another_answer_show_it() {
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
            judge_again(&mut calls);
            assert!(calls[0].failure().is_none(), "{after} {answer}");
        }
    }

    #[test]
    fn another_value_of_what_the_answer_names_shows_it_too() {
        let mut calls = [
            call("list", r#"{"id":7,"limit":5000}"#, "the limit must not be more than 1000"),
            call("list", r#"{"id":7,"limit":1000}"#, "1000 rows"),
        ];
        calls.iter_mut().for_each(|call| call.tool = "export");
        judge_again(&mut calls);
        assert!(calls[0].failure().is_some());
    }

    #[test]
    fn the_same_call_after_what_the_answer_names_was_done_shows_it_too() {
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
            judge_again(&mut calls);
            assert_eq!(calls[0].failure().is_some(), failed, "{tool} {after}");
        }
    }
}
