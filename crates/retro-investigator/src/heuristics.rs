//! Investigates runs by heuristics. They use no model, no randomness and no clock, so the same brief always
//! gives the same answer.
//!
//! A run is parsed once into calls (`call`). Where agents only talk to each other, a call is recovered from the
//! messages in which a terminal reports what it executed (`conversation`). Each call is judged as failed or not
//! (`outcome`), and its error is reduced to a `signature` that is the same in every run. Usually the first
//! words of an answer decide. A log is judged by how it ends (`log_ending`), an answer of a few free words by
//! whether the next call supplies what it asks for (`soft_failure`). The error of a long log that is known to
//! have failed is its `failing_line`.
//!
//! Findings are then collected in this order, strongest first, with one lesson per error:
//!
//! 1. `repair`: a call fails, and a changed call no longer gives the error. The `difference` between the two
//!    calls is the lesson. Where the error does not say what it is about, a difference counts only if it is the
//!    only one and the two calls follow each other directly.
//! 2. `retry_loop`: the same error occurs three times in a row.
//! 3. `failure`: an error occurs that no later call resolves. The lesson is what the error demands (`advice`).
//! 4. `feedback`: the agent itself gives advice for the next run.
//!
//! The content of a lesson includes what the tool reported (`tool_output`) and, in a failed run, whether any
//! later call of the tool succeeded (`blame`). The report names the turn at which a failed run probably went
//! wrong and marks it as a guess. Each part is measured separately on real data by `cargo xtask eval findings`.
//!
//! An error that disappears when the identical call is repeated is a `transient`. It yields no lesson, and it
//! contradicts the memories about the error.
//!
//! Two runs confirm a memory only when their signatures (tool, error, avoid, prefer) are equal. So every part
//! of a lesson is generalised over names and values, and a difference in a value that occurs only in one run is
//! not a lesson. Nothing is stated that the trace does not show, every finding and verdict quotes the trace,
//! and an error that tries to command an agent becomes no lesson (`prompt_injection`).
//!
//! Only the first `call::CALLS_MAX` calls, the first part of each text and a few calls after each failing call
//! are read, so the time is linear in the length of the run. Steps in which no model decided are skipped.

mod advice;
mod arguments;
mod blame;
mod call;
mod contradiction;
mod conversation;
mod difference;
mod edit_failure;
mod failing_line;
mod failure;
mod feedback;
mod handled_errors;
mod lesson;
mod log_ending;
mod lookup;
mod manner;
mod outcome;
mod prerequisite;
mod prompt_injection;
mod quote;
mod repair;
mod retry_loop;
mod signature;
mod soft_failure;
mod tool_output;
mod transient;
mod verdict;

#[cfg(test)]
mod tests;

pub use blame::{Blame, BlameSign};
pub use failing_line::{FailingLine, failing_lines};
pub use outcome::{CallFailure, CallOutcome};
pub use signature::error_signature;
pub use tool_output::{Diagnostic, TestCounts, find_diagnostics, parse_test_counts};

use retro_core::finding::{Finding, InvestigationBrief, InvestigatorAnswer, RawAnswer};
use retro_core::run::RunOutcome;
use retro_core::trajectory::{ToolCall, Trajectory};

use arguments::Arguments;
use call::StepCalls;
use handled_errors::HandledErrors;

/// Maximum number of findings about calls in one run. Recurring patterns are found again in other runs, and
/// people have to read the report.
const CALL_FINDINGS_MAX: usize = 6;
/// Maximum number of remarks of an agent on its own run that become findings.
const REMARKS_MAX: usize = 3;

/// Investigates one run. Returns findings with quotes, and a verdict on each presented memory for which the
/// trace contains evidence.
pub fn investigate_run(brief: &InvestigationBrief) -> InvestigatorAnswer {
    let steps = call::calls_by_step(&brief.trajectory);
    let mut findings = collect_call_findings(&steps, HandledErrors::from_brief(brief));
    findings.extend(feedback::findings_from_feedback(&brief.run.self_feedback).take(REMARKS_MAX));
    let blame = has_failed(brief).then(|| blame::find_blame(&brief.trajectory, &steps)).flatten();
    lesson::append_blame(&mut findings, blame);
    let fault = blame.and_then(|blame| blame::build_fault(blame, &brief.trajectory, &steps));
    for finding in &mut findings {
        finding.contradicts = contradiction::find_contradicted_memory(finding, &brief.memories);
    }
    let verdicts = verdict::judge_presented_memories(brief, &steps);
    let transients = transient::find_transients(&brief.trajectory, &steps);
    let contradictions = contradiction::find_contradictions(&brief.memories, &transients, &verdicts);
    InvestigatorAnswer::Looked(RawAnswer { findings, verdicts, fault, transients, contradictions })
}

/// Returns the outcome of one call as an investigation judges it: by the log's own flag where there is one,
/// else by the answer.
pub fn judge_call(call: &ToolCall) -> CallOutcome<'_> {
    outcome::judge_outcome(call, &Arguments::parse(&call.arguments))
}

/// Returns the turn at which a failed run probably went wrong, as an investigation judges it; `None` when no
/// sign points at a turn.
pub fn find_blamed_turn(trajectory: &Trajectory) -> Option<Blame> {
    blame::find_blame(trajectory, &call::calls_by_step(trajectory))
}

fn has_failed(brief: &InvestigationBrief) -> bool {
    matches!(brief.run.outcome, RunOutcome::Failure | RunOutcome::Error | RunOutcome::Timeout)
}

/// Collects the strongest findings about calls: all repairs, then all retry loops, then all failures.
fn collect_call_findings(steps: &[StepCalls<'_>], mut errors: HandledErrors) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    // The order matters: each pass marks the errors that it handled, and the later ones skip these.
    let passes: [fn(&StepCalls<'_>, &mut HandledErrors) -> Vec<Finding>; 3] =
        [repair::find_repairs, retry_loop::find_retry_loops, failure::find_failures];
    for pass in passes {
        for step in steps {
            let remaining = CALL_FINDINGS_MAX.saturating_sub(findings.len());
            findings.extend(pass(step, &mut errors).into_iter().take(remaining));
        }
    }
    findings
}
