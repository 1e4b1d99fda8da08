//! Lines of the memories that may be presented, prepared once for many runs.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::OnceLock;

use super::fence::{
    FENCE_BEGIN, FENCE_END, FENCE_HINT, LINE_HEAD_BYTES, RecallPlace, RecallReason, RecalledMemory,
    render_line,
};
use super::relevance::{ComparedLine, LineIndex, TaskOrder, TextIndex};
use super::task::{RecallTask, TaskVectors};
use super::withhold::{Assignment, is_withheld};
use super::{HandedList, HandedMemory, Recall, RecallCandidate};
use crate::gate::{blocked_reason, shown_content, shown_title};
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
    pub(super) lines: Box<[PreparedLine]>,
    /// Those that the gate objects to, each with the path of a rule.
    blocked: Vec<Option<Box<str>>>,
    fence_tokens: OnceLock<u32>,
    line_break_tokens: OnceLock<u32>,
    hint_tokens: OnceLock<u32>,
}

#[derive(Debug)]
pub(super) struct PreparedLine {
    pub(super) id: MemoryId,
    pub(super) weight: Weight,
    /// Line of the block, without its line break.
    text: Box<str>,
    /// Title, if it is not the end of `text`.
    title: Option<Box<str>>,
    /// Path of a rule that applies only to it.
    path: Option<Box<str>>,
    tokens: OnceLock<u32>,
    presentations: u64,
    /// Title as it is stored, by which embedders know the memory, if it is not the one that is shown.
    stored_title: Option<Box<str>>,
}

/// Numbers of the lines that have got a place.
#[derive(Default)]
struct Places {
    /// Those that come first in the order of the weights, or of the task.
    heaviest: Vec<usize>,
    newcomers: Vec<usize>,
    tokens: usize,
    /// `true` if the block ends with [`FENCE_HINT`].
    hint: bool,
}

