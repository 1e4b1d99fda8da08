//! Lines of the memories that may be presented, prepared once for many runs.

use std::cmp::Reverse;
use std::sync::OnceLock;

use super::fence::{FENCE_BEGIN, FENCE_END, RecalledMemory, render_line};
use super::withhold::{Assignment, is_withheld};
use super::{Recall, RecallCandidate};
use crate::gate::{blocked_reason, shown_title};
use crate::id::RunId;
use crate::memory::{Memory, MemoryStatus};
use crate::policy::Policy;

/// Returns the number of tokens of a text, as counted by a real tokenizer. No token may contain a line break and
/// something else, so that a block has as many tokens as its lines and their breaks together.
pub type CountTokens<'a> = &'a dyn Fn(&str) -> usize;

/// Eligible memories with their lines of the block, in the order in which they get a place. The tokens of a line are
/// counted once, when it is first tried.
#[derive(Debug, Default)]
pub struct PreparedMemories {
    lines: Vec<PreparedLine>,
    blocked: u32,
    fence_tokens: OnceLock<usize>,
    line_break_tokens: OnceLock<usize>,
}

#[derive(Debug)]
struct PreparedLine {
    memory: RecalledMemory,
    text: String,
    tokens: OnceLock<usize>,
    presentations: u64,
}

/// Lines that have got a place.
#[derive(Default)]
struct Places<'a> {
    heaviest: Vec<&'a PreparedLine>,
    newcomers: Vec<&'a PreparedLine>,
    tokens: usize,
}

/// Chooses the memories to present from the candidates of one step, for one run. See [`PreparedMemories::choose`].
pub fn choose_memories(
    candidates: Vec<RecallCandidate>,
    run: Option<&RunId>,
    policy: &Policy,
    tokens: CountTokens<'_>,
) -> Recall {
    PreparedMemories::new(candidates, policy).choose(run, policy, tokens)
}

impl PreparedMemories {
    /// Prepares the candidates that an agent may be shown: those that are active, heavy enough, neither disabled nor
    /// held, and to which the gate does not object.
    pub fn new(mut candidates: Vec<RecallCandidate>, policy: &Policy) -> Self {
        candidates.retain(|candidate| is_eligible(&candidate.memory, policy));
        let before = candidates.len();
        candidates.retain(|candidate| blocked_reason(&candidate.memory, &policy.held_dangers).is_none());
        let blocked = u32::try_from(before - candidates.len()).unwrap_or(u32::MAX);
        // Highest weight first, then fewest presentations, then oldest, then lowest id.
        candidates.sort_by_key(|one| {
            (Reverse(one.memory.weight), one.presentations, one.memory.created_at, one.memory.id)
        });
        let lines = candidates.into_iter().map(PreparedLine::new).collect();
        Self { lines, blocked, ..Self::default() }
    }

    /// Chooses the memories to present to a run.
    ///
    /// If more memories are eligible than there are places or tokens for, the least presented ones get some of
    /// the places. Otherwise no new memory would ever be presented.
    ///
    /// If `run` is given, some eligible memories are withheld from it by chance. They take no place.
    pub fn choose(&self, run: Option<&RunId>, policy: &Policy, tokens: CountTokens<'_>) -> Recall {
        let permille = policy.withhold_permille;
        let is_drawn =
            |at: &usize| run.is_some_and(|run| is_withheld(self.lines[*at].memory.id, run, permille));
        let (drawn, handed): (Vec<usize>, Vec<usize>) = (0..self.lines.len()).partition(is_drawn);
        let places = self.fill_places(&handed, policy, tokens);
        let assignments = if run.is_none() || permille == 0 {
            Vec::new()
        } else {
            // A memory that would not have been presented anyway is not counted as withheld: its runs would be compared
            // with runs in which it had less competition.
            let is_missing = |at: &&usize| {
                let mut with_it = handed.clone();
                with_it.insert(handed.partition_point(|other| other < *at), **at);
                self.fill_places(&with_it, policy, tokens).contains(&self.lines[**at])
            };
            let withheld = drawn.iter().take(DRAWN_MAX).filter(is_missing);
            let withheld = withheld.map(|at| (self.lines[*at].memory.id, true));
            let presented = places.lines().map(|line| (line.memory.id, false));
            let assignment = |(memory, withheld)| Assignment { memory, withheld, permille };
            presented.chain(withheld).map(assignment).collect()
        };
        Recall { assignments, ..self.render(&places, handed.len()) }
    }

    /// Chooses the first `places_max` lines that fit the token budget.
    pub(super) fn choose_first(
        &self,
        places_max: usize,
        tokens_max: usize,
        tokens: CountTokens<'_>,
    ) -> Recall {
        let lines = self.lines.iter().take(places_max).map(|line| (line, false));
        self.render(&self.fill(lines, tokens_max, tokens), self.lines.len())
    }

