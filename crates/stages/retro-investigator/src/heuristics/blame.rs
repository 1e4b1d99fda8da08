//! Locates the turn at which a failed run went wrong, as far as the trace shows.
//!
//! No trace states this, and no single sign is reliable, so the strongest of several signs decides. People
//! who read traces use the same signs. The strongest sign is an unresolved error: a call failed, and no later
//! call of its tool succeeded. If calls changed something and no error was left unresolved, no turn is
//! blamed, because blaming the last call that changed something was right in only one run of ten (set 02b).
//! If agents only talk, the signs are code that failed when it was executed, a crash, an answer that names no
//! source while others do, the first program, and the first contribution. Only the first sign is a fact; the
//! others are guesses. A guess appears in the report, marked as one, and in no lesson.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use regex::Regex;
use retro_core::finding::Fault;
use retro_core::id::Step;
use retro_core::trajectory::{QuotePlace, Trajectory, Turn, TurnSource};

use super::call::{Call, StepCalls};
use super::handled_errors::is_transient_error;
use super::{lookup, quote};

/// Sign that a turn is to blame. The variants are ordered from strongest to weakest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlameSign {
    /// A call failed, and no later call of its tool succeeded.
    UnresolvedError,
    /// The code in the turn was executed and failed.
    ExecutionFailed,
    /// The turn ends in an uncaught exception.
    UncaughtException,
    /// The turn names no source, although other turns name theirs.
    Unsourced,
    /// The turn contains the first program of the run.
    FirstProgram,
    /// The turn is the first contribution of the run.
    FirstContribution,
}

/// Turn at which a run probably went wrong, with the sign that points at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blame {
    /// 0-based index of the turn in the trajectory.
    pub turn: u32,
    /// Sign that points at the turn.
    pub sign: BlameSign,
}

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($text).expect("constant patterns compile"));
    };
}

// A code executor's report of a failure, in a conversation.
pattern!(EXECUTION_FAILED, r"(?i)\A\s*exit ?code:? [1-9]");
pattern!(EXECUTED, r"\A\s*(?:(?i:exit ?code:? [0-9])|There is no code from the last)");
// First words with which a browsing agent reports its actions or what it sees.
pattern!(
    LOOKED,
    concat!(
        r"(?s)\A(?:I (?:typed|clicked|scrolled|visited|went|hovered|pressed|waited|navigated|opened)(?-u:\b)|Address: |",
        r".{0,80}Here is a screenshot)"
    )
);
/// First line of the traceback of an uncaught Python exception.
const TRACEBACK: &str = "Traceback (most recent call last)";
/// Code fence that opens a program in a message.
const PROGRAM: &str = "```";

impl BlameSign {
    /// Returns a clause that describes the sign and can follow "probably".
    const fn description(self) -> &'static str {
        match self {
            Self::UnresolvedError => "a call failed, and no later call of its tool succeeded",
            Self::ExecutionFailed => "what it wrote was executed and failed",
            Self::UncaughtException => "it ends in an uncaught exception",
            Self::Unsourced => "others show where they looked, this one answers from memory",
            Self::FirstProgram => "the first program",
            Self::FirstContribution => "the first contribution",
        }
    }
}

