//! What a person decides about a proposal, carried out: the same writer, the same lock, the same log.

use retro_core::id::{ProposalId, Tenant};
use retro_core::manual::{Acceptance, Decided, ProposalFacts, Refusal, Undecided, accept, refuse};
use retro_store::StoreError;
use retro_store::manual::DecideProposal;

use crate::Writer;

/// What came of a decision: `None` when the tenant has no such proposal; the inner error says why nothing was decided.
pub type Outcome = Option<Result<Decided, Undecided>>;

impl Writer {
    /// Makes a memory of a proposal because a person accepts it, or joins it to the one that says so already.
    pub async fn accept(
        &self,
        tenant: &Tenant,
        id: ProposalId,
        acceptance: &Acceptance,
    ) -> Result<Outcome, StoreError> {
        let now = self.clock.now();
        let mut rounds = self.rounds(tenant);
        loop {
            let hand = rounds.hand();
            let decide = |facts: &ProposalFacts| {
                let policy = self.policies.of(&facts.key);
                hand.ready(accept(facts, acceptance, &policy, hand.embedder(), now))
            };
            match self.decide(tenant, id, &decide).await {
                Err(StoreError::Unready(_)) => {}
                done => return done,
            }
            let missed = hand.missed();
            rounds.get(missed).await?;
        }
    }

    /// Keeps a person's refusal of a proposal.
    pub async fn refuse(
        &self,
        tenant: &Tenant,
        id: ProposalId,
        refusal: &Refusal,
    ) -> Result<Outcome, StoreError> {
        let now = self.clock.now();
        self.decide(tenant, id, &|facts: &ProposalFacts| Ok(refuse(facts, refusal, now))).await
    }

    async fn decide(
        &self,
        tenant: &Tenant,
        id: ProposalId,
        decide: DecideProposal<'_>,
    ) -> Result<Outcome, StoreError> {
        let outcome = self.store.decide_proposal(tenant, id, decide).await?;
        self.outbox.notify_one();
        Ok(outcome)
    }
}
