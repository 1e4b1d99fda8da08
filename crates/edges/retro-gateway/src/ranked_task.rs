//! A task of a request, and what is needed to order memories for it.

use std::sync::Arc;

use retro_core::recall::{PreparedMemories, RecallTask, TaskOrder, TaskVectors, TextIndex};
use tokio::time::Instant;

use crate::answer::TaskRanking;
use crate::context_cache::ContextScope;
use crate::task_embedder::PendingVector;

/// Memories of a scope that are compared with a task.
pub(crate) struct LoadedScope {
    pub(crate) scope: ContextScope,
    pub(crate) memories: Arc<PreparedMemories>,
}

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
    /// Memories that are ordered for the task, each with the index of its texts.
    pub(crate) indexes: Vec<(Arc<PreparedMemories>, Arc<TextIndex>)>,
    pub(crate) ranking: TaskRanking,
}

impl RankedTask {
    /// Returns the order of memories that are among the indexed ones.
    pub(crate) fn order(&self, prepared: &Arc<PreparedMemories>) -> TaskOrder<'_> {
        let mut indexes = self.indexes.iter();
        let (_, index) = indexes
            .find(|(memories, _)| Arc::ptr_eq(memories, prepared))
            .expect("all memories of a request are indexed when its task is");
        prepared.order_for_task(index, &self.task, self.vectors.as_ref())
    }

    pub(crate) fn digest(&self) -> [u8; 32] {
        self.task.digest()
    }

    pub(crate) fn into_ranking(self) -> TaskRanking {
        self.ranking
    }
}
