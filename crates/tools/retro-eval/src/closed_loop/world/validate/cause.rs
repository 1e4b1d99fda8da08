//! Checks what is specific to a cause: its time, its way to fail, and its remedies.

use super::item::{CheckedItem, collect_texts};
use crate::closed_loop::lesson::format_value;
use crate::closed_loop::world::cause::{Cause, CauseRemedy};
use crate::closed_loop::world::parts::AfterFix;
use crate::closed_loop::world::values::placeholder_names;

/// Maximum number of seconds to wait for a remedy: a day.
const WAIT_MAX_S: u32 = 86_400;

pub(super) fn cause_item(line: usize, one: &Cause) -> CheckedItem<'_> {
    let mut texts: Vec<&str> = one.errors.iter().map(String::as_str).collect();
    texts.extend(one.harm.as_deref());
    texts.extend(one.guess_error.as_deref());
    texts.extend(one.changes.iter().map(|change| change.harm.as_str()));
    let mut arguments = vec![&one.arguments];
    arguments.extend(&one.guess);
    for remedy in one.remedies() {
        texts.extend([remedy.answer, remedy.minds]);
        arguments.push(remedy.right);
        for call in remedy.look_up.iter().chain(remedy.first) {
            texts.push(&call.answer);
            arguments.push(&call.arguments);
        }
    }
    let mut probabilities = vec![("chance", one.chance), ("costs", one.costs)];
    probabilities.extend(one.finds_out.map(|finds_out| ("finds_out", finds_out)));
    probabilities.extend(one.bad_end.map(|bad_end| ("bad_end", bad_end)));
    let mut problems = list_time_problems(one);
    problems.extend(list_failure_problems(one));
    problems.extend(list_remedy_problems(one));
    CheckedItem {
        kind: "cause",
        line,
        id: &one.id,
        step: &one.step,
        probabilities,
        texts,
        arguments,
        errors: Some(one.errors.len()),
        patterns: one.remedies().into_iter().map(|remedy| remedy.memory).collect(),
        problems,
    }
}

fn list_time_problems(one: &Cause) -> Vec<String> {
    let mut problems = Vec::new();
    if one.from == 0 || one.until.is_some_and(|until| until < one.from) {
        problems.push("runs are numbered from 1, and `until` must not be before `from`".to_owned());
    }
    if one.after == AfterFix::Harmful && one.harm.is_none() {
        problems.push("`after = \"harmful\"` needs `harm`, the answer of the call".to_owned());
    }
    if one.rhythm.is_some_and(|rhythm| {
        rhythm.runs[0] == 0 || rhythm.runs[0] > rhythm.runs[1] || rhythm.runs[1] > rhythm.every
    }) {
        problems.push(
            "`rhythm.runs` must be the first and the last run of a cycle of `every` runs, from 1".to_owned(),
        );
    }
    let starts: Vec<u32> = one.remedies().iter().map(|remedy| remedy.from).collect();
    let last = one.until.unwrap_or(u32::MAX);
    if starts.windows(2).any(|two| two[0] >= two[1]) || starts.iter().any(|from| *from > last) {
        problems.push("each `change.from` must be after the one before it, and not after `until`".to_owned());
    }
    problems
}

fn list_failure_problems(one: &Cause) -> Vec<String> {
    let mut problems = Vec::new();
    if one.tries.is_empty() || one.tries.iter().any(|tries| !(1..=20).contains(tries)) {
        problems.push("`tries` must list numbers from 1 to 20".to_owned());
    }
    if one.silent && one.tries != [1] {
        problems.push("`silent` needs no `tries`: nobody tries again what looks like a success".to_owned());
    }
    if !one.silent && one.bad_end.is_some() {
        problems.push("`bad_end` needs `silent`: otherwise a run without the remedy always fails".to_owned());
    }
    problems
}

fn list_remedy_problems(one: &Cause) -> Vec<String> {
    let mut problems = Vec::new();
    if one.remedies().iter().all(|remedy| remedy.needs.is_empty())
        && (one.guess.is_some() || one.guess_error.is_some())
    {
        problems.push(
            "`guess` and `guess_error` need `needs`: who was told everything does not guess".to_owned(),
        );
    }
    for remedy in one.remedies() {
        let same = remedy.tool == one.tool && *remedy.right == one.arguments;
        if same && remedy.wait.is_none() && remedy.look_up.is_empty() && remedy.first.is_empty() {
            problems.push(
                "the remedy is the failing call: it needs `right`, `right_tool`, `first`, `look_up` or `wait`"
                    .to_owned(),
            );
        }
        if let Some(problem) = remedy.needs.iter().find_map(|needed| find_problem_of_need(&remedy, needed)) {
            problems.push(problem);
        }
        if remedy.wait.is_some_and(|wait| wait == 0 || wait > WAIT_MAX_S) {
            problems.push(format!("`wait` is a number of seconds from 1 to {WAIT_MAX_S}"));
        }
    }
    problems
}

/// Returns what is wrong with a text that a memory must state, or `None`. A text that no call of the remedy
/// contains would never help, and a value that differs between runs cannot be remembered.
fn find_problem_of_need(remedy: &CauseRemedy<'_>, needed: &str) -> Option<String> {
    if needed.trim().is_empty() || !placeholder_names(needed).is_empty() {
        return Some(format!("`needs` = `{needed}` must be a text that is the same in every run"));
    }
    let calls = remedy.earlier_calls().map(|call| &call.arguments).chain([remedy.right]);
    let contains = |arguments: &serde_json::Value| {
        let mut texts = Vec::new();
        collect_texts(arguments, &mut texts);
        texts.iter().any(|text| text.contains(needed)) || format_value(arguments).contains(needed)
    };
    let stated = remedy.tool == needed || calls.into_iter().any(contains);
    (!stated).then(|| format!("`needs` = `{needed}` is in no call of the remedy"))
}
