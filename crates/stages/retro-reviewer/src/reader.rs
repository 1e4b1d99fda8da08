//! The port of readers, which classify the remarks of a review.

use std::sync::Arc;

use async_trait::async_trait;
use retro_core::pipeline::PipelineVersion;
use retro_core::remark::Remark;
use retro_core::review::{ModelCosts, RemarkReading, ReviewReading};
use retro_model::CallJournal;
use retro_store::StoreError;

/// Remarks to read together.
pub struct ReadingTask {
    /// Name of the repository.
    pub repository: String,
    /// Remarks of the review, in the order of their keys.
    pub remarks: Vec<Remark>,
    /// Version of the review pipeline that is in force.
    pub pipeline: PipelineVersion,
    /// Calls of models that decisions about the pull request have paid for, and where new ones are stored.
    pub journal: Arc<dyn ReadingJournal>,
}

/// Journal of the calls of models about the reviews of one pull request.
#[async_trait]
pub trait ReadingJournal: CallJournal {
    /// Sums the calls that were made for this decision. `answered` are the prompts that were answered, by their hashes.
    async fn sum_costs(&self, answered: &[String]) -> Result<ModelCosts, StoreError>;
}

/// Result of reading remarks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReviewReadings {
    /// One reading for each remark, in their order.
    pub readings: Vec<RemarkReading>,
    /// How they were read, for the report.
    pub reading: ReviewReading,
}

/// Classifies remarks. A reader may be wrong, so its readings are never trusted: they are screened before a decision
/// is based on them.
#[async_trait]
pub trait RemarkReader: Send + Sync {
    /// Returns `true` if the reader may ask a language model. A decision is then claimed first, so that two processes do not
    /// pay for the same answer.
    fn asks_model(&self) -> bool {
        false
    }

    /// Reads the remarks. A remark that cannot be classified is noise with certainty 0 and the reason. Fails if a call of a
    /// model could not be stored: its answer is then not used.
    async fn read_remarks(&self, task: &ReadingTask) -> Result<ReviewReadings, StoreError>;
}
