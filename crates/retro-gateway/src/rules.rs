//! Rules of a repository: screened once more before an agent is handed them, since what was let through once may be known
//! for what it is by now.

use retro_core::memory::{Memory, Scope};
use retro_core::policy::Policy;
use retro_core::recall::{Candidate, Recall, choose_rules};
use tracing::warn;

use crate::answer::{PATHS_MAX, RulesAnswer};
use crate::tokens;

/// Compiles the screen's patterns if this process has not yet: the first agent's fifth of a second is not for that.
pub(crate) fn prepare() {
    let _ = is_instruction("Never unwrap in library code");
}

/// Whether a rule's line may stand before an agent: its words, and the path that it is confined to.
fn fit(rule: &Memory) -> bool {
    let hostile = |text: &str| retro_screen::screen(text).is_hostile();
    let confined = match &rule.scope {
        Scope::Repository { path: Some(path), .. } => !hostile(path),
        _ => true,
    };
    confined && is_instruction(&rule.lesson.title)
}

fn is_instruction(title: &str) -> bool {
    !retro_screen::screen(title).is_hostile() && retro_screen::instruction_about_code(title).is_ok()
}

/// Why an agent may not open this memory; `None`: it may. An agent learns of rules by their lines alone, but whoever knows an
/// id may ask, and what stands behind a line is what somebody wrote in a review.
pub(crate) fn closed(memory: &Memory) -> Option<&'static str> {
    let Scope::Repository { .. } = memory.scope else { return None };
    if memory.quarantine.is_some() {
        return Some("it is in quarantine until a person promotes it");
    }
    let hostile = !fit(memory) || retro_screen::screen(&memory.lesson.content).is_hostile();
    hostile.then_some("its words are not fit for an agent")
}

/// Which of the candidates a run is handed. Those whose words are hostile, or are no instruction about code, are withheld,
/// counted and told in the log.
pub(crate) fn answer(mut candidates: Vec<Candidate>, paths: &[String], policy: &Policy) -> RulesAnswer {
    let found = candidates.len();
    candidates.retain(|candidate| {
        if !fit(&candidate.memory) {
            let id = candidate.memory.id;
            warn!(memory.id = %id, "rule {id} is withheld: its words are not fit for an agent");
            return false;
        }
        true
    });
    let withheld = found - candidates.len();
    retro_meter::RULES_WITHHELD.add(withheld as u64, []);
    let paths = &paths[..paths.len().min(PATHS_MAX)];
    let Recall { memories, text, tokens, left_out } = choose_rules(candidates, paths, policy, &tokens::count);
    let withheld = u32::try_from(withheld).unwrap_or(u32::MAX);
    RulesAnswer { rules: memories, text, tokens, left_out, withheld }
}
