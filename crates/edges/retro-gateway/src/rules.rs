//! Selects a repository's rules for an agent.

use retro_core::policy::Policy;
use retro_core::recall::{PreparedMemories, Recall, TaskOrder};
use retro_telemetry::metrics;
use tracing::debug;

use crate::answer::{PATHS_MAX, RulesAnswer};
use crate::tokens;

/// Selects the rules for a run. Rules that no agent may be shown are blocked, counted and logged.
pub(crate) fn select_rules(
    prepared: &PreparedMemories,
    paths: &[String],
    order: Option<&TaskOrder<'_>>,
    policy: &Policy,
) -> RulesAnswer {
    // Excess paths are ignored rather than rejected, because a context request never fails.
    let paths = &paths[..paths.len().min(PATHS_MAX)];
    let Recall { memories, text, tokens, omitted, blocked, assignments: _ } =
        prepared.choose_rules(paths, order, policy, &tokens::count_tokens);
    if blocked > 0 {
        debug!(rules.blocked = blocked, "context: {blocked} rules are blocked by the gate");
    }
    metrics::RULES_BLOCKED.add(u64::from(blocked), []);
    RulesAnswer { rules: memories, text, tokens, omitted, blocked }
}
