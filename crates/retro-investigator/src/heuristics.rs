//! The heuristics investigator: no model, no chance, no clock. The same brief always gives the same answer.
//!
//! A run is read once into calls, each judged as failed or not (`outcome`) and its error reduced to a
//! `signature` that is the same in another run. Then, the strongest first and one lesson an error:
//!
//! 1. `repair`: a failing call, then a changed call that gets past the error; the difference is the lesson;
//! 2. `retry_loop`: the same error three times in a row;
//! 3. `failure`: an error that nothing got past; what it demands is the lesson;
//! 4. `feedback`: what the agent itself would tell the next run.
//!
//! Two runs confirm a memory only when their signatures (tool, error, avoid, prefer) are equal, so every part of a
//! lesson is generalised over names and values, and a difference that is only a value of its run is no lesson.
//! Nothing is stated that the trace does not show, every finding and verdict carries words of the trace, and errors
//! that try to command an agent become no lesson (`screen`).
//!
//! Bounds: the first `call::CALLS_MAX` calls, the first part of each text, a few calls after each failing one, so
//! the time grows with the length of the run and no faster. Steps in which no model decided are not looked at.

mod arguments;
mod call;
mod contradiction;
mod demand;
mod difference;
mod errors;
mod failure;
mod feedback;
mod lesson;
mod lookup;
mod manner;
mod outcome;
mod quote;
mod repair;
mod retry_loop;
mod screen;
mod signature;
mod verdict;

#[cfg(test)]
mod tests;

pub use outcome::{Failure, Outcome};

use retro_core::finding::{Answer, Brief, Finding};
use retro_core::trajectory::ToolCall;

use arguments::Arguments;
use call::StepCalls;
use errors::Errors;

/// The most findings about calls of one run: what recurs comes again, and a report is read by people.
const CALL_FINDINGS_MAX: usize = 6;
/// The most remarks of an agent on its own run that are taken.
const REMARKS_MAX: usize = 3;

/// Looks into one run: findings with quotes, and a verdict on each presented memory that the trace says something
/// about.
pub fn investigate(brief: &Brief) -> Answer {
    let steps = call::by_step(&brief.trajectory);
    let mut findings = about_calls(&steps, Errors::of(brief));
    findings.extend(feedback::find(&brief.run.self_feedback).take(REMARKS_MAX));
    for finding in &mut findings {
        finding.contradicts = contradiction::contradicted(finding, &brief.memories);
    }
    Answer::Looked { findings, verdicts: verdict::on_presented(brief, &steps) }
}

/// What became of one call, as an investigation judges it: by what the log says, else by the answer.
pub fn judge(call: &ToolCall) -> Outcome<'_> {
    outcome::judge(call, &Arguments::read(&call.arguments))
}

/// The strongest findings about calls: all repairs before all loops before all failures.
fn about_calls(steps: &[StepCalls<'_>], mut errors: Errors) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    let looks: [fn(&StepCalls<'_>, &mut Errors) -> Vec<Finding>; 3] =
        [repair::find, retry_loop::find, failure::find];
    for look in looks {
        for step in steps {
            let left = CALL_FINDINGS_MAX.saturating_sub(findings.len());
            findings.extend(look(step, &mut errors).into_iter().take(left));
        }
    }
    findings
}
