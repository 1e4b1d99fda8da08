//! Determines which items of the simulated world a memory is about, and whether the memory is true, from its
//! step and its lesson: the structure of the cue where there is one, otherwise the words of the line.

use serde::Serialize;
use serde_json::Value;

use crate::closed_loop::lesson::Lesson;
use crate::closed_loop::remedy::{Agreement, PlannedCall, Remedy};
use crate::closed_loop::words::{RemedyTexts, contains_all_words, states_remedy, states_value};
use crate::closed_loop::world::{AfterFix, Cause, CauseRemedy, MemoryPattern, Trap, Values, Workflow};

/// An item of the world that a memory can be about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum WorldItem {
    /// The cause with this index in the workflow's file, and its remedy with this index: 0 for the first, then
    /// those that replace it.
    Cause(usize, usize),
    /// The fact with this index in the workflow's file.
    Fact(usize),
    /// The trap with this index in the workflow's file.
    Trap(usize),
    /// The way back from a trap, which helps whoever fell into it.
    WayBack(usize),
    /// The way on from the remedy with the second index of the cause with the first one, for whoever still follows it when
    /// it has become harmful.
    WayOn(usize, usize),
}

/// A memory's statement about the world.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MemoryClaim {
    /// Items of which the memory states the remedy. Several causes can have the same remedy.
    pub(crate) items: Vec<WorldItem>,
    /// Items of which the memory states the remedy, but not a value that an agent cannot guess.
    pub(crate) inexact: Vec<WorldItem>,
    /// Indices of the causes of which the memory states the error, but no remedy.
    pub(crate) errors: Vec<usize>,
}

impl MemoryClaim {
    /// Returns `true` if the memory states nothing about the world.
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty() && self.inexact.is_empty() && self.errors.is_empty()
    }

    /// Returns `true` if the memory states a remedy of the cause with this index.
    pub(crate) fn is_about_cause(&self, index: usize) -> bool {
        self.items.iter().any(|item| matches!(item, WorldItem::Cause(cause, _) if *cause == index))
    }

    /// Returns `true` if the memory states the remedy of this item.
    pub(crate) fn is_about(&self, item: WorldItem) -> bool {
        self.items.contains(&item)
    }
}

/// Truth of a memory at a given run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MemoryTruth {
    /// The memory is currently true, whether or not it is useful.
    True,
    /// The memory names the error of a cause, but no remedy, or not a value that an agent cannot guess.
    Vague,
    /// The cause is fixed, and following the memory has no effect.
    Stale,
    /// The cause is fixed, and following the memory makes the call fail.
    Outdated,
    /// The memory was never true, and following it makes the call fail.
    Trap,
    /// The memory is not about anything in the world, or states another remedy than the world has.
    Noise,
}

/// What a lesson says about one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Statement {
    /// The structure of the lesson is the whole remedy.
    Structure,
    /// The words of the line name the remedy, and the structure does not contradict.
    Words,
    /// The lesson names the error, and nothing to do.
    Error,
    Nothing,
}

/// Matches a memory's lesson to the items of the world. An equal structure takes precedence over words;
/// among words, causes take precedence over facts, and facts over traps.
pub(crate) fn match_claim(workflow: &Workflow, step: &str, lesson: &Lesson) -> MemoryClaim {
    let mut statements: Vec<(WorldItem, Statement)> = Vec::new();
    for (at, cause) in workflow.causes.iter().enumerate() {
        let cause = cause.get_ref();
        for (number, remedy) in cause.remedies().iter().enumerate() {
            let statement = cause_statement(&workflow.values, cause, remedy, step, lesson);
            statements.push((WorldItem::Cause(at, number), statement));
        }
    }
    for (at, fact) in workflow.facts.iter().enumerate() {
        if let Some(cause) = workflow.fact_causes.get(at).and_then(Option::as_ref) {
            let statement = cause_statement(&workflow.values, cause, &cause.remedies()[0], step, lesson);
            statements.push((WorldItem::Fact(at), statement));
            continue;
        }
        let fact = fact.get_ref();
        let here = fact.step == step && names_tool(lesson, &fact.tool);
        let stated = here && states_words(lesson, &fact.memory, &RemedyTexts::default());
        let statement = if stated { Statement::Words } else { Statement::Nothing };
        statements.push((WorldItem::Fact(at), statement));
    }
    for (at, trap) in workflow.traps.iter().enumerate() {
        statements.push((WorldItem::Trap(at), trap_statement(trap.get_ref(), step, lesson)));
    }
    statements.extend(statements_against_harm(workflow, step, lesson));
    let with = |wanted: Statement| {
        let found = statements.iter().filter(move |(_, statement)| *statement == wanted);
        found.map(|(item, _)| *item)
    };
    let mut items: Vec<WorldItem> = with(Statement::Structure).collect();
    if items.is_empty() {
        items = with(Statement::Words).collect();
        let kinds = [
            |item: &WorldItem| matches!(item, WorldItem::Cause(..)),
            |item: &WorldItem| matches!(item, WorldItem::Fact(_)),
        ];
        if let Some(kind) = kinds.into_iter().find(|kind| items.iter().any(kind)) {
            items.retain(kind);
        }
    }
    let inexact = items.extract_if(.., |item| !states_needs(workflow, *item, lesson)).collect();
    let cause_at = |item| if let WorldItem::Cause(at, _) = item { Some(at) } else { None };
    MemoryClaim { items, inexact, errors: with(Statement::Error).filter_map(cause_at).collect() }
}

