//! The heuristics investigator: no model, no chance, no clock. The same brief always gives the same answer.
//!
//! A run is read once into calls (`call`; where agents only talk, out of the messages in which a terminal says what it ran:
//! `conversation`), each judged as failed or not (`outcome`) and its error reduced to a `signature` that is the same in another
//! run. Mostly the first words of an answer judge it. Of a log it is how it ends (`ending`), and of a few free words whether the
//! next call gives what they ask for (`asked`); of a long log that is known to be of a failure, the error is its `failing_line`.
//! Then, the strongest first and one lesson an error:
//!
//! 1. `repair`: a failing call, then a changed call that gets past the error; the `difference` is the lesson. Where the error
//!    does not say what it is about, a difference counts that is the only one, from one call to the very next;
//! 2. `retry_loop`: the same error three times in a row;
//! 3. `failure`: an error that nothing got past; what it demands is the lesson;
//! 4. `feedback`: what the agent itself would tell the next run.
//!
//! A lesson's content tells what the tool reported (`tool_output`) and, in a failed run, whether nothing got past the error
//! (`blame`); the report names the turn at which a failed run probably went wrong, as a guess. Each part is measured by itself on real data: `cargo xtask eval findings`.
//!
//! An error that the very same call gets past at its next try is a `transient`: no lesson is about it, and it speaks against
//! the memories that are.
//!
//! Two runs confirm a memory only when their signatures (tool, error, avoid, prefer) are equal, so every part of a
//! lesson is generalised over names and values, and a difference that is only a value of its run is no lesson.
//! Nothing is stated that the trace does not show, every finding and verdict carries words of the trace, and errors
//! that try to command an agent become no lesson (`screen`).
//!
//! Bounds: the first `call::CALLS_MAX` calls, the first part of each text, a few calls after each failing one, so
//! the time grows with the length of the run and no faster. Steps in which no model decided are not looked at.

mod arguments;
mod asked;
mod blame;
mod call;
mod contradiction;
mod conversation;
mod demand;
mod difference;
mod edit;
mod ending;
mod errors;
mod failing_line;
mod failure;
mod feedback;
mod lesson;
mod lookup;
mod manner;
mod outcome;
mod prerequisite;
mod quote;
mod repair;
mod retry_loop;
mod screen;
mod signature;
mod tool_output;
mod transient;
mod verdict;

#[cfg(test)]
mod tests;

pub use blame::{Blame, Sign};
pub use failing_line::{FailingLine, failing_lines};
pub use outcome::{Failure, Outcome};
pub use signature::of as signature;
pub use tool_output::{Complaint, TestCounts, complaints, test_counts};

use retro_core::finding::{Answer, Brief, Finding, Looked};
use retro_core::run::Outcome as RunOutcome;
use retro_core::trajectory::{ToolCall, Trajectory};

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
    let blame = ended_badly(brief).then(|| blame::of(&brief.trajectory, &steps)).flatten();
    lesson::blame(&mut findings, blame);
    let fault = blame.and_then(|blame| blame::fault(blame, &brief.trajectory, &steps));
    for finding in &mut findings {
        finding.contradicts = contradiction::contradicted(finding, &brief.memories);
    }
    let verdicts = verdict::on_presented(brief, &steps);
    let transients = transient::find(&brief.trajectory, &steps);
    let contradictions = contradiction::beside_findings(&brief.memories, &transients, &verdicts);
    Answer::Looked(Looked { findings, verdicts, fault, transients, contradictions })
}

/// What became of one call, as an investigation judges it: by what the log says, else by the answer.
pub fn judge(call: &ToolCall) -> Outcome<'_> {
    outcome::judge(call, &Arguments::read(&call.arguments))
}

/// The turn at which a failed run went wrong, as an investigation sees it; `None` when it holds nothing that anybody did.
pub fn blame(trajectory: &Trajectory) -> Option<Blame> {
    blame::of(trajectory, &call::by_step(trajectory))
}

fn ended_badly(brief: &Brief) -> bool {
    matches!(brief.run.outcome, RunOutcome::Failure | RunOutcome::Error | RunOutcome::Timeout)
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
