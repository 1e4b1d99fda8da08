//! Decides a review without a database: the same reading, screening and settling as the reviewer's, for the cases of a pipeline.

use std::sync::Arc;

use retro_core::pipeline::PipelineVersion;
use retro_core::policy::Policy;
use retro_core::review::{ReviewBatch, ReviewReading, SettledRemarks, settle_review};
use retro_core::similarity::NgramEmbedder;
use retro_store::{PullRequestKey, PullRequestReviews, StoreError};

use crate::reader::{ReadingJournal, ReadingTask, RemarkReader, ReviewReadings};
use crate::review_batch::CompletedRemarks;

/// A decided review.
#[derive(Debug, Clone)]
pub struct PlayedReview {
    /// The remarks with their readings.
    pub batch: ReviewBatch,
    /// The decisions.
    pub settled: SettledRemarks,
    /// How the remarks were read.
    pub reading: ReviewReading,
}

/// Reads the remarks of a pull request and decides which are rules. Texts are compared by the built-in embedder. Fails if the
/// journal does.
pub async fn play_review(
    key: &PullRequestKey,
    collected: PullRequestReviews,
    reader: &dyn RemarkReader,
    pipeline: PipelineVersion,
    policy: &Policy,
    journal: Arc<dyn ReadingJournal>,
) -> Result<PlayedReview, StoreError> {
    let completed = CompletedRemarks::from_collected(collected);
    let (batch, reading) = read_batch(key, completed, reader, pipeline, journal).await?;
    let settled = settle_review(&batch, policy, &NgramEmbedder);
    Ok(PlayedReview { batch, settled, reading })
}

/// Reads and screens the remarks of a pull request.
pub(crate) async fn read_batch(
    key: &PullRequestKey,
    completed: CompletedRemarks,
    reader: &dyn RemarkReader,
    pipeline: PipelineVersion,
    journal: Arc<dyn ReadingJournal>,
) -> Result<(ReviewBatch, ReviewReading), StoreError> {
    let repository = key.pull_request.repo.to_string();
    let task = ReadingTask { repository, remarks: completed.remarks.clone(), pipeline, journal };
    let ReviewReadings { readings, reading } = reader.read_remarks(&task).await?;
    Ok((completed.into_review_batch(&key.tenant, &key.pull_request, readings), reading))
}
