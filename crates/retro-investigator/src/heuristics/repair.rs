//! Repairs: a call fails, a changed call gets past the error; the difference is the lesson.
//!
//! In order of what a lesson is worth:
//! 1. **Look-up.** Between the two stood a call that only looks, and its answer holds a name that the later call
//!    uses and the failing one did not: the lesson is to look first. Names guessed right teach nothing.
//! 2. **Manner.** The later call succeeded and differs in one way that means the same in another run: a parameter
//!    more, less or renamed, another type, spelling, kind or choice, another option or program. Where the error does not
//!    say what it is about, one option more or one other choice counts only from one call to the very next one.
//! 3. **Stated.** The later call uses a number that the error named.
//! 4. **Prerequisite.** The very same call succeeded after one other thing was done (`prerequisite`).
//! 5. **Tool.** Another tool took exactly the same arguments, or another look-up of the same kind answered.
//!
//! Anything else differs only in values of its run: no repair, and what the error demands is left to `failure`.

use std::collections::BTreeSet;

use retro_core::finding::{Finding, FindingKind};
use serde_json::Value;

use super::call::{Call, StepCalls};
use super::demand::when;
use super::difference::{Between, Difference, between};
use super::errors::Errors;
use super::lesson::{Lesson, then_succeeded};
use super::lookup;
use super::manner::{Manner, is_name};
use super::prerequisite;
use super::quote::head;

/// How many calls after a failing one are looked at: what comes later has other reasons.
const CALLS_AFTER_MAX: usize = 12;
/// How soon another tool must take over to count as taking over.
const TOOL_SWITCH_CALLS_MAX: usize = 4;
/// Parts that the names of two look-ups of one kind share from their start, as in `find_user_by_…`.
const TOOL_PARTS_SHARED_MIN: usize = 3;
/// How much of a look-up's answer is searched for names, in characters.
const ANSWER_CHARS_MAX: usize = 20_000;
/// The shortest name that counts as found in an answer; shorter ones are found in any.
const NAME_CHARS_MIN: usize = 2;

/// The repairs of a step, one an error.
pub(super) fn find(step: &StepCalls<'_>, errors: &mut Errors) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, failing) in step.calls.iter().enumerate() {
        if !errors.open(step.step, failing) {
            continue;
        }
        let repaired = way_out(&step.calls, at).and_then(|lesson| lesson.of(step.step, failing));
        if let Some(finding) = repaired {
            errors.close(step.step, failing);
            findings.push(finding);
        }
    }
    findings
}

fn way_out(calls: &[Call<'_>], at: usize) -> Option<Lesson> {
    let failing = &calls[at];
    let looks_itself = lookup::label(failing).is_some();
    let (mut last, mut last_at, mut stood) = (failing, at, Between::Nothing);
    let mut lookups: Vec<&Call<'_>> = Vec::new();
    for (nth, later) in calls.iter().enumerate().skip(at + 1).take(CALLS_AFTER_MAX) {
        let same_tool = later.tool == failing.tool;
        if same_tool && later.raw == last.raw && later.succeeded() {
            // Whatever is changed after this, the error was left without it.
            return prerequisite::lesson(last, &calls[last_at + 1..nth]);
        }
        if same_tool && later.error() == failing.error() {
            (last, last_at, stood) = (later, nth, Between::Nothing);
        } else if later.succeeded() && lookup::label(later).is_some() && !(same_tool && looks_itself) {
            lookups.push(later);
        } else if same_tool && !prepares(failing, later) {
            match between(last, later, stood) {
                Difference::Unrelated => stood = Between::Others,
                difference => return lesson_of(last, later, &lookups, difference),
            }
        } else if !later.answer.trim().is_empty() {
            stood = Between::Others;
        }
    }
    calls[at + 1..].iter().take(TOOL_SWITCH_CALLS_MAX).find_map(|later| switched(failing, later))
}

/// Whether a command makes another one possible, and is no other way of giving it.
fn prepares(failing: &Call<'_>, later: &Call<'_>) -> bool {
    later.arguments.command().is_some()
        && prerequisite::label(later).is_some_and(|label| prerequisite::label(failing) != Some(label))
}

fn lesson_of(
    failing: &Call<'_>,
    later: &Call<'_>,
    lookups: &[&Call<'_>],
    difference: Difference,
) -> Option<Lesson> {
    if let Some(lesson) = looked_up(failing, later, lookups, &difference) {
        return Some(lesson);
    }
    if !later.succeeded() {
        return None;
    }
    match difference {
        Difference::Manner { avoid, prefer } => Some(Lesson {
            kind: FindingKind::Repair,
            title: when(failing.tool, failing.error(), &advice(&avoid, &prefer)),
            avoid: Some(avoid),
            prefer: Some(prefer),
            after: then_succeeded(later),
        }),
        Difference::Values(keys) => stated(failing, later, &keys),
        Difference::Unrelated => None,
    }
}

/// What to do, for a pair of manners.
fn advice(avoid: &Manner, prefer: &Manner) -> String {
    match (avoid, prefer) {
        (Manner::With(gone), Manner::With(come)) => format!("pass `{come}` instead of `{gone}`"),
        (_, Manner::With(key)) => format!("pass `{key}` as well"),
        (_, Manner::Without(key)) => format!("leave `{key}` out"),
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
        (Manner::Option(_, wrong), Manner::Option(program, right)) => {
            format!("call `{program}` with `{right}` instead of `{wrong}`")
        }
        (_, Manner::Option(program, option)) => format!("call `{program}` with `{option}`"),
        (_, Manner::NoOption(program, option)) => format!("call `{program}` without `{option}`"),
        (Manner::Program(wrong), Manner::Program(right)) => format!("use `{right}` instead of `{wrong}`"),
        (_, Manner::Bare) => "send the bare command, without the marks of a code block".to_owned(),
        (_, Manner::Fenced) => "send the command in a code block".to_owned(),
        (_, other) => format!("make the call {other}"),
    }
}

/// A look-up whose answer holds a name that is new in the later call.
fn looked_up(
    failing: &Call<'_>,
    later: &Call<'_>,
    lookups: &[&Call<'_>],
    difference: &Difference,
) -> Option<Lesson> {
    if lookups.is_empty() {
        return None;
    }
    let new: BTreeSet<String> = names(later).difference(&names(failing)).cloned().collect();
    let source = lookups.iter().find(|lookup| holds_any(lookup.answer, &new))?;
    let label = lookup::label(source)?;
    let how = match (source.arguments.command(), difference) {
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
        title: when(failing.tool, failing.error(), &how),
        avoid: None,
        prefer: Some(Manner::First(label)),
        after: format!(
            "Then the answer of `{}` held a name that the next attempt used. {}",
            source.tool,
            past(later)
        ),
    })
}

fn past(later: &Call<'_>) -> String {
    if later.succeeded() { then_succeeded(later) } else { "The error did not come again.".to_owned() }
}

/// The names and values of a call, in lower case.
fn names(call: &Call<'_>) -> BTreeSet<String> {
    match call.arguments.object() {
        Some(map) => {
            let mut found = BTreeSet::new();
            map.values().for_each(|value| leaves(value, &mut found));
            found
        }
        None => call
            .arguments
            .command()
            .map_or_else(BTreeSet::new, |command| identifiers(&command.text).collect()),
    }
}

fn leaves(value: &Value, out: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            out.insert(text.to_lowercase());
        }
        Value::Number(number) => {
            out.insert(number.to_string());
        }
        Value::Array(items) => items.iter().for_each(|item| leaves(item, out)),
        Value::Object(map) => map.values().for_each(|item| leaves(item, out)),
        Value::Null | Value::Bool(_) => {}
    }
}

