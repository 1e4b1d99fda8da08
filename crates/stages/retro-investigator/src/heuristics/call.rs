//! Groups the calls of a run by step, parses their arguments and judges their outcomes. Code that an agent
//! wrote in a message and a terminal executed also counts as a call (`conversation`).

use std::collections::HashMap;

use retro_core::finding::Quote;
use retro_core::id::Step;
use retro_core::trajectory::{QuotePlace, ToolCall, Trajectory, Turn};

use super::arguments::Arguments;
use super::outcome::{self, CallFailure, CallOutcome};
use super::quote;
use super::{conversation, signature, soft_failure};

/// Maximum number of calls considered per run, far more than a genuine run makes. Bounds the time of one
/// investigation to about a second.
pub(super) const CALLS_MAX: usize = 10_000;

/// One call of a tool, with its parsed arguments and its outcome.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) turn: u32,
    pub(super) call_index: u32,
    /// Message with the terminal's answer if the call was recovered from a message; `None` for a call in the
    /// log.
    pub(super) terminal: Option<TerminalAnswer>,
    /// `true` if the log itself records whether the call failed.
    pub(super) flagged: bool,
    pub(super) tool: &'a str,
    /// Arguments as recorded in the log.
    pub(super) raw: &'a str,
    pub(super) arguments: Arguments,
    /// Answer of the tool; empty if there is none.
    pub(super) answer: &'a str,
    pub(super) outcome: CallOutcome<'a>,
}

/// Message in which a terminal answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TerminalAnswer {
    /// 0-based index of the turn whose message is the answer.
    pub(super) turn: u32,
    /// `true` if the answer is in the same step as the code. Otherwise a finding quotes the code: a finding
    /// belongs to the step of its quote, and only the step that writes the code can follow a lesson about it.
    pub(super) in_same_step: bool,
}

/// Calls of one agentic step, in the order of the run.
#[derive(Debug)]
pub(super) struct StepCalls<'a> {
    pub(super) step: &'a Step,
    pub(super) calls: Vec<Call<'a>>,
}

/// Returns the calls of each agentic step. Steps are ordered by their first call.
pub(super) fn calls_by_step(trajectory: &Trajectory) -> Vec<StepCalls<'_>> {
    let mut steps: Vec<StepCalls<'_>> = Vec::new();
    let mut known: HashMap<&Step, usize> = HashMap::new();
    let turns = (0u32..).zip(&trajectory.turns).filter(|(_, turn)| turn.agentic);
    let all = turns.flat_map(|(at, turn)| {
        let logged = (0u32..).zip(&turn.calls).map(move |(nth, call)| (turn, Call::from_log(at, nth, call)));
        let next = trajectory.turns.get(at as usize + 1);
        logged.chain(next.and_then(|next| Call::from_message(at, turn, next)).map(|call| (turn, call)))
    });
    for (turn, call) in all.take(CALLS_MAX) {
        let index = *known.entry(&turn.step).or_insert_with(|| {
            steps.push(StepCalls { step: &turn.step, calls: Vec::new() });
            steps.len() - 1
        });
        steps[index].calls.push(call);
    }
    steps.iter_mut().for_each(|step| soft_failure::rejudge_calls(&mut step.calls));
    steps
}

impl<'a> Call<'a> {
    /// Creates a call from a tool call in the log.
    fn from_log(turn: u32, nth: u32, call: &'a ToolCall) -> Self {
        let arguments = Arguments::parse(&call.arguments);
        let mut outcome = outcome::judge_outcome(call, &arguments);
        if let CallOutcome::Failed(failure) = &mut outcome {
            failure.error = signature::mask_arguments(std::mem::take(&mut failure.error), &arguments);
        }
        let answer = call.answer.as_deref().unwrap_or("");
        let (flagged, tool, raw) = (call.failed.is_some(), call.tool.as_str(), call.arguments.as_str());
        Self { turn, call_index: nth, terminal: None, flagged, tool, raw, arguments, answer, outcome }
    }

