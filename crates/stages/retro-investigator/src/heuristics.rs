//! Investigates runs with heuristics that use no model, no randomness and no clock, so the same brief always
//! yields the same answer.
//!
//! A run is parsed once into calls (`call`). If agents only talk to each other, calls are recovered from the
//! messages in which a terminal reports what it executed (`conversation`). Each call is judged as failed or
//! not (`outcome`), and its error is reduced to a `signature` that is the same in every run. Usually the
//! first words of an answer decide. A log is judged by its ending (`log_ending`), and an answer of a few
//! words in prose by whether the next call supplies what the answer asks for (`soft_failure`). If a long log
//! is known to have failed, its error is its `failing_line`.
//!
//! Findings are then collected in this order, strongest first, with one lesson per error:
//!
//! 1. `repair`: a call fails, and a changed call no longer gives the error. The `difference` between the two
//!    calls is the lesson. If the error does not say what it objects to, a difference counts only if it is
//!    the only one and the two calls are consecutive.
//! 2. `retry_loop`: the same error occurs three times in a row.
//! 3. `failure`: no later call resolves an error. The lesson is what the error demands (`advice`).
//! 4. `feedback`: the agent itself gives advice for the next run.
//!
//! All of these see one run. What a run did about its failing calls (`reaction`), and in which `parts` the call that
//! then succeeded differs, is noted for the call summary. A contrast over the summaries of many runs decides what
//! they have in common, and its lesson takes the place of one of the above.
//!
//! The content of a lesson includes what the tool reported (`tool_output`) and, in a failed run, that no
//! later call of the tool succeeded (`blame`). The report names the turn at which a failed run probably went
//! wrong and marks it as a guess. `cargo xtask eval findings` measures each part separately on real data.
//!
//! An error that disappears when the identical call is repeated at once is a `transient`. It yields no lesson, and it
//! contradicts the memories about the error. After a `pause` the same call is a remedy.
//!
//! Two runs confirm a memory only if their signatures (tool, error, avoid, prefer) are equal. Every part of a
//! lesson is therefore generalised over names and values, and a difference in a value that occurs in only one
//! run is not a lesson. Nothing is stated that the trace does not show, and every finding and verdict quotes the
//! trace. Advice is built from the structure of calls and from sentences of our own; the words of a tool are
//! quoted as data (`advice`), and the gate judges every lesson before it is stored.
//!
//! Only the first `call::CALLS_MAX` calls, the first part of each text and a few calls after each failing
//! call are read, so the time is linear in the length of the run. Steps in which no model decided anything
//! are skipped.

mod advice;
mod arguments;
mod blame;
mod call;
mod complaint;
mod contradiction;
mod conversation;
mod difference;
mod documented;
mod edit_failure;
mod failing_line;
mod failure;
mod feedback;
mod focus;
mod format;
mod handled_errors;
mod lesson;
mod log_ending;
mod lookup;
mod manner;
mod outcome;
mod parts;
mod pause;
mod prerequisite;
mod quote;
mod reaction;
mod repair;
mod retry_loop;
mod signature;
mod soft_failure;
mod stated;
mod stated_option;
mod stated_reach;
mod statements;
mod tool_output;
mod transient;
mod trial;
mod verdict;

#[cfg(test)]
mod tests;

pub use blame::{Blame, BlameSign};
pub(crate) use documented::{DocumentedRule, build_documented_finding};
pub(crate) use failing_line::strip_log_prefix;
pub use failing_line::{FailingLine, failing_lines, failing_lines_without_sign, sign_of_line};
pub use outcome::{CallFailure, CallOutcome};
pub use signature::error_signature;
pub(crate) use stated::{Stated, StatedFinding, build_stated_finding, find_quote};
pub use tool_output::{Diagnostic, TestCounts, find_diagnostics, parse_test_counts};

use retro_core::calls::ObservedBehaviour;
use retro_core::finding::{BriefMemory, Finding, InvestigationBrief, InvestigatorAnswer, RawAnswer};
use retro_core::id::Step;
use retro_core::run::RunOutcome;
use retro_core::trajectory::{ToolCall, Trajectory};

use arguments::{Arguments, Command};
use call::StepCalls;
use handled_errors::HandledErrors;
use reaction::SeenReaction;

/// Maximum number of findings about calls per run. People have to read the report, and a recurring pattern is
/// found again in other runs.
const CALL_FINDINGS_MAX: usize = 6;
/// Maximum number of failing calls per run whose remedy a contrast may state.
const FAILURES_MAX: usize = 16;
/// Maximum number of an agent's remarks on its own run that become findings.
const REMARKS_MAX: usize = 3;