fn identifiers(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .map(str::to_lowercase)
        .filter(|word| word.len() >= NAME_CHARS_MIN && word.chars().any(char::is_alphabetic))
}

fn holds_any(answer: &str, new: &BTreeSet<String>) -> bool {
    let answer = head(answer, ANSWER_CHARS_MAX).to_lowercase();
    let words: BTreeSet<String> = identifiers(&answer).collect();
    // Values such as dates and order numbers are no single words: those are searched for as they are.
    new.iter().any(|name| {
        words.contains(name) || (name.len() > 4 && !is_word(name) && answer.contains(name.as_str()))
    })
}

fn is_word(name: &str) -> bool {
    name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// The later call uses a number that the error named: as a value, or as the sum of a list.
fn stated(failing: &Call<'_>, later: &Call<'_>, keys: &[String]) -> Option<Lesson> {
    let named = numbers_in(failing.failure()?.line);
    let (before, after) = (failing.arguments.object()?, later.arguments.object()?);
    let key = keys.iter().find(|key| {
        // The error may name what was passed as well ("total is 375, but paid 299").
        let new: Vec<f64> = named
            .iter()
            .copied()
            .filter(|one| !before.get(*key).is_some_and(|old| says(old, &[*one])))
            .collect();
        after.get(*key).is_some_and(|value| says(value, &new))
    })?;
    let how = if after[key].is_array() {
        format!("make the amounts in `{key}` add up to what it names")
    } else {
        format!("set `{key}` to what it names")
    };
    Some(Lesson {
        kind: FindingKind::Repair,
        title: when(failing.tool, failing.error(), &how),
        avoid: None,
        prefer: None,
        after: then_succeeded(later),
    })
}

fn numbers_in(line: &str) -> Vec<f64> {
    line.split(|c: char| !c.is_ascii_digit() && c != '.')
        .filter_map(|word| word.trim_matches('.').parse::<f64>().ok())
        .filter(|number| *number != 0.0)
        .take(16)
        .collect()
}

/// Whether a value, or the sum of one field over a list, is among the numbers.
fn says(value: &Value, named: &[f64]) -> bool {
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

/// Another tool that took over: the same arguments, or another look-up of the same kind.
fn switched(failing: &Call<'_>, later: &Call<'_>) -> Option<Lesson> {
    if later.tool == failing.tool
        || !is_name(later.tool)
        || !later.succeeded()
        || later.answer.trim().is_empty()
    {
        return None;
    }
    let (a, b) = (failing.arguments.object()?, later.arguments.object()?);
    let same_arguments = a.len() > 1 && a == b;
    let both_look = lookup::label(failing).is_some() && lookup::label(later).is_some();
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
        title: when(failing.tool, failing.error(), &how),
        avoid: Some(Manner::Tool(failing.tool.to_owned())),
        prefer: Some(Manner::Tool(later.tool.to_owned())),
        after: then_succeeded(later),
    })
}

fn leading_parts_shared(a: &str, b: &str) -> usize {
    a.split('_').zip(b.split('_')).take_while(|(x, y)| x == y).count()
}
