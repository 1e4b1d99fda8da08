//! Chooses the rules of a repository to present to an agent. Rules have a separate budget, so they never
//! displace the memories of the agent's step.

use super::{CountTokens, PreparedMemories, Recall, RecallCandidate};
use crate::memory::MemoryScope;
use crate::policy::Policy;

/// Chooses the rules of a repository to present to an agent. A rule is eligible if it is active, heavy enough,
/// not disabled, not held and not objected to by the gate, and either has no path or has a path that covers one
/// of `paths`. If `paths` is empty, paths are not compared. The block is fenced like that of memories, so it is removed
/// from traces in the same way. The line of a rule with a path ends with that path.
pub fn choose_rules(
    mut candidates: Vec<RecallCandidate>,
    paths: &[String],
    policy: &Policy,
    tokens: CountTokens<'_>,
) -> Recall {
    candidates.retain(|candidate| matches_paths(&candidate.memory.scope, paths));
    let prepared = PreparedMemories::new(candidates, policy);
    prepared.choose_first(policy.rule_inject_max as usize, policy.rule_tokens_max as usize, tokens)
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
