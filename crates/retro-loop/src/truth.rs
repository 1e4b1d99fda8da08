//! What is true in a world, and which of it a memory says, judged from outside by the memory's step and its one line.

use crate::world::{After, Looks, Workflow};

/// Something that a memory can be about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum About {
    /// A cause, by its place in the file.
    Cause(usize),
    /// A trap, by its place.
    Trap(usize),
    /// A fact, by its place.
    Fact(usize),
}

/// What a memory says of the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Says {
    /// Error and remedy of one thing.
    Whole(About),
    /// The error of a cause, but not its remedy.
    ErrorOnly(usize),
    /// Nothing of the world.
    Nothing,
}

/// How a memory stands at a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is true and of use, or at least true.
    True,
    /// It names the error of a cause and not its remedy.
    Vague,
    /// Its cause is fixed; following it changes nothing.
    Stale,
    /// Its cause is fixed, and following it makes the call fail.
    Outdated,
    /// It never was true, and following it makes the call fail.
    Trap,
    /// It is about nothing: noise.
    Noise,
}

/// What a memory of a step with this line says. Causes come before facts, and facts before traps.
pub(crate) fn says(workflow: &Workflow, step: &str, line: &str) -> Says {
    let line = line.to_lowercase();
    let of = |tool: &str, at: &str| at == step && line.contains(&tool.to_lowercase());
    let whole = |looks: &Looks| holds_all(&line, &looks.error) && holds_all(&line, &looks.remedy);
    let mut causes = workflow.causes.iter().map(|one| one.get_ref());
    if let Some(at) = causes.clone().position(|one| of(&one.tool, &one.step) && whole(&one.memory)) {
        return Says::Whole(About::Cause(at));
    }
    let fact = workflow
        .facts
        .iter()
        .map(|one| one.get_ref())
        .position(|one| of(&one.tool, &one.step) && whole(&one.memory));
    let trap = || {
        // A remark names no tool.
        let concerns = |one: &crate::world::Trap| {
            if one.remark.is_some() { one.step == step || step == MAIN } else { of(&one.tool, &one.step) }
        };
        workflow.traps.iter().map(|one| one.get_ref()).position(|one| concerns(one) && whole(&one.memory))
    };
    if let Some(about) = fact.map(About::Fact).or_else(|| trap().map(About::Trap)) {
        return Says::Whole(about);
    }
    let error_only = causes.position(|one| {
        of(&one.tool, &one.step) && !one.memory.error.is_empty() && holds_all(&line, &one.memory.error)
    });
    error_only.map_or(Says::Nothing, Says::ErrorOnly)
}

/// The step of what nobody says the step of.
const MAIN: &str = "main";

fn holds_all(line: &str, words: &[String]) -> bool {
    words.iter().all(|word| word.to_lowercase().split('|').any(|one| line.contains(one)))
}

/// How a memory that says this stands once `run` runs are over.
pub(crate) fn standing(workflow: &Workflow, says: Says, run: u32) -> Standing {
    let fixed = |at: usize| {
        let cause = workflow.causes[at].get_ref();
        cause.until.filter(|until| run > *until).map(|_| cause.after)
    };
    match says {
        Says::Nothing => Standing::Noise,
        Says::Whole(About::Fact(_)) => Standing::True,
        Says::Whole(About::Trap(_)) => Standing::Trap,
        Says::ErrorOnly(at) => {
            if fixed(at).is_some() {
                Standing::Stale
            } else {
                Standing::Vague
            }
        }
        Says::Whole(About::Cause(at)) => match fixed(at) {
            None => Standing::True,
            Some(After::Harmful) => Standing::Outdated,
            Some(After::Harmless | After::Gone) => Standing::Stale,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::tests::small;

    fn stands(step: &str, line: &str, run: u32) -> Standing {
        let workflow = small();
        standing(&workflow, says(&workflow, step, line), run)
    }

    #[test]
    fn a_memory_is_known_by_its_step_tool_error_and_remedy() {
        let right = "When `deploy_service` answers “missing required argument …”, pass `region` as well.";
        assert_eq!(stands("deploy", right, 10), Standing::True);
        assert_eq!(stands("build", right, 10), Standing::Noise, "another step");
        assert_eq!(
            stands("deploy", &right.replace("deploy_service", "restart"), 10),
            Standing::Noise,
            "another tool"
        );
        assert_eq!(
            stands("deploy", &right.replace("pass `region` as well", "stop repeating the call"), 10),
            Standing::Vague
        );
        assert_eq!(
            stands("deploy", "When `deploy_service` answers “gateway”, pass `verbose` as well.", 10),
            Standing::Noise
        );
        assert_eq!(
            stands("deploy", "When `deploy_service` answers “no quorum”, pass `force` as well.", 10),
            Standing::Trap
        );
    }

    #[test]
    fn a_fixed_cause_leaves_a_memory_that_is_stale_or_outdated() {
        let right = "When `deploy_service` answers “missing required argument …”, pass `region` as well.";
        assert_eq!(stands("deploy", right, 60), Standing::True, "its last run");
        assert_eq!(stands("deploy", right, 61), Standing::Outdated);
    }

    #[test]
    fn of_words_that_may_stand_for_one_another_one_is_enough() {
        let words = ["gone|retired".to_owned(), "Pass `version`".to_owned()];
        assert!(holds_all("answers “410 gone”, pass `version`", &words));
        assert!(holds_all("this is retired: pass `version`", &words));
        assert!(!holds_all("pass `version`", &words));
    }

    #[test]
    fn a_remark_is_known_without_a_tool() {
        assert_eq!(stands("main", "Always clear the cache before you deploy.", 1), Standing::Trap);
        assert_eq!(stands("other", "Always clear the cache before you deploy.", 1), Standing::Noise);
    }
}
