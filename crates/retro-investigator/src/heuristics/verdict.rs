//! Verdicts: what each presented memory did in its step, judged from the trace alone. That a run without it had the same
//! failure is seen only where all runs of a retrospective are: `retro_core::learn::settle` takes harm back then.
//!
//! Only a memory whose cue names a tool can be judged by calls. *Its calls* are the calls of that tool in its step
//! that it could be about (the program or the parameter it speaks of occurs); *its own error* is the error of its
//! cue. Without a call of that kind the verdict is **cue not met**. Then, by what the memory prefers:
//!
//! * **a manner of the call** (a parameter, an option, …). Followed by its calls made in that manner.
//!   *Helped*: one of them succeeded, its own error came at most once before (it was left at the next call) and not
//!   from then on. *Applied*: one succeeded, and the error came oftener; or nobody knows how they ended. *Harmed*: none succeeded, and one failed with
//!   its own error or with one that no call made otherwise had given before in this run; an error that had come
//!   before anyhow, or that passes by itself, is no harm, so *applied*. *Ignored*: no call in that manner.
//! * **something before the call** (a look-up, another tool). Followed by such a call. *Helped*: it succeeded and
//!   the next of its calls did not give its own error. *Applied*: it did, or none came. *Harmed*: every such call
//!   failed, one of them with an error that does not pass by itself. *Ignored*: no such call.
//! * **nothing that shows in one call.** About repeating: the cue is the error itself; *ignored* when the same call
//!   (or a second variation) followed, *helped* when the next call left it, else *applied*. About an error that must
//!   not come: *ignored* when it came; when it did not, *helped* only if the agent's words before a call show the
//!   lesson's own words, else *ignored*: a failure that stays away by itself is nobody's merit.
//!
//! A memory without a tool is judged by its words, conservatively. *Harmed*: a call (its tool's name and arguments) holds most
//! of its content words and failed, with an error that neither passes by itself nor had come before, and no such call
//! succeeded. *Applied* when one turn of the agent holds most of them (never for a prohibition), else *ignored*; *cue not met* when its step did not occur. A rule of the
//! repository is judged by its words over the whole run (`rule`).

mod rule;

use std::collections::BTreeSet;

use retro_core::finding::{Brief, KnownMemory, MemoryVerdict, Quote, Verdict};
use retro_core::trajectory::{Place, Source, Turn};

use super::call::{Call, StepCalls, program_of};
use super::errors::passes;
use super::manner::Manner;
use super::quote;

/// The most turns of a step whose words are compared with a memory's, from its start.
const TURNS_READ_MAX: usize = 2_000;
/// How much of a turn's words is read, in characters.
const TURN_CHARS_MAX: usize = 4_000;
/// The part of a memory's content words that one turn must hold, in hundredths, and their least number.
const WORDS_SHARED_MIN: usize = 60;
const WORDS_MIN: usize = 3;
/// The most memories judged in one run; the policy presents ten.
const MEMORIES_MAX: usize = 100;

/// A verdict on every presented memory that the trace says something about.
pub(super) fn on_presented(brief: &Brief, steps: &[StepCalls<'_>]) -> Vec<MemoryVerdict> {
    let presented = brief.memories.iter().filter(|memory| memory.presented).take(MEMORIES_MAX);
    presented.filter_map(|memory| Case::of(brief, steps, memory).judge()).collect()
}

/// One memory and what happened in its step.
struct Case<'b> {
    memory: &'b KnownMemory,
    /// All calls of the step.
    calls: &'b [Call<'b>],
    turns: Vec<(u32, &'b Turn)>,
    prefer: Option<Manner>,
    avoid: Option<Manner>,
}

/// A verdict with its reason and, for all but "cue not met", its words.
struct Ruling(Verdict, String, Option<Quote>);

