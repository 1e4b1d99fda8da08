//! Lines of the memories that may be presented, prepared once for many runs.

use std::cmp::Reverse;
use std::sync::OnceLock;

use super::fence::{FENCE_BEGIN, FENCE_END, FENCE_HINT, LINE_HEAD_BYTES, RecalledMemory, render_line};
use super::withhold::{Assignment, is_withheld};
use super::{HandedList, Recall, RecallCandidate};
use crate::gate::{blocked_reason, shown_title};
use crate::id::{MemoryId, RunId};
use crate::memory::{Memory, MemoryScope, MemoryStatus};
use crate::policy::Policy;
use crate::weight::Weight;

/// Returns the number of tokens of a text, as counted by a real tokenizer. No token may contain a line break and
/// something else, so that a block has as many tokens as its lines and their breaks together.
pub type CountTokens<'a> = &'a dyn Fn(&str) -> usize;

/// Memories or rules that an agent may be shown, with their lines of the block, in the order in which they get a place.
/// The tokens of a line are counted once, when it is first tried.
#[derive(Debug, Default)]
pub struct PreparedMemories {
    lines: Box<[PreparedLine]>,
    /// Those that the gate objects to, each with the path of a rule.
    blocked: Vec<Option<Box<str>>>,
    fence_tokens: OnceLock<u32>,
    line_break_tokens: OnceLock<u32>,
    hint_tokens: OnceLock<u32>,
}

#[derive(Debug)]
struct PreparedLine {
    id: MemoryId,
    weight: Weight,
    /// Line of the block, without its line break.
    text: Box<str>,
    /// Title, if it is not the end of `text`.
    title: Option<Box<str>>,
    /// Path of a rule that applies only to it.
    path: Option<Box<str>>,
    tokens: OnceLock<u32>,
    presentations: u64,
}

/// Lines that have got a place.
#[derive(Default)]
struct Places<'a> {
    heaviest: Vec<&'a PreparedLine>,
    newcomers: Vec<&'a PreparedLine>,
    tokens: usize,
    /// `true` if the block ends with [`FENCE_HINT`].
    hint: bool,
}

impl PreparedMemories {
    /// Prepares the candidates that an agent may be shown: those that are active, heavy enough, neither disabled nor
    /// held, and to which the gate does not object.
    pub fn new(mut candidates: Vec<RecallCandidate>, policy: &Policy) -> Self {
        candidates.retain(|candidate| is_eligible(&candidate.memory, policy));
        let (mut candidates, blocked): (Vec<_>, Vec<_>) = candidates
            .into_iter()
            .partition(|candidate| blocked_reason(&candidate.memory, &policy.held_dangers).is_none());
        let blocked = blocked.iter().map(|candidate| rule_path(&candidate.memory)).collect();
        // Highest weight first, then fewest presentations, then oldest, then lowest id.
        candidates.sort_by_key(|one| {
            (Reverse(one.memory.weight), one.presentations, one.memory.created_at, one.memory.id)
        });
        // A list of its own: one that takes over the candidates' allocation would keep their much larger size.
        let mut lines = Vec::with_capacity(candidates.len());
        lines.extend(candidates.into_iter().map(PreparedLine::new));
        let lines = lines.into_boxed_slice();
        Self { lines, blocked, ..Self::default() }
    }

    /// Returns the approximate size in memory, in bytes.
    pub fn size_bytes(&self) -> usize {
        let texts = |line: &PreparedLine| {
            let optional = [&line.title, &line.path].into_iter().flatten();
            line.text.len() + optional.map(|text| text.len()).sum::<usize>()
        };
        size_of::<Self>()
            + self.lines.iter().map(|line| size_of::<PreparedLine>() + texts(line)).sum::<usize>()
    }

