//! Finds repairs: a call fails, and a changed call no longer gives the error. The difference between the
//! calls is the lesson.
//!
//! Kinds of lessons, most valuable first:
//! 1. **Look-up.** A look-up between the two calls returned a name that the later call uses and the failing
//!    call did not. The lesson is to look up first. A name that was guessed correctly is not a lesson.
//! 2. **Manner.** The later call succeeded and differs in one way that means the same in another run: a
//!    parameter added, removed or renamed, another type, spelling, kind or choice, another option or program.
//!    If the error does not say what it objects to, an added option or another choice counts only between two
//!    consecutive calls.
//! 3. **Stated number.** The later call uses a number that the error stated.
//! 4. **Prerequisite.** The identical call succeeded after one other call (`prerequisite`).
//! 5. **Tool.** Another tool accepted exactly the same arguments, or another look-up of the same kind
//!    returned an answer.
//!
//! Any other difference concerns only values of this run and is not a repair. `failure` then derives a lesson
//! from the error alone.

use std::collections::BTreeSet;

use retro_core::finding::{Finding, FindingKind};
use retro_gate::is_plain_name;
use serde_json::Value;

use super::advice::Advice;
use super::call::{Call, StepCalls};
use super::difference::{Difference, InterveningCalls, compare_calls};
use super::handled_errors::HandledErrors;
use super::lesson::{Lesson, describe_success};
use super::lookup;
use super::manner::Manner;
use super::parts::contains_value;
use super::prerequisite;
use super::quote::first_chars;

/// Maximum number of calls after a failing call that are considered. Calls after that are made for other
/// reasons.
const CALLS_AFTER_MAX: usize = 12;
/// Maximum number of calls after a failing call within which another tool counts as its replacement.
const TOOL_SWITCH_CALLS_MAX: usize = 4;
/// Minimum number of leading name parts that two look-ups of one kind share, as in `find_user_by_…`.
const TOOL_PARTS_SHARED_MIN: usize = 3;
/// Maximum number of characters of a look-up's answer in which names are searched for.
const ANSWER_CHARS_MAX: usize = 20_000;
/// Minimum length, in bytes, of a name that is searched for in an answer. Shorter names occur in every
/// answer.
const NAME_CHARS_MIN: usize = 2;

/// Returns the repairs in a step, at most one per error.
pub(super) fn find_repairs(step: &StepCalls<'_>, errors: &mut HandledErrors) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, failing) in step.calls.iter().enumerate() {
        if !errors.needs_lesson(step.step, failing) {
            continue;
        }
        let repaired =
            find_repair(&step.calls, at).and_then(|lesson| lesson.into_finding(step.step, failing));
        if let Some(finding) = repaired {
            errors.mark_handled(step.step, failing);
            findings.push(finding);
        }
    }
    findings
}

