//! Carries out operators' decisions about proposals, under the same lock and with the same change log as all
//! other changes.

use retro_core::attribution::DecisionToken;
use retro_core::id::{ProposalId, Tenant};
use retro_core::manual::{
    Acceptance, DecideError, DecidedProposal, ProposalFacts, Refusal, accept_proposal, refuse_proposal,
};
use retro_core::similarity::ResolvedVectors;
use retro_store::{Decision, StoreError};

use crate::Writer;
use crate::decide::name_token;
use crate::metrics::CountedChanges;

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
        let token = &(self.deciding_token)();
        let collect = || self.store.load_proposal_facts(tenant, id);
        let decide = |vectors: ResolvedVectors| async move {
            let decide = |facts: &ProposalFacts| -> Decision<Result<DecidedProposal, DecideError>> {
                let embedder = vectors.embedder_for(facts)?;
                let policy = self.policies.policy_for(&facts.key);
                let decided = accept_proposal(facts, acceptance, &policy, embedder, now);
                Ok(decided.map(|decided| with_token(decided, token.as_ref())))
            };
            self.store.decide_proposal(tenant, id, &decide).await
        };
        let outcome = self.decide_with_vectors(tenant, collect, decide).await?;
        if let Some(Ok(decided)) = &outcome {
            CountedChanges::from_changes(&decided.changes).record();
        }
        self.outbox.notify_one();
        Ok(outcome)
    }

    /// Stores an operator's refusal of a proposal, with the reason.
    pub async fn refuse_proposal(
        &self,
        tenant: &Tenant,
        id: ProposalId,
        refusal: &Refusal,
    ) -> Result<ProposalOutcome, StoreError> {
        let now = self.clock.now();
        let token = (self.deciding_token)();
        let decide = |facts: &ProposalFacts| -> Decision<Result<DecidedProposal, DecideError>> {
            Ok(refuse_proposal(facts, refusal, now).map(|decided| with_token(decided, token.as_ref())))
        };
        let decided = self.store.decide_proposal(tenant, id, &decide).await?;
        self.outbox.notify_one();
        Ok(decided.expect("a refusal compares no texts, so it is always decided"))
    }
}

/// Stores the access token of a request with the decision that it has made, and with its changes.
fn with_token(mut decided: DecidedProposal, token: Option<&DecisionToken>) -> DecidedProposal {
    name_token(&mut decided.changes, token);
    decided.decision.with_token = token.cloned();
    decided
}