    /// Chooses the memories to present to a run.
    ///
    /// If more memories are eligible than there are places or tokens for, the least presented ones get some of
    /// the places. Otherwise no new memory would ever be presented.
    ///
    /// If `run` is given, some eligible memories are withheld from it by chance. They take no place.
    pub fn choose(&self, run: Option<&RunId>, policy: &Policy, tokens: CountTokens<'_>) -> Recall {
        let permille = policy.withhold_permille;
        let is_drawn = |at: &usize| run.is_some_and(|run| is_withheld(self.lines[*at].id, run, permille));
        let (drawn, handed): (Vec<usize>, Vec<usize>) = (0..self.lines.len()).partition(is_drawn);
        let mut places = self.fill_places(&handed, policy, tokens);
        self.add_hint(&mut places, policy, tokens);
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
            let withheld = withheld.map(|at| (self.lines[*at].id, true));
            let presented = places.lines().map(|line| (line.id, false));
            let assignment = |(memory, withheld)| Assignment { memory, withheld, permille };
            presented.chain(withheld).map(assignment).collect()
        };
        Recall { assignments, ..self.render(&places, handed.len(), self.blocked.len()) }
    }

    /// Chooses the memories that a step of a run was handed before, without those that may not be shown any more.
    pub fn choose_again(
        &self,
        handed: &HandedList,
        run: &RunId,
        policy: &Policy,
        tokens: CountTokens<'_>,
    ) -> Recall {
        let find = |id: &MemoryId| self.lines.iter().find(|line| line.id == *id);
        let lines = handed.memories.iter().filter_map(|(id, newcomer)| Some((find(id)?, *newcomer)));
        let mut places = self.fill(lines, policy.inject_tokens_max as usize, tokens);
        self.add_hint(&mut places, policy, tokens);
        let permille = policy.withhold_permille;
        // A policy that was edited meanwhile decides nothing about this run any more.
        let is_withheld = |id: &&MemoryId| find(id).is_some() && is_withheld(**id, run, permille);
        let withheld = handed.withheld.iter().filter(is_withheld).map(|id| (*id, true));
        let presented = places.lines().map(|line| (line.id, false));
        let assignment = |(memory, withheld)| Assignment { memory, withheld, permille };
        let assignments =
            if permille == 0 { Vec::new() } else { presented.chain(withheld).map(assignment).collect() };
        let shown = places.lines().count();
        let omitted = shown + handed.omitted as usize;
        Recall { assignments, ..self.render(&places, omitted, self.blocked.len()) }
    }

    /// Chooses the rules of a repository to present, of which these are prepared. A rule is eligible if it has no path
    /// or a path that covers one of `paths`. If `paths` is empty, paths are not compared. The line of a rule with a
    /// path ends with that path.
    pub fn choose_rules(&self, paths: &[String], policy: &Policy, tokens: CountTokens<'_>) -> Recall {
        let eligible: Vec<_> = self.lines.iter().filter(|line| covers(line.path.as_deref(), paths)).collect();
        let blocked = self.blocked.iter().filter(|path| covers(path.as_deref(), paths)).count();
        let lines = eligible.iter().take(policy.rule_inject_max as usize).map(|line| (*line, false));
        self.render(&self.fill(lines, policy.rule_tokens_max as usize, tokens), eligible.len(), blocked)
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
        let count = |text: &str| u32::try_from(tokens(text)).unwrap_or(u32::MAX);
        let line_break = *self.line_break_tokens.get_or_init(|| count("\n"));
        let fence = *self.fence_tokens.get_or_init(|| count(FENCE_BEGIN) + line_break + count(FENCE_END));
        let mut places = Places { tokens: fence as usize, ..Places::default() };
        for (line, newcomer) in lines {
            let with_it =
                places.tokens + (*line.tokens.get_or_init(|| count(&line.text)) + line_break) as usize;
            if with_it <= tokens_max {
                places.tokens = with_it;
                if newcomer { places.newcomers.push(line) } else { places.heaviest.push(line) }
            }
        }
        places
    }

    /// Adds the line that says how a memory is opened, if the budget allows it besides the memories.
    fn add_hint(&self, places: &mut Places<'_>, policy: &Policy, tokens: CountTokens<'_>) {
        let count = |text: &str| u32::try_from(tokens(text)).unwrap_or(u32::MAX);
        let line_break = *self.line_break_tokens.get_or_init(|| count("\n"));
        let hint = *self.hint_tokens.get_or_init(|| count(FENCE_HINT));
        let with_it = places.tokens + (hint + line_break) as usize;
        if with_it <= policy.inject_tokens_max as usize {
            (places.tokens, places.hint) = (with_it, true);
        }
    }

    /// Renders the block, in which newcomers come last.
    fn render(&self, places: &Places<'_>, eligible: usize, blocked: usize) -> Recall {
        let blocked = u32::try_from(blocked).unwrap_or(u32::MAX);
        let heaviest = places.heaviest.iter().map(|line| line.recalled(false));
        let memories: Vec<RecalledMemory> =
            heaviest.chain(places.newcomers.iter().map(|line| line.recalled(true))).collect();
        let omitted = u32::try_from(eligible - memories.len()).unwrap_or(u32::MAX);
        if memories.is_empty() {
            return Recall { omitted, blocked, ..Recall::default() };
        }
        let bytes = places.lines().map(|line| line.text.len() + 1).sum::<usize>();
        let mut text = String::with_capacity(FENCE_BEGIN.len() + 1 + bytes + FENCE_END.len());
        text.extend([FENCE_BEGIN, "\n"]);
        places.lines().for_each(|line| text.extend([&line.text, "\n"]));
        if places.hint {
            text.extend([FENCE_HINT, "\n"]);
        }
        text.push_str(FENCE_END);
        let tokens = u32::try_from(places.tokens).unwrap_or(u32::MAX);
        Recall { memories, text, tokens, omitted, blocked, assignments: Vec::new() }
    }
}

impl PreparedLine {
    fn new(candidate: RecallCandidate) -> Self {
        let RecallCandidate { memory, presentations } = candidate;
        let (id, weight) = (memory.id, memory.weight);
        let title = shown_title(&memory.scope, &memory.lesson);
        let text = render_line(id, weight, &title).into_boxed_str();
        let title = (text.get(LINE_HEAD_BYTES..) != Some(&title)).then(|| title.into_boxed_str());
        Self { id, weight, text, title, path: rule_path(&memory), tokens: OnceLock::new(), presentations }
    }

    fn recalled(&self, newcomer: bool) -> RecalledMemory {
        let title = self.title.as_deref().unwrap_or_else(|| &self.text[LINE_HEAD_BYTES..]);
        RecalledMemory { id: self.id, weight: self.weight, title: title.to_owned(), newcomer }
    }
}

impl<'a> Places<'a> {
    /// Returns the lines in the order of the block.
    fn lines(&self) -> impl Iterator<Item = &'a PreparedLine> {
        self.heaviest.iter().chain(&self.newcomers).copied()
    }

    fn contains(&self, line: &PreparedLine) -> bool {
        self.lines().any(|other| other.id == line.id)
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

fn rule_path(memory: &Memory) -> Option<Box<str>> {
    match &memory.scope {
        MemoryScope::Repository { path, .. } => path.as_deref().map(Box::from),
        _ => None,
    }
}

/// Returns `true` if a rule has no path, or if its path equals one of `paths` or is a folder above one of them. Rules
/// of every path are covered if `paths` is empty.
fn covers(path: Option<&str>, paths: &[String]) -> bool {
    let Some(path) = path.filter(|_| !paths.is_empty()) else { return true };
    let below = |touched: &String| {
        let touched = touched.trim_start_matches("./");
        touched.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    paths.iter().any(below)
}
