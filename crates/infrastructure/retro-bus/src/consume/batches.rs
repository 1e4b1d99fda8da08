//! Keeps the batches of a consumer that are handled at the same time, in their order.

use std::future::{Future, pending};
use std::pin::{Pin, pin};

use futures::StreamExt as _;
use futures::future::{Either, select};
use futures::stream::FuturesUnordered;
use retro_consumer::EarlierBatch;
use tokio_util::sync::CancellationToken;

/// Maximum number of open batches: one that is being stored, and one that is prepared meanwhile. More would only use
/// more memory.
const OPEN_MAX: usize = 2;

/// Batches that are being handled.
#[derive(Default)]
pub(super) struct OpenBatches<'a> {
    open: FuturesUnordered<Pin<Box<dyn Future<Output = ()> + Send + 'a>>>,
    /// Cancelled when the newest batch has ended.
    newest_ended: Option<CancellationToken>,
}

impl<'a> OpenBatches<'a> {
    /// Opens a batch, which is stored when the batch before it has ended.
    pub(super) fn open<F>(&mut self, handle: impl FnOnce(EarlierBatch) -> F)
    where
        F: Future<Output = ()> + Send + 'a,
    {
        let ended = CancellationToken::new();
        let newest = self.newest_ended.replace(ended.clone());
        let earlier = newest.map_or(EarlierBatch::none(), EarlierBatch::new);
        let handling = handle(earlier);
        self.open.push(Box::pin(async move {
            // Ended however the future ends: the next batch waits for it.
            let _ended = ended.drop_guard();
            handling.await;
        }));
    }

    /// Waits for `event` while the open batches continue.
    pub(super) async fn drive_until<T>(&mut self, event: impl Future<Output = T>) -> T {
        let drive = async {
            while self.open.next().await.is_some() {}
            pending::<()>().await;
        };
        // `event` is not dropped before it is ready, because `drive` never is.
        match select(pin!(event), pin!(drive)).await {
            Either::Left((happened, _)) => happened,
            Either::Right(((), event)) => event.await,
        }
    }

    /// Waits until another batch can be opened.
    pub(super) async fn wait_for_room(&mut self) {
        while self.open.len() >= OPEN_MAX {
            self.open.next().await;
        }
    }

    /// Waits until every open batch has ended.
    pub(super) async fn finish(&mut self) {
        while self.open.next().await.is_some() {}
    }
}