    /// Gives the places of the block to lines, which are named by their numbers in ascending order.
    fn fill_places(&self, eligible: &[usize], policy: &Policy, tokens: CountTokens<'_>) -> Places<'_> {
        let places = policy.inject_memories_max as usize;
        let fill = |lines: &mut dyn Iterator<Item = (usize, bool)>| {
            let lines = lines.take(places).map(|(at, newcomer)| (&self.lines[at], newcomer));
            self.fill(lines, policy.inject_tokens_max as usize, tokens)
        };
        // The number of lines that fit the token budget is known only after filling it once without newcomers.
        let heaviest = fill(&mut eligible.iter().map(|at| (*at, false)));
        let found = heaviest.lines().count();
        let newcomers = newcomer_places(found, policy);
        if found == eligible.len() || newcomers == 0 {
            return heaviest;
        }
        // The heaviest memories keep their places; all others compete for the places of newcomers.
        let (heavy, rest) = eligible.split_at(found.saturating_sub(newcomers));
        let mut least_presented = rest.to_vec();
        least_presented.sort_by_key(|at| (self.lines[*at].presentations, *at));
        least_presented.truncate(newcomers);
        let others = heavy.iter().chain(rest.iter().filter(|at| !least_presented.contains(at)));
        fill(&mut least_presented.iter().map(|at| (*at, true)).chain(others.map(|at| (*at, false))))
    }

    /// Gives places to lines in their order while the whole block stays within the token budget. A line that does not
    /// fit is skipped, because a shorter line after it may still fit.
    fn fill<'a>(
        &self,
        lines: impl Iterator<Item = (&'a PreparedLine, bool)>,
        tokens_max: usize,
        tokens: CountTokens<'_>,
    ) -> Places<'a> {
        let line_break = *self.line_break_tokens.get_or_init(|| tokens("\n"));
        let fence = *self.fence_tokens.get_or_init(|| tokens(FENCE_BEGIN) + line_break + tokens(FENCE_END));
        let mut places = Places { tokens: fence, ..Places::default() };
        for (line, newcomer) in lines {
            let count = places.tokens + *line.tokens.get_or_init(|| tokens(&line.text)) + line_break;
            if count <= tokens_max {
                places.tokens = count;
                if newcomer { places.newcomers.push(line) } else { places.heaviest.push(line) }
            }
        }
        places
    }

    /// Renders the block, in which newcomers come last.
    fn render(&self, places: &Places<'_>, eligible: usize) -> Recall {
        let as_newcomer = |line: &&PreparedLine| RecalledMemory { newcomer: true, ..line.memory.clone() };
        let memories: Vec<RecalledMemory> = places
            .heaviest
            .iter()
            .map(|line| line.memory.clone())
            .chain(places.newcomers.iter().map(as_newcomer))
            .collect();
        let omitted = u32::try_from(eligible - memories.len()).unwrap_or(u32::MAX);
        if memories.is_empty() {
            return Recall { omitted, blocked: self.blocked, ..Recall::default() };
        }
        let mut text = format!("{FENCE_BEGIN}\n");
        places.lines().for_each(|line| text.extend([&line.text, "\n"]));
        text.push_str(FENCE_END);
        let tokens = u32::try_from(places.tokens).unwrap_or(u32::MAX);
        Recall { memories, text, tokens, omitted, blocked: self.blocked, assignments: Vec::new() }
    }
}

impl PreparedLine {
    fn new(candidate: RecallCandidate) -> Self {
        let RecallCandidate { memory, presentations } = candidate;
        let title = shown_title(&memory.scope, &memory.lesson);
        let memory = RecalledMemory { id: memory.id, weight: memory.weight, title, newcomer: false };
        Self { text: render_line(&memory), memory, tokens: OnceLock::new(), presentations }
    }
}

impl<'a> Places<'a> {
    /// Returns the lines in the order of the block.
    fn lines(&self) -> impl Iterator<Item = &'a PreparedLine> {
        self.heaviest.iter().chain(&self.newcomers).copied()
    }

    fn contains(&self, line: &PreparedLine) -> bool {
        self.lines().any(|other| other.memory.id == line.memory.id)
    }
}

/// Maximum number of withheld memories of a run, heaviest first, for which it is checked whether they would have
/// been presented. Each check fills the block once, and 20 of 200 eligible memories are withheld by default.
const DRAWN_MAX: usize = 20;

/// Returns the number of places reserved for newcomers: the number in the policy, but at most half of the
/// lines if the token budget allows fewer lines than there are places.
fn newcomer_places(found: usize, policy: &Policy) -> usize {
    let wanted = policy.inject_newcomers as usize;
    if found < policy.inject_memories_max as usize { wanted.min(found / 2) } else { wanted }
}

fn is_eligible(memory: &Memory, policy: &Policy) -> bool {
    memory.status == MemoryStatus::Active
        && memory.disabled_by.is_none()
        && memory.weight.get() >= policy.inject_weight_min
}
