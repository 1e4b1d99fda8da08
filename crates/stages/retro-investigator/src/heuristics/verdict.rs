//! Judges the effect of each presented memory in its step from the trace alone. Only all runs of a
//! retrospective together show whether a run without the memory had the same failure; in that case,
//! `retro_core::learn::settle_investigations` withdraws a *harmed* verdict.
//!
//! A memory whose cue names a tool is judged by calls. *Its calls* are the calls of that tool, in the
//! memory's step, that have the program or the parameter that the memory is about. *Its own error* is the
//! error in the memory's cue. If there are no such calls, the verdict is **cue not met**. Otherwise the
//! verdict depends on what the memory prefers:
//!
//! * **A manner of the call** (a parameter, an option, …). A call follows the memory if it was made in that
//!   manner. *Helped*: such a call succeeded, and the memory's own error occurred at most once before the
//!   first such call and never after it. *Applied*: such a call succeeded, but the error occurred more often;
//!   or it is unknown how these calls ended. *Harmed*: no such call succeeded, and one failed with the
//!   memory's own error or with an error that no earlier call of this run had returned. An error that had
//!   occurred before, or that is transient, is not the memory's fault, so the verdict is *applied*.
//!   *Ignored*: no call was made in that manner.
//! * **Something before the call** (a look-up, another tool). The memory is followed if such a preparing call
//!   was made. *Helped*: the preparing call succeeded, and so did the memory's next call (or another tool was
//!   called in its place). *Applied*: the memory's next call failed, or there was no next call. *Harmed*: the next call
//!   has named parameters and returned an error that is not its own and that no earlier call of this run had returned,
//!   or every preparing call failed, and one of them with an error; neither counts if it is transient.
//!   *Ignored*: there was no preparing call.
//! * **Nothing that one call can show.** A memory about repeating a call has its own error as its cue:
//!   *ignored* if the identical call (or a second variation) followed the error, *helped* if the next call
//!   was a different one and succeeded, otherwise *applied*. A memory that warns of an error: *ignored* if
//!   the error occurred. If it did not occur, *helped* only if the agent's words before a call contain the
//!   words of the lesson, otherwise *ignored*, because an error may also disappear without the memory.
//!
//! A memory that hands on what a tool's answer states is judged by its words if its tool was called.
//!
//! A memory without a tool is judged conservatively by its words. *Harmed*: a call (the name of its tool and
//! its arguments) contains most of the memory's content words and failed with an error that is not transient
//! and had not occurred before, and no such call succeeded. *Applied*: one turn of the agent contains most of
//! these words (never for a prohibition). *Cue not met*: its step did not occur. Otherwise *ignored*. A rule
//! of the repository is judged by its words over the whole run (`rule`).

mod rule;

use std::collections::BTreeSet;

use retro_core::finding::{BriefMemory, InvestigationBrief, MemoryVerdict, Quote, VerdictRecord};
use retro_core::trajectory::{QuotePlace, Turn, TurnSource};

use super::call::{Call, StepCalls, program_of_error};
use super::handled_errors::is_transient_error;
use super::manner::Manner;
use super::quote;

/// Maximum number of turns, from the start of a step, whose text is compared with a memory.
const TURNS_READ_MAX: usize = 2_000;
/// Maximum number of characters of each text in a turn that are compared with a memory.
const TURN_CHARS_MAX: usize = 4_000;
/// Minimum share of a memory's content words that one text must contain, in per cent.
const WORDS_SHARED_MIN: usize = 60;
/// Minimum number of a memory's content words that one text must contain.
const WORDS_MIN: usize = 3;
/// Maximum number of memories judged per run. The policy presents ten.
const MEMORIES_MAX: usize = 100;

/// Judges every presented memory for which the trace contains evidence.
pub(super) fn judge_presented_memories(
    brief: &InvestigationBrief,
    steps: &[StepCalls<'_>],
) -> Vec<VerdictRecord> {
    let presented = brief.memories.iter().filter(|memory| memory.presented).take(MEMORIES_MAX);
    presented.filter_map(|memory| MemoryCase::new(brief, steps, memory).judge()).collect()
}

/// Memory to be judged, with the calls and turns of its step.
struct MemoryCase<'b> {
    memory: &'b BriefMemory,
    /// All calls of the memory's step.
    calls: &'b [Call<'b>],
    turns: Vec<(u32, &'b Turn)>,
    prefer: Option<Manner>,
    avoid: Option<Manner>,
}

