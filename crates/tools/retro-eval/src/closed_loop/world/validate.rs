//! Checks the contents of a world's files, and reports problems with file and line.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, bail};

use super::format::{AgentHabits, Noise, Trap, Workflow};
use super::values::{ValueSource, placeholder_names};

mod cause;
mod item;

use cause::cause_item;
use item::{CheckedItem, collect_texts};

/// Maximum number of items (steps, causes, traps, noises and facts) in a workflow. Keeps a run at a few
/// kilobytes.
const ITEMS_MAX: usize = 64;

/// Checks that the agents' habits are probabilities.
pub(super) fn validate_agents(path: &Path, agents: &AgentHabits) -> Result<()> {
    let named = [
        ("read", agents.read),
        ("follow", agents.follow),
        ("finds_out", agents.finds_out),
        ("fails_anyway", agents.fails_anyway),
        ("wrong_costs", agents.wrong_costs),
    ];
    for (name, value) in named {
        if !(0.0..=1.0).contains(&value) {
            bail!("{}: [agents] {name} = {value} is not a probability: use 0.0 to 1.0", path.display());
        }
    }
    Ok(())
}

/// Checks all items of a workflow. Fails at the first problem, with file and line.
pub(super) fn validate_workflow(path: &Path, text: &str, workflow: &Workflow) -> Result<()> {
    let at = |line: usize, what: &str| anyhow::anyhow!("{}:{line}: {what}", path.display());
    for (name, source) in &workflow.values.0 {
        if matches!(source, ValueSource::List(list) if list.is_empty()) {
            return Err(at(1, &format!("[values] {name} is an empty list")));
        }
    }
    if workflow.exit_line.as_ref().is_some_and(|line| !line.contains("{exit}")) {
        return Err(at(1, "`exit_line` needs `{exit}`, the place of the exit code"));
    }
    if workflow.steps.is_empty() {
        return Err(at(1, "a workflow needs at least one [[step]]"));
    }
    let steps: BTreeSet<&str> = workflow.steps.iter().map(|step| step.get_ref().name.as_str()).collect();
    let things = list_items(text, workflow);
    if things.len() > ITEMS_MAX {
        return Err(at(
            1,
            &format!("{} items in one workflow; at most {ITEMS_MAX} are allowed", things.len()),
        ));
    }
    let mut ids = BTreeSet::new();
    for thing in &things {
        let say = |what: String| Err(at(thing.line, &format!("[[{}]] {}: {what}", thing.kind, thing.id)));
        // A fact has no ID of its own, and several facts may be about one tool.
        if thing.kind != "fact" && !ids.insert(thing.id) {
            return say("this id is already used".to_owned());
        }
        if !steps.contains(thing.step) {
            return say(format!("there is no step `{}`", thing.step));
        }
        if let Some((name, value)) =
            thing.probabilities.iter().find(|(_, value)| !(0.0..=1.0).contains(value))
        {
            return say(format!("{name} = {value} is not a probability: use 0.0 to 1.0"));
        }
        if thing.errors == Some(0) {
            return say("`errors` is empty: list what the failing call answers".to_owned());
        }
        if thing.patterns.iter().any(|looks| looks.remedy.iter().all(|word| word.trim().is_empty())) {
            return say("`memory.remedy` has no words: every memory would match".to_owned());
        }
        if let Some(wrong) = thing.problems.first() {
            return say(wrong.clone());
        }
        let mut inside = Vec::new();
        thing.arguments.iter().for_each(|arguments| collect_texts(arguments, &mut inside));
        let mut names = thing.texts.iter().copied().chain(inside).flat_map(placeholder_names);
        if let Some(problem) = names.find_map(|name| workflow.values.find_problem(name)) {
            return say(problem);
        }
    }
    Ok(())
}