/// Investigates one run. Returns findings with quotes, and a verdict on each presented memory for which the
/// trace contains evidence.
pub fn investigate_run(brief: &InvestigationBrief) -> InvestigatorAnswer {
    let steps = call::calls_by_step(&brief.trajectory);
    let mut findings = collect_call_findings(&steps, HandledErrors::from_brief(brief));
    findings.extend(feedback::findings_from_feedback(&brief.run.self_feedback, &steps).take(REMARKS_MAX));
    let blame = has_failed(brief).then(|| blame::find_blame(&brief.trajectory, &steps)).flatten();
    lesson::append_blame(&mut findings, blame);
    let fault = blame.and_then(|blame| blame::build_fault(blame, &brief.trajectory, &steps));
    for finding in &mut findings {
        finding.contradicts = contradiction::find_contradicted_memory(finding, &brief.memories);
    }
    let verdicts = verdict::judge_presented_memories(brief, &steps);
    let transients = transient::find_transients(&brief.trajectory, &steps);
    let mut contradictions = contradiction::find_contradictions(&brief.memories, &transients, &verdicts);
    let seen = reaction::find_reactions(&brief.trajectory, &steps);
    let mut undone = contradiction::find_undone_memories(&brief.memories, &seen);
    undone.extend(contradiction::find_undone_remarks(&brief.memories, &seen));
    let is_undone = |one: &&SeenReaction<'_>| {
        undone.iter().any(|undone| one.quote.as_ref().is_some_and(|quote| *quote == undone.quote))
    };
    // What a memory caused, and its removal mended, is no lesson.
    findings.retain(|finding| {
        finding.contradicts.is_some() || undone.iter().all(|undone| finding.quote != undone.quote)
    });
    let failures = seen.iter().filter(|one| !is_undone(one));
    let failures = failures.filter_map(lesson::describe_reaction).take(FAILURES_MAX).collect();
    contradictions.extend(undone);
    InvestigatorAnswer::Answered(RawAnswer {
        findings,
        verdicts,
        fault,
        transients,
        contradictions,
        failures,
        focus: brief.focus.as_ref().map(|asked| focus::search_question(&asked.question, brief, &steps)),
        ..RawAnswer::default()
    })
}

/// Judges the outcome of one call: by the log's own flag if there is one, otherwise by the answer. Unlike an
/// investigation, ignores the calls that follow.
pub fn judge_call(call: &ToolCall) -> CallOutcome<'_> {
    outcome::judge_outcome(call, &Arguments::parse(&call.arguments))
}

/// A call of a run, judged as an investigation judges it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JudgedCall<'a> {
    /// 0-based index of the turn with the call.
    pub(crate) turn: u32,
    /// 0-based index of the call within the turn.
    pub(crate) call: u32,
    /// Step of the call.
    pub(crate) step: &'a Step,
    /// Tool, as named in the log.
    pub(crate) tool: &'a str,
    /// Program that decides the answer of a command; `None` for any other call.
    pub(crate) program: Option<String>,
    /// What the call is for: the first word after the program, usually its subcommand. Empty if there is none.
    pub(crate) goal: String,
    /// Masked error; empty if the failure has no text, `None` if the call did not fail.
    pub(crate) error: Option<String>,
}

/// Observes the calls of a run's agentic steps for its summary: each call, judged and in the order of the run, and
/// what the run did about its failing calls and about the memories of the workflow.
pub(crate) fn observe_calls<'a>(
    trajectory: &'a Trajectory,
    memories: &[BriefMemory],
) -> (Vec<JudgedCall<'a>>, ObservedBehaviour) {
    let steps = call::calls_by_step(trajectory);
    let seen = reaction::find_reactions(trajectory, &steps);
    let mut behaviour = reaction::observe_behaviour(trajectory, &seen, &steps);
    behaviour.trials = memories.iter().filter_map(|memory| trial::find_trial(memory, &steps)).collect();
    (judge_calls(&steps), behaviour)
}

/// Judges the calls of a run's agentic steps, in the order of the run.
pub(crate) fn judge_run_calls(trajectory: &Trajectory) -> Vec<JudgedCall<'_>> {
    judge_calls(&call::calls_by_step(trajectory))
}

fn judge_calls<'a>(steps: &[StepCalls<'a>]) -> Vec<JudgedCall<'a>> {
    let mut calls: Vec<_> = steps
        .iter()
        .flat_map(|step| step.calls.iter().map(|call| (call.turn, call.call_index, step.step, call)))
        .collect();
    calls.sort_by_key(|(turn, nth, ..)| (*turn, *nth));
    calls.into_iter().map(|(turn, _, step, call)| to_judged_call(turn, step, call)).collect()
}

fn to_judged_call<'a>(turn: u32, step: &'a Step, call: &call::Call<'a>) -> JudgedCall<'a> {
    let (program, goal) = call.arguments.as_command().and_then(Command::deciding_program).unzip();
    JudgedCall {
        turn,
        call: call.call_index,
        step,
        tool: call.tool,
        program: program.map(str::to_owned),
        goal: goal.unwrap_or_default().to_owned(),
        error: call.failure().map(|failure| failure.error.clone()),
    }
}

/// Returns the turn at which a failed run probably went wrong, or `None` if no sign points at a turn.
pub fn find_blamed_turn(trajectory: &Trajectory) -> Option<Blame> {
    blame::find_blame(trajectory, &call::calls_by_step(trajectory))
}

fn has_failed(brief: &InvestigationBrief) -> bool {
    matches!(brief.run.outcome, RunOutcome::Failure | RunOutcome::Error | RunOutcome::Timeout)
}

/// Collects the strongest findings about calls: all repairs, then all retry loops, then all failures.
fn collect_call_findings(steps: &[StepCalls<'_>], mut errors: HandledErrors) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    // The order matters: each pass marks the errors that it handled, and later passes skip them.
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