impl<'b> Case<'b> {
    fn of(brief: &'b Brief, steps: &'b [StepCalls<'b>], memory: &'b KnownMemory) -> Self {
        let of_step = |one: &&StepCalls<'_>| Some(one.step) == memory.step.as_ref();
        let calls = steps.iter().find(of_step).map_or(&[][..], |one| one.calls.as_slice());
        let turns = (0u32..).zip(&brief.trajectory.turns);
        let within = |turn: &Turn| memory.step.as_ref().is_none_or(|step| turn.step == *step);
        let turns = turns.filter(|(_, turn)| turn.agentic && within(turn)).take(TURNS_READ_MAX).collect();
        let read = |text: &Option<String>| text.as_deref().map(Manner::read);
        Self { memory, calls, turns, prefer: read(&memory.cue.prefer), avoid: read(&memory.cue.avoid) }
    }

    fn judge(&self) -> Option<MemoryVerdict> {
        let Ruling(verdict, reason, quote) = match self.memory.cue.tool.as_deref() {
            _ if self.memory.step.is_none() => self.by_rule()?,
            None => self.by_words(),
            Some(tool) => self.by_calls(tool),
        };
        // A step without a single word to quote says nothing either way.
        let stands = quote.is_some() || verdict == Verdict::CueNotMet;
        stands.then_some(MemoryVerdict { memory: self.memory.id, verdict, reason, quote })
    }

    fn by_calls(&self, tool: &str) -> Ruling {
        let own: Vec<&Call<'_>> =
            self.calls.iter().filter(|call| call.tool == tool && self.concerns(call)).collect();
        let Some(last) = own.last() else {
            return Ruling(
                Verdict::CueNotMet,
                format!("`{tool}` was not called in a way that it is about"),
                None,
            );
        };
        match &self.prefer {
            Some(prefer @ (Manner::First(_) | Manner::Tool(_))) => self.by_call_before(prefer, last),
            Some(prefer) => self.by_manner(prefer, &own, last),
            None if self.avoid == Some(Manner::Again) => self.by_repeats(&own),
            None => self.by_error(&own, last),
        }
    }

    fn concerns(&self, call: &Call<'_>) -> bool {
        let program = self.memory.cue.error.as_deref().and_then(program_of);
        let runs_it = program.is_none_or(|program| {
            call.arguments.command().is_none_or(|command| command.programs().any(|one| one == program))
        });
        let could = |manner: &Option<Manner>| manner.as_ref().is_none_or(|manner| manner.concerns(call));
        (runs_it || self.gives_own_error(call)) && could(&self.prefer) && could(&self.avoid)
    }

    fn gives_own_error(&self, call: &Call<'_>) -> bool {
        let error = self.memory.cue.error.as_deref().unwrap_or("");
        !error.is_empty() && Some(call.tool) == self.memory.cue.tool.as_deref() && call.error() == error
    }

    fn by_manner(&self, prefer: &Manner, own: &[&Call<'_>], last: &Call<'_>) -> Ruling {
        let follows = |call: &Call<'_>| {
            prefer.holds(call) && !self.avoid.as_ref().is_some_and(|avoid| avoid.holds(call))
        };
        let Some(first) = own.iter().position(|call| follows(call)) else {
            let reason = format!("called {} times, never {prefer}", own.len());
            return Ruling(Verdict::Ignored, reason, self.ignored_quote(own, last));
        };
        let followed = || own[first..].iter().filter(|call| follows(call));
        if let Some(worked) = followed().find(|call| call.succeeded()) {
            let errors = |calls: &[&Call<'_>]| calls.iter().filter(|call| self.gives_own_error(call)).count();
            let left = errors(&own[..first]) <= 1 && errors(&own[first..]) == 0;
            let (verdict, how) = if left {
                (Verdict::Helped, "and its error did not come from there on")
            } else {
                (Verdict::Applied, "but its error came more than once, or again")
            };
            return Ruling(verdict, format!("called {prefer}, {how}"), worked.quote());
        }
        let before =
            |error: &str| own[..first].iter().any(|call| call.failure().is_some() && call.error() == error);
        let harmful = followed().find(|call| {
            call.failure().is_some()
                && !passes(call.error())
                && (self.gives_own_error(call) || !before(call.error()))
        });
        match harmful {
            Some(call) => {
                let reason = format!("called {prefer}, and that call failed");
                Ruling(Verdict::Harmed, reason, call.error_quote().or_else(|| call.quote()))
            }
            None => Ruling(
                Verdict::Applied,
                format!("called {prefer}; it made no difference that shows"),
                own[first].quote(),
            ),
        }
    }

    fn by_call_before(&self, prefer: &Manner, last: &Call<'_>) -> Ruling {
        let followed: Vec<usize> =
            (0..self.calls.len()).filter(|at| prefer.holds(&self.calls[*at])).collect();
        let Some(first) = followed.first() else {
            let own: Vec<_> = self.calls.iter().filter(|call| self.gives_own_error(call)).collect();
            return Ruling(
                Verdict::Ignored,
                format!("never called {prefer}"),
                self.ignored_quote(&own, last),
            );
        };
        let Some(worked) = followed.iter().find(|at| self.calls[**at].succeeded()) else {
            let call = &self.calls[*first];
            let harmful = followed
                .iter()
                .map(|at| &self.calls[*at])
                .find(|call| call.failure().is_some() && !passes(call.error()));
            return match harmful {
                Some(call) => Ruling(
                    Verdict::Harmed,
                    format!("called {prefer}, and that call failed"),
                    call.error_quote().or_else(|| call.quote()),
                ),
                None => Ruling(
                    Verdict::Applied,
                    format!("called {prefer}; how it ended is not known"),
                    call.quote(),
                ),
            };
        };
        let is_attempt =
            |call: &&Call<'_>| Some(call.tool) == self.memory.cue.tool.as_deref() && !prefer.holds(call);
        let next = self.calls[worked + 1..].iter().find(is_attempt);
        let quote = self.calls[*worked].quote();
        match (next, prefer) {
            (Some(next), _) if self.gives_own_error(next) => {
                Ruling(Verdict::Applied, format!("called {prefer}; its error came all the same"), quote)
            }
            (None, Manner::First(_)) => {
                Ruling(Verdict::Applied, format!("called {prefer}, and nothing after it"), quote)
            }
            _ => Ruling(
                Verdict::Helped,
                format!("called {prefer}, and its error did not come from there"),
                quote,
            ),
        }
    }

    fn by_repeats(&self, own: &[&Call<'_>]) -> Ruling {
        let Some(at) = own.iter().position(|call| self.gives_own_error(call)) else {
            return Ruling(Verdict::CueNotMet, "its error did not come".to_owned(), None);
        };
        let fails = |calls: &[&Call<'_>]| calls.iter().all(|call| self.gives_own_error(call));
        let same = own.windows(2).find(|two| fails(two) && two[0].raw == two[1].raw);
        if let Some(loops) = same.or_else(|| own.windows(3).find(|three| fails(three))) {
            let reason = "the call was repeated after its error".to_owned();
            return Ruling(Verdict::Ignored, reason, loops[0].error_quote().or_else(|| loops[0].quote()));
        }
        match own.get(at + 1) {
            Some(next) if !self.gives_own_error(next) && next.succeeded() => Ruling(
                Verdict::Helped,
                "after its error the next call was another one and succeeded".to_owned(),
                next.quote(),
            ),
            _ => Ruling(
                Verdict::Applied,
                "after its error the call was not repeated".to_owned(),
                own[at].error_quote(),
            ),
        }
    }

    fn by_error(&self, own: &[&Call<'_>], last: &Call<'_>) -> Ruling {
        if let Some(call) = own.iter().find(|call| self.gives_own_error(call)) {
            return Ruling(
                Verdict::Ignored,
                "the failure it warns of came".to_owned(),
                call.error_quote().or_else(|| call.quote()),
            );
        }
        if let Some(avoid) = &self.avoid {
            return match own.iter().find(|call| avoid.holds(call)) {
                Some(call) => Ruling(Verdict::Ignored, format!("called {avoid}"), call.quote()),
                None => Ruling(
                    Verdict::Helped,
                    format!("never called {avoid}, and its error did not come"),
                    last.quote(),
                ),
            };
        }
        let until = own.iter().find(|call| call.succeeded()).unwrap_or(&own[0]).turn;
        match self.said(until) {
            Some(quote) => Ruling(
                Verdict::Helped,
                "the agent minded it in words, and its error did not come".to_owned(),
                Some(quote),
            ),
            None => {
                Ruling(Verdict::Ignored, "nothing shows that the agent acted on it".to_owned(), last.quote())
            }
        }
    }

    /// Its own error where it came, else what was called instead.
    fn ignored_quote(&self, own: &[&Call<'_>], last: &Call<'_>) -> Option<Quote> {
        let failing = own.iter().find(|call| self.gives_own_error(call)).and_then(|call| call.error_quote());
        failing.or_else(|| last.quote())
    }

    fn by_words(&self) -> Ruling {
        if self.turns.is_empty() {
            return Ruling(Verdict::CueNotMet, "its step did not occur".to_owned(), None);
        }
        if let Some(call) = self.failed_by_words() {
            let reason = format!("called `{}` as it says, and that call failed", call.tool);
            return Ruling(Verdict::Harmed, reason, call.error_quote().or_else(|| call.quote()));
        }
        if let Some(quote) = self.said(u32::MAX) {
            return Ruling(
                Verdict::Applied,
                "one turn of the agent does what it says".to_owned(),
                Some(quote),
            );
        }
        let any = self
            .turns
            .iter()
            .find_map(|(at, turn)| texts(*at, turn).find_map(|(place, text)| quote::of(place, text)));
        Ruling(Verdict::Ignored, "no turn of the agent does what it says".to_owned(), any)
    }

    /// Words of one of the agent's turns, up to turn `until`, that hold most of the memory's content words.
    /// The first call that does what the memory says and failed by it; `None` when one that does so succeeded.
    fn failed_by_words(&self) -> Option<&'b Call<'b>> {
        let wanted = self.advised()?;
        let does = |call: &&Call<'_>| holds(&format!("{} {}", call.tool, call.raw), &wanted);
        if self.calls.iter().filter(does).any(Call::succeeded) {
            return None;
        }
        let came_before = |call: &Call<'_>| {
            let earlier = self.calls.iter().take_while(|one| (one.turn, one.nth) < (call.turn, call.nth));
            earlier.filter(|one| !does(one)).any(|one| one.tool == call.tool && one.error() == call.error())
        };
        let failed = |call: &&Call<'_>| call.failure().is_some() && !passes(call.error());
        self.calls.iter().filter(does).filter(failed).find(|call| !came_before(call))
    }

    /// The words of what the memory advises; `None` when they are too few, or forbid something.
    fn advised(&self) -> Option<BTreeSet<String>> {
        let words = content_words(&advice_of(&self.memory.title));
        (words.len() >= WORDS_MIN && !is_prohibition(&self.memory.title)).then_some(words)
    }

    fn said(&self, until: u32) -> Option<Quote> {
        let wanted = self.advised()?;
        let turns = self.turns.iter().filter(|(at, turn)| *at <= until && turn.source == Source::Agent);
        turns.into_iter().find_map(|(at, turn)| {
            texts(*at, turn).find_map(|(place, text)| holds(text, &wanted).then(|| quote::of(place, text))?)
        })
    }
}

/// Whether a text holds most of the words that are wanted.
fn holds(text: &str, wanted: &BTreeSet<String>) -> bool {
    let shared = content_words(quote::head(text, TURN_CHARS_MAX)).intersection(wanted).count();
    shared >= WORDS_MIN && shared * 100 >= wanted.len() * WORDS_SHARED_MIN
}

/// What an agent said, thought and asked for in a turn. Answers are not its words.
fn texts(turn: u32, entry: &Turn) -> impl Iterator<Item = (Place, &str)> {
    let said = [
        (Place::Message { turn }, entry.message.as_str()),
        (Place::Reasoning { turn }, entry.reasoning.as_str()),
    ];
    let calls = (0u32..).zip(&entry.calls);
    said.into_iter()
        .chain(calls.map(move |(call, one)| (Place::Arguments { turn, call }, one.arguments.as_str())))
}

/// The advice of a title without the error it quotes: the error's words would be found in any answer to it.
fn advice_of(title: &str) -> String {
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
