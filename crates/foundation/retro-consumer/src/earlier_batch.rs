//! Defines the order in which the batches of a consumer are stored.

use tokio_util::sync::CancellationToken;

/// The batch before another one of the same consumer. While it is stored, the other may be parsed; the other is stored
/// when it has ended.
#[derive(Debug, Clone)]
pub struct EarlierBatch {
    /// Cancelled when the batch has ended. `None` if there is no such batch.
    ended: Option<CancellationToken>,
}

impl EarlierBatch {
    /// Returns the value for a batch before which there is no other.
    pub const fn none() -> Self {
        Self { ended: None }
    }

    /// Returns a batch that ends when `ended` is cancelled, which whoever handles it must do, however that ends.
    pub const fn new(ended: CancellationToken) -> Self {
        Self { ended: Some(ended) }
    }

    /// Returns `true` if the batch has ended, and with it every one before it.
    pub fn has_ended(&self) -> bool {
        self.ended.as_ref().is_none_or(CancellationToken::is_cancelled)
    }

    /// Waits until the batch has ended, and with it every one before it.
    pub async fn wait_until_ended(&self) {
        if let Some(ended) = &self.ended {
            ended.cancelled().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn a_batch_has_ended_when_its_token_is_cancelled_or_when_there_is_none() {
        let ended = CancellationToken::new();
        let earlier = EarlierBatch::new(ended.clone());
        assert!(!earlier.has_ended() && earlier.wait_until_ended().now_or_never().is_none());
        ended.cancel();
        assert!(earlier.has_ended() && earlier.wait_until_ended().now_or_never().is_some());
        assert!(EarlierBatch::none().has_ended());
    }
}
