//! The calls of a run, step by step, each with its arguments taken apart and its outcome judged. Code that an agent wrote in
//! a message and that a terminal ran is one too (`conversation`).

use std::collections::HashMap;

use retro_core::finding::Quote;
use retro_core::id::Step;
use retro_core::trajectory::{Place, ToolCall, Trajectory, Turn};

use super::arguments::Arguments;
use super::outcome::{self, Failure, Outcome};
use super::quote;
use super::{asked, conversation};

/// The most calls of a run that are looked at, from its start: far above an honest run, and a bound on the time
/// that one investigation takes (about a second).
pub(super) const CALLS_MAX: usize = 10_000;

/// One call of a tool.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) turn: u32,
    pub(super) nth: u32,
    /// Where the answer stands, where code in a message was run; `None` for a call that the log holds as one.
    pub(super) said_in: Option<Terminal>,
    /// Whether the log itself says what became of it.
    pub(super) flagged: bool,
    pub(super) tool: &'a str,
    /// The arguments as the log holds them.
    pub(super) raw: &'a str,
    pub(super) arguments: Arguments,
    /// The answer; empty when there is none.
    pub(super) answer: &'a str,
    pub(super) outcome: Outcome<'a>,
}

/// Where a terminal answered in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Terminal {
    /// The turn whose message is the answer.
    pub(super) turn: u32,
    /// Whether it speaks in the step of whoever wrote the code. Where it does not, it is the code that is quoted: what is found
    /// belongs to the step of its words, and only who writes code can mind a lesson about it.
    pub(super) of_step: bool,
}

/// The calls of one agentic step in their order.
#[derive(Debug)]
pub(super) struct StepCalls<'a> {
    pub(super) step: &'a Step,
    pub(super) calls: Vec<Call<'a>>,
}

/// The calls of every agentic step, steps in the order of their first call.
pub(super) fn by_step(trajectory: &Trajectory) -> Vec<StepCalls<'_>> {
    let mut steps: Vec<StepCalls<'_>> = Vec::new();
    let mut known: HashMap<&Step, usize> = HashMap::new();
    let turns = (0u32..).zip(&trajectory.turns).filter(|(_, turn)| turn.agentic);
    let all = turns.flat_map(|(at, turn)| {
        let held = (0u32..).zip(&turn.calls).map(move |(nth, call)| (turn, Call::held(at, nth, call)));
        let next = trajectory.turns.get(at as usize + 1);
        held.chain(next.and_then(|next| Call::said(at, turn, next)).map(|call| (turn, call)))
    });
    for (turn, call) in all.take(CALLS_MAX) {
        let index = *known.entry(&turn.step).or_insert_with(|| {
            steps.push(StepCalls { step: &turn.step, calls: Vec::new() });
            steps.len() - 1
        });
        steps[index].calls.push(call);
    }
    steps.iter_mut().for_each(|step| asked::judge_again(&mut step.calls));
    steps
}

impl<'a> Call<'a> {
    /// A call that the log holds as one.
    fn held(turn: u32, nth: u32, call: &'a ToolCall) -> Self {
        let arguments = Arguments::read(&call.arguments);
        let outcome = outcome::judge(call, &arguments);
        let answer = call.answer.as_deref().unwrap_or("");
        let (flagged, tool, raw) = (call.failed.is_some(), call.tool.as_str(), call.arguments.as_str());
        Self { turn, nth, said_in: None, flagged, tool, raw, arguments, answer, outcome }
    }

    /// The code in a message that the next turn says it ran.
    fn said(turn: u32, entry: &'a Turn, next: &'a Turn) -> Option<Self> {
        let conversation::Ran { tool, code: raw, failed, answer } = conversation::ran(entry, next)?;
        let arguments = if tool == "sh" { Arguments::read(raw) } else { Arguments::program(raw) };
        let outcome = outcome::of_terminal(failed, tool, &arguments, answer);
        let said_in = Some(Terminal { turn: turn + 1, of_step: entry.step == next.step });
        Some(Self { turn, nth: 0, said_in, flagged: true, tool, raw, arguments, answer, outcome })
    }

    /// A call that nothing says the failure of, as tests need one.
    #[cfg(test)]
    pub(super) fn answered(tool: &'a str, raw: &'a str, answer: &'a str) -> Self {
        let arguments = Arguments::read(raw);
        let outcome = Outcome::Succeeded;
        Self { turn: 0, nth: 0, said_in: None, flagged: false, tool, raw, arguments, answer, outcome }
    }

    /// How it failed; `None` when it did not.
    pub(super) const fn failure(&self) -> Option<&Failure<'a>> {
        match &self.outcome {
            Outcome::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    /// The signature of its error; empty when it has none, or none in words.
    pub(super) fn error(&self) -> &str {
        self.failure().map_or("", |failure| failure.error.as_str())
    }

    /// Whether it answered without failing.
    pub(super) const fn succeeded(&self) -> bool {
        matches!(self.outcome, Outcome::Succeeded)
    }

    /// The words that say that it failed; of code whose terminal speaks in another step, the line that the error names.
    pub(super) fn error_quote(&self) -> Option<Quote> {
        let line = self.failure()?.line;
        match self.said_in {
            Some(Terminal { of_step: false, .. }) if line.is_empty() => None,
            Some(Terminal { of_step: false, .. }) => {
                quote::of(Place::Message { turn: self.turn }, named_line(self.raw, line).unwrap_or(self.raw))
            }
            _ => quote::of(self.answer_place(), line),
        }
    }

    /// What it was given, else what it answered.
    pub(super) fn quote(&self) -> Option<Quote> {
        let (turn, call) = (self.turn, self.nth);
        let given = match self.said_in {
            Some(_) => Place::Message { turn },
            None => Place::Arguments { turn, call },
        };
        quote::of(given, self.raw).or_else(|| quote::of(self.answer_place(), self.answer))
    }

    const fn answer_place(&self) -> Place {
        match self.said_in {
            Some(Terminal { turn, .. }) => Place::Message { turn },
            None => Place::Answer { turn: self.turn, call: self.nth },
        }
    }

    /// What the call is about: the tool, and for a shell the program that complained.
    pub(super) fn subject(&self) -> String {
        self.program().map_or_else(|| self.tool.to_owned(), |program| format!("{} {program}", self.tool))
    }

    /// The program of a shell command that complained, by the prefix of its error.
    pub(super) fn program(&self) -> Option<&str> {
        program_of(self.error()).filter(|program| {
            self.arguments.command().is_some_and(|command| command.programs().any(|one| one == *program))
        })
    }
}

/// The line of a program that holds the name which an error puts in quotes.
fn named_line<'a>(code: &'a str, error: &str) -> Option<&'a str> {
    let name = error.split('\'').nth(1).filter(|name| !name.is_empty())?;
    code.lines().find(|line| line.contains(name))
}

/// The program named in front of an error signature, such as `tar` of `tar: …`.
pub(super) fn program_of(error: &str) -> Option<&str> {
    let (front, _) = error.split_once(": ")?;
    let is_name = front.len() <= 25
        && front.starts_with(|c: char| c.is_ascii_lowercase())
        && front.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_+.-".contains(c));
    is_name.then_some(front)
}
