//! The policy, rule by rule. The name of each test is the rule that it checks.

#![expect(clippy::unwrap_used, reason = "clippy does not recognize shared test helpers as tests")]

#[path = "../world/mod.rs"]
mod world;

mod cancel;
mod close;
mod contradict;
mod contrast;
mod count;
mod credit;
mod decide;
mod feedback;
mod gate;
mod manual;
mod missed;
mod observe;
mod quotes;
mod recall;
mod repositories;
mod rules;
mod rules_by_hand;
mod saved_quotes;
mod stored;
mod sweep;
mod tombstone;
mod transient;
mod words;

use retro_core::id::RunId;
use retro_core::policy::Policy;
use retro_core::recall::{CountTokens, PreparedMemories, Recall, RecallCandidate};

/// Chooses the memories to present to a run from the candidates of its step.
fn prepare_and_choose(
    candidates: Vec<RecallCandidate>,
    run: Option<&RunId>,
    policy: &Policy,
    tokens: CountTokens<'_>,
) -> Recall {
    PreparedMemories::new(candidates, policy).choose(run, None, policy, tokens)
}

/// Chooses the rules to present from the candidates of a repository.
fn prepare_and_choose_rules(
    candidates: Vec<RecallCandidate>,
    paths: &[String],
    policy: &Policy,
    tokens: CountTokens<'_>,
) -> Recall {
    PreparedMemories::new(candidates, policy).choose_rules(paths, None, policy, tokens)
}
