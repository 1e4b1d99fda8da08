//! Carries out operators' decisions about proposals, under the same lock and with the same change log as all
//! other changes.

use retro_core::id::{ProposalId, Tenant};
use retro_core::manual::{
    Acceptance, DecideError, DecidedProposal, ProposalFacts, Refusal, accept_proposal, refuse_proposal,
};
use retro_store::StoreError;
use retro_store::manual::DecideProposal;

use crate::Writer;

/// Result of a decision. `None` means that the tenant has no such proposal. The inner error says why nothing
/// was decided.
pub type ProposalOutcome = Option<Result<DecidedProposal, DecideError>>;

impl Writer {
    /// Accepts a proposal: creates a memory from it, or adds the proposal's evidence to an existing memory with
    /// the same lesson.
    pub async fn accept_proposal(
        &self,
        tenant: &Tenant,
        id: ProposalId,
        acceptance: &Acceptance,
    ) -> Result<ProposalOutcome, StoreError> {
        let now = self.clock.now();
        let mut fetcher = self.embedding_fetcher(tenant);
        loop {
            let pass = fetcher.next_pass();
            let decide = |facts: &ProposalFacts| {
                let policy = self.policies.policy_for(&facts.key);
                pass.ensure_complete(accept_proposal(facts, acceptance, &policy, pass.embedder(), now))
            };
            match self.decide_proposal(tenant, id, &decide).await {
                // Nothing is stored: the missing vectors are fetched, and the decision is made again.
                Err(StoreError::MissingEmbeddings(_)) => {}
                done => return done,
            }
            let missing = pass.missing_texts();
            fetcher.fetch_missing(missing).await?;
        }
    }

    /// Stores an operator's refusal of a proposal, with the reason.
    pub async fn refuse_proposal(
        &self,
        tenant: &Tenant,
        id: ProposalId,
        refusal: &Refusal,
    ) -> Result<ProposalOutcome, StoreError> {
        let now = self.clock.now();
        self.decide_proposal(tenant, id, &|facts: &ProposalFacts| Ok(refuse_proposal(facts, refusal, now)))
            .await
    }

    async fn decide_proposal(
        &self,
        tenant: &Tenant,
        id: ProposalId,
        decide: DecideProposal<'_>,
    ) -> Result<ProposalOutcome, StoreError> {
        let outcome = self.store.decide_proposal(tenant, id, decide).await?;
        self.outbox.notify_one();
        Ok(outcome)
    }
}
