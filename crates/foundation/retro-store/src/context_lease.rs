//! Storage port of the gateways that hand out memories from their own memory.
//!
//! A gateway may do so only under a lease of [`CONTEXT_LEASE`]. It renews the lease first, then reads what has changed
//! and forgets it, and only then hands out more. So whatever was committed before the last renewal but one is no longer
//! handed out, and whoever withdraws a memory needs to wait only for two renewals, or for the end of the lease.

use std::future::Future;
use std::time::Duration;

use async_trait::async_trait;
use retro_core::id::WorkflowKey;
use tokio::time::{Instant, sleep};

use crate::Result;

/// Time for which a gateway may hand out memories from its own memory, counted from before the renewal.
pub const CONTEXT_LEASE: Duration = Duration::from_secs(2);

/// Maximum number of changed workflows that are listed at once. If there are more, everything counts as changed.
pub const CONTEXT_CHANGES_MAX: u32 = 10_000;

/// Pause between two checks of the leases that a withdrawal waits for.
const CHECK_PAUSE: Duration = Duration::from_millis(10);

/// Number of renewals after which a gateway hands out nothing that was withdrawn before: the first one may have been
/// followed by a reading that still is under way.
pub const CONFIRMING_RENEWALS: u64 = 2;

/// Place in the sequence of changes. Everything up to it has been listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChangeMark(pub i64);

/// What has changed after a mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextChanges {
    /// Workflows and rule scopes of which memories, or the visibility of their repository, have changed, each with the
    /// number of its last change. A change may be listed again. `None` if there are more than [`CONTEXT_CHANGES_MAX`].
    pub changed: Option<Vec<(WorkflowKey, i64)>>,
    /// Mark for the next call.
    pub mark: ChangeMark,
}

/// Lease under which a gateway hands out memories from its own memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextLease {
    /// Name of the gateway.
    pub gateway: String,
    /// Number of times that it renewed the lease.
    pub renewals: u64,
}

/// Keeps the leases of gateways, and lists what has changed for them.
#[async_trait]
pub trait ContextLeaseStore: Send + Sync {
    /// Returns the mark of the present: later calls list what changes from now on.
    async fn load_change_mark(&self) -> Result<ChangeMark>;

    /// Lists what has changed after a mark, including every transaction that was committed before this call.
    async fn list_context_changes(&self, after: ChangeMark) -> Result<ContextChanges>;

    /// Renews the lease of a gateway for [`CONTEXT_LEASE`] from now, or begins it. Deletes leases that ended an hour
    /// ago.
    async fn renew_context_lease(&self, gateway: &str) -> Result<()>;

    /// Lists the leases that have not ended, sorted by name.
    async fn list_context_leases(&self) -> Result<Vec<ContextLease>>;
}

/// Waits until no gateway hands out what was committed as withdrawn before this call: until each has renewed its lease
/// often enough or the lease has ended. Returns the gateways that have done neither within twice the time of a lease,
/// which is possible only if they renew it very slowly. If the database does not answer, leases end by themselves.
pub async fn wait_for_context_leases<S>(store: &S) -> Vec<String>
where
    S: ContextLeaseStore + ?Sized,
{
    wait_for_leases(|| store.list_context_leases()).await
}

async fn wait_for_leases<F>(list: impl Fn() -> F) -> Vec<String>
where
    F: Future<Output = Result<Vec<ContextLease>>>,
{
    let deadline = Instant::now() + 2 * CONTEXT_LEASE;
    let mut first: Option<Vec<ContextLease>> = None;
    loop {
        // An error is no confirmation: it is tried again, until no lease of before can be left.
        if let Ok(now) = list().await {
            let waited_for = first.get_or_insert_with(|| now.clone());
            let unconfirmed = list_unconfirmed(waited_for, &now);
            if unconfirmed.is_empty() || Instant::now() >= deadline {
                return unconfirmed;
            }
        } else if Instant::now() >= deadline {
            return Vec::new();
        }
        sleep(CHECK_PAUSE).await;
    }
}

/// Returns the gateways whose lease has neither ended nor been renewed often enough since `before`.
fn list_unconfirmed(before: &[ContextLease], now: &[ContextLease]) -> Vec<String> {
    let is_unconfirmed = |one: &&ContextLease| {
        let same = now.iter().find(|lease| lease.gateway == one.gateway);
        same.is_some_and(|lease| lease.renewals < one.renewals + CONFIRMING_RENEWALS)
    };
    before.iter().filter(is_unconfirmed).map(|lease| lease.gateway.clone()).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::future::ready;

    use super::*;
    use crate::StoreError;

    /// Leases by gateway and number of renewals, or `None` if the database is away.
    type Answer = Option<Vec<(&'static str, u64)>>;

    /// Waits for leases that are listed like this, the last list again and again. Returns who has not confirmed, and
    /// the time that it took.
    async fn wait(answers: Vec<Answer>) -> (Vec<String>, Duration) {
        let left = RefCell::new(answers.into_iter().rev().collect::<Vec<_>>());
        let lease = |(gateway, renewals): (&str, u64)| ContextLease { gateway: gateway.to_owned(), renewals };
        let list = || {
            let mut left = left.borrow_mut();
            let next = if left.len() > 1 { left.pop().flatten() } else { left[0].clone() };
            let leases = next.map(|leases| leases.into_iter().map(lease).collect());
            ready(leases.ok_or_else(|| StoreError::Unavailable("away".to_owned())))
        };
        let began = Instant::now();
        let unconfirmed = wait_for_leases(list).await;
        (unconfirmed, began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_withdrawal_waits_for_two_renewals_or_the_end_of_each_lease() {
        assert_eq!(wait(vec![Some(vec![])]).await, (vec![], Duration::ZERO), "nobody hands out anything");
        let renewed = wait(vec![
            Some(vec![("a", 7), ("b", 1)]),
            Some(vec![("a", 8), ("b", 1)]),
            Some(vec![("a", 9), ("b", 1)]),
            Some(vec![("a", 9), ("c", 0)]),
        ]);
        assert_eq!(renewed.await, (vec![], 3 * CHECK_PAUSE), "c began after the withdrawal");
        let away = wait(vec![Some(vec![("a", 7)]), None, Some(vec![])]);
        assert_eq!(away.await, (vec![], 2 * CHECK_PAUSE));
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_ends_and_says_who_has_not_confirmed() {
        let (unconfirmed, waited) = wait(vec![Some(vec![("a", 7)])]).await;
        assert_eq!((unconfirmed, waited), (vec!["a".to_owned()], 2 * CONTEXT_LEASE));
        assert_eq!(wait(vec![None]).await, (vec![], 2 * CONTEXT_LEASE), "no lease outlives it");
    }
}