/// Returns what a lesson says about calls that fail because a memory was followed: the way back from a trap, and the way
/// on from a remedy that has become harmful. Only an equal structure counts.
fn statements_against_harm(workflow: &Workflow, step: &str, lesson: &Lesson) -> Vec<(WorldItem, Statement)> {
    let mut found = Vec::new();
    let mut add = |item: WorldItem, wrong: PlannedCall<'_>, right: PlannedCall<'_>| {
        let values = Some(&workflow.values);
        let remedy = Remedy { wrong, right, first: Vec::new(), waits: false, values };
        if wrong.arguments != right.arguments && remedy.compare(lesson) == Agreement::Whole {
            found.push((item, Statement::Structure));
        }
    };
    let traps = workflow.traps.iter().map(|trap| trap.get_ref()).enumerate();
    for (at, trap) in traps.filter(|(_, trap)| trap.step == step && trap.remark.is_none()) {
        let call = |arguments| PlannedCall { tool: &trap.tool, arguments };
        add(WorldItem::WayBack(at), call(&trap.superstition), call(&trap.arguments));
    }
    let causes = workflow.causes.iter().map(|cause| cause.get_ref()).enumerate();
    for (at, cause) in causes.filter(|(_, cause)| cause.step == step) {
        let remedies = cause.remedies();
        for (number, replaced) in remedies.iter().enumerate() {
            let wrong = PlannedCall { tool: replaced.tool, arguments: replaced.right };
            if let Some(next) = remedies.get(number + 1) {
                add(
                    WorldItem::WayOn(at, number),
                    wrong,
                    PlannedCall { tool: next.tool, arguments: next.right },
                );
            } else if cause.until.is_some() && matches!(cause.after, AfterFix::Harmful) {
                let right = PlannedCall { tool: &cause.tool, arguments: &cause.arguments };
                add(WorldItem::WayOn(at, number), wrong, right);
            }
        }
    }
    found
}

/// Returns the texts that a memory of an item must state exactly.
pub(crate) fn needs_of(workflow: &Workflow, item: WorldItem) -> &[String] {
    match item {
        WorldItem::Cause(at, number) => workflow.causes[at].get_ref().remedies()[number].needs,
        WorldItem::Fact(at) => {
            workflow.fact_causes.get(at).and_then(Option::as_ref).map_or(&[][..], |cause| &cause.needs)
        }
        WorldItem::Trap(_) | WorldItem::WayBack(_) | WorldItem::WayOn(..) => &[],
    }
}

/// Returns `true` if a lesson states what an agent cannot guess, in its line or in what an agent reads when it
/// opens the memory.
fn states_needs(workflow: &Workflow, item: WorldItem, lesson: &Lesson) -> bool {
    needs_of(workflow, item)
        .iter()
        .all(|needed| states_value(&lesson.line, needed) || states_value(&lesson.content, needed))
}

/// Step of the turns that do not name a step.
const DEFAULT_STEP: &str = "main";

fn cause_statement(
    values: &Values,
    cause: &Cause,
    remedy: &CauseRemedy<'_>,
    step: &str,
    lesson: &Lesson,
) -> Statement {
    if cause.step != step {
        return Statement::Nothing;
    }
    let planned = planned_remedy(values, cause, remedy);
    let statement = state(lesson, &planned, remedy.memory);
    match &cause.guess {
        // A lesson may be about the call of an agent that guessed.
        Some(guess) if statement != Statement::Structure => {
            let guessed = PlannedCall { tool: &cause.tool, arguments: guess };
            match (Remedy { wrong: guessed, ..planned }).compare(lesson) {
                Agreement::Whole => Statement::Structure,
                _ => statement,
            }
        }
        _ => statement,
    }
}

/// Returns a remedy of a cause as the change of calls that it is.
pub(crate) fn planned_remedy<'w>(
    values: &'w Values,
    cause: &'w Cause,
    remedy: &CauseRemedy<'w>,
) -> Remedy<'w> {
    let earlier = remedy.look_up.iter().chain(remedy.first);
    Remedy {
        wrong: PlannedCall { tool: &cause.tool, arguments: &cause.arguments },
        right: PlannedCall { tool: remedy.tool, arguments: remedy.right },
        first: earlier.map(|call| PlannedCall { tool: &call.tool, arguments: &call.arguments }).collect(),
        waits: remedy.wait.is_some(),
        values: Some(values),
    }
}

