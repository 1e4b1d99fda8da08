//! How things are said to people, wherever they are shown. Texts from runs are hostile until proven otherwise: they
//! may hold control sequences that move a terminal's cursor or turn a line around. What is printable says
//! `retro_core::printable`; here it is done before tables are laid out, so that their columns stay straight.

use jiff::Timestamp;
use retro_core::memory::{Cause, Effect, Scope, Status};
use retro_core::printable::make_printable;
use retro_core::trajectory::Place;
use retro_core::weight::Weight;

/// A text on one line, harmless to a terminal.
pub(crate) fn line(text: &str) -> String {
    visible(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// A text as it is, line breaks included, harmless to a terminal.
pub(crate) fn visible(text: &str) -> String {
    make_printable(text).into_owned()
}

/// At most `chars_max` characters, with `…` for the rest.
pub(crate) fn short(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// `1 run`, `2 runs`.
pub(crate) fn count(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {}", plural(noun)) }
}

fn plural(noun: &str) -> String {
    match noun.strip_suffix('y') {
        // `memories`, but `days`.
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        _ => format!("{noun}s"),
    }
}

/// A moment to the second: nobody reads milliseconds in a table.
pub(crate) fn moment(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// Thousandths as a probability or a similarity: `0.667`.
pub(crate) fn thousandths(value: u16) -> String {
    Weight::thousandths(value).to_string()
}

/// Milliseconds as people say them.
pub(crate) fn duration(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        _ => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1000),
    }
}

/// What a memory is about.
pub(crate) fn scope(scope: &Scope) -> String {
    match scope {
        Scope::Step { step, .. } => format!("step {step}"),
        Scope::Workflow { workflow } => format!("workflow {workflow}"),
        Scope::Repository { repo, path: None } => format!("repository {repo}"),
        Scope::Repository { repo, path: Some(path) } => format!("repository {repo}, {path}"),
        Scope::User { user } => format!("user {user}"),
        Scope::Account { account } => format!("account {account}"),
        Scope::Platform => "platform".to_owned(),
    }
}

/// What a memory is about, with its workflow.
pub(crate) fn home(of: &Scope) -> String {
    match of {
        Scope::Step { workflow, step } => format!("{workflow}, step {step}"),
        other => scope(other),
    }
}

/// Where a quote stands. Turns, calls and remarks are counted from 0, as in the trajectory.
pub(crate) fn place(place: Place) -> String {
    match place {
        Place::Message { turn } => format!("message of turn {turn}"),
        Place::Reasoning { turn } => format!("reasoning of turn {turn}"),
        Place::Arguments { turn, call } => format!("arguments of call {call} of turn {turn}"),
        Place::Answer { turn, call } => format!("answer to call {call} of turn {turn}"),
        Place::SelfFeedback { remark } => format!("the agent's own remark {remark}"),
        Place::Review => "a remark of a review".to_owned(),
    }
}

/// What made a change happen.
pub(crate) fn cause(cause: &Cause) -> String {
    match cause {
        Cause::Run { run, .. } => format!("run {run}"),
        Cause::Retrospective { .. } => "the retrospective as a whole".to_owned(),
        Cause::Outcome { run, .. } => format!("what became of run {run}"),
        Cause::Operator { request } => format!("a person's request {request}"),
        Cause::Review { remark, .. } => format!("remark {remark}"),
        Cause::Expiry { presentations } => {
            format!("{presentations} investigated runs that it was presented to")
        }
    }
}

/// What a change did to status and weight, in short.
pub(crate) fn movement(effect: &Effect) -> String {
    match effect {
        Effect::Created { status: Status::Active, weight, .. } => format!("new → active {weight}"),
        Effect::Created { status, quarantine: Some(_), .. } => format!("new → {status}, in quarantine"),
        Effect::Created { status, .. } => format!("new → {status}"),
        Effect::Promoted { weight, evidence } if evidence.remark.is_some() => {
            format!("confirmed → active {weight}")
        }
        Effect::Promoted { weight, .. } => format!("tentative → active {weight}"),
        Effect::Accepted { weight, .. } => format!("accepted by a person → active {weight}"),
        Effect::Observed { .. } => "one more run shows it".to_owned(),
        Effect::Reweighted { before, delta, after, .. } => format!("{before} → {after} ({delta})"),
        Effect::Exempted { cue_not_met } => {
            format!("weight kept: its cue never came up ({cue_not_met} in a row)")
        }
        Effect::Archived => "active → archived".to_owned(),
        Effect::Revived { .. } => "archived → tentative".to_owned(),
        Effect::Deleted { tombstone_until: Some(until) } => {
            format!("deleted; anything similar is kept away until {}", moment(*until))
        }
        Effect::Deleted { tombstone_until: None } => "deleted".to_owned(),
        Effect::Superseded { by } => format!("superseded by {by}"),
        Effect::Suppressed { tombstone_of, similarity, .. } => {
            format!("kept away by the tombstone of {tombstone_of} (similarity {})", thousandths(*similarity))
        }
        Effect::Refused { asked } => format!("refused: {asked}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_text_cannot_move_the_cursor_or_turn_the_line() {
        assert_eq!(line("a\u{1b}[2Jb\r\n  c\u{202e}d"), "a\\u{1b}[2Jb c\\u{202e}d");
        assert_eq!(visible("a\n\tb"), "a\n\tb");
    }

    #[test]
    fn numbers_read_like_sentences() {
        assert_eq!(
            [count(1, "run"), count(2, "memory"), count(0, "change")],
            ["1 run", "2 memories", "0 changes"]
        );
        assert_eq!([duration(12), duration(1250), duration(61_000)], ["12 ms", "1.2 s", "1 min 1 s"]);
        assert_eq!([short("größer", 3), short("abc", 3)], ["grö…", "abc"]);
    }
}
