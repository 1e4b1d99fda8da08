//! Chooses the memories to present to the next run of a step, and renders them as a block of its prompt.

mod fence;
mod memory_content;
mod rules;
mod strip;

use serde::{Deserialize, Serialize};

pub use fence::{FENCE_BEGIN, FENCE_END, RecalledMemory, strip_injected};
pub use memory_content::MemoryContent;
pub use rules::choose_rules;

use crate::gate::{blocked_reason, shown_title};
use crate::id::MemoryId;
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
}

/// Chooses the memories to present from the candidates of one step. `tokens` returns the number of tokens of
/// a text as counted by a real tokenizer.
///
/// If more memories are eligible than there are places or tokens for, the least presented ones get some of
/// the places. Otherwise no new memory would ever be presented.
pub fn choose_memories(
    mut candidates: Vec<RecallCandidate>,
    policy: &Policy,
    tokens: &dyn Fn(&str) -> usize,
) -> Recall {
    candidates.retain(|candidate| is_eligible(&candidate.memory, policy));
    let blocked = remove_blocked(&mut candidates, policy);
    candidates.sort_by_key(weight_order);
    let eligible = candidates.len();
    let places = policy.inject_memories_max as usize;
    let fill =
        |lines| Recall { blocked, ..fill_budget(lines, eligible, policy.inject_tokens_max as usize, tokens) };
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
    others.sort_by_key(weight_order);
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
    memory.status == MemoryStatus::Active && memory.weight.get() >= policy.inject_weight_min
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
