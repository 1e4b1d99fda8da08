//! What the gateway keeps in memory, so that it need not ask the database for each agent: memories prepared for a scope,
//! under a lease, and presentations that are still to be stored.

mod handed;
mod lease;
mod presentations;
mod scopes;
mod text_indexes;

pub(crate) use handed::HandedLists;
pub(crate) use presentations::{Enqueued, PresentationQueue, count_stored};
pub(crate) use scopes::{ContextCache, ContextScope};
pub(crate) use text_indexes::TextIndexes;

use std::sync::Arc;

use retro_store::RecallStore;
use tokio_util::sync::CancellationToken;

use self::lease::LeaseKeeper;
use self::presentations::PresentationWriter;

/// Keeps true what a gateway has cached, and stores what it has promised to store.
pub struct ContextCacheWorker {
    store: Arc<dyn RecallStore>,
    keeper: LeaseKeeper,
    writer: PresentationWriter,
}

impl ContextCacheWorker {
    /// Creates the worker with what it shares with the gateway. `gateway` names the process, as no other one.
    pub(crate) fn new(
        store: &Arc<dyn RecallStore>,
        gateway: String,
    ) -> (Arc<ContextCache>, PresentationQueue, Self) {
        let cache = Arc::new(ContextCache::new());
        let (queue, writer) = PresentationWriter::new(store.clone(), cache.clone());
        let keeper = LeaseKeeper { store: store.clone(), cache: cache.clone(), gateway };
        (cache, queue, Self { store: store.clone(), keeper, writer })
    }

    /// Runs until `stop` is cancelled and everything that was promised is stored.
    pub async fn run(self, stop: CancellationToken) {
        let read_ahead = stop.run_until_cancelled(self.store.read_ahead());
        tokio::join!(self.keeper.run(stop.clone()), self.writer.run(stop.clone()), read_ahead);
    }
}

#[cfg(test)]
mod tests;