fn find_repair(calls: &[Call<'_>], at: usize) -> Option<Lesson> {
    let failing = &calls[at];
    let looks_itself = lookup::lookup_label(failing).is_some();
    let (mut last, mut last_at, mut intervening) = (failing, at, InterveningCalls::Harmless);
    let mut lookups: Vec<&Call<'_>> = Vec::new();
    for (nth, later) in calls.iter().enumerate().skip(at + 1).take(CALLS_AFTER_MAX) {
        let same_tool = later.tool == failing.tool;
        if same_tool && later.raw == last.raw && later.succeeded() {
            // The identical call got past the error, so no later change can be its repair.
            return prerequisite::prerequisite_lesson(failing, &calls[last_at + 1..nth]);
        }
        if same_tool && later.error() == failing.error() {
            // The same error again: the next call is compared with this attempt, so earlier calls no longer
            // intervene.
            (last, last_at, intervening) = (later, nth, InterveningCalls::Harmless);
        } else if later.succeeded() && lookup::lookup_label(later).is_some() && !(same_tool && looks_itself) {
            lookups.push(later);
        } else if same_tool && !is_preparation(failing, later) {
            match compare_calls(last, later, intervening) {
                Difference::Unrelated => intervening = InterveningCalls::Others,
                difference => return build_lesson(last, later, &lookups, difference),
            }
        } else if !later.answer.trim().is_empty() {
            intervening = InterveningCalls::Others;
        }
    }
    calls[at + 1..]
        .iter()
        .take(TOOL_SWITCH_CALLS_MAX)
        .find_map(|later| lesson_from_tool_switch(failing, later))
}

/// Returns `true` if a later command prepares for the failing command, rather than being another way to write
/// it.
fn is_preparation(failing: &Call<'_>, later: &Call<'_>) -> bool {
    later.arguments.as_command().is_some()
        && prerequisite::prerequisite_label(later)
            .is_some_and(|label| prerequisite::prerequisite_label(failing) != Some(label))
}

fn build_lesson(
    failing: &Call<'_>,
    later: &Call<'_>,
    lookups: &[&Call<'_>],
    difference: Difference,
) -> Option<Lesson> {
    if let Some(lesson) = lesson_from_lookup(failing, later, lookups, &difference) {
        return Some(lesson);
    }
    if !later.succeeded() {
        return None;
    }
    match difference {
        Difference::Manner { avoid, prefer } => Some(Lesson {
            kind: FindingKind::Repair,
            advice: Advice::When(format_advice(&avoid, &prefer)),
            avoid: Some(avoid),
            prefer: Some(prefer),
            worked: Some(later.raw.to_owned()),
            after: describe_success(later),
        }),
        Difference::Values(keys) => lesson_from_stated_number(failing, later, &keys),
        Difference::Unrelated => None,
    }
}

/// Formats the advice to replace one manner with another.
fn format_advice(avoid: &Manner, prefer: &Manner) -> String {
    match (avoid, prefer) {
        (Manner::WithParameter(removed), Manner::WithParameter(added)) => {
            format!("pass `{added}` instead of `{removed}`")
        }
        (_, Manner::WithParameter(key)) => format!("pass `{key}` as well"),
        (_, Manner::WithoutParameter(key)) => format!("leave `{key}` out"),
        (Manner::Typed(_, wrong), Manner::Typed(key, right)) => {
            format!("pass `{key}` as {right}, not as {wrong}")
        }
        (Manner::Written(_, wrong), Manner::Written(key, right)) => {
            format!("write `{key}` as {right}, not as {wrong}")
        }
        (Manner::Kind(_, wrong), Manner::Kind(key, right)) => {
            format!("pass a `{right}` as `{key}`, not a `{wrong}`")
        }
        (Manner::Value(_, wrong), Manner::Value(key, right)) => {
            format!("set `{key}` to `{right}` instead of `{wrong}`")
        }
        (Manner::WithOption(_, wrong), Manner::WithOption(program, right)) => {
            format!("call `{program}` with `{right}` instead of `{wrong}`")
        }
        (_, Manner::WithOption(program, option)) => format!("call `{program}` with `{option}`"),
        (_, Manner::WithoutOption(program, option)) => format!("call `{program}` without `{option}`"),
        (Manner::Program(wrong), Manner::Program(right)) => format!("use `{right}` instead of `{wrong}`"),
        (_, Manner::Bare) => "send the bare command, without the marks of a code block".to_owned(),
        (_, Manner::Fenced) => "send the command in a code block".to_owned(),
        (_, other) => format!("make the call {other}"),
    }
}

/// Returns the lesson to look up first if the answer to a look-up contains a name that only the later call
/// uses.
fn lesson_from_lookup(
    failing: &Call<'_>,
    later: &Call<'_>,
    lookups: &[&Call<'_>],
    difference: &Difference,
) -> Option<Lesson> {
    if lookups.is_empty() {
        return None;
    }
    let new: BTreeSet<String> = collect_names(later).difference(&collect_names(failing)).cloned().collect();
    let source = lookups.iter().find(|lookup| contains_any_name(lookup.answer, &new))?;
    let label = lookup::lookup_label(source)?;
    let how = match (source.arguments.as_command(), difference) {
        (Some(_), _) if label == "SHOW TABLES" => {
            "run `SHOW TABLES` and use a table that it lists instead of guessing".to_owned()
        }
        (Some(_), _) if label == "DESCRIBE" => {
            "run `DESCRIBE` on the table and use a column that it lists instead of guessing".to_owned()
        }
        (Some(_), _) => format!("run `{label}` first and use what it shows instead of guessing"),
        (None, Difference::Values(keys)) if keys.len() == 1 => {
            format!("call `{label}` first and take `{}` from its answer", keys[0])
        }
        (None, _) => format!("call `{label}` first and take the values from its answer"),
    };
    Some(Lesson {
        kind: FindingKind::Repair,
        advice: Advice::When(how),
        avoid: None,
        prefer: Some(Manner::CalledFirst(label)),
        worked: Some(source.raw.to_owned()),
        after: format!(
            "Then the answer of `{}` held a name that the next attempt used. {}",
            source.tool,
            describe_progress(later)
        ),
    })
}

fn describe_progress(later: &Call<'_>) -> String {
    if later.succeeded() { describe_success(later) } else { "The error did not come again.".to_owned() }
}

/// Returns the names and values in the arguments of a call, in lower case.
fn collect_names(call: &Call<'_>) -> BTreeSet<String> {
    match call.arguments.as_object() {
        Some(map) => {
            let mut found = BTreeSet::new();
            map.values().for_each(|value| collect_leaves(value, &mut found));
            found
        }
        None => call
            .arguments
            .as_command()
            .map_or_else(BTreeSet::new, |command| split_identifiers(&command.text).collect()),
    }
}

fn collect_leaves(value: &Value, out: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            out.insert(text.to_lowercase());
        }
        Value::Number(number) => {
            out.insert(number.to_string());
        }
        Value::Array(items) => items.iter().for_each(|item| collect_leaves(item, out)),
        Value::Object(map) => map.values().for_each(|item| collect_leaves(item, out)),
        Value::Null | Value::Bool(_) => {}
    }
}

fn split_identifiers(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .map(str::to_lowercase)
        .filter(|word| word.len() >= NAME_CHARS_MIN && word.chars().any(char::is_alphabetic))
}

fn contains_any_name(answer: &str, new: &BTreeSet<String>) -> bool {
    let answer = first_chars(answer, ANSWER_CHARS_MAX).to_lowercase();
    let words: BTreeSet<String> = split_identifiers(&answer).collect();
    // Values such as dates and order numbers are not single words, so they are searched for as substrings.
    new.iter().any(|name| {
        words.contains(name) || (name.len() > 4 && !is_word(name) && answer.contains(name.as_str()))
    })
}

fn is_word(name: &str) -> bool {
    name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// Returns the lesson that the error states the number to use, if the later call uses that number as a value
/// or as the sum of a list.
fn lesson_from_stated_number(failing: &Call<'_>, later: &Call<'_>, keys: &[String]) -> Option<Lesson> {
    let named = numbers_in(failing.failure()?.line);
    let (before, after) = (failing.arguments.as_object()?, later.arguments.as_object()?);
    let key = keys.iter().find(|key| {
        // The error may also state the number that was passed ("total is 375, but paid 299").
        let new: Vec<f64> = named
            .iter()
            .copied()
            .filter(|one| !before.get(*key).is_some_and(|old| matches_any_number(old, &[*one])))
            .collect();
        after.get(*key).is_some_and(|value| matches_any_number(value, &new))
    })?;
    let how = if after[key].is_array() {
        format!("make the amounts in `{key}` add up to what it names")
    } else {
        format!("set `{key}` to what it names")
    };
    Some(Lesson {
        kind: FindingKind::Repair,
        advice: Advice::When(how),
        avoid: None,
        prefer: None,
        worked: Some(later.raw.to_owned()),
        after: describe_success(later),
    })
}

fn numbers_in(line: &str) -> Vec<f64> {
    line.split(|c: char| !c.is_ascii_digit() && c != '.')
        .filter_map(|word| word.trim_matches('.').parse::<f64>().ok())
        .filter(|number| *number != 0.0)
        .take(16)
        .collect()
}

/// Returns `true` if a number, or the sum of one field over a list of objects, is among the stated numbers.
fn matches_any_number(value: &Value, named: &[f64]) -> bool {
    let is_named = |number: f64| named.iter().any(|one| (one - number).abs() < 0.005);
    match value {
        Value::Number(number) => number.as_f64().is_some_and(is_named),
        Value::Array(items) => {
            let fields: BTreeSet<&String> =
                items.iter().filter_map(Value::as_object).flat_map(|map| map.keys()).collect();
            let sum = |field: &String| items.iter().filter_map(|item| item.get(field)?.as_f64()).sum::<f64>();
            fields.into_iter().any(|field| is_named(sum(field)))
        }
        _ => false,
    }
}

/// Returns the lesson to use another tool, if that tool accepted the same arguments or is a look-up of the
/// same kind.
fn lesson_from_tool_switch(failing: &Call<'_>, later: &Call<'_>) -> Option<Lesson> {
    if later.tool == failing.tool
        || !is_plain_name(later.tool)
        || !later.succeeded()
        || later.answer.trim().is_empty()
        // A tool that the error names is what somebody else chose.
        || contains_value(failing.answer, later.tool)
    {
        return None;
    }
    let (a, b) = (failing.arguments.as_object()?, later.arguments.as_object()?);
    // Handing a credential to another tool is a decision for people.
    let same_arguments = a.len() > 1 && a == b && !a.keys().any(|key| names_credential(key));
    let both_look = lookup::lookup_label(failing).is_some() && lookup::lookup_label(later).is_some();
    let of_a_kind = both_look && leading_parts_shared(failing.tool, later.tool) >= TOOL_PARTS_SHARED_MIN;
    if !same_arguments && !of_a_kind {
        return None;
    }
    let how = if same_arguments {
        format!("call `{}` with the same arguments instead", later.tool)
    } else {
        format!("try `{}` instead", later.tool)
    };
    Some(Lesson {
        kind: FindingKind::Repair,
        advice: Advice::When(how),
        avoid: Some(Manner::Tool(failing.tool.to_owned())),
        prefer: Some(Manner::Tool(later.tool.to_owned())),
        worked: Some(later.raw.to_owned()),
        after: describe_success(later),
    })
}

/// Returns `true` if a parameter is named like a credential.
pub(super) fn names_credential(key: &str) -> bool {
    let key = key.to_lowercase();
    ["password", "passwd", "secret", "token", "credential", "apikey", "api_key", "private_key", "cookie"]
        .iter()
        .any(|word| key.contains(word))
}

fn leading_parts_shared(a: &str, b: &str) -> usize {
    a.split('_').zip(b.split('_')).take_while(|(x, y)| x == y).count()
}
