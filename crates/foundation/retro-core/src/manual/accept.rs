//! Decides proposals. An accepted proposal becomes an active memory; a refused one changes no memory. The
//! decision is stored in either case.
//!
//! Each run of an accepted proposal causes the same change as in an automatic retrospective. The acceptance
//! itself is a separate change, caused by the operator's request. If an automatic retrospective also
//! investigates one of the runs, before or afterwards, the run is not counted as evidence again.

use std::collections::HashSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::attribution::DecisionToken;
use crate::finding::REASON_CHARS_MAX;
use crate::gate::{GateDecision, judge_lesson, refused_quote_reason};
use crate::id::{ChangeId, MemoryId, NAME_BYTES_MAX, RunId, WorkflowKey};
use crate::matching::LessonMatcher;
use crate::memory::{
    Change, ChangeCause, ChangeEffect, Evidence, FoldError, Memory, MemoryStatus, OBSERVATION_KINDS,
    Proposal, Tombstone, TombstoneOverride, change_id, fold_change,
};
use crate::message::{Message, Notice};
use crate::policy::Policy;
use crate::similarity::{ComparedLessons, ComparesTexts, Embedder, VectorCache};
use crate::weight::Weight;

/// Stored facts from which a proposal is decided, read under the workflow lock.
#[derive(Debug, Clone)]
pub struct ProposalFacts {
    /// Workflow of the proposal.
    pub key: WorkflowKey,
    /// Proposal to be decided.
    pub proposal: Proposal,
    /// Earlier decision on the proposal; `None` if it is undecided.
    pub decision: Option<DecisionRecord>,
    /// Living memories of the workflow, and any other memory that a change in `applied` refers to.
    pub memories: Vec<Memory>,
    /// Tombstones of the workflow, including expired ones.
    pub tombstones: Vec<Tombstone>,
    /// Ids of the stored changes of the workflow whose cause is one of the proposal's runs.
    pub applied: HashSet<ChangeId>,
}

impl ComparesTexts for ProposalFacts {
    fn texts_to_compare(&self) -> Vec<String> {
        let scope = self.proposal.scope();
        let mut compared = ComparedLessons::default();
        // A decided proposal is not compared with anything again.
        if self.decision.is_none() {
            compared.add_new(&scope, &self.proposal.lesson);
        }
        compared.add_all_known(&self.memories, &self.tombstones);
        compared.into_texts()
    }
}

/// Decision on a proposal, as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionRecord {
    /// Decision with its details.
    #[serde(flatten)]
    pub decision: ProposalDecision,
    /// Name of the operator who decided.
    pub by: String,
    /// Access token of the request; `None` if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_token: Option<DecisionToken>,
    /// Id of the request that made the decision.
    pub request: String,
    /// Time of the decision, by the writer's clock.
    pub at: Timestamp,
}

/// Decision on a proposal: accepted or refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
#[derive(IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ProposalDecision {
    /// The proposal became a memory.
    Accepted {
        /// Id of the new memory, or of the existing memory with the same lesson.
        memory: MemoryId,
        /// Effect of the acceptance, as one sentence.
        result: String,
        /// Reason that the operator gave; `None` if the operator gave none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The proposal was refused.
    Refused {
        /// Reason for the refusal.
        reason: String,
    },
}

impl ProposalDecision {
    /// Returns the decision as it is stored and shown, such as `accepted`.
    pub fn as_str(&self) -> &'static str {
        self.into()
    }
}

/// An operator's request to accept a proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acceptance {
    /// Id of the request. Requests with the same id take effect only once.
    pub request: String,
    /// Name of the operator who accepts the proposal.
    pub by: String,
    /// Reason to override a tombstone. If `None`, a tombstone blocks the acceptance.
    pub override_tombstone: Option<String>,
    /// Reason for the acceptance, stored in the decision and in the change; `None` if the operator gives none.
    pub reason: Option<String>,
}

