//! Explains to a person why a run was counted or not, and whether a retrospective looked at it.

use serde::{Deserialize, Serialize};

use crate::id::Ordinal;
use crate::retrospective::{Investigation, Retrospective, RetrospectiveState};
use crate::run::{NotCountedReason, RunFacts, RunOutcome};
use crate::sample::Sample;

/// Reason why a run counts towards its workflow's window, or why it does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum CountingReason {
    /// The run is counted.
    Counted,
    /// The run was cancelled, and such runs are only recorded.
    Cancelled,
    /// The run had nothing to do, and such runs are only recorded.
    NothingToDo,
    /// The run is one of Retrospect itself, which must not learn from itself.
    Internal,
    /// The emitter knows only the outcome of the run, so there is nothing to investigate.
    OutcomeOnly,
    /// The run is not counted, and its facts, which would say why, were deleted.
    Unknown,
}

impl CountingReason {
    /// Returns the reason as the end of a sentence that begins with the run.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Counted => "counted",
            Self::Cancelled => "not counted: it was cancelled",
            Self::NothingToDo => "not counted: it had nothing to do",
            Self::Internal => "not counted: it is a run of Retrospect itself",
            Self::OutcomeOnly => "not counted: only its outcome is known",
            Self::Unknown => "not counted; the facts that would say why were deleted",
        }
    }
}

/// Explains why a run with this ordinal is counted or not. `facts` is `None` if they were deleted.
pub fn explain_counting(facts: Option<&RunFacts>, ordinal: Option<Ordinal>) -> CountingReason {
    if ordinal.is_some() {
        return CountingReason::Counted;
    }
    match facts.and_then(RunFacts::not_counted_reason) {
        Some(NotCountedReason::Internal) => CountingReason::Internal,
        Some(NotCountedReason::Cancelled) => CountingReason::Cancelled,
        Some(NotCountedReason::Skipped) => CountingReason::NothingToDo,
        Some(NotCountedReason::OutcomeOnly) => CountingReason::OutcomeOnly,
        None => CountingReason::Unknown,
    }
}

/// Part that a run has in the sample of a retrospective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum SamplingResult {
    /// A person named the run.
    Named,
    /// The run was drawn into the sample.
    Sampled,
    /// The run was not drawn, but replaced a run whose investigation failed.
    Replacement,
    /// Chance did not draw the run.
    NotSampled,
    /// The sample is not drawn yet.
    NotDrawn,
    /// The retrospective ended before a sample was drawn.
    NeverDrawn,
}

impl SamplingResult {
    /// Returns the result as the end of a sentence that begins with the run.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Named => "investigated because a person named it",
            Self::Sampled => "drawn into the sample by chance",
            Self::Replacement => "not drawn, but replaced a run whose investigation failed",
            Self::NotSampled => "not investigated: chance did not draw it into the sample",
            Self::NotDrawn => "waiting: the sample is not drawn yet",
            Self::NeverDrawn => "not investigated: the retrospective ended before its sample was drawn",
        }
    }
}

/// Explains the part of the run with this ordinal in the sample of a retrospective whose window contains it.
/// `investigation` is the run's investigation, if one was scheduled.
pub fn explain_sampling(
    ordinal: Ordinal,
    retrospective: &Retrospective,
    sample: Option<&Sample>,
    investigation: Option<&Investigation>,
) -> SamplingResult {
    let ended = matches!(retrospective.state, RetrospectiveState::Failed | RetrospectiveState::Cancelled);
    match (investigation, sample) {
        _ if retrospective.manual_request.is_some() => SamplingResult::Named,
        (Some(one), _) if one.replacement => SamplingResult::Replacement,
        (Some(_), _) => SamplingResult::Sampled,
        (None, None) if ended => SamplingResult::NeverDrawn,
        (None, None) => SamplingResult::NotDrawn,
        (None, Some(sample)) => {
            let size = sample.size as usize;
            if sample.order.iter().take(size).any(|drawn| *drawn == ordinal) {
                SamplingResult::Sampled
            } else {
                SamplingResult::NotSampled
            }
        }
    }
}

/// Properties by which runs are searched. A property that is `None` matches any run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunProperties {
    /// User who started the run.
    pub user: Option<String>,
    /// Name of the agent that executed the run.
    pub agent: Option<String>,
    /// Version of the run's prompt, as its event names it.
    pub prompt_version: Option<String>,
    /// Outcome of the run.
    pub outcome: Option<RunOutcome>,
    /// Repository of the run; every address of it matches.
    pub repo: Option<crate::id::Repository>,
}

impl RunProperties {
    /// Returns `true` if every run matches.
    pub fn is_any(&self) -> bool {
        *self == Self::default()
    }

    /// Returns `true` if a run with these facts has the properties.
    pub fn match_facts(&self, facts: &RunFacts) -> bool {
        let agent = facts.agent.as_ref().and_then(|agent| agent.name.as_ref());
        self.user.as_ref().is_none_or(|user| facts.user.as_ref() == Some(user))
            && self.agent.as_ref().is_none_or(|wanted| agent == Some(wanted))
            && self
                .prompt_version
                .as_ref()
                .is_none_or(|version| facts.prompt_version.as_ref() == Some(version))
            && self.outcome.is_none_or(|outcome| facts.outcome == outcome)
            && self
                .repo
                .as_ref()
                .is_none_or(|repo| facts.repository().is_some_and(|repository| repository.repo == *repo))
    }
}

#[cfg(test)]
mod tests;