/// Builds the guess for the report, with a quote from the blamed call or message. Returns `None` if there is
/// nothing to quote.
pub(super) fn build_fault(blame: Blame, trajectory: &Trajectory, steps: &[StepCalls<'_>]) -> Option<Fault> {
    let Blame { turn, sign } = blame;
    let calls = || steps.iter().flat_map(|step| &step.calls).filter(|call| call.turn == turn);
    let there = trajectory.turns.get(turn as usize)?;
    let to_quote = |(place, words): (QuotePlace, &str)| quote::quote_at(place, words);
    let quote = match sign {
        BlameSign::UnresolvedError => calls().find_map(Call::error_quote),
        BlameSign::ExecutionFailed
        | BlameSign::UncaughtException
        | BlameSign::Unsourced
        | BlameSign::FirstProgram
        | BlameSign::FirstContribution => [
            (QuotePlace::Message { turn }, &*there.message),
            (QuotePlace::Reasoning { turn }, &*there.reasoning),
        ]
        .into_iter()
        .find_map(to_quote),
    };
    Some(Fault { step: there.step.clone(), sign: sign.description().to_owned(), quote: quote? })
}

/// Finds the turn that is probably to blame for a failed run. Returns `None` if no agent contributed
/// anything, or if a call changed something and no error was left unresolved.
pub(super) fn find_blame(trajectory: &Trajectory, steps: &[StepCalls<'_>]) -> Option<Blame> {
    // Calls that were recovered from messages are excluded: conversations are judged by their messages.
    let is_logged = |call: &&Call<'_>| call.terminal.is_none();
    let mut calls: Vec<&Call<'_>> = steps.iter().flat_map(|step| &step.calls).filter(is_logged).collect();
    // Calls are grouped by step, but steps may alternate in the run.
    calls.sort_by_key(|call| (call.turn, call.call_index));
    let changed = calls.iter().any(|call| call.succeeded() && lookup::lookup_label(call).is_none());
    find_unresolved_error(&calls).or_else(|| if changed { None } else { find_blame_in_messages(trajectory) })
}

fn find_unresolved_error(calls: &[&Call<'_>]) -> Option<Blame> {
    let mut succeeded_later = HashSet::new();
    let mut stuck = None;
    // Backwards, so a call knows the tools that succeeded later. The earliest unresolved error overwrites the
    // others.
    for call in calls.iter().rev() {
        if call.succeeded() {
            succeeded_later.insert(call.tool);
        } else if call.failure().is_some()
            && !is_transient_error(call.error())
            && !succeeded_later.contains(call.tool)
        {
            stuck = Some(Blame { turn: call.turn, sign: BlameSign::UnresolvedError });
        }
    }
    stuck
}

fn find_blame_in_messages(trajectory: &Trajectory) -> Option<Blame> {
    let turns: Vec<(u32, &Turn)> = (0..).zip(&trajectory.turns).collect();
    let planners = planning_steps(trajectory);
    let at = |sign: BlameSign| move |(turn, _): &(u32, &Turn)| Blame { turn: *turn, sign };
    let refuted = turns
        .windows(2)
        .find(|pair| EXECUTION_FAILED.is_match(&pair[1].1.message))
        .map(|pair| at(BlameSign::ExecutionFailed)(&pair[0]));
    let crashed = || {
        let crashes = |turn: &Turn| turn.message.contains(TRACEBACK) || turn.reasoning.contains(TRACEBACK);
        turns
            .iter()
            .find(|(_, turn)| is_agent_speech(turn) && crashes(turn))
            .map(at(BlameSign::UncaughtException))
    };
    let works = |turn: &Turn| {
        is_agent_speech(turn) && !turn.message.trim().is_empty() && !planners.contains(&turn.step)
    };
    let cites_source = |turn: &Turn| LOOKED.is_match(&turn.message);
    // The first turn is the task.
    let contributions = || turns.iter().skip(1).filter(|(_, turn)| works(turn));
    let unsourced = || {
        let others_look = contributions().any(|(_, turn)| cites_source(turn));
        contributions().find(|(_, turn)| others_look && !cites_source(turn)).map(at(BlameSign::Unsourced))
    };
    let programmed = || {
        let programs = |turn: &Turn| works(turn) && turn.message.contains(PROGRAM);
        turns.iter().find(|(_, turn)| programs(turn)).map(at(BlameSign::FirstProgram))
    };
    let began = || contributions().next().map(at(BlameSign::FirstContribution));
    refuted.or_else(crashed).or_else(unsourced).or_else(programmed).or_else(began)
}

/// Returns `true` if an agent itself wrote the turn, not the executor of its programs.
fn is_agent_speech(turn: &Turn) -> bool {
    turn.source == TurnSource::Agent && !EXECUTED.is_match(&turn.message)
}

/// Returns the steps that plan for other steps: those with a turn that has reasoning, but no message and no
/// call.
fn planning_steps(trajectory: &Trajectory) -> HashSet<&Step> {
    let mut others: HashMap<&Step, bool> = HashMap::new();
    for turn in &trajectory.turns {
        let only_thinks = turn.message.is_empty() && !turn.reasoning.is_empty() && turn.calls.is_empty();
        *others.entry(&turn.step).or_default() |= only_thinks;
    }
    let planners: HashSet<_> = others.iter().filter(|(_, plans)| **plans).map(|(step, _)| *step).collect();
    // If every step plans, none of them plans for the others.
    if planners.len() == others.len() { HashSet::new() } else { planners }
}

#[cfg(test)]
mod tests {
    use retro_core::trajectory::ToolCall;

    use super::super::call::calls_by_step;
    use super::*;

    fn turn_saying(step: &str, source: TurnSource, message: &str) -> Turn {
        Turn {
            at: None,
            step: Step::new(step).unwrap(),
            entry: None,
            agentic: true,
            source,
            message: message.to_owned(),
            reasoning: String::new(),
            calls: Vec::new(),
        }
    }

    fn agent(step: &str, message: &str) -> Turn {
        turn_saying(step, TurnSource::Agent, message)
    }

    fn called(tool: &str, answer: &str) -> Turn {
        let call = ToolCall {
            tool: tool.to_owned(),
            arguments: "{}".to_owned(),
            answer: Some(answer.to_owned()),
            failed: None,
        };
        Turn { calls: vec![call], ..agent("main", "") }
    }

    fn blamed(turns: Vec<Turn>) -> Option<(u32, BlameSign)> {
        let trajectory = Trajectory::from(turns);
        find_blame(&trajectory, &calls_by_step(&trajectory)).map(|blame| (blame.turn, blame.sign))
    }

    #[test]
    fn the_first_unresolved_error_is_blamed() {
        let error = "Error: no such order";
        let turns =
            vec![called("book", error), called("book", "{}"), called("pay", error), called("pay", error)];
        assert_eq!(blamed(turns), Some((2, BlameSign::UnresolvedError)));
        let turns = vec![called("book", error), called("book", "{}"), called("get_order", "{}")];
        assert_eq!(blamed(turns), None, "nothing was given up");
        assert_eq!(blamed(vec![called("get_order", "HTTP 503 Service Unavailable")]), None);
    }

    fn guess_of(turns: Vec<Turn>) -> Option<(String, String)> {
        let trajectory = Trajectory::from(turns);
        let steps = calls_by_step(&trajectory);
        let fault = build_fault(find_blame(&trajectory, &steps)?, &trajectory, &steps)?;
        Some((fault.step.to_string(), fault.quote.text))
    }

    #[test]
    fn a_guess_names_the_agent_and_quotes_it() {
        let turns = vec![called("book", "Error: no such order")];
        assert_eq!(guess_of(turns), Some(("main".to_owned(), "Error: no such order".to_owned())));
        let turns =
            vec![turn_saying("human", TurnSource::User, "Count them"), agent("counter", "There are 7.")];
        assert_eq!(guess_of(turns), Some(("counter".to_owned(), "There are 7.".to_owned())));
    }

    #[test]
    fn code_that_fails_when_executed_is_blamed() {
        let task = turn_saying("human", TurnSource::User, "Count them");
        let turns = vec![
            task.clone(),
            agent("a", "I shall count."),
            agent("b", "```\ncount()\n```"),
            agent("terminal", "exitcode: 1 (execution failed)\nNameError: count"),
        ];
        assert_eq!(blamed(turns.clone()), Some((2, BlameSign::ExecutionFailed)));
        assert_eq!(blamed(turns[..3].to_vec()), Some((2, BlameSign::FirstProgram)));
        assert_eq!(blamed(turns[..2].to_vec()), Some((1, BlameSign::FirstContribution)));
        assert_eq!(blamed(vec![task]), None);
    }

    #[test]
    fn an_unsourced_answer_is_blamed_when_others_cite_sources() {
        let plan = Turn { reasoning: "Ask the browser".to_owned(), ..agent("planner", "") };
        let turns = vec![
            turn_saying("human", TurnSource::User, "Where is it?"),
            plan,
            agent("planner", "Please look it up"),
            agent("browser", "I typed 'it' into the search bar. Here is a screenshot of it"),
            agent("assistant", "It is generally known to be there"),
        ];
        assert_eq!(blamed(turns.clone()), Some((4, BlameSign::Unsourced)));
        assert_eq!(blamed(turns[..4].to_vec()), Some((3, BlameSign::FirstContribution)));
        let crash = "Error processing publish message\nTraceback (most recent call last)";
        let crashed = [turns, vec![agent("planner", crash)]].concat();
        assert_eq!(blamed(crashed), Some((5, BlameSign::UncaughtException)));
    }
}
