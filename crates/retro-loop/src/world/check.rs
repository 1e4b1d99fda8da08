//! What a world cannot mean, said with file and line.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, bail};
use serde_json::Value;

use super::values::{Source, names};
use super::{After, Agents, Looks, Workflow, line_of};

/// The most steps, causes, traps and noises of a workflow, and calls or texts of one of them: a run is a few kilobytes.
const ITEMS_MAX: usize = 64;

/// Probabilities of the agents.
pub(super) fn agents(path: &Path, agents: &Agents) -> Result<()> {
    let named = [
        ("read", agents.read),
        ("follow", agents.follow),
        ("finds_out", agents.finds_out),
        ("fails_anyway", agents.fails_anyway),
    ];
    for (name, value) in named {
        if !(0.0..=1.0).contains(&value) {
            bail!("{}: [agents] {name} = {value} is no probability: write 0.0 to 1.0", path.display());
        }
    }
    Ok(())
}

/// One thing of a workflow, as it is checked.
struct Thing<'a> {
    kind: &'static str,
    line: usize,
    id: &'a str,
    step: &'a str,
    probabilities: Vec<(&'static str, f64)>,
    /// Every text in which values may stand.
    texts: Vec<&'a str>,
    arguments: Vec<&'a Value>,
    errors: Option<usize>,
    looks: Option<&'a Looks>,
    /// What else is wrong with it.
    wrong: Vec<String>,
}

/// Everything that a workflow's file says.
pub(super) fn workflow(path: &Path, text: &str, workflow: &Workflow) -> Result<()> {
    let at = |line: usize, what: &str| anyhow::anyhow!("{}:{line}: {what}", path.display());
    for (name, source) in &workflow.values.0 {
        if matches!(source, Source::List(list) if list.is_empty()) {
            return Err(at(1, &format!("[values] {name} is an empty list: nothing can be drawn from it")));
        }
    }
    if workflow.steps.is_empty() {
        return Err(at(1, "a workflow has at least one [[step]]"));
    }
    let steps: BTreeSet<&str> = workflow.steps.iter().map(|step| step.get_ref().name.as_str()).collect();
    let things = things(text, workflow);
    if things.len() > ITEMS_MAX {
        return Err(at(1, &format!("{} things in one workflow; {ITEMS_MAX} are the most", things.len())));
    }
    let mut ids = BTreeSet::new();
    for thing in &things {
        let say = |what: String| Err(at(thing.line, &format!("[[{}]] {}: {what}", thing.kind, thing.id)));
        if thing.kind != "fact" && !ids.insert(thing.id) {
            return say("another one has this name".to_owned());
        }
        if !steps.contains(thing.step) {
            return say(format!("there is no step `{}`", thing.step));
        }
        if let Some((name, value)) =
            thing.probabilities.iter().find(|(_, value)| !(0.0..=1.0).contains(value))
        {
            return say(format!("{name} = {value} is no probability: write 0.0 to 1.0"));
        }
        if thing.errors == Some(0) {
            return say("`errors` is empty: say what the failing call answers".to_owned());
        }
        if thing.looks.is_some_and(|looks| looks.remedy.iter().all(|word| word.trim().is_empty())) {
            return say("`memory.remedy` has no words: every memory would look like it".to_owned());
        }
        if let Some(wrong) = thing.wrong.first() {
            return say(wrong.clone());
        }
        let mut inside = Vec::new();
        thing.arguments.iter().for_each(|arguments| texts_of(arguments, &mut inside));
        let unknown = thing.texts.iter().copied().chain(inside).flat_map(names);
        if let Some(name) = unknown.into_iter().find(|name| !workflow.values.0.contains_key(*name)) {
            return say(format!("{{{name}}} stands in no [values]"));
        }
    }
    Ok(())
}

fn things<'a>(text: &str, workflow: &'a Workflow) -> Vec<Thing<'a>> {
    let mut things = Vec::new();
    for step in &workflow.steps {
        let line = line_of(text, step.span().start);
        let step = step.get_ref();
        let mut texts = vec![step.task.as_str()];
        texts.extend(step.routines.iter().flat_map(|one| &one.answers).map(String::as_str));
        let arguments = step.routines.iter().map(|one| &one.arguments).collect();
        let probabilities = step.routines.iter().map(|one| ("chance", one.chance)).collect();
        let errors = step.routines.iter().map(|one| one.answers.len()).min();
        let id = step.name.as_str();
        things.push(Thing {
            kind: "step",
            line,
            id,
            step: id,
            probabilities,
            texts,
            arguments,
            errors,
            looks: None,
            wrong: Vec::new(),
        });
    }
    things.extend(workflow.causes.iter().map(|one| cause(line_of(text, one.span().start), one.get_ref())));
    things.extend(workflow.traps.iter().map(|one| trap(line_of(text, one.span().start), one.get_ref())));
    things.extend(workflow.noises.iter().map(|one| noise(line_of(text, one.span().start), one.get_ref())));
    things.extend(workflow.facts.iter().map(|one| {
        let (line, one) = (line_of(text, one.span().start), one.get_ref());
        let (texts, arguments, probabilities) = (Vec::new(), Vec::new(), Vec::new());
        Thing {
            kind: "fact",
            line,
            id: &one.tool,
            step: &one.step,
            probabilities,
            texts,
            arguments,
            errors: None,
            looks: Some(&one.memory),
            wrong: Vec::new(),
        }
    }));
    things
}

