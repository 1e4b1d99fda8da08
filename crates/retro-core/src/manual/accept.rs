//! Deciding on a proposal: a person accepts it, and it becomes a memory of theirs, or refuses it, and that is kept.
//!
//! Each run of the proposal makes the change that it would have made in an automatic retrospective, with the run as
//! its cause; the acceptance itself is a change of its own, caused by the person's request. So a run that an
//! automatic retrospective sees before or after is found to have shown the lesson already, and confirms nothing.

use std::collections::HashSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Proposal;
use crate::finding::REASON_CHARS_MAX;
use crate::id::{ChangeId, MemoryId, NAME_BYTES_MAX, RunId, WorkflowKey};
use crate::learn::{Alike, SHOWING};
use crate::memory::{
    Cause, Change, Despite, Effect, Evidence, FoldError, Memory, Status, Tombstone, change_id, fold,
};
use crate::message::{Message, Notice};
use crate::policy::Policy;
use crate::similar::{Embedder, Vectors};
use crate::weight::Weight;

/// What is known when a person decides, read under the lock of the workflow.
#[derive(Debug, Clone)]
pub struct ProposalFacts {
    /// The workflow.
    pub key: WorkflowKey,
    /// The proposal.
    pub proposal: Proposal,
    /// What was decided before.
    pub decision: Option<Decision>,
    /// The living memories of the workflow, and those that a change of `applied` is about.
    pub memories: Vec<Memory>,
    /// Tombstones of the workflow, expired ones included.
    pub tombstones: Vec<Tombstone>,
    /// Changes of the workflow whose cause is one of the proposal's runs.
    pub applied: HashSet<ChangeId>,
}

/// What a person decided about a proposal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// What.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Who.
    pub by: String,
    /// The request's id.
    pub request: String,
    /// When, by the writer's clock.
    pub at: Timestamp,
}

/// The decision itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// It is a memory now.
    Accepted {
        /// Which: a new one, or the one that said so already.
        memory: MemoryId,
        /// What that did, in one sentence.
        did: String,
    },
    /// It is none.
    Refused {
        /// Why.
        reason: String,
    },
}

impl Verdict {
    /// The word as stored and shown.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Accepted { .. } => "accepted",
            Self::Refused { .. } => "refused",
        }
    }
}

/// A person accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acceptance {
    /// The request's id: the same request does one thing.
    pub request: String,
    /// Who.
    pub by: String,
    /// Why a tombstone does not matter; without it one stops the acceptance.
    pub despite_tombstone: Option<String>,
}

/// A person refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The request's id.
    pub request: String,
    /// Who.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// What deciding does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// The new changes, in order; none for a refusal, and none when the memory was active and every run had shown it.
    pub changes: Vec<Change>,
    /// The memory as the changes leave it.
    pub memory: Option<Memory>,
    /// To be kept with the proposal.
    pub decision: Decision,
    /// Announcements of the changes.
    pub messages: Vec<Message>,
}

/// Why a proposal was not decided.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Undecided {
    /// Somebody has decided already; the decision stands.
    #[error("it was {} by {} before", .0.verdict.as_str(), .0.by)]
    Before(Box<Decision>),
    /// A tombstone forbids it.
    #[error(
        "the tombstone of memory {tombstone_of} forbids it until {until} ({reason}); it can be overridden with a reason"
    )]
    Tombstone {
        /// The memory that left it.
        tombstone_of: MemoryId,
        /// Until when.
        until: Timestamp,
        /// Why that memory was deleted.
        reason: String,
    },
    /// A text is empty or too long.
    #[error("{what} must have 1 to {max} {unit}")]
    Text {
        /// `request`, `by` or `reason`.
        what: &'static str,
        /// The bound.
        max: usize,
        /// What is counted.
        unit: &'static str,
    },
    /// The stored memory and its changes contradict each other.
    #[error(transparent)]
    Damaged(#[from] FoldError),
}