/// An operator's request to refuse a proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Id of the request. Requests with the same id take effect only once.
    pub request: String,
    /// Name of the operator who refuses the proposal.
    pub by: String,
    /// Reason for the refusal, as the operator states it.
    pub reason: String,
}

/// Result of accepting or refusing a proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecidedProposal {
    /// New changes, in order. Empty for a refusal, or if the accepted memory was already active with evidence
    /// from every run.
    pub changes: Vec<Change>,
    /// Memory after the changes; `None` if the proposal was refused.
    pub memory: Option<Memory>,
    /// Decision to be stored with the proposal.
    pub decision: DecisionRecord,
    /// Messages that announce the changes.
    pub messages: Vec<Message>,
}

/// Reason why a proposal could not be decided.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecideError {
    /// The proposal was already decided, and that decision remains in force.
    #[error("it was already {} by {}", .0.decision.as_str(), .0.by)]
    AlreadyDecided(Box<DecisionRecord>),
    /// The gate refuses the lesson of the proposal.
    #[error("no agent may be shown it: {0}")]
    Gate(String),
    /// A tombstone forbids the lesson of the proposal.
    #[error(
        "the tombstone of memory {tombstone_of} forbids it until {until} ({reason}); a reason overrides it"
    )]
    Tombstone {
        /// Deleted memory for which the tombstone was created.
        tombstone_of: MemoryId,
        /// Time when the tombstone expires.
        until: Timestamp,
        /// Reason why the memory was deleted.
        reason: String,
    },
    /// A text field of the request is empty or too long.
    #[error("{what} must have 1 to {max} {unit}")]
    TextLength {
        /// Name of the field: `request`, `by` or `reason`.
        what: &'static str,
        /// Maximum length of the field, in `unit`.
        max: usize,
        /// Unit of `max`: `bytes` or `characters`.
        unit: &'static str,
    },
    /// The stored memory and its changes contradict each other.
    #[error(transparent)]
    Damaged(#[from] FoldError),
}

/// Computes the changes and messages of accepting a proposal. Pure: equal facts give equal changes. Fails if
/// the proposal is already decided, if the gate refuses its lesson, or if a tombstone forbids it and is not
/// overridden.
pub fn accept_proposal(
    facts: &ProposalFacts,
    acceptance: &Acceptance,
    policy: &Policy,
    embedder: &dyn Embedder,
    at: Timestamp,
) -> Result<DecidedProposal, DecideError> {
    validate_request(&acceptance.request, &acceptance.by, acceptance.override_tombstone.as_deref())?;
    validate_request(&acceptance.request, &acceptance.by, acceptance.reason.as_deref())?;
    ensure_undecided(facts)?;
    let vectors = VectorCache::new(embedder);
    let alike = LessonMatcher { vectors: &vectors, policy };
    let proposal = &facts.proposal;
    let (scope, lesson) = (proposal.scope(), &proposal.lesson);
    if let GateDecision::Refused { why } = judge_lesson(&scope, lesson, &policy.held_dangers) {
        return Err(DecideError::Gate(why));
    }
    if let Some(why) = proposal.evidence.iter().find_map(|shown| refused_quote_reason(&shown.quote)) {
        return Err(DecideError::Gate(format!("one of its quotes: {why}")));
    }
    let known = alike.best_match(facts.memories.iter(), &scope, lesson, proposal.contradicts);
    let live = facts.tombstones.iter().filter(|tombstone| tombstone.until > at);
    let tombstone = match known {
        // An active memory with this lesson exists, so a tombstone has nothing left to forbid.
        Some(memory) if memory.status == MemoryStatus::Active => None,
        _ => alike.blocking_tombstone(live, &scope, lesson).map(|(tombstone, _)| tombstone),
    };
    let tombstone_override = overridden_tombstone(tombstone, acceptance)?;
    let mut making = AcceptanceChanges { facts, acceptance, at, memory: known.cloned(), changes: Vec::new() };
    making.make_changes(policy, tombstone_override)?;
    let memory = making.memory.expect("the memory was known or has just been created");
    let result = describe_acceptance(known.map(|memory| memory.status), &making.changes);
    let accepted =
        ProposalDecision::Accepted { memory: memory.id, result, reason: acceptance.reason.clone() };
    let messages =
        making.changes.iter().map(|change| Notice::of_change(change).into_message(&facts.key)).collect();
    let decision = build_record(accepted, &acceptance.by, &acceptance.request, at);
    Ok(DecidedProposal { changes: making.changes, memory: Some(memory), decision, messages })
}

