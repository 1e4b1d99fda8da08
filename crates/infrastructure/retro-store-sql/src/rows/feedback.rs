//! Converts rows of `memory_feedback`.

use retro_core::feedback::FeedbackOutcome;
use retro_core::learn::{FeedbackRun, WaitingFeedback};
use retro_store::{FeedbackRow, Result};

use super::presentation::RunsOfFeedback;
use crate::at;

/// Row of `memory_feedback` with what became of it.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct FeedbackRecord {
    id: String,
    feedback: String,
    settled_by: Option<String>,
    weighed: Option<bool>,
    reason: Option<String>,
}

impl FeedbackRecord {
    /// Converts the row. Fails if a value is damaged.
    pub(crate) fn into_row(self) -> Result<FeedbackRow> {
        let settled_by = self.settled_by.map(|id| at("memory_feedback.settled_by", &self.id).parse(&id));
        let outcome = self.weighed.zip(self.reason);
        Ok(FeedbackRow {
            feedback: at("memory_feedback.feedback", &self.id).parse_json(&self.feedback)?,
            outcome: outcome.map(|(weighed, reason)| FeedbackOutcome { weighed, reason }),
            settled_by: settled_by.transpose()?,
        })
    }
}

/// Row of `memory_feedback` with its tenant and memory.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct OwnedFeedbackRecord {
    pub(crate) tenant: String,
    pub(crate) memory: String,
    #[sqlx(flatten)]
    pub(crate) record: FeedbackRecord,
}

/// Waiting row of `memory_feedback` with the facts about its run.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct WaitingRecord {
    id: String,
    feedback: String,
    passes: i64,
    recorded: bool,
    claimed: bool,
    shown: bool,
    applied: bool,
    heard: bool,
}

impl WaitingRecord {
    /// Converts the row; `of_rules` if the memory is a rule of a repository. A memory may also have been shown in a
    /// presentation that is not applied yet. Fails if a value is damaged.
    pub(crate) fn into_waiting(self, of_rules: bool, runs: &RunsOfFeedback) -> Result<WaitingFeedback> {
        let feedback: retro_core::feedback::Feedback =
            at("memory_feedback.feedback", &self.id).parse_json(&self.feedback)?;
        let run = feedback.author.run().map(|(workflow, run)| FeedbackRun {
            recorded: self.recorded,
            claimed: self.claimed,
            shown: self.shown || runs.was_presented(workflow, run, feedback.memory),
            judged: self.heard || (self.applied && !of_rules),
        });
        let passes = at("memory_feedback.passes", &self.id).parse_unsigned(self.passes)?;
        Ok(WaitingFeedback { feedback, passes, run })
    }
}
