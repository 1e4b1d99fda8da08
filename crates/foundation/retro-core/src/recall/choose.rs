//! Chooses which of the prepared memories a run is handed.

use std::cell::RefCell;

use super::fence::{FENCE_BEGIN, FENCE_END, FENCE_HINT, RecallPlace, RecallReason, RecalledMemory};
use super::prepared::PreparedMemories;
use super::relevance::TaskOrder;
use super::withhold::{Assignment, is_withheld};
use super::{HandedList, HandedMemory, Recall};
use crate::id::{MemoryId, RunId};
use crate::policy::Policy;

/// Returns the number of tokens of a text, as counted by a real tokenizer. No token may contain a line break and
/// something else, so that a block has as many tokens as its lines and their breaks together.
pub type CountTokens<'a> = &'a dyn Fn(&str) -> usize;

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
        let queue = PlaceQueue::new(self, run.filter(|_| permille > 0), order, permille);
        let mut places = self.fill_places(&queue, None, policy, tokens);
        self.add_hint(&mut places, policy, tokens);
        // A memory that would not have been presented anyway is not counted as withheld: its runs would be compared
        // with runs in which it had less competition.
        let is_missing = |at: &usize| {
            self.fill_places(&queue, Some(*at), policy, tokens).lines().any(|placed| placed == *at)
        };
        let withheld: Vec<usize> = queue.drawn_before_places().into_iter().filter(is_missing).collect();
        let assignment = |at: usize, withheld| Assignment { memory: self.lines[at].id, withheld, permille };
        let assignments = match queue.run {
            None => Vec::new(),
            Some(_) => {
                let presented = places.lines().map(|at| assignment(at, false));
                presented.chain(withheld.iter().map(|at| assignment(*at, true))).collect()
            }
        };
        let count = places.lines().count();
        let explain = |at: usize, newcomer: bool| {
            let order = order?;
            // Lines are numbered in the order of their weights.
            let heavier = || (0..at).filter(|other| !queue.is_drawn(*other)).count();
            let place = match newcomer {
                true => RecallPlace::Newcomer,
                false if heavier() < count => RecallPlace::Weight,
                false => RecallPlace::Task,
            };
            let (relevance, words) = (order.scores[at].relevance, order.shared_words(at));
            Some(RecallReason { place, relevance, words })
        };
        let eligible = self.lines.len() - withheld.len();
        Recall { assignments, ..self.render(&places, eligible, self.blocked.len(), &explain) }
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
            let order = order?;
            let is_heavy = eligible.iter().filter(|other| **other < at).count() < count;
            let place = if is_heavy { RecallPlace::Weight } else { RecallPlace::Task };
            let (relevance, words) = (order.scores[at].relevance, order.shared_words(at));
            Some(RecallReason { place, relevance, words })
        };
        self.render(&places, eligible.len(), blocked, &explain)
    }

    /// Gives the places of the block to the lines of a queue, as if chance had not withheld the line `with`.
    fn fill_places(
        &self,
        queue: &PlaceQueue<'_>,
        with: Option<usize>,
        policy: &Policy,
        tokens: CountTokens<'_>,
    ) -> Places {
        let is_handed = |at: &usize| Some(*at) == with || !queue.is_drawn(*at);
        let handed = || queue.best_first().filter(is_handed);
        let places = policy.inject_memories_max as usize;
        let fill = |lines: &mut dyn Iterator<Item = (usize, bool)>| {
            self.fill(lines.take(places), policy.inject_tokens_max as usize, tokens)
        };
        // The number of lines that fit the token budget is known only after filling it once without newcomers.
        let heaviest = fill(&mut handed().map(|at| (at, false)));
        let found = heaviest.lines().count();
        let newcomers = newcomer_places(found, policy);
        if newcomers == 0 || handed().nth(found).is_none() {
            return heaviest;
        }
        // The heaviest memories keep their places; all others compete for the places of newcomers.
        let heavy: Vec<usize> = handed().take(found.saturating_sub(newcomers)).collect();
        let rest = queue.least_presented_first().filter(is_handed).filter(|at| !heavy.contains(at));
        let least_presented: Vec<usize> = rest.take(newcomers).collect();
        let others = handed().filter(|at| !least_presented.contains(at));
        fill(&mut least_presented.iter().map(|at| (*at, true)).chain(others.map(|at| (at, false))))
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

/// Lines in the order in which they get a place, of which chance withholds some from a run. Chance is asked only about
/// the lines that are looked at: of fifty, those that may get one of ten places.
struct PlaceQueue<'a> {
    prepared: &'a PreparedMemories,
    run: Option<&'a RunId>,
    order: Option<&'a TaskOrder<'a>>,
    permille: u16,
    /// What chance has said about a line, by its number.
    drawn: RefCell<Vec<Option<bool>>>,
}

impl<'a> PlaceQueue<'a> {
    /// Creates the queue of a run; without one, nothing is withheld.
    fn new(
        prepared: &'a PreparedMemories,
        run: Option<&'a RunId>,
        order: Option<&'a TaskOrder<'a>>,
        permille: u16,
    ) -> Self {
        let drawn = RefCell::new(vec![None; if run.is_some() { prepared.lines.len() } else { 0 }]);
        Self { prepared, run, order, permille, drawn }
    }

    /// Returns `true` if chance withholds a line from the run.
    fn is_drawn(&self, at: usize) -> bool {
        let Some(run) = self.run else { return false };
        let draw = || is_withheld(self.prepared.lines[at].id, run, self.permille);
        *self.drawn.borrow_mut()[at].get_or_insert_with(draw)
    }

    /// Returns the lines by weight, or by weight and relevance if there is a task.
    fn best_first(&self) -> impl Iterator<Item = usize> {
        let by_task = self.order.map_or(&[][..], |order| &order.order);
        let by_weight = if self.order.is_some() { 0 } else { self.prepared.lines.len() };
        by_task.iter().copied().chain(0..by_weight)
    }

    /// Returns the lines, the least presented first, and those presented equally often as [`best_first`](Self::best_first).
    fn least_presented_first(&self) -> Box<dyn Iterator<Item = usize> + '_> {
        let Some(order) = self.order else {
            return Box::new(self.prepared.least_presented.iter().map(|at| *at as usize));
        };
        let mut by_task = order.order.clone();
        by_task.sort_by_key(|at| self.prepared.lines[*at].presentations);
        Box::new(by_task.into_iter())
    }

    /// Returns the withheld lines, best first and at most [`DRAWN_MAX`], that were looked at until all places were taken:
    /// no other one would have had a place.
    fn drawn_before_places(&self) -> Vec<usize> {
        if self.run.is_none() {
            return Vec::new();
        }
        let drawn = self.drawn.borrow();
        self.best_first().filter(|at| drawn[*at] == Some(true)).take(DRAWN_MAX).collect()
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
