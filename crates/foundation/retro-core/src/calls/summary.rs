//! Summary of the calls of one run.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::finding::EvidenceOrigin;
use crate::id::{Ordinal, RunId, Step};
use crate::run::{RunFacts, RunOutcome};

/// Version of the summaries that this program writes. Summaries of another version are not counted together
/// with them, because another program may have judged the same call in another way.
pub const SUMMARY_VERSION: u16 = 1;

/// Maximum size of a summary as JSON, in bytes.
pub const SUMMARY_BYTES_MAX: usize = 8 * 1024;

/// Maximum length of a masked error in a summary, in characters.
pub const ERROR_CHARS_MAX: usize = 120;

/// Maximum number of operations in a summary, and of different errors.
const OPERATIONS_MAX: usize = 48;
const ERRORS_MAX: usize = 24;

/// Maximum length of the name of a tool or a program in a summary, in characters, and number of words of a
/// program: itself and two subcommands.
const NAME_CHARS_MAX: usize = 64;
const PROGRAM_WORDS_MAX: usize = 3;

/// Number of bytes of a hash of a witness, written as hexadecimal digits. A window has some hundred witnesses.
const WITNESS_HASH_BYTES: usize = 8;

/// Calls of one run. It outlives the body of the run, so it holds no text of it but names of tools and
/// programs, and errors whose changing parts are masked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallSummary {
    /// Version of the program's judgement: [`SUMMARY_VERSION`].
    pub version: u16,
    /// Outcome of the run.
    pub outcome: RunOutcome,
    /// Time when the run finished; `None` if its event does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
    /// Hashes of the names of the witness that the run is. Runs that share one are one witness; empty if the
    /// run itself is the witness.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub witnesses: Vec<String>,
    /// Operations in the order of their first call. Their numbers include the calls left out of `calls`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<Operation>,
    /// Different errors, in the order in which they first occurred.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<SummarizedError>,
    /// Calls in the order of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<SummarizedCall>,
    /// Number of counted calls that `calls` leaves out: those in the middle of a long run, and those with an
    /// error beyond the limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_calls: u32,
    /// Number of calls of operations beyond the limit, which nothing else counts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub uncounted_calls: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// What is called: a tool in a step and, for a command, its program with up to two subcommands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// Step of the workflow.
    pub step: Step,
    /// Name of the tool.
    pub tool: String,
    /// Program and subcommands, such as `["git", "push"]`; empty for a tool that takes no commands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub program: Vec<String>,
    /// Number of calls.
    pub calls: u32,
    /// Number of calls that failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: u32,
}

/// Error of a run, with what the run did about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummarizedError {
    /// Index of its operation.
    pub operation: u16,
    /// Error with its changing parts masked, as in a lesson's cue.
    pub error: String,
    /// Number of calls that failed with it.
    pub calls: u32,
    /// `true` if a later call of the same operation was answered without an error.
    #[serde(default, skip_serializing_if = "is_false")]
    pub recovered: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// One call, stored as an array to save space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "CallRow", into = "CallRow")]
pub struct SummarizedCall {
    /// Index of its operation.
    pub operation: u16,
    /// Index of its error; `None` if the call did not fail.
    pub error: Option<u16>,
    /// Milliseconds from the call to its answer, as far as the log tells them.
    pub took_ms: Option<u32>,
}

type CallRow = (u16, Option<u16>, Option<u32>);

impl From<CallRow> for SummarizedCall {
    fn from((operation, error, took_ms): CallRow) -> Self {
        Self { operation, error, took_ms }
    }
}

impl From<SummarizedCall> for CallRow {
    fn from(call: SummarizedCall) -> Self {
        (call.operation, call.error, call.took_ms)
    }
}

/// What the summary of a run turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SummaryContent {
    /// The calls of the run.
    Summary(CallSummary),
    /// The body of the run could not be read; contains the reason.
    Unreadable(String),
}

/// Summary of a run as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSummary {
    /// Run that is summarised.
    pub run: RunId,
    /// Ordinal of the run in its workflow.
    pub ordinal: Ordinal,
    /// Summary, or the reason why there is none.
    pub content: SummaryContent,
}

/// Call of a run, as it enters a summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedCall<'a> {
    /// Step of the call.
    pub step: &'a Step,
    /// Tool, as named in the log.
    pub tool: &'a str,
    /// Program and subcommands; empty if the call is no command.
    pub program: Vec<String>,
    /// What the call is for, such as the subcommand. Only another call of the same operation for the same goal
    /// can recover from an error.
    pub goal: String,
    /// Masked error; `None` if the call did not fail.
    pub error: Option<String>,
    /// Milliseconds from the call to its answer.
    pub took_ms: Option<u32>,
}

/// Returns the hashes of the names of the witness that a run is.
fn hash_witnesses(facts: &RunFacts) -> Vec<String> {
    let origin = EvidenceOrigin { user: facts.user.clone(), task: facts.task.clone(), source: None };
    let hash = |name: &String| {
        let digest = Sha256::digest(name.as_bytes());
        digest.iter().take(WITNESS_HASH_BYTES).map(|byte| format!("{byte:02x}")).collect()
    };
    origin.witnesses().iter().map(hash).collect()
}