    /// Creates a call from the code in a message if the next turn reports its execution.
    fn from_message(turn: u32, entry: &'a Turn, next: &'a Turn) -> Option<Self> {
        let conversation::ExecutedCode { tool, code: raw, failed, answer } =
            conversation::find_executed_code(entry, next)?;
        let arguments = if tool == "sh" { Arguments::parse(raw) } else { Arguments::parse_program(raw) };
        let outcome = outcome::judge_terminal(failed, tool, &arguments, answer);
        let said_in = Some(TerminalAnswer { turn: turn + 1, in_same_step: entry.step == next.step });
        Some(Self {
            turn,
            call_index: 0,
            terminal: said_in,
            flagged: true,
            tool,
            raw,
            arguments,
            answer,
            outcome,
        })
    }

    /// Creates a successful call for tests.
    #[cfg(test)]
    pub(super) fn with_answer(tool: &'a str, raw: &'a str, answer: &'a str) -> Self {
        let arguments = Arguments::parse(raw);
        let outcome = CallOutcome::Succeeded;
        Self { turn: 0, call_index: 0, terminal: None, flagged: false, tool, raw, arguments, answer, outcome }
    }

    /// Returns the failure, or `None` if the call did not fail.
    pub(super) const fn failure(&self) -> Option<&CallFailure<'a>> {
        match &self.outcome {
            CallOutcome::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    /// Returns the signature of the error; empty if the call did not fail or the failure has no text.
    pub(super) fn error(&self) -> &str {
        self.failure().map_or("", |failure| failure.error.as_str())
    }

    /// Returns `true` if the call was answered and did not fail.
    pub(super) const fn succeeded(&self) -> bool {
        matches!(self.outcome, CallOutcome::Succeeded)
    }

    /// Quotes the line that reports the failure. If a terminal answered in another step, quotes the line of
    /// code that contains the name in the error, or the whole code if no line does.
    pub(super) fn error_quote(&self) -> Option<Quote> {
        let line = self.failure()?.line;
        match self.terminal {
            Some(TerminalAnswer { in_same_step: false, .. }) if line.is_empty() => None,
            Some(TerminalAnswer { in_same_step: false, .. }) => quote::quote_at(
                QuotePlace::Message { turn: self.turn },
                find_named_line(self.raw, line).unwrap_or(self.raw),
            ),
            _ => quote::quote_at(self.answer_place(), line),
        }
    }

    /// Quotes a part of the answer.
    pub(super) fn quote_answer(&self, words: &str) -> Option<Quote> {
        quote::quote_at(self.answer_place(), words)
    }

    /// Quotes the arguments or, if there are none, the answer.
    pub(super) fn quote(&self) -> Option<Quote> {
        let (turn, call) = (self.turn, self.call_index);
        let given = match self.terminal {
            Some(_) => QuotePlace::Message { turn },
            None => QuotePlace::Arguments { turn, call },
        };
        quote::quote_at(given, self.raw).or_else(|| quote::quote_at(self.answer_place(), self.answer))
    }

    const fn answer_place(&self) -> QuotePlace {
        match self.terminal {
            Some(TerminalAnswer { turn, .. }) => QuotePlace::Message { turn },
            None => QuotePlace::Answer { turn: self.turn, call: self.call_index },
        }
    }

    /// Returns the subject of the call: the tool and, in a shell, the program that reported the error.
    pub(super) fn subject(&self) -> String {
        self.complaining_program()
            .map_or_else(|| self.tool.to_owned(), |program| format!("{} {program}", self.tool))
    }

    /// Returns the program of a shell command that reported the error, according to the error's prefix.
    pub(super) fn complaining_program(&self) -> Option<&str> {
        program_of_error(self.error()).filter(|program| {
            self.arguments.as_command().is_some_and(|command| command.programs().any(|one| one == *program))
        })
    }
}

/// Returns the first line of code that contains the name quoted in the error.
fn find_named_line<'a>(code: &'a str, error: &str) -> Option<&'a str> {
    let name = error.split('\'').nth(1).filter(|name| !name.is_empty())?;
    code.lines().find(|line| line.contains(name))
}

/// Returns the program that prefixes an error signature, such as `tar` in `tar: …`.
pub(super) fn program_of_error(error: &str) -> Option<&str> {
    let (front, _) = error.split_once(": ")?;
    let is_name = front.len() <= 25
        && front.starts_with(|c: char| c.is_ascii_lowercase())
        && front.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_+.-".contains(c));
    is_name.then_some(front)
}
