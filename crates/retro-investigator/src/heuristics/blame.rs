//! Where a failed run went wrong, as far as its trace shows it.
//!
//! Nobody says so in a trace, and no single sign is reliable; what is told is the strongest of a few, each of which is a
//! way in which people find it. Calls come first: an error that nothing got past. Where calls changed something and none was
//! given up, nothing is said: the last of them was right in one run of ten (set 02b), which is no news to anybody.
//! Where agents only talk, it is the work that its execution refuted, a crash, an answer that names no source among others
//! that do, the first program, the first contribution. Only the first of these is a fact; the others are a guess. A guess is
//! said in the report, as one, and in no lesson.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use regex::Regex;
use retro_core::finding::Fault;
use retro_core::id::Step;
use retro_core::trajectory::{Place, Source, Trajectory, Turn};

use super::call::{Call, StepCalls};
use super::errors::passes;
use super::{lookup, quote};

/// Why a turn is blamed, the strongest sign first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// A call failed, and no later call of its tool succeeded.
    NothingGotPast,
    /// What it wrote was executed and failed.
    Refuted,
    /// It ends in an uncaught exception.
    Crashed,
    /// Others show where they looked; this one answers from memory.
    Unsourced,
    /// The first program.
    Programmed,
    /// The first contribution.
    Began,
}

/// The turn at which a run went wrong, and the sign of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blame {
    /// Index of the turn, from 0.
    pub turn: u32,
    /// Why.
    pub sign: Sign,
}

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| Regex::new($text).expect("a constant pattern"));
    };
}

// What an executor answers in a conversation.
pattern!(EXECUTION_FAILED, r"(?i)\A\s*exit ?code:? [1-9]");
pattern!(EXECUTED, r"\A\s*(?:(?i:exit ?code:? [0-9])|There is no code from the last)");
// What a browsing agent says that it did, and what it saw.
pattern!(
    LOOKED,
    concat!(
        r"(?s)\A(?:I (?:typed|clicked|scrolled|visited|went|hovered|pressed|waited|navigated|opened)(?-u:\b)|Address: |",
        r".{0,80}Here is a screenshot)"
    )
);
/// How an uncaught exception of Python begins.
const TRACEBACK: &str = "Traceback (most recent call last)";
/// How a program begins in a message.
const PROGRAM: &str = "```";

impl Sign {
    /// What speaks for it, as half a sentence after "probably".
    const fn told(self) -> &'static str {
        match self {
            Self::NothingGotPast => "a call failed, and no later call of its tool succeeded",
            Self::Refuted => "what it wrote was executed and failed",
            Self::Crashed => "it ends in an uncaught exception",
            Self::Unsourced => "others show where they looked, this one answers from memory",
            Self::Programmed => "the first program",
            Self::Began => "the first contribution",
        }
    }
}