/// Decides what accepting does. Pure: the same facts give the same changes.
pub fn accept(
    facts: &ProposalFacts,
    acceptance: &Acceptance,
    policy: &Policy,
    embedder: &dyn Embedder,
    at: Timestamp,
) -> Result<Decided, Undecided> {
    check(&acceptance.request, &acceptance.by, acceptance.despite_tombstone.as_deref())?;
    undecided(facts)?;
    let vectors = Vectors::new(embedder);
    let alike = Alike { vectors: &vectors, policy };
    let proposal = &facts.proposal;
    let (scope, lesson) = (proposal.scope(), &proposal.lesson);
    let known = alike.best_match(facts.memories.iter(), &scope, lesson, proposal.contradicts);
    let live = facts.tombstones.iter().filter(|stone| stone.until > at);
    let stone = match known {
        Some(memory) if memory.status == Status::Active => None,
        _ => alike.stopping_tombstone(live, &scope, lesson).map(|(stone, _)| stone),
    };
    let despite = overridden(stone, acceptance)?;
    let mut making = Making { facts, acceptance, at, memory: known.cloned(), changes: Vec::new() };
    making.all(policy, despite)?;
    let memory = making.memory.expect("it was known or has been created");
    let did = told(known.map(|memory| memory.status), &making.changes);
    let verdict = Verdict::Accepted { memory: memory.id, did };
    let messages = making.changes.iter().map(|change| announcement(&facts.key, change)).collect();
    let decision = decision(verdict, &acceptance.by, &acceptance.request, at);
    Ok(Decided { changes: making.changes, memory: Some(memory), decision, messages })
}

/// Decides what refusing does: nothing but the decision itself.
pub fn refuse(facts: &ProposalFacts, refusal: &Refusal, at: Timestamp) -> Result<Decided, Undecided> {
    check(&refusal.request, &refusal.by, Some(&refusal.reason))?;
    undecided(facts)?;
    let verdict = Verdict::Refused { reason: refusal.reason.clone() };
    let decision = decision(verdict, &refusal.by, &refusal.request, at);
    Ok(Decided { changes: Vec::new(), memory: None, decision, messages: Vec::new() })
}

/// The changes of an acceptance, as they are made.
struct Making<'f> {
    facts: &'f ProposalFacts,
    acceptance: &'f Acceptance,
    at: Timestamp,
    memory: Option<Memory>,
    changes: Vec<Change>,
}

