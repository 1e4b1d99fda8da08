//! A task of a request, and what is needed to order memories for it.

use retro_core::recall::{PreparedMemories, RecallTask, TaskOrder, TaskVectors};
use tokio::time::Instant;

use crate::answer::TaskRanking;
use crate::task_embedder::PendingVector;

/// A task whose vector may still be on its way.
pub(crate) struct Ranking {
    pub(crate) task: RecallTask,
    /// Vector by the configured embedder, and the time until which it is awaited; `None` if the built-in one is used.
    pub(crate) pending: Option<(PendingVector, Instant)>,
}

/// A task with what is needed to order memories for it.
pub(crate) struct RankedTask {
    pub(crate) task: RecallTask,
    pub(crate) vectors: Option<TaskVectors>,
    pub(crate) ranking: TaskRanking,
}

impl RankedTask {
    pub(crate) fn order(&self, prepared: &PreparedMemories) -> TaskOrder<'_> {
        prepared.order_for_task(&self.task, self.vectors.as_ref())
    }

    pub(crate) fn digest(&self) -> [u8; 32] {
        self.task.digest()
    }

    pub(crate) fn into_ranking(self) -> TaskRanking {
        self.ranking
    }
}