/// Verdict with its reason and a quote. Only the verdict "cue not met" is valid without a quote.
struct Ruling(MemoryVerdict, String, Option<Quote>);

impl<'b> MemoryCase<'b> {
    fn new(brief: &'b InvestigationBrief, steps: &'b [StepCalls<'b>], memory: &'b BriefMemory) -> Self {
        let of_step = |one: &&StepCalls<'_>| Some(one.step) == memory.step.as_ref();
        let calls = steps.iter().find(of_step).map_or(&[][..], |one| one.calls.as_slice());
        let turns = (0u32..).zip(&brief.trajectory.turns);
        let within = |turn: &Turn| memory.step.as_ref().is_none_or(|step| turn.step == *step);
        let turns = turns.filter(|(_, turn)| turn.agentic && within(turn)).take(TURNS_READ_MAX).collect();
        let parse_manner = |text: &Option<String>| text.as_deref().map(Manner::parse);
        Self {
            memory,
            calls,
            turns,
            prefer: parse_manner(&memory.cue.prefer),
            avoid: parse_manner(&memory.cue.avoid),
        }
    }

    fn judge(&self) -> Option<VerdictRecord> {
        let Ruling(verdict, reason, quote) = match self.memory.cue.tool.as_deref() {
            _ if self.memory.step.is_none() => self.judge_by_rule()?,
            None => self.judge_by_words(),
            Some(tool) => self.judge_by_calls(tool),
        };
        // A verdict without a quote has no evidence, so it is dropped.
        let stands = quote.is_some() || verdict == MemoryVerdict::CueNotMet;
        stands.then_some(VerdictRecord { memory: self.memory.id, verdict, reason, quote })
    }

    fn judge_by_calls(&self, tool: &str) -> Ruling {
        let own: Vec<&Call<'_>> =
            self.calls.iter().filter(|call| call.tool == tool && self.concerns_call(call)).collect();
        let Some(last) = own.last() else {
            return Ruling(
                MemoryVerdict::CueNotMet,
                format!("`{tool}` was not called in a way that it is about"),
                None,
            );
        };
        match &self.prefer {
            Some(Manner::AsDocumented(statement)) => self.judge_by_statement(statement, last),
            Some(Manner::AfterPause(_)) => self.judge_by_error(&own, last),
            Some(prefer) => match prefer.other_call() {
                Some(other) => self.judge_by_earlier_call(other, last),
                None => self.judge_by_manner(prefer, &own, last),
            },
            None if self.avoid == Some(Manner::SameCallAgain) => self.judge_by_repeats(&own),
            None => self.judge_by_error(&own, last),
        }
    }

    fn concerns_call(&self, call: &Call<'_>) -> bool {
        let program = self.memory.cue.error.as_deref().and_then(program_of_error);
        let runs_it = program.is_none_or(|program| {
            call.arguments.as_command().is_none_or(|command| command.programs().any(|one| one == program))
        });
        let could = |manner: &Option<Manner>| manner.as_ref().is_none_or(|manner| manner.applies_to(call));
        // A tool with named parameters answers with the error because one of them is missing. The error of a command may be
        // that of any program.
        let is_missing_it = self.has_own_error(call) && call.arguments.as_command().is_none();
        (runs_it || self.has_own_error(call))
            && (is_missing_it || (could(&self.prefer) && could(&self.avoid)))
    }

    fn has_own_error(&self, call: &Call<'_>) -> bool {
        let error = self.memory.cue.error.as_deref().unwrap_or("");
        !error.is_empty() && Some(call.tool) == self.memory.cue.tool.as_deref() && call.error() == error
    }

    fn judge_by_manner(&self, prefer: &Manner, own: &[&Call<'_>], last: &Call<'_>) -> Ruling {
        let follows = |call: &Call<'_>| {
            prefer.matches_call(call) && !self.avoid.as_ref().is_some_and(|avoid| avoid.matches_call(call))
        };
        let Some(first) = own.iter().position(|call| follows(call)) else {
            let reason = format!("called {} times, never {prefer}", own.len());
            return Ruling(MemoryVerdict::Ignored, reason, self.ignored_quote(own, last));
        };
        let followed = || own[first..].iter().filter(|call| follows(call));
        if let Some(worked) = followed().find(|call| call.succeeded()) {
            let errors = |calls: &[&Call<'_>]| calls.iter().filter(|call| self.has_own_error(call)).count();
            let error_stopped = errors(&own[..first]) <= 1 && errors(&own[first..]) == 0;
            let (verdict, how) = if error_stopped {
                (MemoryVerdict::Helped, "and its error did not come from there on")
            } else {
                (MemoryVerdict::Applied, "but its error came more than once, or again")
            };
            return Ruling(verdict, format!("called {prefer}, {how}"), worked.quote());
        }
        let before =
            |error: &str| own[..first].iter().any(|call| call.failure().is_some() && call.error() == error);
        let harmful = followed().find(|call| {
            call.failure().is_some()
                && !is_transient_error(call.error())
                && (self.has_own_error(call) || !before(call.error()))
        });
        match harmful {
            Some(call) => {
                let reason = format!("called {prefer}, and that call failed");
                Ruling(MemoryVerdict::Harmed, reason, call.error_quote().or_else(|| call.quote()))
            }
            None => Ruling(
                MemoryVerdict::Applied,
                format!("called {prefer}; it made no difference that shows"),
                own[first].quote(),
            ),
        }
    }

    fn judge_by_earlier_call(&self, prefer: &Manner, last: &Call<'_>) -> Ruling {
        let followed: Vec<usize> =
            (0..self.calls.len()).filter(|at| prefer.matches_call(&self.calls[*at])).collect();
        let Some(first) = followed.first() else {
            let own: Vec<_> = self.calls.iter().filter(|call| self.has_own_error(call)).collect();
            return Ruling(
                MemoryVerdict::Ignored,
                format!("never called {prefer}"),
                self.ignored_quote(&own, last),
            );
        };
        let Some(worked) = followed.iter().find(|at| self.calls[**at].succeeded()) else {
            let call = &self.calls[*first];
            let harmful = followed
                .iter()
                .map(|at| &self.calls[*at])
                .find(|call| call.failure().is_some() && !is_transient_error(call.error()));
            return match harmful {
                Some(call) => Ruling(
                    MemoryVerdict::Harmed,
                    format!("called {prefer}, and that call failed"),
                    call.error_quote().or_else(|| call.quote()),
                ),
                None => Ruling(
                    MemoryVerdict::Applied,
                    format!("called {prefer}; how it ended is not known"),
                    call.quote(),
                ),
            };
        };
        let is_attempt = |call: &&Call<'_>| {
            Some(call.tool) == self.memory.cue.tool.as_deref() && !prefer.matches_call(call)
        };
        let next = self.calls[worked + 1..].iter().find(is_attempt);
        let quote = self.calls[*worked].quote();
        match (next, prefer) {
            (Some(next), _) if self.has_own_error(next) => {
                Ruling(MemoryVerdict::Applied, format!("called {prefer}; its error came all the same"), quote)
            }
            (None, Manner::CalledFirst(_)) => {
                Ruling(MemoryVerdict::Applied, format!("called {prefer}, and nothing after it"), quote)
            }
            (Some(next), Manner::CalledFirst(_)) if !next.succeeded() => {
                let earlier = &self.calls[..*worked];
                let before =
                    earlier.iter().any(|call| call.tool == next.tool && call.error() == next.error());
                // The next command of a shell or database may have another goal, and an error of its own.
                let has_same_goal = next.arguments.as_object().is_some();
                let is_new = next.failure().is_some() && !before && !is_transient_error(next.error());
                let verdict =
                    if has_same_goal && is_new { MemoryVerdict::Harmed } else { MemoryVerdict::Applied };
                let reason = format!("called {prefer}, and the call after it failed in another way");
                Ruling(verdict, reason, next.error_quote().or_else(|| next.quote()).or(quote))
            }
            _ => Ruling(
                MemoryVerdict::Helped,
                format!("called {prefer}, and its error did not come from there"),
                quote,
            ),
        }
    }

    fn judge_by_repeats(&self, own: &[&Call<'_>]) -> Ruling {
        let Some(at) = own.iter().position(|call| self.has_own_error(call)) else {
            return Ruling(MemoryVerdict::CueNotMet, "its error did not come".to_owned(), None);
        };
        let fails = |calls: &[&Call<'_>]| calls.iter().all(|call| self.has_own_error(call));
        let same = own.windows(2).find(|two| fails(two) && two[0].raw == two[1].raw);
        if let Some(loops) = same.or_else(|| own.windows(3).find(|three| fails(three))) {
            let reason = "the call was repeated after its error".to_owned();
            return Ruling(
                MemoryVerdict::Ignored,
                reason,
                loops[0].error_quote().or_else(|| loops[0].quote()),
            );
        }
        match own.get(at + 1) {
            Some(next) if !self.has_own_error(next) && next.succeeded() => Ruling(
                MemoryVerdict::Helped,
                "after its error the next call was another one and succeeded".to_owned(),
                next.quote(),
            ),
            _ => Ruling(
                MemoryVerdict::Applied,
                "after its error the call was not repeated".to_owned(),
                own[at].error_quote(),
            ),
        }
    }

    fn judge_by_error(&self, own: &[&Call<'_>], last: &Call<'_>) -> Ruling {
        if let Some(call) = own.iter().find(|call| self.has_own_error(call)) {
            return Ruling(
                MemoryVerdict::Ignored,
                "the failure it warns of came".to_owned(),
                call.error_quote().or_else(|| call.quote()),
            );
        }
        if let Some(avoid) = &self.avoid {
            return match own.iter().find(|call| avoid.matches_call(call)) {
                Some(call) => Ruling(MemoryVerdict::Ignored, format!("called {avoid}"), call.quote()),
                None => Ruling(
                    MemoryVerdict::Helped,
                    format!("never called {avoid}, and its error did not come"),
                    last.quote(),
                ),
            };
        }
        // Only words written up to the first successful call can show that the agent minded the memory.
        let until = own.iter().find(|call| call.succeeded()).unwrap_or(&own[0]).turn;
        match self.quote_following_advice(until) {
            Some(quote) => Ruling(
                MemoryVerdict::Helped,
                "the agent minded it in words, and its error did not come".to_owned(),
                Some(quote),
            ),
            None => Ruling(
                MemoryVerdict::Ignored,
                "nothing shows that the agent acted on it".to_owned(),
                last.quote(),
            ),
        }
    }

    /// Quotes the memory's own error if it occurred, otherwise the last of the memory's calls.
    fn ignored_quote(&self, own: &[&Call<'_>], last: &Call<'_>) -> Option<Quote> {
        let failing = own.iter().find(|call| self.has_own_error(call)).and_then(|call| call.error_quote());
        failing.or_else(|| last.quote())
    }

    fn judge_by_words(&self) -> Ruling {
        if self.turns.is_empty() {
            return Ruling(MemoryVerdict::CueNotMet, "its step did not occur".to_owned(), None);
        }
        if let Some(call) = self.find_failed_call() {
            let reason = format!("called `{}` as it says, and that call failed", call.tool);
            return Ruling(MemoryVerdict::Harmed, reason, call.error_quote().or_else(|| call.quote()));
        }
        if let Some(quote) = self.quote_following_advice(u32::MAX) {
            return Ruling(
                MemoryVerdict::Applied,
                "one turn of the agent does what it says".to_owned(),
                Some(quote),
            );
        }
        let any = self.turns.iter().find_map(|(at, turn)| {
            agent_texts(*at, turn).find_map(|(place, text)| quote::quote_at(place, text))
        });
        Ruling(MemoryVerdict::Ignored, "no turn of the agent does what it says".to_owned(), any)
    }

    /// Returns the first call that did what the memory advises and failed because of it. Returns `None` if
    /// any call that followed the advice succeeded.
    fn find_failed_call(&self) -> Option<&'b Call<'b>> {
        let wanted = self.advice_words()?;
        let does = |call: &&Call<'_>| contains_most_words(&format!("{} {}", call.tool, call.raw), &wanted);
        if self.calls.iter().filter(does).any(Call::succeeded) {
            return None;
        }
        let came_before = |call: &Call<'_>| {
            let earlier =
                self.calls.iter().take_while(|one| (one.turn, one.call_index) < (call.turn, call.call_index));
            earlier.filter(|one| !does(one)).any(|one| one.tool == call.tool && one.error() == call.error())
        };
        let failed = |call: &&Call<'_>| call.failure().is_some() && !is_transient_error(call.error());
        self.calls.iter().filter(does).filter(failed).find(|call| !came_before(call))
    }

    /// Judges a memory that hands on a statement: whether the agent said it, too. That it acted accordingly shows in no single
    /// call, so such a memory never helped, and by its words it never harmed.
    fn judge_by_statement(&self, statement: &str, last: &Call<'_>) -> Ruling {
        match self.quote_with_words(&content_words(statement), u32::MAX) {
            Some(quote) => Ruling(
                MemoryVerdict::Applied,
                "one turn of the agent says what it states".to_owned(),
                Some(quote),
            ),
            None => Ruling(
                MemoryVerdict::Ignored,
                "no turn of the agent says what it states".to_owned(),
                last.quote(),
            ),
        }
    }

    /// Returns the words of the memory's advice, or `None` if there are too few of them or the memory is a
    /// prohibition.
    fn advice_words(&self) -> Option<BTreeSet<String>> {
        let words = content_words(&strip_quoted_error(&self.memory.title));
        (words.len() >= WORDS_MIN && !is_prohibition(&self.memory.title)).then_some(words)
    }

    /// Quotes the first of the agent's texts, up to turn `until`, that contains most of the words of the
    /// memory's advice.
    fn quote_following_advice(&self, until: u32) -> Option<Quote> {
        self.quote_with_words(&self.advice_words()?, until)
    }

    /// Quotes the first of the agent's texts, up to turn `until`, that contains most of the words.
    fn quote_with_words(&self, wanted: &BTreeSet<String>, until: u32) -> Option<Quote> {
        let turns = self.turns.iter().filter(|(at, turn)| *at <= until && turn.source == TurnSource::Agent);
        turns.into_iter().find_map(|(at, turn)| {
            agent_texts(*at, turn).find_map(|(place, text)| {
                contains_most_words(text, wanted).then(|| quote::quote_at(place, text))?
            })
        })
    }
}

/// Returns `true` if a text contains most of the given words.
fn contains_most_words(text: &str, wanted: &BTreeSet<String>) -> bool {
    let shared = content_words(quote::first_chars(text, TURN_CHARS_MAX)).intersection(wanted).count();
    shared >= WORDS_MIN && shared * 100 >= wanted.len() * WORDS_SHARED_MIN
}

/// Returns the message, the reasoning and the arguments of a turn. Answers are excluded, because the agent
/// did not write them.
fn agent_texts(turn: u32, entry: &Turn) -> impl Iterator<Item = (QuotePlace, &str)> {
    let messages = [
        (QuotePlace::Message { turn }, entry.message.as_str()),
        (QuotePlace::Reasoning { turn }, entry.reasoning.as_str()),
    ];
    let calls = (0u32..).zip(&entry.calls);
    messages
        .into_iter()
        .chain(calls.map(move |(call, one)| (QuotePlace::Arguments { turn, call }, one.arguments.as_str())))
}

/// Returns a title without the error that it quotes, because any text about the error contains the same
/// words.
fn strip_quoted_error(title: &str) -> String {
    match (title.find('“'), title.rfind('”')) {
        (Some(open), Some(close)) if open < close => format!("{} {}", &title[..open], &title[close..]),
        _ => title.to_owned(),
    }
}

fn content_words(text: &str) -> BTreeSet<String> {
    const COMMON: &[&str] = &[
        "when",
        "before",
        "after",
        "with",
        "that",
        "this",
        "then",
        "from",
        "into",
        "your",
        "otherwise",
        "answers",
        "answer",
        "call",
        "calling",
        "check",
        "instead",
        "first",
        "should",
        "must",
        "make",
        "sure",
        "every",
        "have",
    ];
    text.split(|c: char| !c.is_alphanumeric())
        .map(|word| word.to_lowercase())
        .filter(|word| word.chars().count() >= 4 && !COMMON.contains(&word.as_str()))
        .map(|word| word.strip_suffix('s').map_or(word.clone(), str::to_owned))
        .collect()
}

fn is_prohibition(title: &str) -> bool {
    let lower = title.to_lowercase();
    ["never ", "do not ", "don't ", "avoid ", "stop "].iter().any(|word| lower.contains(word))
}
