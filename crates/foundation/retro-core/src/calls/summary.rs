//! Summary of the calls of one run.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::reaction::{REACTIONS_MAX, Reaction};
use super::saved_quotes::SavedQuotes;
use crate::audience::RunRepository;
use crate::canonical::encode_hex;
use crate::finding::EvidenceOrigin;
use crate::id::{MemoryId, Ordinal, RunId, Step};
use crate::run::{RunFacts, RunOutcome};

/// Version of the summaries that this program writes. Summaries of another version are not counted together
/// with them, because another program may have judged the same call in another way.
pub const SUMMARY_VERSION: u16 = 2;

/// Maximum size of a summary as JSON, in bytes.
pub const SUMMARY_BYTES_MAX: usize = 8 * 1024;

/// Number of ordinals, up to the end of the last closed window, whose summaries are kept. Counted in runs and
/// not in days, so what is kept does not depend on a clock.
pub const SUMMARIES_KEPT: u64 = 2000;

/// Maximum length of a masked error in a summary, in characters.
pub const ERROR_CHARS_MAX: usize = 120;

/// Maximum number of operations in a summary, and of different errors.
const OPERATIONS_MAX: usize = 48;
const ERRORS_MAX: usize = 24;

/// Maximum length of the name of a tool or a program in a summary, in characters, and number of words of a
/// program: itself and two subcommands.
const NAME_CHARS_MAX: usize = 64;
const PROGRAM_WORDS_MAX: usize = 3;

/// Maximum number of hashes of ordinary calls and of answers in a summary, and of trials of memories.
const ROUTINE_MAX: usize = 96;
const KEPT_MAX: usize = 160;
const TRIALS_MAX: usize = 24;

/// Number of bytes of a hash of a witness, written as hexadecimal digits. A window has some hundred witnesses.
const WITNESS_HASH_BYTES: usize = 8;

/// Calls of one run. It outlives the body of the run, so it holds no text of it but names of tools and
/// programs, errors whose changing parts are masked, and short values and words of the calls that got past them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallSummary {
    /// Version of the program's judgement: [`SUMMARY_VERSION`].
    pub version: u16,
    /// Outcome of the run.
    pub outcome: RunOutcome,
    /// Time when the run finished; `None` if its event does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
    /// Repository that the run worked on; `None` if its event names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<RunRepository>,
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
    /// What the run did about its failing calls, in the order in which they failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reactions: Vec<Reaction>,
    /// Hashes of the calls that the run made in the ordinary course of its work, and not between a failing call
    /// and its repetition ([`hash_label`]), in the order of their first call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routine: Vec<u32>,
    /// Hashes of what the answers said that the run kept, without repeating the call ([`hash_answer`]), sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<u32>,
    /// Hashes of the shapes of the calls whose answers the run kept ([`Reaction::shape`]), sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept_calls: Vec<u32>,
    /// Effects of following a memory: whether the first call that a memory is about was made as it says, and
    /// failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<MemoryTrial>,
    /// Quotes that the agent of the run gave when it saved lessons, looked for in its trace; `None` if it gave none.
    /// They come on top of [`SUMMARY_BYTES_MAX`], with about 2 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved_quotes: Option<SavedQuotes>,
    /// `true` if the body of the run says what the repository's `AGENTS.md` said. The text itself goes with the body.
    #[serde(default, skip_serializing_if = "is_false")]
    pub has_agents_md: bool,
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

/// First call of a run that a memory is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "TrialRow", into = "TrialRow")]
pub struct MemoryTrial {
    /// Memory of the call's step.
    pub memory: MemoryId,
    /// `true` if the call was made as the memory says.
    pub followed: bool,
    /// `true` if the call failed.
    pub failed: bool,
}

type TrialRow = (MemoryId, bool, bool);

impl From<TrialRow> for MemoryTrial {
    fn from((memory, followed, failed): TrialRow) -> Self {
        Self { memory, followed, failed }
    }
}

