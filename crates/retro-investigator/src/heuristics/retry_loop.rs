//! Retry loops: a tool gives the same error again and again, to the same call or to one guess after another.
//!
//! Where the error says what it demands, that is the lesson, and it is the one that a single failure gives too: a run
//! that loops and a run that fails once confirm each other. Else the lesson is not to repeat.

use retro_core::finding::{Finding, FindingKind};

use super::call::{Call, StepCalls};
use super::demand::{self, when};
use super::errors::Errors;
use super::lesson::Lesson;
use super::manner::Manner;

/// How often in a row makes a loop: twice is a second try.
const REPEATS_MIN: usize = 3;

/// The loops of a step, one an error.
pub(super) fn find(step: &StepCalls<'_>, errors: &mut Errors) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut at = 0;
    while at < step.calls.len() {
        let first = &step.calls[at];
        let (members, next) = row(&step.calls, at);
        if members.len() >= REPEATS_MIN
            && errors.open_without_way(step.step, first)
            && let Some(finding) = lesson(&members).of(step.step, first)
        {
            errors.close(step.step, first);
            findings.push(finding);
        }
        at = next;
    }
    findings
}

/// The calls in a row that fail like the one at `at`, and where the next row may start. Calls of other tools that
/// answer nothing (thinking aloud) do not break a row.
fn row<'c, 'a>(calls: &'c [Call<'a>], at: usize) -> (Vec<&'c Call<'a>>, usize) {
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

fn lesson(members: &[&Call<'_>]) -> Lesson {
    let first = members[0];
    let unchanged = members.windows(2).filter(|pair| pair[0].raw == pair[1].raw).count();
    let told =
        if unchanged * 2 >= members.len() - 1 { "the same call" } else { "one variation after another" };
    let (title, avoid) = match demand::of(first) {
        Some(title) => (title, None),
        None => {
            let how = "stop repeating the call and change what it complains about";
            (when(first.tool, first.error(), how), Some(Manner::Again))
        }
    };
    Lesson {
        kind: FindingKind::RetryLoop,
        title,
        avoid,
        prefer: None,
        after: format!("It got this answer {} times in a row, to {told}.", members.len()),
    }
}
