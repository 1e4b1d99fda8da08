//! Recall: which memories the next run of a step is handed, and how they stand in its prompt.

mod fence;
mod rules;
mod told;

use serde::{Deserialize, Serialize};

pub use fence::{FENCE_BEGIN, FENCE_END, strip_injected};
pub use rules::choose_rules;
pub use told::strip_told;

use crate::id::MemoryId;
use crate::memory::{Memory, Status};
use crate::policy::Policy;
use crate::weight::Weight;

/// A memory that might be handed out, with how often it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The memory.
    pub memory: Memory,
    /// Runs it has been presented to.
    pub presentations: u64,
}

/// One line of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recalled {
    /// The memory.
    pub id: MemoryId,
    /// Its weight.
    pub weight: Weight,
    /// Its one line.
    pub title: String,
    /// Whether it got a newcomer's place.
    pub newcomer: bool,
}

/// What a step's next run is handed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Recall {
    /// The memories, best first.
    pub memories: Vec<Recalled>,
    /// The block to put into the prompt; empty when there is nothing to say.
    pub text: String,
    /// Tokens of `text`.
    pub tokens: u32,
    /// Eligible memories that found no place.
    pub left_out: u32,
}

/// Chooses among the candidates of one step. `tokens` counts the tokens of a text with a real tokenizer.
///
/// Places are scarce when more memories are eligible than there are places, or than the token budget has room for:
/// then the least presented get some of them, or nothing new would ever be seen.
pub fn choose(mut candidates: Vec<Candidate>, policy: &Policy, tokens: &dyn Fn(&str) -> usize) -> Recall {
    candidates.retain(|candidate| eligible(&candidate.memory, policy));
    candidates.sort_by_key(by_weight);
    let eligible = candidates.len();
    let places = policy.inject_memories_max as usize;
    let fill = |lines| fill(lines, eligible, policy.inject_tokens_max as usize, tokens);
    let heaviest = fill(candidates.iter().take(places).map(|one| recalled(one, false)).collect());
    let found = heaviest.memories.len();
    let newcomers = newcomers(found, policy);
    if found == eligible || newcomers == 0 {
        return heaviest;
    }
    let mut rest = candidates.split_off(found.saturating_sub(newcomers));
    rest.sort_by_key(|candidate| (candidate.presentations, by_weight(candidate)));
    let mut others = rest.split_off(newcomers.min(rest.len()));
    others.sort_by_key(by_weight);
    let lines = rest.iter().map(|one| recalled(one, true));
    let heavy = candidates.iter().chain(&others).map(|one| recalled(one, false));
    fill(lines.chain(heavy).take(places).collect())
}

/// How many places go to newcomers: the policy's number, and when the budget has room for fewer lines than there are
/// places, no more than half of them.
fn newcomers(found: usize, policy: &Policy) -> usize {
    let wanted = policy.inject_newcomers as usize;
    if found < policy.inject_memories_max as usize { wanted.min(found / 2) } else { wanted }
}

fn eligible(memory: &Memory, policy: &Policy) -> bool {
    memory.status == Status::Active && memory.weight.get() >= policy.inject_weight_min
}

/// Weight, then fewer presentations, then age, then id.
fn by_weight(candidate: &Candidate) -> (std::cmp::Reverse<Weight>, u64, jiff::Timestamp, MemoryId) {
    let memory = &candidate.memory;
    (std::cmp::Reverse(memory.weight), candidate.presentations, memory.created_at, memory.id)
}

fn recalled(candidate: &Candidate, newcomer: bool) -> Recalled {
    let memory = &candidate.memory;
    Recalled { id: memory.id, weight: memory.weight, title: memory.lesson.title.clone(), newcomer }
}

/// Takes lines, in the order in which they have a claim, while the whole block stays within the budget; one that does
/// not fit is left out, and a shorter one after it may still fit. In the block, newcomers stand last.
fn fill(lines: Vec<Recalled>, eligible: usize, tokens_max: usize, tokens: &dyn Fn(&str) -> usize) -> Recall {
    let mut recall = Recall::default();
    for line in lines {
        let before_newcomers = recall.memories.iter().take_while(|kept| !kept.newcomer).count();
        let at = if line.newcomer { recall.memories.len() } else { before_newcomers };
        recall.memories.insert(at, line);
        let text = fence::render(&recall.memories);
        let count = tokens(&text);
        if count > tokens_max {
            recall.memories.remove(at);
        } else {
            recall.text = text;
            recall.tokens = u32::try_from(count).unwrap_or(u32::MAX);
        }
    }
    recall.left_out = u32::try_from(eligible - recall.memories.len()).unwrap_or(u32::MAX);
    recall
}