impl Making<'_> {
    /// Creates the memory if it is new, makes it active if it is not, and adds the runs that have not shown it.
    fn all(&mut self, policy: &Policy, despite: Option<Despite>) -> Result<(), FoldError> {
        let facts = self.facts;
        let evidence = &facts.proposal.evidence;
        let (id, by) = (facts.proposal.id, &self.acceptance.by);
        let mut rest = evidence.as_slice();
        if let (None, Some((first, others))) = (&self.memory, evidence.split_first()) {
            let reason = format!("first seen in run {}, which a manual retrospective looked into", first.run);
            self.make(self.run_cause(&first.run), self.created(first), reason)?;
            rest = others;
        }
        if self.memory.as_ref().is_some_and(|memory| memory.status != Status::Active) {
            let mut reason = format!("accepted by {by} from proposal {id}");
            if let Some(despite) = &despite {
                reason.push_str(&format!(", despite a tombstone: {}", despite.reason));
            }
            let weight = Weight::thousandths(policy.confirmed_weight);
            // A proposal is accepted once for ever: that makes a better key than what a request calls itself.
            let cause = Cause::Operator { request: format!("accept {id}") };
            let effect = Effect::Accepted { weight, proposal: Some(id), by: by.clone(), despite };
            self.make(cause, effect, reason)?;
        }
        for shown in rest {
            if !self.has_shown(&shown.run) {
                let reason =
                    format!("seen in run {} too, says proposal {id}: evidence, not weight", shown.run);
                let effect = Effect::Observed { evidence: shown.clone() };
                self.make(self.run_cause(&shown.run), effect, reason)?;
            }
        }
        Ok(())
    }

    fn created(&self, first: &Evidence) -> Effect {
        let proposal = &self.facts.proposal;
        Effect::Created {
            scope: proposal.scope(),
            lesson: proposal.lesson.clone(),
            status: Status::Tentative,
            weight: Weight::ZERO,
            evidence: first.clone(),
            quarantine: None,
        }
    }

    /// Whether a run has shown the memory before: in another pass over it, or to a person.
    fn has_shown(&self, run: &RunId) -> bool {
        let Some(memory) = &self.memory else { return false };
        let cause = self.run_cause(run);
        let shown =
            |kind: &&str| self.facts.applied.contains(&change_id(&self.facts.key, memory.id, &cause, kind));
        // What a tombstone kept away never became evidence.
        SHOWING.iter().filter(|kind| **kind != "suppressed").any(shown)
            || memory.evidence.iter().any(|known| known.run == *run)
    }

    fn run_cause(&self, run: &RunId) -> Cause {
        Cause::Run { workflow: self.facts.key.workflow.clone(), run: run.clone() }
    }

    fn make(&mut self, cause: Cause, effect: Effect, reason: String) -> Result<(), FoldError> {
        let memory = self.memory.as_ref().map_or(self.facts.proposal.memory, |memory| memory.id);
        let change = Change {
            id: change_id(&self.facts.key, memory, &cause, effect.kind()),
            memory,
            cause,
            effect,
            mutation: None,
            retrospective: None,
            epoch: None,
            at: self.at,
            reason,
        };
        self.memory = fold(self.memory.take(), &change)?;
        self.changes.push(change);
        Ok(())
    }
}

fn check(request: &str, by: &str, reason: Option<&str>) -> Result<(), Undecided> {
    for (what, text) in [("request", request), ("by", by)] {
        if !(1..=NAME_BYTES_MAX).contains(&text.len()) {
            return Err(Undecided::Text { what, max: NAME_BYTES_MAX, unit: "bytes" });
        }
    }
    let long = |text: &str| !(1..=REASON_CHARS_MAX).contains(&text.chars().count());
    if reason.is_some_and(long) {
        return Err(Undecided::Text { what: "reason", max: REASON_CHARS_MAX, unit: "characters" });
    }
    Ok(())
}

fn undecided(facts: &ProposalFacts) -> Result<(), Undecided> {
    match &facts.decision {
        Some(before) => Err(Undecided::Before(Box::new(before.clone()))),
        None => Ok(()),
    }
}

fn overridden(stone: Option<&Tombstone>, acceptance: &Acceptance) -> Result<Option<Despite>, Undecided> {
    let Some(stone) = stone else { return Ok(None) };
    let tombstone_of = stone.memory;
    match &acceptance.despite_tombstone {
        Some(reason) => Ok(Some(Despite { tombstone_of, reason: reason.clone() })),
        None => {
            let (until, reason) = (stone.until, stone.reason.clone());
            Err(Undecided::Tombstone { tombstone_of, until, reason })
        }
    }
}

fn decision(verdict: Verdict, by: &str, request: &str, at: Timestamp) -> Decision {
    Decision { verdict, by: by.to_owned(), request: request.to_owned(), at }
}

/// What an acceptance did, in one sentence.
fn told(before: Option<Status>, changes: &[Change]) -> String {
    let runs = changes.iter().filter(|change| matches!(change.cause, Cause::Run { .. })).count();
    let runs = if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") };
    match before {
        None => format!("a new memory, active, with {runs} as evidence"),
        Some(Status::Active) => format!("a memory says so already and is active; {runs} added as evidence"),
        Some(was) => format!("a memory says so already; it was {was} and is active now; {runs} added"),
    }
}

fn announcement(key: &WorkflowKey, change: &Change) -> Message {
    let kind = change.effect.kind().to_owned();
    Notice::MemoryChanged { change: change.id, memory: change.memory, kind, at: change.at }.about(key)
}