impl CallSummary {
    /// Summarises the calls of a run, in the order of the run. Leaves calls out of the middle until the
    /// summary is at most [`SUMMARY_BYTES_MAX`] bytes long.
    pub fn from_calls<'a>(facts: &RunFacts, calls: impl IntoIterator<Item = ObservedCall<'a>>) -> Self {
        let summary = Self {
            version: SUMMARY_VERSION,
            outcome: facts.outcome,
            finished_at: facts.finished_at,
            witnesses: hash_witnesses(facts),
            operations: Vec::new(),
            errors: Vec::new(),
            calls: Vec::new(),
            omitted_calls: 0,
            uncounted_calls: 0,
        };
        let mut builder = SummaryBuilder { summary, goals: Vec::new() };
        calls.into_iter().for_each(|call| builder.add_call(call));
        builder.summary.shorten();
        builder.summary
    }

    /// Makes the summary short enough: leaves calls out of the middle, then the last errors, then the last
    /// operations.
    fn shorten(&mut self) {
        while self.json_bytes() > SUMMARY_BYTES_MAX {
            if !self.calls.is_empty() {
                let left_out = self.calls.len().div_ceil(4);
                let from = (self.calls.len() - left_out) / 2;
                self.calls.drain(from..from + left_out);
                let left_out = u32::try_from(left_out).unwrap_or(u32::MAX);
                self.omitted_calls = self.omitted_calls.saturating_add(left_out);
            } else if self.errors.pop().is_none() {
                // Without calls and errors, nothing refers to an operation.
                let Some(left_out) = self.operations.pop() else { return };
                self.uncounted_calls = self.uncounted_calls.saturating_add(left_out.calls);
            }
        }
    }

    fn json_bytes(&self) -> usize {
        serde_json::to_vec(self).expect("a summary serialises to JSON").len()
    }
}

/// Summary while its calls are added.
struct SummaryBuilder {
    summary: CallSummary,
    /// Goal of the last call with each error.
    goals: Vec<String>,
}

impl SummaryBuilder {
    fn add_call(&mut self, call: ObservedCall<'_>) {
        let Some(operation) = self.operation_of(&call) else {
            self.summary.uncounted_calls = self.summary.uncounted_calls.saturating_add(1);
            return;
        };
        let counted = &mut self.summary.operations[usize::from(operation)];
        counted.calls = counted.calls.saturating_add(1);
        counted.failed = counted.failed.saturating_add(u32::from(call.error.is_some()));
        let error = match &call.error {
            None => {
                for (error, goal) in self.summary.errors.iter_mut().zip(&self.goals) {
                    error.recovered |= error.operation == operation && *goal == call.goal;
                }
                None
            }
            Some(error) => {
                let Some(error) = self.error_of(operation, error, call.goal) else {
                    self.summary.omitted_calls = self.summary.omitted_calls.saturating_add(1);
                    return;
                };
                Some(error)
            }
        };
        self.summary.calls.push(SummarizedCall { operation, error, took_ms: call.took_ms });
    }

    /// Returns the index of a call's operation, which is added if it is new. Returns `None` beyond the limit.
    fn operation_of(&mut self, call: &ObservedCall<'_>) -> Option<u16> {
        let tool: String = call.tool.chars().take(NAME_CHARS_MAX).collect();
        let words = call.program.iter().take(PROGRAM_WORDS_MAX);
        let program: Vec<String> = words.map(|word| word.chars().take(NAME_CHARS_MAX).collect()).collect();
        let same =
            |known: &Operation| known.step == *call.step && known.tool == tool && known.program == program;
        let operations = &mut self.summary.operations;
        let at = match operations.iter().position(same) {
            Some(at) => at,
            None if operations.len() == OPERATIONS_MAX => return None,
            None => {
                operations.push(Operation { step: call.step.clone(), tool, program, calls: 0, failed: 0 });
                operations.len() - 1
            }
        };
        u16::try_from(at).ok()
    }

    /// Returns the index of an error, which is added if it is new. Returns `None` beyond the limit.
    fn error_of(&mut self, operation: u16, error: &str, goal: String) -> Option<u16> {
        let error: String = error.chars().take(ERROR_CHARS_MAX).collect();
        let same = |known: &SummarizedError| known.operation == operation && known.error == error;
        let errors = &mut self.summary.errors;
        let at = match errors.iter().position(same) {
            Some(at) => at,
            None if errors.len() == ERRORS_MAX => return None,
            None => {
                errors.push(SummarizedError { operation, error, calls: 0, recovered: false });
                self.goals.push(String::new());
                errors.len() - 1
            }
        };
        errors[at].calls += 1;
        // The error occurred again: what worked before it is no recovery from it.
        errors[at].recovered = false;
        self.goals[at] = goal;
        u16::try_from(at).ok()
    }
}