/// Returns why a line that got a place is there; `true` if it is the place of a newcomer.
type ExplainPlace<'a> = &'a dyn Fn(usize, bool) -> Option<RecallReason>;

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
            let optional = [&line.title, &line.path, &line.stored_title].into_iter().flatten();
            line.text.len() + optional.map(|text| text.len()).sum::<usize>()
        };
        size_of::<Self>()
            + self.lines.iter().map(|line| size_of::<PreparedLine>() + texts(line)).sum::<usize>()
    }

    /// Indexes the texts of the memories, for runs that name their tasks. The contents, which only an index needs, are
    /// those of `candidates`; of a memory that is not among them any more, the title is indexed alone. Takes time linear
    /// in the length of the texts.
    pub fn index_texts(&self, candidates: &[RecallCandidate]) -> TextIndex {
        let shown = |memory: &Memory| shown_content(&memory.scope, &memory.lesson);
        let mut contents: HashMap<MemoryId, String> =
            candidates.iter().map(|one| (one.memory.id, shown(&one.memory))).collect();
        let index = |line: &PreparedLine| {
            LineIndex::new(line.title(), &contents.remove(&line.id).unwrap_or_default())
        };
        TextIndex(self.lines.iter().map(index).collect())
    }

    /// Orders the memories for a task: by weight and relevance, and equal ones as without a task. `index` is the index of
    /// these memories. Takes time linear in the number of their terms.
    ///
    /// `vectors` are those of another embedder than the built-in one.
    pub fn order_for_task<'t>(
        &self,
        index: &'t TextIndex,
        task: &'t RecallTask,
        vectors: Option<&TaskVectors>,
    ) -> TaskOrder<'t> {
        let lines: Vec<_> = self.lines.iter().map(PreparedLine::compared).collect();
        TaskOrder::new(task, index, vectors, &lines)
    }

    /// Returns the titles whose vectors [`order_for_task`](Self::order_for_task) uses.
    pub fn compared_titles(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(PreparedLine::compared_title)
    }

    /// Chooses the memories to present to a run.
    ///
    /// If more memories are eligible than there are places or tokens for, the least presented ones get some of
    /// the places. Otherwise no new memory would ever be presented.
    ///
    /// If `run` is given, some eligible memories are withheld from it by chance. They take no place.
    ///
    /// If there is a task, `order` decides who gets a place, and newcomers that were presented equally often compete by
    /// it. It changes nothing else.
    pub fn choose(
        &self,
        run: Option<&RunId>,
        order: Option<&TaskOrder<'_>>,
        policy: &Policy,
        tokens: CountTokens<'_>,
    ) -> Recall {
        let permille = policy.withhold_permille;
        let is_drawn = |at: &usize| run.is_some_and(|run| is_withheld(self.lines[*at].id, run, permille));
        let ordered = order.map_or_else(|| (0..self.lines.len()).collect(), |order| order.order.clone());
        let (drawn, handed): (Vec<_>, Vec<_>) =
            ordered.into_iter().enumerate().partition(|(_, at)| is_drawn(at));
        let lines = |placed: &[(usize, usize)]| placed.iter().map(|(_, at)| *at).collect::<Vec<_>>();
        let mut places = self.fill_places(&lines(&handed), policy, tokens);
        self.add_hint(&mut places, policy, tokens);
        let assignments = if run.is_none() || permille == 0 {
            Vec::new()
        } else {
            // A memory that would not have been presented anyway is not counted as withheld: its runs would be compared
            // with runs in which it had less competition.
            let is_missing = |(position, at): &&(usize, usize)| {
                let mut with_it = lines(&handed);
                with_it.insert(handed.partition_point(|(other, _)| other < position), *at);
                self.fill_places(&with_it, policy, tokens).lines().any(|placed| placed == *at)
            };
            let withheld = drawn.iter().take(DRAWN_MAX).filter(is_missing);
            let withheld = withheld.map(|(_, at)| (self.lines[*at].id, true));
            let presented = places.lines().map(|at| (self.lines[at].id, false));
            let assignment = |(memory, withheld)| Assignment { memory, withheld, permille };
            presented.chain(withheld).map(assignment).collect()
        };
        let count = places.lines().count();
        let explain = |at: usize, newcomer: bool| {
            // Lines are numbered in the order of their weights.
            let heavier = || handed.iter().filter(|(_, other)| *other < at).count();
            let place = match newcomer {
                true => RecallPlace::Newcomer,
                false if heavier() < count => RecallPlace::Weight,
                false => RecallPlace::Task,
            };
            let order = order?;
            let (relevance, words) = (order.scores[at].relevance, order.shared_words(at));
            Some(RecallReason { place, relevance, words })
        };
        Recall { assignments, ..self.render(&places, handed.len(), self.blocked.len(), &explain) }
    }

    /// Chooses the memories that a step of a run was handed before, without those that may not be shown any more.
    /// `order` is that of the same task as before.
    pub fn choose_again(
        &self,
        handed: &HandedList,
        run: &RunId,
        order: Option<&TaskOrder<'_>>,
        policy: &Policy,
        tokens: CountTokens<'_>,
    ) -> Recall {
        let find = |id: &MemoryId| self.lines.iter().position(|line| line.id == *id);
        let lines = handed.memories.iter().filter_map(|one| Some((find(&one.id)?, one.newcomer)));
        let mut places = self.fill(lines, policy.inject_tokens_max as usize, tokens);
        self.add_hint(&mut places, policy, tokens);
        let permille = policy.withhold_permille;
        // A policy that was edited meanwhile decides nothing about this run any more.
        let is_withheld = |id: &&MemoryId| find(id).is_some() && is_withheld(**id, run, permille);
        let withheld = handed.withheld.iter().filter(is_withheld).map(|id| (*id, true));
        let presented = places.lines().map(|at| (self.lines[at].id, false));
        let assignment = |(memory, withheld)| Assignment { memory, withheld, permille };
        let assignments =
            if permille == 0 { Vec::new() } else { presented.chain(withheld).map(assignment).collect() };
        let shown = places.lines().count();
        let omitted = shown + handed.omitted as usize;
        let explain = |at: usize, _: bool| {
            let line = &self.lines[at];
            let is_line = |one: &&HandedMemory| one.id == line.id;
            let (place, relevance) = handed.memories.iter().find(is_line)?.because?;
            Some(RecallReason { place, relevance, words: order?.shared_words(at) })
        };
        Recall { assignments, ..self.render(&places, omitted, self.blocked.len(), &explain) }
    }

    /// Chooses the rules of a repository to present, of which these are prepared. A rule is eligible if it has no path
    /// or a path that covers one of `paths`. If `paths` is empty, paths are not compared. The line of a rule with a
    /// path ends with that path. If there is a task, `order` decides which of them get a place.
    pub fn choose_rules(
        &self,
        paths: &[String],
        order: Option<&TaskOrder<'_>>,
        policy: &Policy,
        tokens: CountTokens<'_>,
    ) -> Recall {
        let is_eligible = |at: &usize| covers(self.lines[*at].path.as_deref(), paths);
        let ordered = order.map_or_else(|| (0..self.lines.len()).collect(), |order| order.order.clone());
        let eligible: Vec<usize> = ordered.into_iter().filter(is_eligible).collect();
        let blocked = self.blocked.iter().filter(|path| covers(path.as_deref(), paths)).count();
        let lines = eligible.iter().take(policy.rule_inject_max as usize).map(|at| (*at, false));
        let places = self.fill(lines, policy.rule_tokens_max as usize, tokens);
        let count = places.lines().count();
        let explain = |at: usize, _: bool| {
            let is_heavy = eligible.iter().filter(|other| **other < at).count() < count;
            let place = if is_heavy { RecallPlace::Weight } else { RecallPlace::Task };
            let order = order?;
            let (relevance, words) = (order.scores[at].relevance, order.shared_words(at));
            Some(RecallReason { place, relevance, words })
        };
        self.render(&places, eligible.len(), blocked, &explain)
    }

    /// Gives the places of the block to lines, which are named by their numbers, best first.
    fn fill_places(&self, eligible: &[usize], policy: &Policy, tokens: CountTokens<'_>) -> Places {
        let places = policy.inject_memories_max as usize;
        let fill = |lines: &mut dyn Iterator<Item = (usize, bool)>| {
            self.fill(lines.take(places), policy.inject_tokens_max as usize, tokens)
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
        // A stable sort: those presented equally often stay in their order.
        least_presented.sort_by_key(|at| self.lines[*at].presentations);
        least_presented.truncate(newcomers);
        let others = heavy.iter().chain(rest.iter().filter(|at| !least_presented.contains(at)));
        fill(&mut least_presented.iter().map(|at| (*at, true)).chain(others.map(|at| (*at, false))))
    }

    /// Gives places to lines in their order while the whole block stays within the token budget. A line that does not
    /// fit is skipped, because a shorter line after it may still fit.
    fn fill(
        &self,
        lines: impl Iterator<Item = (usize, bool)>,
        tokens_max: usize,
        tokens: CountTokens<'_>,
    ) -> Places {
        let count = |text: &str| u32::try_from(tokens(text)).unwrap_or(u32::MAX);
        let line_break = *self.line_break_tokens.get_or_init(|| count("\n"));
        let fence = *self.fence_tokens.get_or_init(|| count(FENCE_BEGIN) + line_break + count(FENCE_END));
        let mut places = Places { tokens: fence as usize, ..Places::default() };
        for (at, newcomer) in lines {
            let line = &self.lines[at];
            let with_it =
                places.tokens + (*line.tokens.get_or_init(|| count(&line.text)) + line_break) as usize;
            if with_it <= tokens_max {
                places.tokens = with_it;
                if newcomer { places.newcomers.push(at) } else { places.heaviest.push(at) }
            }
        }
        places
    }

    /// Adds the line that says how a memory is opened, if the budget allows it besides the memories.
    fn add_hint(&self, places: &mut Places, policy: &Policy, tokens: CountTokens<'_>) {
        let count = |text: &str| u32::try_from(tokens(text)).unwrap_or(u32::MAX);
        let line_break = *self.line_break_tokens.get_or_init(|| count("\n"));
        let hint = *self.hint_tokens.get_or_init(|| count(FENCE_HINT));
        let with_it = places.tokens + (hint + line_break) as usize;
        if with_it <= policy.inject_tokens_max as usize {
            (places.tokens, places.hint) = (with_it, true);
        }
    }

    /// Renders the block, in which newcomers come last.
    fn render(&self, places: &Places, eligible: usize, blocked: usize, explain: ExplainPlace<'_>) -> Recall {
        let blocked = u32::try_from(blocked).unwrap_or(u32::MAX);
        let recalled = |at: usize, newcomer| RecalledMemory {
            because: explain(at, newcomer),
            ..self.lines[at].recalled(newcomer)
        };
        let heaviest = places.heaviest.iter().map(|at| recalled(*at, false));
        let memories: Vec<RecalledMemory> =
            heaviest.chain(places.newcomers.iter().map(|at| recalled(*at, true))).collect();
        let omitted = u32::try_from(eligible - memories.len()).unwrap_or(u32::MAX);
        if memories.is_empty() {
            return Recall { omitted, blocked, ..Recall::default() };
        }
        let text = |at: usize| &self.lines[at].text;
        let bytes = places.lines().map(|at| text(at).len() + 1).sum::<usize>();
        let mut block = String::with_capacity(FENCE_BEGIN.len() + 1 + bytes + FENCE_END.len());
        block.extend([FENCE_BEGIN, "\n"]);
        places.lines().for_each(|at| block.extend([text(at), "\n"]));
        if places.hint {
            block.extend([FENCE_HINT, "\n"]);
        }
        block.push_str(FENCE_END);
        let tokens = u32::try_from(places.tokens).unwrap_or(u32::MAX);
        Recall { memories, text: block, tokens, omitted, blocked, assignments: Vec::new() }
    }
}

