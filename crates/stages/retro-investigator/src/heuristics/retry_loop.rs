//! Finds retry loops: a tool returns the same error again and again, to the identical call or to variations
//! of it.
//!
//! If the error says what it demands, that is the lesson. A single failure yields the same lesson, so a run
//! that loops and a run that fails once confirm each other. Otherwise the lesson is not to repeat the call.

use retro_core::finding::{Finding, FindingKind};

use super::advice::{self, Advice};
use super::call::{Call, StepCalls};
use super::handled_errors::HandledErrors;
use super::lesson::Lesson;
use super::manner::Manner;

/// Minimum number of consecutive failures in a loop. Two failures are only one retry.
const REPEATS_MIN: usize = 3;

/// Returns a finding for each retry loop of a step, at most one per error.
pub(super) fn find_retry_loops(step: &StepCalls<'_>, errors: &mut HandledErrors) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut at = 0;
    while at < step.calls.len() {
        let first = &step.calls[at];
        let (members, next) = repeated_failures(&step.calls, at);
        if members.len() >= REPEATS_MIN
            && errors.needs_warning(step.step, first)
            && let Some(finding) = retry_lesson(&members).into_finding(step.step, first)
        {
            errors.mark_handled(step.step, first);
            findings.push(finding);
        }
        at = next;
    }
    findings
}

/// Returns the series of consecutive calls that fail with the same error as the call at `at`, and the index
/// at which the next series may start. Calls of other tools without an answer (thinking aloud) do not
/// interrupt a series.
fn repeated_failures<'c, 'a>(calls: &'c [Call<'a>], at: usize) -> (Vec<&'c Call<'a>>, usize) {
    let first = &calls[at];
    let mut members = vec![first];
    let mut next = at + 1;
    if first.error().is_empty() {
        return (members, next);
    }
    while let Some(call) = calls.get(next) {
        if call.tool == first.tool && call.error() == first.error() {
            members.push(call);
        } else if call.tool == first.tool || !call.answer.trim().is_empty() {
            break;
        }
        next += 1;
    }
    (members, next)
}

fn retry_lesson(members: &[&Call<'_>]) -> Lesson {
    let first = members[0];
    let unchanged = members.windows(2).filter(|pair| pair[0].raw == pair[1].raw).count();
    let variation =
        if unchanged * 2 >= members.len() - 1 { "the same call" } else { "one variation after another" };
    let (advice, avoid) = match advice::advice_for_call(first) {
        Some(advice) => (advice, None),
        None => {
            let how = "stop repeating the call and change it";
            (Advice::When(how.to_owned()), Some(Manner::SameCallAgain))
        }
    };
    Lesson {
        kind: FindingKind::RetryLoop,
        advice,
        avoid,
        prefer: None,
        worked: None,
        after: format!("It got this answer {} times in a row, to {variation}.", members.len()),
    }
}