fn trap_statement(trap: &Trap, step: &str, lesson: &Lesson) -> Statement {
    // A memory from a remark names no tool, so only its step can match.
    if trap.remark.is_some() {
        let here = trap.step == step || step == DEFAULT_STEP;
        let texts = remedy_texts(&trap_remedy(trap));
        // A lesson to leave the superstition out has its words, too.
        let is_against = trap_remedy(trap).compare(lesson) == Agreement::Against;
        let stated = here && !is_against && states_words(lesson, &trap.memory, &texts);
        return if stated { Statement::Words } else { Statement::Nothing };
    }
    if trap.step != step {
        return Statement::Nothing;
    }
    match state(lesson, &trap_remedy(trap), &trap.memory) {
        // Without its superstition, the lesson does not mislead.
        Statement::Error => Statement::Nothing,
        other => other,
    }
}

fn trap_remedy(trap: &Trap) -> Remedy<'_> {
    Remedy {
        wrong: PlannedCall { tool: &trap.tool, arguments: &trap.arguments },
        right: PlannedCall { tool: &trap.tool, arguments: &trap.superstition },
        first: Vec::new(),
        waits: false,
        values: None,
    }
}

fn remedy_texts(remedy: &Remedy<'_>) -> RemedyTexts {
    let right: Vec<&Value> = remedy.first.iter().chain([&remedy.right]).map(|call| call.arguments).collect();
    RemedyTexts::new(remedy.wrong.arguments, right)
}

fn state(lesson: &Lesson, remedy: &Remedy<'_>, pattern: &MemoryPattern) -> Statement {
    if !remedy.names().iter().any(|name| names_tool(lesson, name)) {
        return Statement::Nothing;
    }
    match remedy.compare(lesson) {
        Agreement::Whole => return Statement::Structure,
        Agreement::Against => return Statement::Nothing,
        Agreement::Part | Agreement::Unknown => {}
    }
    if states_words(lesson, pattern, &remedy_texts(remedy)) {
        return Statement::Words;
    }
    // A line that contains the words of the remedy and does not state them says the opposite.
    let opposite = contains_all_words(&lesson.line, &pattern.remedy);
    let names_error = !pattern.error.is_empty() && names_error(lesson, pattern);
    if names_error && !opposite { Statement::Error } else { Statement::Nothing }
}

fn names_tool(lesson: &Lesson, tool: &str) -> bool {
    lesson.tool.as_deref() == Some(tool) || lesson.line.contains(tool)
}

fn names_error(lesson: &Lesson, pattern: &MemoryPattern) -> bool {
    let cue = lesson.error.as_deref().unwrap_or_default();
    contains_all_words(&format!("{} {cue}", lesson.line), &pattern.error)
}

fn states_words(lesson: &Lesson, pattern: &MemoryPattern, texts: &RemedyTexts) -> bool {
    names_error(lesson, pattern) && states_remedy(&lesson.line, &pattern.remedy, texts)
}

/// Returns the truth of a claim after `run` runs: the best that is true of any item that it states.
pub(crate) fn evaluate_truth(workflow: &Workflow, claim: &MemoryClaim, run: u32) -> MemoryTruth {
    let fixed = |at: usize| {
        let cause = workflow.causes[at].get_ref();
        cause.is_fixed_at(run).then_some(cause.after)
    };
    let is_over = |item: &WorldItem| matches!(item, WorldItem::Cause(at, _) if fixed(*at).is_some());
    let of_item = |item: &WorldItem| match *item {
        WorldItem::Fact(_) | WorldItem::WayBack(_) => MemoryTruth::True,
        WorldItem::Trap(_) => MemoryTruth::Trap,
        WorldItem::WayOn(at, number) => {
            let is_over = fixed(at).is_some() || workflow.causes[at].get_ref().remedy_at(run) != number;
            if is_over { MemoryTruth::True } else { MemoryTruth::Noise }
        }
        WorldItem::Cause(at, number) => match fixed(at) {
            None if workflow.causes[at].get_ref().remedy_at(run) != number => MemoryTruth::Outdated,
            None => MemoryTruth::True,
            Some(AfterFix::Harmful) => MemoryTruth::Outdated,
            Some(AfterFix::Harmless | AfterFix::Gone) => MemoryTruth::Stale,
        },
    };
    let truths: Vec<MemoryTruth> = claim.items.iter().map(of_item).collect();
    let order =
        [MemoryTruth::True, MemoryTruth::Stale, MemoryTruth::Outdated, MemoryTruth::Trap, MemoryTruth::Noise];
    if let Some(truth) = order.into_iter().find(|truth| truths.contains(truth)) {
        return truth;
    }
    match claim.errors.as_slice() {
        [] if claim.inexact.is_empty() => MemoryTruth::Noise,
        _ if claim.inexact.iter().any(|item| !is_over(item)) => MemoryTruth::Vague,
        errors if errors.iter().all(|at| fixed(*at).is_some()) => MemoryTruth::Stale,
        _ => MemoryTruth::Vague,
    }
}

#[cfg(test)]
mod tests;