impl From<MemoryTrial> for TrialRow {
    fn from(trial: MemoryTrial) -> Self {
        (trial.memory, trial.followed, trial.failed)
    }
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
#[expect(clippy::large_enum_variant, reason = "nearly all are summaries; a box would only hide them")]
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

impl StoredSummary {
    /// Returns the summary; `None` if the body of the run could not be read.
    pub const fn summary(&self) -> Option<&CallSummary> {
        match &self.content {
            SummaryContent::Summary(summary) => Some(summary),
            SummaryContent::Unreadable(_) => None,
        }
    }
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

/// What a run did beyond its single calls, as it enters a summary.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObservedBehaviour {
    /// What the run did about its failing calls.
    pub reactions: Vec<Reaction>,
    /// Hashes of the calls outside of reactions, as returned by [`hash_label`].
    pub routine: Vec<u32>,
    /// Hashes of what answers said outside of reactions, as returned by [`hash_answer`].
    pub kept: Vec<u32>,
    /// Hashes of the shapes of the calls outside of reactions.
    pub kept_calls: Vec<u32>,
    /// First calls that memories are about.
    pub trials: Vec<MemoryTrial>,
}

/// Returns the hash of the label of a call in a step: the first four bytes of a SHA-256. Two labels share one with
/// a chance of 1 in 4 billion, which makes a call look like an ordinary one.
pub fn hash_label(step: &Step, label: &str) -> u32 {
    hash_text(&format!("{step}\u{1f}{label}"))
}

/// Returns the hash of a masked line of an answer to a tool in a step, as [`hash_label`].
pub fn hash_answer(step: &Step, tool: &str, line: &str) -> u32 {
    hash_text(&format!("{step}\u{1f}{tool}\u{1f}{line}"))
}

fn hash_text(text: &str) -> u32 {
    let digest = Sha256::digest(text.as_bytes());
    u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]])
}

/// Returns the hashes of the names of the witnesses behind an origin.
pub fn hash_witnesses(origin: &EvidenceOrigin) -> Vec<String> {
    let hash = |name: &String| {
        let digest = Sha256::digest(name.as_bytes());
        encode_hex(&digest[..WITNESS_HASH_BYTES])
    };
    origin.witnesses().iter().map(hash).collect()
}

impl CallSummary {
    /// Summarises the calls of a run, in the order of the run. Leaves calls out of the middle until the
    /// summary is at most [`SUMMARY_BYTES_MAX`] bytes long.
    pub fn from_calls<'a>(
        facts: &RunFacts,
        calls: impl IntoIterator<Item = ObservedCall<'a>>,
        behaviour: ObservedBehaviour,
    ) -> Self {
        let ObservedBehaviour { mut reactions, routine, kept, kept_calls, mut trials } = behaviour;
        reactions.truncate(REACTIONS_MAX);
        let sorted = |hashes: Vec<u32>| -> Vec<u32> {
            let hashes: BTreeSet<u32> = hashes.into_iter().take(KEPT_MAX).collect();
            hashes.into_iter().collect()
        };
        let origin = EvidenceOrigin {
            user: facts.user.clone(),
            task: facts.task.clone(),
            source: None,
            repository: None,
        };
        let mut known = BTreeSet::new();
        let routine = routine.into_iter().filter(|hash| known.insert(*hash)).take(ROUTINE_MAX).collect();
        trials.truncate(TRIALS_MAX);
        let summary = Self {
            version: SUMMARY_VERSION,
            outcome: facts.outcome,
            finished_at: facts.finished_at,
            repository: facts.repository(),
            witnesses: hash_witnesses(&origin),
            operations: Vec::new(),
            errors: Vec::new(),
            reactions,
            routine,
            kept: sorted(kept),
            kept_calls: sorted(kept_calls),
            trials,
            saved_quotes: None,
            has_agents_md: false,
            calls: Vec::new(),
            omitted_calls: 0,
            uncounted_calls: 0,
        };
        let mut builder = SummaryBuilder { summary, goals: Vec::new() };
        calls.into_iter().for_each(|call| builder.add_call(call));
        builder.summary.shorten();
        builder.summary
    }

    /// Makes the summary short enough: leaves calls out of the middle, then the last trials, reactions, errors and
    /// operations.
    fn shorten(&mut self) {
        while self.json_bytes() > SUMMARY_BYTES_MAX {
            if !self.calls.is_empty() {
                let left_out = self.calls.len().div_ceil(4);
                let from = (self.calls.len() - left_out) / 2;
                self.calls.drain(from..from + left_out);
                let left_out = u32::try_from(left_out).unwrap_or(u32::MAX);
                self.omitted_calls = self.omitted_calls.saturating_add(left_out);
            } else if self.trials.pop().is_some() || self.reactions.pop().is_some() {
                // The last ones are left out.
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
