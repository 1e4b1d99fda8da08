//! Selects a repository's rules for an agent. Rules are screened again before an agent receives them, because
//! a newer version of the screen may classify a text as hostile that an earlier one accepted.

use retro_core::memory::{Memory, MemoryScope};
use retro_core::policy::Policy;
use retro_core::recall::{Recall, RecallCandidate, choose_rules};
use tracing::warn;

use crate::answer::{PATHS_MAX, RulesAnswer};
use crate::tokens;

/// Compiles the screening patterns if this process has not done so yet. Otherwise the first request would
/// spend its 200 ms on compiling them.
pub(crate) fn compile_screen() {
    let _ = is_instruction("Never unwrap in library code");
}

/// Returns `true` if a rule may be shown to an agent, judging by its title and path.
fn is_fit_for_agents(rule: &Memory) -> bool {
    let hostile = |text: &str| retro_screen::screen_text(text).is_hostile();
    let confined = match &rule.scope {
        MemoryScope::Repository { path: Some(path), .. } => !hostile(path),
        _ => true,
    };
    confined && is_instruction(&rule.lesson.title)
}

fn is_instruction(title: &str) -> bool {
    !retro_screen::screen_text(title).is_hostile() && retro_screen::validate_rule_title(title).is_ok()
}

/// Returns the reason why an agent may not open this memory, or `None` if it may. Context contains only the
/// titles of rules, but anyone who knows an id can request the rule, whose content is text from a review.
pub(crate) fn withheld_reason(memory: &Memory) -> Option<&'static str> {
    let MemoryScope::Repository { .. } = memory.scope else { return None };
    if memory.quarantine.is_some() {
        return Some("it is in quarantine until a person promotes it");
    }
    let hostile =
        !is_fit_for_agents(memory) || retro_screen::screen_text(&memory.lesson.content).is_hostile();
    hostile.then_some("its text is not fit for an agent")
}

/// Selects the rules for a run. Rules whose text is hostile or not an instruction about code are withheld,
/// counted and logged.
pub(crate) fn select_rules(
    mut candidates: Vec<RecallCandidate>,
    paths: &[String],
    policy: &Policy,
) -> RulesAnswer {
    let found = candidates.len();
    candidates.retain(|candidate| {
        if !is_fit_for_agents(&candidate.memory) {
            let id = candidate.memory.id;
            warn!(memory.id = %id, "rule {id} is withheld: its text is not fit for an agent");
            return false;
        }
        true
    });
    let withheld = found - candidates.len();
    retro_telemetry::metrics::RULES_BLOCKED.add(withheld as u64, []);
    // Excess paths are ignored rather than rejected, because a context request never fails.
    let paths = &paths[..paths.len().min(PATHS_MAX)];
    let Recall { memories, text, tokens, omitted } =
        choose_rules(candidates, paths, policy, &tokens::count_tokens);
    let withheld = u32::try_from(withheld).unwrap_or(u32::MAX);
    RulesAnswer { rules: memories, text, tokens, omitted, withheld }
}
