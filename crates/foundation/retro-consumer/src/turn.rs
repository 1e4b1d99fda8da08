//! Defines the order in which the batches of a consumer are stored.

use tokio_util::sync::CancellationToken;

/// The place of a batch among the batches of its consumer. While one batch is stored, the next may be parsed; it is
/// stored when its turn comes.
#[derive(Debug, Clone)]
pub struct Turn {
    /// Cancelled when every earlier batch has ended. `None` if there is none.
    earlier: Option<CancellationToken>,
}

impl Turn {
    /// Returns the turn of a batch before which there is no other.
    pub const fn first() -> Self {
        Self { earlier: None }
    }

    /// Returns the turn of a batch that comes when `earlier` is cancelled, which whoever handles the earlier batch must
    /// do, however that ends.
    pub const fn after(earlier: CancellationToken) -> Self {
        Self { earlier: Some(earlier) }
    }

    /// Returns `true` if every earlier batch has ended.
    pub fn has_come(&self) -> bool {
        self.earlier.as_ref().is_none_or(CancellationToken::is_cancelled)
    }

    /// Waits until every earlier batch has ended.
    pub async fn wait(&self) {
        if let Some(earlier) = &self.earlier {
            earlier.cancelled().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn a_turn_comes_when_the_earlier_batch_has_ended() {
        let earlier = CancellationToken::new();
        let turn = Turn::after(earlier.clone());
        assert!(!turn.has_come() && turn.wait().now_or_never().is_none());
        earlier.cancel();
        assert!(turn.has_come() && turn.wait().now_or_never().is_some());
        assert!(Turn::first().has_come());
    }
}
