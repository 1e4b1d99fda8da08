//! Failures: an error came, and nothing that means something in another run got past it. What the error itself
//! demands is all that can be said.

use retro_core::finding::{Finding, FindingKind};

use super::call::StepCalls;
use super::demand;
use super::errors::Errors;
use super::lesson::Lesson;
use super::lookup;

/// The warnings of a step, one an error, for the errors that have no lesson yet.
pub(super) fn find(step: &StepCalls<'_>, errors: &mut Errors) -> Vec<Finding> {
    let mut findings = Vec::new();
    for call in &step.calls {
        // "Not found" is how a look-up answers; it cannot be looked up before.
        if !errors.open_without_way(step.step, call)
            || (call.arguments.object().is_some() && lookup::label(call).is_some())
        {
            continue;
        }
        let Some(title) = demand::of(call) else { continue };
        let times = step
            .calls
            .iter()
            .filter(|other| other.tool == call.tool && other.error() == call.error())
            .count();
        errors.close(step.step, call);
        let after =
            format!("It got this answer {times} time{} in the run.", if times == 1 { "" } else { "s" });
        let lesson = Lesson { kind: FindingKind::Failure, title, avoid: None, prefer: None, after };
        findings.extend(lesson.of(step.step, call));
    }
    findings
}
