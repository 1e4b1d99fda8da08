//! Compares memories with the task of a request, within its deadline.

use std::sync::Arc;

use retro_core::id::Tenant;
use retro_core::recall::{PreparedMemories, RecallTask, TaskVectors, TextIndex};
use retro_core::similarity::{Embedder as _, NgramEmbedder};
use tokio::time::Instant;

use super::{CachedParts, Gateway};
use crate::answer::TaskRanking;
use crate::ranked_task::{RankedTask, Ranking};
use crate::task_embedder::{PendingVector, TaskEmbedder};

/// Divisor of the response timeout that gives the time kept free after the embedder, for the recording.
const KEPT_SHARE: u32 = 4;

impl Gateway {
    /// Prepares a task, and asks the configured embedder for its vector. Returns `None` without a task, or if its text
    /// contains no word.
    pub(super) fn begin_ranking(
        &self,
        deadline: Instant,
        tenant: &Tenant,
        text: Option<&str>,
    ) -> Option<Ranking> {
        let task = RecallTask::new(text?)?;
        let until = deadline - self.timeout / KEPT_SHARE;
        let pending = self.embedder.as_ref().map(|embedder| (embedder.request_vector(tenant, &task), until));
        Some(Ranking { task, pending })
    }

    /// Waits for the vector of the task and loads those of the memories. What is not there in time is left out.
    pub(super) async fn finish_ranking(
        &self,
        ranking: Ranking,
        tenant: &Tenant,
        scopes: &[&Arc<PreparedMemories>],
    ) -> RankedTask {
        let Ranking { task, pending } = ranking;
        let (vectors, left_out) = match (&self.embedder, pending) {
            (Some(embedder), Some((pending, until))) => {
                match self.resolve_vectors(embedder, pending, until, tenant, scopes).await {
                    Ok(vectors) => (Some(vectors), None),
                    Err(reason) => (None, Some(reason)),
                }
            }
            _ => (None, None),
        };
        let name = |embedder: &TaskEmbedder| embedder.name().to_owned();
        let used = self.embedder.as_deref().filter(|_| vectors.is_some());
        let embedder = used.map_or_else(|| NgramEmbedder.name().to_owned(), name);
        let indexes = scopes.iter().map(|memories| (Arc::clone(memories), self.index_of(memories))).collect();
        RankedTask { task, vectors, indexes, ranking: TaskRanking { embedder, left_out } }
    }

    fn index_of(&self, memories: &Arc<PreparedMemories>) -> Arc<TextIndex> {
        match &self.cached {
            Some(CachedParts { indexes, .. }) => indexes.find_or_build(memories),
            None => Arc::new(memories.index_texts()),
        }
    }

    async fn resolve_vectors(
        &self,
        embedder: &TaskEmbedder,
        pending: PendingVector,
        until: Instant,
        tenant: &Tenant,
        scopes: &[&Arc<PreparedMemories>],
    ) -> Result<TaskVectors, String> {
        let task = pending.wait(until).await?;
        let titles = scopes.iter().flat_map(|prepared| prepared.compared_titles());
        let mut memories = embedder.find_vectors(tenant, titles);
        if !memories.missing.is_empty() {
            let loading = embedder.load_vectors(tenant, &memories.missing);
            let loaded = self.read_in_turn(until, tenant, loading).await;
            memories.found.extend(loaded.map_err(|_| "the vectors of the memories were not loaded in time")?);
        }
        Ok(TaskVectors { scale: embedder.scale(), task, memories: memories.found })
    }
}