/// Refuses a proposal: returns the decision to store and changes no memory.
pub fn refuse_proposal(
    facts: &ProposalFacts,
    refusal: &Refusal,
    at: Timestamp,
) -> Result<DecidedProposal, DecideError> {
    validate_request(&refusal.request, &refusal.by, Some(&refusal.reason))?;
    ensure_undecided(facts)?;
    let refused = ProposalDecision::Refused { reason: refusal.reason.clone() };
    let decision = build_record(refused, &refusal.by, &refusal.request, at);
    Ok(DecidedProposal { changes: Vec::new(), memory: None, decision, messages: Vec::new() })
}

/// Accumulates the changes that an acceptance makes.
struct AcceptanceChanges<'f> {
    facts: &'f ProposalFacts,
    acceptance: &'f Acceptance,
    at: Timestamp,
    memory: Option<Memory>,
    changes: Vec<Change>,
}

impl AcceptanceChanges<'_> {
    /// Creates the memory if it is new, activates it if it is not active, and adds evidence from each run
    /// that is not yet evidence for it.
    fn make_changes(
        &mut self,
        policy: &Policy,
        tombstone_override: Option<TombstoneOverride>,
    ) -> Result<(), FoldError> {
        let facts = self.facts;
        let evidence = &facts.proposal.evidence;
        let (id, by) = (facts.proposal.id, &self.acceptance.by);
        // The first run is the evidence that creates a new memory, so it is not added again below.
        let mut rest = evidence.as_slice();
        if let (None, Some((first, others))) = (&self.memory, evidence.split_first()) {
            let reason = format!("first seen in run {}, which a manual retrospective looked into", first.run);
            self.make_change(self.run_cause(&first.run), self.creation_effect(first), reason)?;
            rest = others;
        }
        if self.memory.as_ref().is_some_and(|memory| memory.status != MemoryStatus::Active) {
            let mut reason = format!("accepted by {by} from proposal {id}");
            if let Some(given) = &self.acceptance.reason {
                reason.push_str(&format!(": {given}"));
            }
            if let Some(tombstone_override) = &tombstone_override {
                reason.push_str(&format!(", despite a tombstone: {}", tombstone_override.reason));
            }
            let weight = Weight::from_thousandths(policy.confirmed_weight);
            // The key is the proposal's id, because a proposal is accepted only once. Operators may reuse a
            // request id.
            let cause = ChangeCause::Operator { request: format!("accept {id}") };
            let effect =
                ChangeEffect::Accepted { weight, proposal: Some(id), by: by.clone(), tombstone_override };
            self.make_change(cause.clone(), effect, reason)?;
            self.hold_if_endangering(policy, cause)?;
        }
        for shown in rest {
            if !self.has_shown(&shown.run) {
                let reason =
                    format!("seen in run {} too, says proposal {id}: evidence, not weight", shown.run);
                let effect = ChangeEffect::Observed { evidence: shown.clone() };
                self.make_change(self.run_cause(&shown.run), effect, reason)?;
            }
        }
        Ok(())
    }

    /// Puts the accepted memory into quarantine if the gate objects to it. Accepting a proposal says that it is
    /// true; handing it to agents in spite of a danger is a decision of its own.
    fn hold_if_endangering(&mut self, policy: &Policy, cause: ChangeCause) -> Result<(), FoldError> {
        let Some(memory) = self.memory.as_ref().filter(|memory| memory.released_by.is_none()) else {
            return Ok(());
        };
        let decision = judge_lesson(&memory.scope, &memory.lesson, &policy.held_dangers);
        let Some(why) = decision.objection() else { return Ok(()) };
        self.make_change(cause, ChangeEffect::Held { why: why.to_owned() }, why.to_owned())
    }

    fn creation_effect(&self, first: &Evidence) -> ChangeEffect {
        let proposal = &self.facts.proposal;
        ChangeEffect::Created {
            scope: proposal.scope(),
            lesson: proposal.lesson.clone(),
            status: MemoryStatus::Tentative,
            weight: Weight::ZERO,
            evidence: Some(first.clone()),
            quarantine: None,
            by: None,
        }
    }

    /// Returns `true` if the memory already has evidence from the run, from any retrospective.
    fn has_shown(&self, run: &RunId) -> bool {
        let Some(memory) = &self.memory else { return false };
        let cause = self.run_cause(run);
        let shown =
            |kind: &&str| self.facts.applied.contains(&change_id(&self.facts.key, memory.id, &cause, kind));
        // A suppressed observation never became evidence.
        OBSERVATION_KINDS.iter().filter(|kind| **kind != "suppressed").any(shown)
            || memory.evidence.iter().any(|known| known.run == *run)
    }

    fn run_cause(&self, run: &RunId) -> ChangeCause {
        ChangeCause::Run { workflow: self.facts.key.workflow.clone(), run: run.clone() }
    }

    fn make_change(
        &mut self,
        cause: ChangeCause,
        effect: ChangeEffect,
        reason: String,
    ) -> Result<(), FoldError> {
        let memory = self.memory.as_ref().map_or(self.facts.proposal.memory, |memory| memory.id);
        let change = Change::new(&self.facts.key, memory, cause, effect, reason, self.at);
        self.memory = fold_change(self.memory.take(), &change)?;
        self.changes.push(change);
        Ok(())
    }
}

