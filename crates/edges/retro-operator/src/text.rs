//! Formats text and values for people. Text from runs is untrusted: it may contain control sequences that
//! move the cursor of a terminal, or characters that reverse a line. `retro_core::printable` defines which
//! characters are printable; this module escapes the others before tables are laid out, so columns stay
//! aligned.

use jiff::Timestamp;
use retro_core::audience::Audience;
use retro_core::finding::EvidenceOrigin;
use retro_core::id::{Step, Tenant};
use retro_core::memory::{ChangeCause, ChangeEffect, Memory, MemoryScope, MemoryStatus};
use retro_core::printable::make_printable;
use retro_core::trajectory::QuotePlace;
use retro_core::weight::Weight;

/// Returns the text on one line, made safe for a terminal.
pub(crate) fn single_line(text: &str) -> String {
    // White space first: `printable` keeps line breaks, which would break the row of a table.
    printable(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Returns the text made safe for a terminal, with its line breaks kept.
pub(crate) fn printable(text: &str) -> String {
    make_printable(text).into_owned()
}

/// Returns the first `chars_max` characters of the text, followed by `…` if it is longer.
pub(crate) fn truncate(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Formats a number with its noun: `1 run`, `2 runs`.
pub(crate) fn format_count(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {}", pluralize(noun)) }
}

fn pluralize(noun: &str) -> String {
    match noun.strip_suffix('y') {
        None if noun.ends_with('s') => format!("{noun}es"),
        // `memories`, but `days`.
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        _ => format!("{noun}s"),
    }
}

/// Formats a timestamp with a precision of one second, because milliseconds would only widen tables.
pub(crate) fn format_timestamp(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// Formats a number of thousandths, such as a probability or a similarity, as a decimal: `0.667`.
pub(crate) fn format_thousandths(value: u16) -> String {
    Weight::from_thousandths(value).to_string()
}

/// Formats a number of milliseconds as `12 ms`, `1.2 s` or `1 min 1 s`.
pub(crate) fn format_duration(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        _ => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1000),
    }
}

/// Describes the scope of a memory. The scope of a step is described without its workflow.
pub(crate) fn describe_scope(scope: &MemoryScope) -> String {
    match scope {
        MemoryScope::Step { step, audience, .. } => format!("step {step}{}", describe_audience(audience)),
        MemoryScope::Workflow { workflow } => format!("workflow {workflow}"),
        MemoryScope::Repository { repo, path: None } => format!("repository {repo}"),
        MemoryScope::Repository { repo, path: Some(path) } => format!("repository {repo}, {path}"),
        MemoryScope::User { user } => format!("user {user}"),
        MemoryScope::Account { account } => format!("account {account}"),
        MemoryScope::Platform => "platform".to_owned(),
    }
}

/// Describes the scope of a memory, including the workflow of a step.
pub(crate) fn describe_full_scope(of: &MemoryScope) -> String {
    match of {
        MemoryScope::Step { workflow, .. } => format!("{workflow}, {}", describe_scope(of)),
        other => describe_scope(other),
    }
}

fn describe_audience(audience: &Audience) -> String {
    match audience {
        Audience::Everyone => String::new(),
        Audience::PrivateRepositories => " of private repositories".to_owned(),
        Audience::Repository(repo) => format!(" of {repo}"),
    }
}

/// Names an error with its tool and step.
pub(crate) fn describe_error(step: &Step, tool: &str, error: &str) -> String {
    format!("“{}” of `{}` in step {}", single_line(error), single_line(tool), single_line(step.as_str()))
}

/// Returns the beginning of a command for a tenant: the name of the program and, unless it is the default one, the
/// tenant.
pub(crate) fn command_of_tenant(tenant: &Tenant) -> String {
    if *tenant == Tenant::default_tenant() {
        "retro".to_owned()
    } else {
        format!("retro --tenant {}", single_line(tenant.as_str()))
    }
}

/// Describes the place of a quote. Turns, calls and remarks are numbered from 0, as in the trajectory.
pub(crate) fn describe_place(place: QuotePlace) -> String {
    match place {
        QuotePlace::Message { turn } => format!("message of turn {turn}"),
        QuotePlace::Reasoning { turn } => format!("reasoning of turn {turn}"),
        QuotePlace::Arguments { turn, call } => format!("arguments of call {call} of turn {turn}"),
        QuotePlace::Answer { turn, call } => format!("answer to call {call} of turn {turn}"),
        QuotePlace::SelfFeedback { remark } => format!("the agent's own remark {remark}"),
        QuotePlace::Review => "a remark of a review".to_owned(),
        QuotePlace::Saved => "given by its agent when it saved the lesson".to_owned(),
    }
}

/// Describes the status of a memory, and says if the memory is held until a person decides, disabled or pinned.
pub(crate) fn describe_status(memory: &Memory) -> String {
    // A memory that has ended keeps its quarantine, but there is nothing left to decide.
    let living = memory.status.is_living();
    let states = [
        (memory.quarantine.is_some(), ", held"),
        (memory.disabled_by.is_some(), ", disabled"),
        (memory.pinned_by.is_some(), ", pinned"),
    ];
    let states = states.into_iter().filter(|(is_so, _)| living && *is_so).map(|(_, state)| state);
    format!("{}{}", memory.status, states.collect::<String>())
}

/// Describes the origin of evidence as the end of a sentence, such as `, user anna, task 17`; empty if nothing is
/// known about it.
pub(crate) fn describe_origin(origin: &EvidenceOrigin) -> String {
    if origin.is_unknown() { String::new() } else { format!(", {}", single_line(&origin.describe())) }
}

/// Describes the cause of a change.
pub(crate) fn describe_cause(cause: &ChangeCause) -> String {
    match cause {
        ChangeCause::Run { run, .. } => format!("run {run}"),
        ChangeCause::Retrospective { .. } => "the retrospective as a whole".to_owned(),
        ChangeCause::Outcome { run, .. } => format!("what became of run {run}"),
        ChangeCause::Operator { request } => format!("a person's request {request}"),
        ChangeCause::Review { remark, .. } => format!("remark {remark}"),
        ChangeCause::Save { run, .. } => format!("the agent of run {run} saved it"),
        ChangeCause::Feedback { .. } => "what a person said of it".to_owned(),
        ChangeCause::Expiry { presentations } => {
            format!("{presentations} investigated runs that it was presented to")
        }
    }
}

/// Describes in a few words how a change affected the status and the weight of its memory.
pub(crate) fn describe_change(effect: &ChangeEffect) -> String {
    match effect {
        ChangeEffect::Created { status: MemoryStatus::Active, weight, .. } => {
            format!("new → active {weight}")
        }
        ChangeEffect::Created { status, quarantine: Some(_), .. } => format!("new → {status}, held"),
        ChangeEffect::Created { status, .. } => format!("new → {status}"),
        ChangeEffect::Promoted { weight, evidence } if evidence.remark.is_some() => {
            format!("confirmed → active {weight}")
        }
        ChangeEffect::Promoted { weight, .. } => format!("tentative → active {weight}"),
        ChangeEffect::Accepted { weight, .. } => format!("accepted by a person → active {weight}"),
        ChangeEffect::Observed { .. } => "one more run shows it".to_owned(),
        ChangeEffect::QuoteMissing { .. } => "quote dropped: its trace does not contain it".to_owned(),
        ChangeEffect::Revised { lesson } => format!("stated anew: {}", single_line(&lesson.title)),
        ChangeEffect::Reweighted { before, delta, after, .. } => format!("{before} → {after} ({delta})"),
        ChangeEffect::Exempted { cue_not_met } => {
            format!("weight kept: its cue never came up ({cue_not_met} in a row)")
        }
        ChangeEffect::Archived => "active → archived".to_owned(),
        ChangeEffect::Revived { .. } => "archived → tentative".to_owned(),
        ChangeEffect::Deleted { tombstone_until: Some(until) } => {
            format!("deleted; anything similar is kept away until {}", format_timestamp(*until))
        }
        ChangeEffect::Deleted { tombstone_until: None } => "deleted".to_owned(),
        ChangeEffect::Superseded { by } => format!("superseded by {by}"),
        ChangeEffect::Held { .. } => "held for a person: no agent is shown it".to_owned(),
        ChangeEffect::Released { by } => format!("released by {}", single_line(by)),
        ChangeEffect::Disabled { by } => {
            format!("disabled by {}: no agent is handed it", single_line(by))
        }
        ChangeEffect::Enabled { by } => format!("enabled by {}", single_line(by)),
        ChangeEffect::Pinned { by } => format!("pinned by {}: it does not fade", single_line(by)),
        ChangeEffect::Unpinned { by } => format!("unpinned by {}", single_line(by)),
        ChangeEffect::Restored { status, by } => {
            format!("deletion taken back by {} → {status}", single_line(by))
        }
        ChangeEffect::Suppressed { tombstone_of, similarity, .. } => {
            format!(
                "kept away by the tombstone of {tombstone_of} (similarity {})",
                format_thousandths(*similarity)
            )
        }
        ChangeEffect::Refused { requested } if requested == "observe" => "observation refused".to_owned(),
        ChangeEffect::Refused { requested } => format!("refused: {requested}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_text_cannot_move_the_cursor_or_turn_the_line() {
        assert_eq!(single_line("a\u{1b}[2Jb\r\n  c\u{202e}d"), "a\\u{1b}[2Jb c\\u{202e}d");
        assert_eq!(printable("a\n\tb"), "a\n\tb");
    }

    #[test]
    fn numbers_and_durations_are_formatted() {
        assert_eq!(
            [
                format_count(1, "run"),
                format_count(2, "memory"),
                format_count(0, "change"),
                format_count(3, "witness")
            ],
            ["1 run", "2 memories", "0 changes", "3 witnesses"]
        );
        assert_eq!(
            [format_duration(12), format_duration(1250), format_duration(61_000)],
            ["12 ms", "1.2 s", "1 min 1 s"]
        );
        assert_eq!([truncate("größer", 3), truncate("abc", 3)], ["grö…", "abc"]);
    }
}
