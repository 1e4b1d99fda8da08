//! Chooses the memories to present to the next run of a step, and renders them as a block of its prompt.

mod fence;
mod memory_content;
mod rules;
mod strip;
mod withhold;

use serde::{Deserialize, Serialize};

pub use fence::{FENCE_BEGIN, FENCE_END, RecalledMemory, strip_injected};
pub use memory_content::MemoryContent;
pub use rules::choose_rules;
pub use withhold::{Assignment, is_withheld};

use crate::gate::{blocked_reason, shown_title};
use crate::id::{MemoryId, RunId};
use crate::memory::{Memory, MemoryStatus};
use crate::policy::Policy;
use crate::weight::Weight;

/// A memory that may be presented, with the number of times it was presented.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecallCandidate {
    /// Candidate memory with its scope, lesson and weight.
    pub memory: Memory,
    /// Number of runs to which the memory was presented.
    pub presentations: u64,
}

/// The chosen memories and their rendering as a block of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Recall {
    /// Presented memories in the order of their lines: by descending weight, with newcomers last.
    pub memories: Vec<RecalledMemory>,
    /// Block to insert into the prompt; empty if there are no memories.
    pub text: String,
    /// Number of tokens in `text`.
    pub tokens: u32,
    /// Number of eligible memories that did not fit.
    pub omitted: u32,
    /// Number of memories that are heavy enough and blocked: held until a person releases them, or the gate
    /// objects to them.
    #[serde(default)]
    pub blocked: u32,
    /// Decisions by chance: one for each presented memory, and one for each that would have been presented and
    /// was withheld. Empty for a preview, for rules, and if the policy withholds nothing.
    #[serde(default)]
    pub assignments: Vec<Assignment>,
}

impl Recall {
    /// Returns the number of memories that chance withheld from the run.
    pub fn withheld(&self) -> usize {
        self.assignments.iter().filter(|assignment| assignment.withheld).count()
    }
}

/// Chooses the memories to present from the candidates of one step. `tokens` returns the number of tokens of
/// a text as counted by a real tokenizer.
///
/// If more memories are eligible than there are places or tokens for, the least presented ones get some of
/// the places. Otherwise no new memory would ever be presented.
///
/// If `run` is given, some eligible memories are withheld from it by chance. They take no place.
pub fn choose_memories(
    mut candidates: Vec<RecallCandidate>,
    run: Option<&RunId>,
    policy: &Policy,
    tokens: &dyn Fn(&str) -> usize,
) -> Recall {
    candidates.retain(|candidate| is_eligible(&candidate.memory, policy));
    let blocked = remove_blocked(&mut candidates, policy);
    candidates.sort_by_key(weight_order);
    let permille = policy.withhold_permille;
    let is_drawn = |one: &&RecallCandidate| run.is_some_and(|run| is_withheld(one.memory.id, run, permille));
    let (drawn, handed): (Vec<_>, Vec<_>) = candidates.iter().partition(is_drawn);
    let recall = fill_places(handed.clone(), policy, tokens);
    // A memory that would not have been presented anyway is not counted as withheld: its runs would be compared
    // with runs in which it had less competition.
    let is_missing = |one: &&&RecallCandidate| {
        let with_it = handed.iter().chain([*one]).copied().collect();
        fill_places(with_it, policy, tokens).memories.iter().any(|line| line.id == one.memory.id)
    };
    let withheld = drawn.iter().take(DRAWN_MAX).filter(is_missing);
    let assignment = |withheld| move |memory| Assignment { memory, withheld, permille };
    let assignments = if run.is_none() || permille == 0 {
        Vec::new()
    } else {
        let handed = recall.memories.iter().map(|line| line.id).map(assignment(false));
        handed.chain(withheld.map(|one| one.memory.id).map(assignment(true))).collect()
    };
    Recall { blocked, assignments, ..recall }
}

/// Maximum number of withheld memories of a run, heaviest first, for which it is checked whether they would have
/// been presented. Each check fills the block once, and 20 of 200 eligible memories are withheld by default.
const DRAWN_MAX: usize = 20;

/// Gives the places of the block to candidates.
fn fill_places(
    mut candidates: Vec<&RecallCandidate>,
    policy: &Policy,
    tokens: &dyn Fn(&str) -> usize,
) -> Recall {
    candidates.sort_by_key(|one| weight_order(one));
    let eligible = candidates.len();
    let places = policy.inject_memories_max as usize;
    let fill = |lines| fill_budget(lines, eligible, policy.inject_tokens_max as usize, tokens);
    // The number of lines that fit the token budget is known only after filling it once without newcomers.
    let heaviest = fill(candidates.iter().take(places).map(|one| recalled_memory(one, false)).collect());
    let found = heaviest.memories.len();
    let newcomers = newcomer_places(found, policy);
    if found == eligible || newcomers == 0 {
        return heaviest;
    }
    // The heaviest memories keep their places; all others compete for the places of newcomers.
    let mut rest = candidates.split_off(found.saturating_sub(newcomers));
    rest.sort_by_key(|candidate| (candidate.presentations, weight_order(candidate)));
    let mut others = rest.split_off(newcomers.min(rest.len()));
    others.sort_by_key(|one| weight_order(one));
    let lines = rest.iter().map(|one| recalled_memory(one, true));
    let heavy = candidates.iter().chain(&others).map(|one| recalled_memory(one, false));
    fill(lines.chain(heavy).take(places).collect())
}

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

/// Removes the candidates that no agent may be shown, and returns their number.
fn remove_blocked(candidates: &mut Vec<RecallCandidate>, policy: &Policy) -> u32 {
    let before = candidates.len();
    candidates.retain(|candidate| blocked_reason(&candidate.memory, &policy.held_dangers).is_none());
    u32::try_from(before - candidates.len()).unwrap_or(u32::MAX)
}

/// Returns the sort key of a candidate: highest weight first, then fewest presentations, then oldest, then
/// lowest id.
fn weight_order(candidate: &RecallCandidate) -> (std::cmp::Reverse<Weight>, u64, jiff::Timestamp, MemoryId) {
    let memory = &candidate.memory;
    (std::cmp::Reverse(memory.weight), candidate.presentations, memory.created_at, memory.id)
}

fn recalled_memory(candidate: &RecallCandidate, newcomer: bool) -> RecalledMemory {
    let memory = &candidate.memory;
    let title = shown_title(&memory.scope, &memory.lesson);
    RecalledMemory { id: memory.id, weight: memory.weight, title, newcomer }
}

/// Adds lines by priority while the whole block stays within the token budget. A line that does not fit is
/// skipped, because a shorter line after it may still fit. Newcomers come last in the block.
fn fill_budget(
    lines: Vec<RecalledMemory>,
    eligible: usize,
    tokens_max: usize,
    tokens: &dyn Fn(&str) -> usize,
) -> Recall {
    let mut recall = Recall::default();
    for line in lines {
        // Newcomers are added first, so they get their tokens, but every other line is inserted before them.
        let before_newcomers = recall.memories.iter().take_while(|kept| !kept.newcomer).count();
        let at = if line.newcomer { recall.memories.len() } else { before_newcomers };
        recall.memories.insert(at, line);
        let text = fence::render_block(&recall.memories);
        let count = tokens(&text);
        if count > tokens_max {
            recall.memories.remove(at);
        } else {
            recall.text = text;
            recall.tokens = u32::try_from(count).unwrap_or(u32::MAX);
        }
    }
    recall.omitted = u32::try_from(eligible - recall.memories.len()).unwrap_or(u32::MAX);
    recall
}