fn validate_request(request: &str, by: &str, reason: Option<&str>) -> Result<(), DecideError> {
    for (what, text) in [("request", request), ("by", by)] {
        if !(1..=NAME_BYTES_MAX).contains(&text.len()) {
            return Err(DecideError::TextLength { what, max: NAME_BYTES_MAX, unit: "bytes" });
        }
    }
    let long = |text: &str| !(1..=REASON_CHARS_MAX).contains(&text.chars().count());
    if reason.is_some_and(long) {
        return Err(DecideError::TextLength { what: "reason", max: REASON_CHARS_MAX, unit: "characters" });
    }
    Ok(())
}

fn ensure_undecided(facts: &ProposalFacts) -> Result<(), DecideError> {
    match &facts.decision {
        Some(before) => Err(DecideError::AlreadyDecided(Box::new(before.clone()))),
        None => Ok(()),
    }
}

fn overridden_tombstone(
    tombstone: Option<&Tombstone>,
    acceptance: &Acceptance,
) -> Result<Option<TombstoneOverride>, DecideError> {
    let Some(tombstone) = tombstone else { return Ok(None) };
    let tombstone_of = tombstone.memory;
    match &acceptance.override_tombstone {
        Some(reason) => Ok(Some(TombstoneOverride { tombstone_of, reason: reason.clone() })),
        None => {
            let (until, reason) = (tombstone.until, tombstone.reason.clone());
            Err(DecideError::Tombstone { tombstone_of, until, reason })
        }
    }
}

fn build_record(decision: ProposalDecision, by: &str, request: &str, at: Timestamp) -> DecisionRecord {
    DecisionRecord { decision, by: by.to_owned(), with_token: None, request: request.to_owned(), at }
}

/// Describes the effect of an acceptance as one sentence.
fn describe_acceptance(before: Option<MemoryStatus>, changes: &[Change]) -> String {
    let runs = changes.iter().filter(|change| matches!(change.cause, ChangeCause::Run { .. })).count();
    let runs = if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") };
    match before {
        None => format!("a new memory, active, with {runs} as evidence"),
        Some(MemoryStatus::Active) => {
            format!("a memory says so already and is active; {runs} added as evidence")
        }
        Some(was) => format!("a memory says so already; it was {was} and is active now; {runs} added"),
    }
}
