#![doc = include_str!("../README.md")]

mod heuristics;
mod phrase;
mod review_batch;
mod review_event;
mod reviewer;
mod signs;
mod text;
mod topic;
mod vectors;

use async_trait::async_trait;
use retro_core::remark::Remark;
use retro_core::review::RemarkReading;

pub use heuristics::HeuristicReader;
pub use reviewer::{Reviewer, ReviewerPorts};

/// Classifies remarks. A reader may be wrong, so its readings are never trusted: they are screened before a decision
/// is based on them.
#[async_trait]
pub trait RemarkReader: Send + Sync {
    /// Returns the name and version of the reader for reports, such as `heuristics-3`.
    fn name(&self) -> &str;

    /// Reads one remark. Never fails: a reader that cannot classify the remark returns noise with certainty 0 and the
    /// reason.
    async fn read_remark(&self, remark: &Remark) -> RemarkReading;
}