/// The guess with the words of its turn: of the call that it is about, or of what was said. `None` when there are none.
pub(super) fn fault(blame: Blame, trajectory: &Trajectory, steps: &[StepCalls<'_>]) -> Option<Fault> {
    let Blame { turn, sign } = blame;
    let calls = || steps.iter().flat_map(|step| &step.calls).filter(|call| call.turn == turn);
    let there = trajectory.turns.get(turn as usize)?;
    let said = |(place, words): (Place, &str)| quote::of(place, words);
    let quote = match sign {
        Sign::NothingGotPast => calls().find_map(Call::error_quote),
        Sign::Refuted | Sign::Crashed | Sign::Unsourced | Sign::Programmed | Sign::Began => {
            [(Place::Message { turn }, &*there.message), (Place::Reasoning { turn }, &*there.reasoning)]
                .into_iter()
                .find_map(said)
        }
    };
    Some(Fault { step: there.step.clone(), sign: sign.told().to_owned(), quote: quote? })
}

/// The turn of a failed run to blame; `None` when it holds nothing that anybody did, or only calls that worked.
pub(super) fn of(trajectory: &Trajectory, steps: &[StepCalls<'_>]) -> Option<Blame> {
    // What was run out of a message is judged by the words around it, as everything is that agents only talk about.
    let held = |call: &&Call<'_>| call.said_in.is_none();
    let mut calls: Vec<&Call<'_>> = steps.iter().flat_map(|step| &step.calls).filter(held).collect();
    calls.sort_by_key(|call| (call.turn, call.nth));
    let changed = calls.iter().any(|call| call.succeeded() && lookup::label(call).is_none());
    stuck(&calls).or_else(|| if changed { None } else { by_words(trajectory) })
}

fn stuck(calls: &[&Call<'_>]) -> Option<Blame> {
    let mut succeeded_later = HashSet::new();
    let mut stuck = None;
    for call in calls.iter().rev() {
        if call.succeeded() {
            succeeded_later.insert(call.tool);
        } else if call.failure().is_some() && !passes(call.error()) && !succeeded_later.contains(call.tool) {
            stuck = Some(Blame { turn: call.turn, sign: Sign::NothingGotPast });
        }
    }
    stuck
}

fn by_words(trajectory: &Trajectory) -> Option<Blame> {
    let turns: Vec<(u32, &Turn)> = (0..).zip(&trajectory.turns).collect();
    let planners = planners(trajectory);
    let at = |sign: Sign| move |(turn, _): &(u32, &Turn)| Blame { turn: *turn, sign };
    let refuted = turns
        .windows(2)
        .find(|pair| EXECUTION_FAILED.is_match(&pair[1].1.message))
        .map(|pair| at(Sign::Refuted)(&pair[0]));
    let crashed = || {
        let crashes = |turn: &Turn| turn.message.contains(TRACEBACK) || turn.reasoning.contains(TRACEBACK);
        turns.iter().find(|(_, turn)| says_itself(turn) && crashes(turn)).map(at(Sign::Crashed))
    };
    let works =
        |turn: &Turn| says_itself(turn) && !turn.message.trim().is_empty() && !planners.contains(&turn.step);
    let looked = |turn: &Turn| LOOKED.is_match(&turn.message);
    // What is said first is the task.
    let contributions = || turns.iter().skip(1).filter(|(_, turn)| works(turn));
    let unsourced = || {
        let others_look = contributions().any(|(_, turn)| looked(turn));
        contributions().find(|(_, turn)| others_look && !looked(turn)).map(at(Sign::Unsourced))
    };
    let programmed = || {
        let programs = |turn: &Turn| works(turn) && turn.message.contains(PROGRAM);
        turns.iter().find(|(_, turn)| programs(turn)).map(at(Sign::Programmed))
    };
    let began = || contributions().next().map(at(Sign::Began));
    refuted.or_else(crashed).or_else(unsourced).or_else(programmed).or_else(began)
}

/// Whether an agent speaks, and not what executes its programs.
fn says_itself(turn: &Turn) -> bool {
    turn.source == Source::Agent && !EXECUTED.is_match(&turn.message)
}

/// The steps that plan for others: they think in turns of their own, in which they neither speak nor act.
fn planners(trajectory: &Trajectory) -> HashSet<&Step> {
    let mut others: HashMap<&Step, bool> = HashMap::new();
    for turn in &trajectory.turns {
        let only_thinks = turn.message.is_empty() && !turn.reasoning.is_empty() && turn.calls.is_empty();
        *others.entry(&turn.step).or_default() |= only_thinks;
    }
    let planners: HashSet<_> = others.iter().filter(|(_, plans)| **plans).map(|(step, _)| *step).collect();
    // Where everybody plans, nobody plans for others.
    if planners.len() == others.len() { HashSet::new() } else { planners }
}

#[cfg(test)]
mod tests {
    use retro_core::trajectory::ToolCall;

    use super::super::call::by_step;
    use super::*;

    fn said(step: &str, source: Source, message: &str) -> Turn {
        Turn {
            step: Step::new(step).unwrap(),
            agentic: true,
            source,
            message: message.to_owned(),
            reasoning: String::new(),
            calls: Vec::new(),
        }
    }

    fn agent(step: &str, message: &str) -> Turn {
        said(step, Source::Agent, message)
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

    fn blamed(turns: Vec<Turn>) -> Option<(u32, Sign)> {
        let trajectory = Trajectory { turns };
        of(&trajectory, &by_step(&trajectory)).map(|blame| (blame.turn, blame.sign))
    }

    #[test]
    fn the_first_error_that_nothing_got_past_is_blamed() {
        let error = "Error: no such order";
        let turns =
            vec![called("book", error), called("book", "{}"), called("pay", error), called("pay", error)];
        assert_eq!(blamed(turns), Some((2, Sign::NothingGotPast)));
        let turns = vec![called("book", error), called("book", "{}"), called("get_order", "{}")];
        assert_eq!(blamed(turns), None, "nothing was given up");
        assert_eq!(blamed(vec![called("get_order", "HTTP 503 Service Unavailable")]), None);
    }

    fn told(turns: Vec<Turn>) -> Option<(String, String)> {
        let trajectory = Trajectory { turns };
        let steps = by_step(&trajectory);
        let fault = fault(of(&trajectory, &steps)?, &trajectory, &steps)?;
        Some((fault.step.to_string(), fault.quote.text))
    }

    #[test]
    fn a_guess_names_the_agent_and_quotes_it() {
        let turns = vec![called("book", "Error: no such order")];
        assert_eq!(told(turns), Some(("main".to_owned(), "Error: no such order".to_owned())));
        let turns = vec![said("human", Source::User, "Count them"), agent("counter", "There are 7.")];
        assert_eq!(told(turns), Some(("counter".to_owned(), "There are 7.".to_owned())));
    }

    #[test]
    fn work_that_its_execution_refutes_is_blamed() {
        let task = said("human", Source::User, "Count them");
        let turns = vec![
            task.clone(),
            agent("a", "I shall count."),
            agent("b", "```\ncount()\n```"),
            agent("terminal", "exitcode: 1 (execution failed)\nNameError: count"),
        ];
        assert_eq!(blamed(turns.clone()), Some((2, Sign::Refuted)));
        assert_eq!(blamed(turns[..3].to_vec()), Some((2, Sign::Programmed)));
        assert_eq!(blamed(turns[..2].to_vec()), Some((1, Sign::Began)));
        assert_eq!(blamed(vec![task]), None);
    }

    #[test]
    fn an_answer_without_a_source_is_blamed_among_agents_that_look() {
        let plan = Turn { reasoning: "Ask the browser".to_owned(), ..agent("planner", "") };
        let turns = vec![
            said("human", Source::User, "Where is it?"),
            plan,
            agent("planner", "Please look it up"),
            agent("browser", "I typed 'it' into the search bar. Here is a screenshot of it"),
            agent("assistant", "It is generally known to be there"),
        ];
        assert_eq!(blamed(turns.clone()), Some((4, Sign::Unsourced)));
        assert_eq!(blamed(turns[..4].to_vec()), Some((3, Sign::Began)));
        let crash = "Error processing publish message\nTraceback (most recent call last)";
        let crashed = [turns, vec![agent("planner", crash)]].concat();
        assert_eq!(blamed(crashed), Some((5, Sign::Crashed)));
    }
}
