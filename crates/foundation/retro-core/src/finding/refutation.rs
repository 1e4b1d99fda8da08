//! Objections of a model to what the heuristics found.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Quote;

/// Objection of a model to a finding of the heuristics about the same run. It deletes nothing: both stand in the report, and
/// the policy says what the finding counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refutation {
    /// Title of the finding.
    pub finding: String,
    /// Quote of the finding.
    pub finding_quote: Quote,
    /// Why the finding is wrong.
    pub reason: RefutationReason,
    /// Verbatim quote from the run that shows it.
    pub quote: Quote,
}

/// Reason why a finding of the heuristics is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RefutationReason {
    /// The quoted answer is no failure.
    NotAFailure,
    /// The agent wanted the failure, such as a test that must fail first.
    Intended,
    /// The failure has another cause than the finding says.
    WrongCause,
    /// Something else than what the finding says got past the failure.
    OtherRemedy,
    /// It is true of this task alone and teaches the next run nothing.
    TaskSpecific,
}

/// What a finding counts that a language model refutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RefutedFinding {
    /// Nothing: it neither makes nor confirms a memory, contradicts none and is not proposed.
    #[default]
    Neutral,
    /// As much as any other. The report shows the objection.
    Ignore,
}

impl RefutationReason {
    /// Describes the reason as a clause about the finding.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::NotAFailure => "the quoted answer is no failure",
            Self::Intended => "the agent wanted this failure",
            Self::WrongCause => "the failure has another cause",
            Self::OtherRemedy => "something else got past the failure",
            Self::TaskSpecific => "it is true of this task alone",
        }
    }
}