impl PreparedLine {
    fn new(candidate: RecallCandidate) -> Self {
        let RecallCandidate { memory, presentations } = candidate;
        let (id, weight) = (memory.id, memory.weight);
        let title = shown_title(&memory.scope, &memory.lesson);
        let text = render_line(id, weight, &title).into_boxed_str();
        let stored = memory.lesson.comparison_text();
        let stored_title = (stored != title).then(|| Box::from(stored));
        let title = (text.get(LINE_HEAD_BYTES..) != Some(&title)).then(|| title.into_boxed_str());
        let (path, tokens) = (rule_path(&memory), OnceLock::new());
        Self { id, weight, text, title, path, tokens, presentations, stored_title }
    }

    fn title(&self) -> &str {
        self.title.as_deref().unwrap_or_else(|| &self.text[LINE_HEAD_BYTES..])
    }

    fn compared(&self) -> ComparedLine<'_> {
        ComparedLine { weight: self.weight, title: self.compared_title() }
    }

    /// Returns the title by which embedders know the memory.
    pub(super) fn compared_title(&self) -> &str {
        self.stored_title.as_deref().unwrap_or_else(|| self.title())
    }

    pub(super) fn recalled(&self, newcomer: bool) -> RecalledMemory {
        let title = self.title().to_owned();
        RecalledMemory { id: self.id, weight: self.weight, title, newcomer, because: None }
    }
}

impl Places {
    /// Returns the lines in the order of the block.
    fn lines(&self) -> impl Iterator<Item = usize> {
        self.heaviest.iter().chain(&self.newcomers).copied()
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
