//! Determines which item of the simulated world a memory is about, and whether the memory is true, from only
//! the step and the one-line text of the memory.

use crate::closed_loop::world::{AfterFix, MemoryPattern, Trap, Workflow};

/// An item of the world that a memory can be about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum WorldItem {
    /// The cause with this index in the workflow's file.
    Cause(usize),
    /// The trap with this index in the workflow's file.
    Trap(usize),
    /// The fact with this index in the workflow's file.
    Fact(usize),
}

/// A memory's statement about the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemoryClaim {
    /// The memory states the error and the remedy of one item.
    Complete(WorldItem),
    /// The memory states the error of the cause with this index, but not its remedy.
    ErrorOnly(usize),
    /// The memory states nothing about the world.
    Unrelated,
}

/// Truth of a memory at a given run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemoryTruth {
    /// The memory is currently true, whether or not it is useful.
    True,
    /// The memory names the error of a cause, but not its remedy.
    Vague,
    /// The cause is fixed, and following the memory has no effect.
    Stale,
    /// The cause is fixed, and following the memory makes the call fail.
    Outdated,
    /// The memory was never true, and following it makes the call fail.
    Trap,
    /// The memory is not about anything in the world.
    Noise,
}

/// Matches a memory's line to an item of the world. Causes take precedence over facts, and facts over traps.
pub(crate) fn match_claim(workflow: &Workflow, step: &str, line: &str) -> MemoryClaim {
    let line = line.to_lowercase();
    let of = |tool: &str, at: &str| at == step && line.contains(&tool.to_lowercase());
    let whole = |looks: &MemoryPattern| {
        contains_all_words(&line, &looks.error) && contains_all_words(&line, &looks.remedy)
    };
    let mut causes = workflow.causes.iter().map(|one| one.get_ref());
    if let Some(at) = causes.clone().position(|one| of(&one.tool, &one.step) && whole(&one.memory)) {
        return MemoryClaim::Complete(WorldItem::Cause(at));
    }
    let fact = workflow
        .facts
        .iter()
        .map(|one| one.get_ref())
        .position(|one| of(&one.tool, &one.step) && whole(&one.memory));
    let trap = || {
        // A memory from a remark names no tool, so only its step can match.
        let concerns = |one: &Trap| {
            if one.remark.is_some() {
                one.step == step || step == DEFAULT_STEP
            } else {
                of(&one.tool, &one.step)
            }
        };
        workflow.traps.iter().map(|one| one.get_ref()).position(|one| concerns(one) && whole(&one.memory))
    };
    if let Some(about) = fact.map(WorldItem::Fact).or_else(|| trap().map(WorldItem::Trap)) {
        return MemoryClaim::Complete(about);
    }
    let error_only = causes.position(|one| {
        of(&one.tool, &one.step)
            && !one.memory.error.is_empty()
            && contains_all_words(&line, &one.memory.error)
    });
    error_only.map_or(MemoryClaim::Unrelated, MemoryClaim::ErrorOnly)
}

/// Step of the turns that do not name a step.
const DEFAULT_STEP: &str = "main";

fn contains_all_words(line: &str, words: &[String]) -> bool {
    words.iter().all(|word| word.to_lowercase().split('|').any(|one| line.contains(one)))
}

/// Returns the truth of a claim after `run` runs.
pub(crate) fn evaluate_truth(workflow: &Workflow, says: MemoryClaim, run: u32) -> MemoryTruth {
    let fixed = |at: usize| {
        let cause = workflow.causes[at].get_ref();
        cause.until.filter(|until| run > *until).map(|_| cause.after)
    };
    match says {
        MemoryClaim::Unrelated => MemoryTruth::Noise,
        MemoryClaim::Complete(WorldItem::Fact(_)) => MemoryTruth::True,
        MemoryClaim::Complete(WorldItem::Trap(_)) => MemoryTruth::Trap,
        MemoryClaim::ErrorOnly(at) => {
            if fixed(at).is_some() {
                MemoryTruth::Stale
            } else {
                MemoryTruth::Vague
            }
        }
        MemoryClaim::Complete(WorldItem::Cause(at)) => match fixed(at) {
            None => MemoryTruth::True,
            Some(AfterFix::Harmful) => MemoryTruth::Outdated,
            Some(AfterFix::Harmless | AfterFix::Gone) => MemoryTruth::Stale,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closed_loop::world::tests::small;

    fn stands(step: &str, line: &str, run: u32) -> MemoryTruth {
        let workflow = small();
        evaluate_truth(&workflow, match_claim(&workflow, step, line), run)
    }

    #[test]
    fn a_memory_is_known_by_its_step_tool_error_and_remedy() {
        let right = "When `deploy_service` answers “missing required argument …”, pass `region` as well.";
        assert_eq!(stands("deploy", right, 10), MemoryTruth::True);
        assert_eq!(stands("build", right, 10), MemoryTruth::Noise, "another step");
        assert_eq!(
            stands("deploy", &right.replace("deploy_service", "restart"), 10),
            MemoryTruth::Noise,
            "another tool"
        );
        assert_eq!(
            stands("deploy", &right.replace("pass `region` as well", "stop repeating the call"), 10),
            MemoryTruth::Vague
        );
        assert_eq!(
            stands("deploy", "When `deploy_service` answers “gateway”, pass `verbose` as well.", 10),
            MemoryTruth::Noise
        );
        assert_eq!(
            stands("deploy", "When `deploy_service` answers “no quorum”, pass `force` as well.", 10),
            MemoryTruth::Trap
        );
    }

    #[test]
    fn a_fixed_cause_leaves_a_memory_that_is_stale_or_outdated() {
        let right = "When `deploy_service` answers “missing required argument …”, pass `region` as well.";
        assert_eq!(stands("deploy", right, 60), MemoryTruth::True, "its last run");
        assert_eq!(stands("deploy", right, 61), MemoryTruth::Outdated);
    }

    #[test]
    fn one_of_several_alternative_words_is_enough() {
        let words = ["gone|retired".to_owned(), "Pass `version`".to_owned()];
        assert!(contains_all_words("answers “410 gone”, pass `version`", &words));
        assert!(contains_all_words("this is retired: pass `version`", &words));
        assert!(!contains_all_words("pass `version`", &words));
    }

    #[test]
    fn a_remark_is_known_without_a_tool() {
        assert_eq!(stands("main", "Always clear the cache before you deploy.", 1), MemoryTruth::Trap);
        assert_eq!(stands("other", "Always clear the cache before you deploy.", 1), MemoryTruth::Noise);
    }
}