fn list_items<'a>(text: &str, workflow: &'a Workflow) -> Vec<CheckedItem<'a>> {
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
        things.push(CheckedItem {
            kind: "step",
            line,
            id,
            step: id,
            probabilities,
            texts,
            arguments,
            errors,
            patterns: Vec::new(),
            problems: Vec::new(),
        });
    }
    things
        .extend(workflow.causes.iter().map(|one| cause_item(line_of(text, one.span().start), one.get_ref())));
    things.extend(workflow.traps.iter().map(|one| trap_item(line_of(text, one.span().start), one.get_ref())));
    things
        .extend(workflow.noises.iter().map(|one| noise_item(line_of(text, one.span().start), one.get_ref())));
    things.extend(workflow.facts.iter().zip(&workflow.fact_causes).map(|(one, used)| {
        let (line, one) = (line_of(text, one.span().start), one.get_ref());
        if let Some(cause) = used {
            let item = cause_item(line, cause);
            let mut problems = item.problems;
            if cause.needs.is_empty() {
                problems.insert(0, "`used.needs` is empty: list what a memory must state".to_owned());
            }
            return CheckedItem { kind: "fact", id: &one.tool, problems, ..item };
        }
        let (texts, arguments, probabilities) = (Vec::new(), Vec::new(), Vec::new());
        CheckedItem {
            kind: "fact",
            line,
            id: &one.tool,
            step: &one.step,
            probabilities,
            texts,
            arguments,
            errors: None,
            patterns: vec![&one.memory],
            problems: Vec::new(),
        }
    }));
    things
}

fn trap_item(line: usize, one: &Trap) -> CheckedItem<'_> {
    let mut wrong = Vec::new();
    if one.periods.is_empty() || one.periods.iter().any(|[first, last]| *first == 0 || last < first) {
        wrong.push("`periods` must list first and last runs, from 1".to_owned());
    }
    if one.errors.is_empty() == one.remark.is_none() {
        wrong.push("it needs either `errors` or a `remark`".to_owned());
    }
    if one.remark.is_some() && one.accepted_at.is_some() {
        wrong.push(
            "`accepted_at` needs `errors` instead of a `remark`, because a person accepts what calls show"
                .to_owned(),
        );
    }
    let mut texts: Vec<&str> = one.errors.iter().map(String::as_str).collect();
    texts.extend([one.answer.as_str(), one.harm.as_str(), one.remark.as_deref().unwrap_or("")]);
    let mut probabilities = vec![("chance", one.chance)];
    probabilities.extend(one.finds_out.map(|finds_out| ("finds_out", finds_out)));
    let arguments = vec![&one.arguments, &one.superstition];
    CheckedItem {
        kind: "trap",
        line,
        id: &one.id,
        step: &one.step,
        probabilities,
        texts,
        arguments,
        errors: None,
        patterns: vec![&one.memory],
        problems: wrong,
    }
}

fn noise_item(line: usize, one: &Noise) -> CheckedItem<'_> {
    let mut wrong = Vec::new();
    if one.burst.is_some_and(|burst| burst.runs == 0 || burst.runs >= burst.every) {
        wrong.push("a burst must last at least one run and fewer than `every`".to_owned());
    }
    if one.changes > 0.0 && one.changed.is_empty() {
        wrong.push("`changes` needs `changed`, the arguments to change to".to_owned());
    }
    let mut texts: Vec<&str> = one.errors.iter().map(String::as_str).collect();
    texts.push(&one.answer);
    texts.extend(one.harm.as_deref());
    if one.harm.is_some() && one.changed.is_empty() {
        wrong.push("`harm` needs `changed`, the calls that it answers".to_owned());
    }
    let mut probabilities = vec![("chance", one.chance), ("changes", one.changes)];
    probabilities.extend(one.burst.map(|burst| ("burst.chance", burst.chance)));
    let arguments = std::iter::once(&one.arguments).chain(&one.changed).collect();
    CheckedItem {
        kind: "noise",
        line,
        id: &one.id,
        step: &one.step,
        probabilities,
        texts,
        arguments,
        errors: Some(one.errors.len()),
        patterns: Vec::new(),
        problems: wrong,
    }
}

/// Returns the 1-based number of the line that contains a byte offset.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}
