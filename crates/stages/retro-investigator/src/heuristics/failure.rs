//! Finds failures: errors that no later call resolved in a way that another run could reuse. The lesson
//! states only what the error itself demands.

use retro_core::finding::{Finding, FindingKind};

use super::advice;
use super::call::StepCalls;
use super::handled_errors::HandledErrors;
use super::lesson::Lesson;
use super::lookup;

/// Returns a warning for each error of a step that has no lesson yet and for which there is advice.
pub(super) fn find_failures(step: &StepCalls<'_>, errors: &mut HandledErrors) -> Vec<Finding> {
    let mut findings = Vec::new();
    for call in &step.calls {
        // "Not found" is a normal answer to a look-up, and no earlier look-up could have prevented it.
        if !errors.needs_warning(step.step, call)
            || (call.arguments.as_object().is_some() && lookup::lookup_label(call).is_some())
        {
            continue;
        }
        let Some(advice) = advice::advice_for_call(call) else { continue };
        let times = step
            .calls
            .iter()
            .filter(|other| other.tool == call.tool && other.error() == call.error())
            .count();
        errors.mark_handled(step.step, call);
        let after =
            format!("It got this answer {times} time{} in the run.", if times == 1 { "" } else { "s" });
        let (avoid, prefer, worked) = (None, None, None);
        let lesson = Lesson { kind: FindingKind::Failure, advice, avoid, prefer, worked, after };
        findings.extend(lesson.into_finding(step.step, call));
    }
    findings
}
