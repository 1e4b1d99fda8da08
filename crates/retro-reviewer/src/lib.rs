#![doc = include_str!("../README.md")]

mod gather;
mod heard;
mod heuristics;
mod phrase;
mod reviewer;
mod signs;
mod text;
mod topic;
mod vectors;

use async_trait::async_trait;
use retro_core::review::{Reading, Remark};

pub use heuristics::Heuristics;
pub use reviewer::{Judgement, Reviewer};

/// Says what a remark is. A reader may be wrong: what it says is screened and decided on, never believed.
#[async_trait]
pub trait Reader: Send + Sync {
    /// Name and version, such as `heuristics-2`; it stands in reports.
    fn name(&self) -> &str;

    /// Reads one remark. Never fails: a reader that cannot say answers with noise, certainty 0, and why.
    async fn read(&self, remark: &Remark) -> Reading;
}
