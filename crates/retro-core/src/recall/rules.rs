//! Which rules of a repository an agent is handed: a few, with a budget of their own, so that they never crowd out what its
//! step has learnt.

use super::{Candidate, Recall, Recalled, by_weight, eligible, fill, recalled};
use crate::memory::Scope;
use crate::policy::Policy;

/// Chooses among a repository's rules: active, out of quarantine, heavy enough, and confined to no path but one of
/// `paths` (with none named, every rule fits). The block is fenced like that of memories, and cut out of traces like it.
/// A rule that is confined says so at its end. `tokens` counts the tokens of a text with a real tokenizer.
pub fn choose_rules(
    mut candidates: Vec<Candidate>,
    paths: &[String],
    policy: &Policy,
    tokens: &dyn Fn(&str) -> usize,
) -> Recall {
    candidates.retain(|candidate| {
        let memory = &candidate.memory;
        eligible(memory, policy) && memory.quarantine.is_none() && fits(&memory.scope, paths)
    });
    candidates.sort_by_key(by_weight);
    let eligible = candidates.len();
    let lines = candidates.iter().take(policy.rule_inject_max as usize).map(line).collect();
    fill(lines, eligible, policy.rule_tokens_max as usize, tokens)
}

fn line(candidate: &Candidate) -> Recalled {
    let line = recalled(candidate, false);
    match &candidate.memory.scope {
        Scope::Repository { path: Some(path), .. } => {
            Recalled { title: format!("{} (in {path})", line.title), ..line }
        }
        _ => line,
    }
}

/// Whether a rule's path is one of `paths` or a folder above one of them.
fn fits(scope: &Scope, paths: &[String]) -> bool {
    let Scope::Repository { path, .. } = scope else { return false };
    let Some(path) = path.as_deref().filter(|_| !paths.is_empty()) else { return true };
    let below = |asked: &String| {
        let asked = asked.trim_start_matches("./");
        asked.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    paths.iter().any(below)
}
