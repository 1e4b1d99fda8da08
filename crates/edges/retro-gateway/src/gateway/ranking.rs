//! Compares memories with the task of a request, within its deadline.

use std::sync::Arc;

use retro_core::id::Tenant;
use retro_core::policy::Policy;
use retro_core::recall::{RecallTask, TaskVectors, TextIndex};
use retro_core::similarity::{Embedder as _, NgramEmbedder};
use tokio::time::Instant;
use tracing::warn;

use super::{CachedParts, Gateway};
use crate::answer::TaskRanking;
use crate::ranked_task::{LoadedScope, RankedTask, Ranking};
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

    /// Waits for the vector of the task and loads what is compared with it: the contents of the memories and their vectors.
    /// What is not there in time is left out.
    pub(super) async fn finish_ranking(
        &self,
        deadline: Instant,
        ranking: Ranking,
        tenant: &Tenant,
        policy: &Policy,
        scopes: &[LoadedScope],
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
        let mut indexes = Vec::with_capacity(scopes.len());
        for scope in scopes {
            indexes.push((scope.memories.clone(), self.load_index(deadline, scope, policy).await));
        }
        RankedTask { task, vectors, indexes, ranking: TaskRanking { embedder, left_out } }
    }

    /// Returns the index of the texts of a scope. Their contents are read for it, because they are not cached with the
    /// memories.
    async fn load_index(&self, deadline: Instant, loaded: &LoadedScope, policy: &Policy) -> Arc<TextIndex> {
        let LoadedScope { scope, memories } = loaded;
        let indexes = self.cached.as_ref().map(|CachedParts { indexes, .. }| indexes);
        if let Some(found) = indexes.and_then(|indexes| indexes.find(memories)) {
            return found;
        }
        match self.load_candidates(deadline, scope, policy).await {
            Ok(candidates) => {
                let index = Arc::new(memories.index_texts(&candidates));
                if let Some(indexes) = indexes {
                    indexes.insert(memories.clone(), index.clone());
                }
                index
            }
            Err(reason) => {
                warn!(reason = reason.as_str(), "a task is compared with titles alone: {reason}");
                Arc::new(memories.index_texts(&[]))
            }
        }
    }

    async fn resolve_vectors(
        &self,
        embedder: &TaskEmbedder,
        pending: PendingVector,
        until: Instant,
        tenant: &Tenant,
        scopes: &[LoadedScope],
    ) -> Result<TaskVectors, String> {
        let task = pending.wait(until).await?;
        let titles = scopes.iter().flat_map(|scope| scope.memories.compared_titles());
        let mut memories = embedder.find_vectors(tenant, titles);
        if !memories.missing.is_empty() {
            let loading = embedder.load_vectors(tenant, &memories.missing);
            let loaded = self.read_in_turn(until, tenant, loading).await;
            memories.found.extend(loaded.map_err(|_| "the vectors of the memories were not loaded in time")?);
        }
        Ok(TaskVectors { scale: embedder.scale(), task, memories: memories.found })
    }
}
