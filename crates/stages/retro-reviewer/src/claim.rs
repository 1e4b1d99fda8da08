//! The claim on a pull request whose reviews a language model reads, and the journal of the model's calls.
//!
//! A model takes seconds or minutes, in which no transaction is open. The claim keeps other processes from paying for the same
//! answers meanwhile; it is renewed while the reader works, and expires if the process is killed. Whoever takes over finds every
//! answer that was stored.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use retro_core::model_use::{BudgetBound, Spending};
use retro_core::review::ModelCosts;
use retro_model::CallJournal;
use retro_store::{ModelCall, ModelCallResult, ReviewCall, ReviewClaim, ReviewerStore, StoreError};

use crate::reader::ReadingJournal;

/// Renewals within one lease: two may be late before the claim is lost.
const RENEWALS_PER_LEASE: u32 = 3;

/// Journal of the calls about a claimed pull request, in the database.
pub(crate) struct ClaimJournal {
    pub(crate) store: Arc<dyn ReviewerStore>,
    pub(crate) claim: ReviewClaim,
}

#[async_trait]
impl CallJournal for ClaimJournal {
    async fn list_calls(&self) -> Result<Vec<ModelCall>, StoreError> {
        let calls = self.store.list_review_calls(&self.claim.key).await?;
        Ok(calls.into_iter().map(|one| one.call).collect())
    }

    async fn append_call(&self, call: &ModelCall) -> Result<(), StoreError> {
        self.store.append_review_call(&self.claim, call).await
    }

    async fn load_spending(&self) -> Result<Vec<(BudgetBound, Spending)>, StoreError> {
        Ok(self.store.load_review_spending(&self.claim.key).await?.by_bound().to_vec())
    }
}

#[async_trait]
impl ReadingJournal for ClaimJournal {
    async fn sum_costs(&self, answered: &[String]) -> Result<ModelCosts, StoreError> {
        let calls = self.store.list_review_calls(&self.claim.key).await?;
        Ok(sum_costs(&calls, self.claim.round, answered))
    }
}

/// Sums the calls that were made for a decision. Of the prompts that were answered, those that it did not pay for were found
/// again.
pub fn sum_costs(calls: &[ReviewCall], round: u64, answered: &[String]) -> ModelCosts {
    let mut costs = ModelCosts::default();
    let mut again: BTreeSet<&String> = answered.iter().collect();
    // Calls of a process that was killed in this decision count, too: they were paid for it.
    for ReviewCall { call, .. } in calls.iter().filter(|one| one.round == round) {
        costs.calls += 1;
        costs.tokens = costs.tokens.add(call.usage);
        costs.micro_usd = costs.micro_usd.saturating_add(call.cost_micro_usd.unwrap_or_default());
        costs.unpriced_calls += u32::from(call.cost_micro_usd.is_none());
        costs.duration_ms = costs.duration_ms.saturating_add(call.duration_ms);
        if matches!(call.result, ModelCallResult::Answered(_)) {
            again.remove(&call.prompt);
        }
    }
    costs.found_again = u32::try_from(again.len()).unwrap_or(u32::MAX);
    costs
}

/// Journal that keeps nothing: of a reader that asks no model, and of evaluations.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoJournal;

#[async_trait]
impl CallJournal for NoJournal {
    async fn list_calls(&self) -> Result<Vec<ModelCall>, StoreError> {
        Ok(Vec::new())
    }

    async fn append_call(&self, _: &ModelCall) -> Result<(), StoreError> {
        Ok(())
    }

    async fn load_spending(&self) -> Result<Vec<(BudgetBound, Spending)>, StoreError> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl ReadingJournal for NoJournal {
    async fn sum_costs(&self, _: &[String]) -> Result<ModelCosts, StoreError> {
        Ok(ModelCosts::default())
    }
}

/// Renews a claim until the work ends, and returns its result. Fails if the claim is lost: the work is then dropped, since
/// somebody else does it.
pub(crate) async fn hold_claim<T>(
    store: &dyn ReviewerStore,
    claim: &ReviewClaim,
    lease_s: u64,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let pause = Duration::from_secs(lease_s) / RENEWALS_PER_LEASE;
    let renew = async {
        loop {
            tokio::time::sleep(pause).await;
            // Any other failure is left alone: the database may be back before the lease ends.
            if let Err(fenced @ StoreError::Fenced { .. }) = store.extend_review_claim(claim, lease_s).await {
                return fenced;
            }
        }
    };
    tokio::select! {
        // The decision ends the claim itself, and must not count as lost by a renewal that came too late.
        biased;
        done = work => done,
        fenced = renew => Err(fenced),
    }
}