fn cause(line: usize, one: &super::Cause) -> Thing<'_> {
    let mut wrong = Vec::new();
    if one.from == 0 || one.until.is_some_and(|until| until < one.from) {
        wrong.push("runs are numbered from 1, and `until` is not before `from`".to_owned());
    }
    if one.after == After::Harmful && one.harm.is_none() {
        wrong.push("`after = \"harmful\"` needs `harm`: what the call answers then".to_owned());
    }
    if one.tries.is_empty() || one.tries.iter().any(|tries| !(1..=20).contains(tries)) {
        wrong.push("`tries` lists numbers from 1 to 20".to_owned());
    }
    if one.rhythm.is_some_and(|rhythm| {
        rhythm.runs[0] == 0 || rhythm.runs[0] > rhythm.runs[1] || rhythm.runs[1] > rhythm.every
    }) {
        wrong.push(
            "`rhythm.runs` are the first and the last run of a cycle of `every` runs, from 1".to_owned(),
        );
    }
    let mut texts: Vec<&str> = one.errors.iter().map(String::as_str).collect();
    texts.extend([one.answer.as_str(), one.minds.as_str(), one.harm.as_deref().unwrap_or("")]);
    let mut arguments = vec![&one.arguments, &one.right];
    if let Some(look_up) = &one.look_up {
        texts.push(&look_up.answer);
        arguments.push(&look_up.arguments);
    }
    let mut probabilities = vec![("chance", one.chance), ("costs", one.costs)];
    probabilities.extend(one.finds_out.map(|finds_out| ("finds_out", finds_out)));
    Thing {
        kind: "cause",
        line,
        id: &one.id,
        step: &one.step,
        probabilities,
        texts,
        arguments,
        errors: Some(one.errors.len()),
        looks: Some(&one.memory),
        wrong,
    }
}

fn trap(line: usize, one: &super::Trap) -> Thing<'_> {
    let mut wrong = Vec::new();
    if one.periods.is_empty() || one.periods.iter().any(|[first, last]| *first == 0 || last < first) {
        wrong.push("`periods` lists first and last runs, from 1".to_owned());
    }
    if one.errors.is_empty() == one.remark.is_none() {
        wrong.push("it shows either by `errors` or by a `remark`".to_owned());
    }
    if one.remark.is_some() && one.accepted_at.is_some() {
        wrong.push("a person accepts what calls show: give it `errors` instead of a `remark`".to_owned());
    }
    let mut texts: Vec<&str> = one.errors.iter().map(String::as_str).collect();
    texts.extend([one.answer.as_str(), one.harm.as_str(), one.remark.as_deref().unwrap_or("")]);
    let mut probabilities = vec![("chance", one.chance)];
    probabilities.extend(one.finds_out.map(|finds_out| ("finds_out", finds_out)));
    let arguments = vec![&one.arguments, &one.superstition];
    Thing {
        kind: "trap",
        line,
        id: &one.id,
        step: &one.step,
        probabilities,
        texts,
        arguments,
        errors: None,
        looks: Some(&one.memory),
        wrong,
    }
}

fn noise(line: usize, one: &super::Noise) -> Thing<'_> {
    let mut wrong = Vec::new();
    if one.burst.is_some_and(|burst| burst.runs == 0 || burst.runs >= burst.every) {
        wrong.push("a burst lasts at least one run and fewer than `every`".to_owned());
    }
    if one.changes > 0.0 && one.changed.is_empty() {
        wrong.push("`changes` needs `changed`: what the call may be changed to".to_owned());
    }
    let mut texts: Vec<&str> = one.errors.iter().map(String::as_str).collect();
    texts.push(&one.answer);
    let mut probabilities = vec![("chance", one.chance), ("changes", one.changes)];
    probabilities.extend(one.burst.map(|burst| ("burst.chance", burst.chance)));
    let arguments = std::iter::once(&one.arguments).chain(&one.changed).collect();
    Thing {
        kind: "noise",
        line,
        id: &one.id,
        step: &one.step,
        probabilities,
        texts,
        arguments,
        errors: Some(one.errors.len()),
        looks: None,
        wrong,
    }
}

fn texts_of<'a>(value: &'a Value, out: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => out.push(text),
        Value::Array(items) => items.iter().for_each(|item| texts_of(item, out)),
        Value::Object(map) => map.values().for_each(|item| texts_of(item, out)),
        _ => {}
    }
}
