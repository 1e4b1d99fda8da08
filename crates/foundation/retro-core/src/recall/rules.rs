//! Chooses the rules of a repository to present to an agent. Rules have a separate budget, so they never
//! displace the memories of the agent's step.

use super::{
    Recall, RecallCandidate, fill_budget, is_eligible, recalled_memory, remove_blocked, weight_order,
};
use crate::memory::MemoryScope;
use crate::policy::Policy;

/// Chooses the rules of a repository to present to an agent. A rule is eligible if it is active, heavy enough,
/// not disabled, not held and not objected to by the gate, and either has no path or has a path that covers one
/// of `paths`. If `paths` is empty, paths are not compared. The block is fenced like that of memories, so it is removed from traces in
/// the same way. The line of a rule with a path ends with that path. `tokens` returns the number of tokens of
/// a text as counted by a real tokenizer.
pub fn choose_rules(
    mut candidates: Vec<RecallCandidate>,
    paths: &[String],
    policy: &Policy,
    tokens: &dyn Fn(&str) -> usize,
) -> Recall {
    candidates.retain(|candidate| {
        let memory = &candidate.memory;
        is_eligible(memory, policy) && matches_paths(&memory.scope, paths)
    });
    let blocked = remove_blocked(&mut candidates, policy);
    candidates.sort_by_key(weight_order);
    let eligible = candidates.len();
    let chosen = candidates.iter().take(policy.rule_inject_max as usize);
    let lines = chosen.map(|candidate| recalled_memory(candidate, false)).collect();
    Recall { blocked, ..fill_budget(lines, eligible, policy.rule_tokens_max as usize, tokens) }
}

/// Returns `true` if the rule has no path, or if its path equals one of `paths` or is a folder above one of
/// them. An empty `paths` matches the rules of every path.
fn matches_paths(scope: &MemoryScope, paths: &[String]) -> bool {
    let MemoryScope::Repository { path, .. } = scope else { return false };
    let Some(path) = path.as_deref().filter(|_| !paths.is_empty()) else { return true };
    let below = |touched: &String| {
        let touched = touched.trim_start_matches("./");
        touched.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    paths.iter().any(below)
}
