//! Manual retrospectives in the test world, and decisions on their proposals.

use std::collections::HashSet;

use retro_core::id::{ProposalId, RetrospectiveId};
use retro_core::manual::{
    Acceptance, DecideError, DecidedProposal, DecisionRecord, ProposalFacts, Refusal, accept_proposal,
    build_proposals, proposal_texts, refuse_proposal,
};
use retro_core::memory::{ChangeCause, Proposal};
use retro_core::retrospective::{Investigation, ManualRequest, Retrospective, RetrospectiveState};

use super::{CollectedTexts, InvestigatedRun, World, key};

/// A proposal as stored, with its decision.
pub(crate) type Row = (Proposal, Option<DecisionRecord>);

impl World {
    /// Runs a manual retrospective over these runs. Returns its proposals.
    pub(crate) fn manual(&mut self, investigated: &[InvestigatedRun]) -> Vec<Proposal> {
        self.manual_about(investigated, None)
    }

    /// Runs a manual retrospective with a question as its focus.
    pub(crate) fn manual_about(
        &mut self,
        investigated: &[InvestigatedRun],
        focus: Option<&str>,
    ) -> Vec<Proposal> {
        self.manuals += 1;
        let request = format!("request {}", self.manuals);
        let investigations: Vec<Investigation> = (1u32..)
            .zip(investigated)
            .map(|(number, investigated_run)| investigated_run.to_investigation(number))
            .collect();
        let retrospective = Retrospective {
            id: RetrospectiveId::of_request(&key(), &request),
            key: key(),
            epoch: 0,
            first: 0,
            last: 0,
            as_of: self.now,
            policy: self.policy.clone(),
            pipeline: None,
            state: RetrospectiveState::Settling,
            manual_request: Some(ManualRequest {
                request,
                by: "ada".into(),
                with_token: None,
                runs: investigated.iter().map(|investigated_run| investigated_run.run.clone()).collect(),
                focus: focus.map(str::to_owned),
                reason: None,
            }),
        };
        let texts = CollectedTexts::new(proposal_texts(&retrospective, &investigations));
        let proposals = build_proposals(&retrospective, &investigations, &texts);
        self.proposals.extend(proposals.iter().map(|one| (one.clone(), None)));
        proposals
    }

    /// Accepts a proposal as the operator Ada. Returns one line for each change.
    pub(crate) fn accept(
        &mut self,
        id: ProposalId,
        despite: Option<&str>,
    ) -> Result<Vec<String>, DecideError> {
        let request = "yes".to_owned();
        let override_tombstone = despite.map(str::to_owned);
        let acceptance = Acceptance { request, by: "ada".into(), override_tombstone, reason: None };
        let facts = self.proposal_facts(id);
        let texts = CollectedTexts::of(&facts);
        let decided = accept_proposal(&facts, &acceptance, &self.policy, &texts, self.now)?;
        Ok(self.store_decision(id, decided))
    }

    /// Refuses a proposal as the operator Ada.
    pub(crate) fn refuse(&mut self, id: ProposalId, reason: &str) -> Result<(), DecideError> {
        let refusal = Refusal { request: "no".into(), by: "ada".into(), reason: reason.into() };
        let decided = refuse_proposal(&self.proposal_facts(id), &refusal, self.now)?;
        self.store_decision(id, decided);
        Ok(())
    }

    /// Returns the facts that a store would load about a proposal.
    pub(crate) fn proposal_facts(&self, id: ProposalId) -> ProposalFacts {
        let (proposal, decision) = self.proposals.iter().find(|(one, _)| one.id == id).unwrap().clone();
        let ours = |cause: &ChangeCause| match cause {
            ChangeCause::Run { run, .. } => proposal.evidence.iter().any(|shown| shown.run == *run),
            _ => false,
        };
        let applied: Vec<_> = self.log.iter().filter(|change| ours(&change.cause)).collect();
        let touched: HashSet<_> = applied.iter().map(|change| change.memory).collect();
        let known = self.memories.values().filter(|one| one.status.is_living() || touched.contains(&one.id));
        ProposalFacts {
            key: key(),
            memories: known.cloned().collect(),
            tombstones: self.tombstones.values().cloned().collect(),
            applied: applied.iter().map(|change| change.id).collect(),
            proposal,
            decision,
        }
    }

    fn store_decision(&mut self, id: ProposalId, decided: DecidedProposal) -> Vec<String> {
        let row = self.proposals.iter_mut().find(|(one, _)| one.id == id).unwrap();
        row.1 = Some(decided.decision);
        let lines = self.append(&decided.changes);
        self.memories.extend(decided.memory.map(|memory| (memory.id, memory)));
        lines
    }
}
