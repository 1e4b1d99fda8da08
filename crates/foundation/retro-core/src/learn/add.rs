//! Adds a memory that a person wrote.

use jiff::Timestamp;

use super::wording::{LessonWording, TextLengthError};
use crate::finding::LessonCue;
use crate::gate::{GateDecision, judge_lesson};
use crate::id::{MemoryId, WorkflowKey};
use crate::matching::LessonMatcher;
use crate::memory::{
    Change, ChangeCause, ChangeEffect, FoldError, Lesson, Memory, MemoryScope, MemoryStatus, Tombstone,
    fold_change,
};
use crate::message::{Message, Notice};
use crate::policy::Policy;
use crate::similarity::{ComparedLessons, ComparesTexts, Embedder, VectorCache};
use crate::weight::Weight;

/// A memory that a person wrote for a step of a workflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenMemory {
    /// Id that the memory gets, derived from the request.
    pub id: MemoryId,
    /// Step for which it is written.
    pub scope: MemoryScope,
    /// The lesson in the person's words.
    pub lesson: Lesson,
    /// Id of the request. Requests with the same id take effect only once.
    pub request: String,
    /// Name of the person.
    pub by: String,
    /// Reason, in the person's words.
    pub reason: String,
}

impl WrittenMemory {
    /// Creates the memory that a request writes for a scope of the workflow. Without content, the title is the content, too. Fails if a text is
    /// empty or too long.
    pub fn new(
        key: &WorkflowKey,
        scope: MemoryScope,
        wording: &LessonWording,
        request: &str,
        by: &str,
        reason: &str,
    ) -> Result<Self, TextLengthError> {
        let nothing = String::new;
        let blank = Lesson {
            subject: nothing(),
            title: nothing(),
            content: wording.title.as_deref().unwrap_or_default().trim().to_owned(),
            cue: LessonCue::default(),
            worded_by: None,
        };
        Ok(Self {
            id: MemoryId::of_request(key, request),
            scope,
            lesson: wording.apply_to(&blank, by)?,
            request: request.to_owned(),
            by: by.to_owned(),
            reason: reason.to_owned(),
        })
    }
}

/// Stored facts from which a written memory is added, read under the workflow lock.
#[derive(Debug, Clone)]
pub struct AdditionFacts {
    /// Workflow of the memory.
    pub key: WorkflowKey,
    /// The memory to be added.
    pub written: WrittenMemory,
    /// Living memories of the workflow, and the one that the same request added before, in any status.
    pub memories: Vec<Memory>,
    /// Tombstones of the workflow, including expired ones.
    pub tombstones: Vec<Tombstone>,
}

impl ComparesTexts for AdditionFacts {
    fn texts_to_compare(&self) -> Vec<String> {
        let mut compared = ComparedLessons::default();
        compared.add_new(&self.written.scope, &self.written.lesson);
        compared.add_all_known(&self.memories, &self.tombstones);
        compared.into_texts()
    }
}

/// Effects of adding a written memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedMemory {
    /// New changes, in order; empty if the memory existed in these words.
    pub changes: Vec<Change>,
    /// The memory: the new one, or the one that said so before.
    pub memory: Memory,
    /// Messages that announce the changes.
    pub messages: Vec<Message>,
}

/// Reason why a written memory was not added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdditionError {
    /// The gate refuses the text.
    #[error("{why}")]
    Refused {
        /// Reason, in one sentence.
        why: String,
    },
    /// A memory says so in other words.
    #[error("memory {memory} says so already, and it is {state}")]
    Known {
        /// Id of the memory.
        memory: MemoryId,
        /// Its status, or that it is disabled.
        state: &'static str,
    },
    /// The same request added the memory before, and it has ended since.
    #[error(
        "request {request} has added memory {memory} before, and it is {status} now; name another request"
    )]
    Ended {
        /// Id of the request.
        request: String,
        /// Id of the memory.
        memory: MemoryId,
        /// Status of the memory.
        status: MemoryStatus,
    },
    /// A similar memory was deleted a short time ago.
    #[error("a similar memory, {of}, was deleted ({reason}), which stands until {until}; restore it instead")]
    Tombstone {
        /// The deleted memory.
        of: MemoryId,
        /// Time until which nothing similar is added.
        until: Timestamp,
        /// Reason for the deletion.
        reason: String,
    },
    /// A change is illegal for its memory, so the stored data is damaged.
    #[error(transparent)]
    Damaged(#[from] FoldError),
}

/// Decides the effects of a memory that a person wrote: it is active at the starting weight, without evidence. The
/// gate judges it as any other text. The same words twice are one memory. If a memory says so that is not active, the
/// person has confirmed that one.
pub fn add_memory(
    facts: &AdditionFacts,
    policy: &Policy,
    embedder: &dyn Embedder,
    at: Timestamp,
) -> Result<AddedMemory, AdditionError> {
    let WrittenMemory { id, scope, lesson, request, by, reason } = &facts.written;
    let decision = judge_lesson(scope, lesson, &policy.held_dangers);
    if let GateDecision::Refused { why } = decision {
        return Err(AdditionError::Refused { why });
    }
    let of_request = facts.memories.iter().find(|memory| memory.id == *id);
    if let Some(Memory { status, .. }) = of_request.filter(|memory| !memory.status.is_living()) {
        return Err(AdditionError::Ended { request: request.clone(), memory: *id, status: *status });
    }
    let vectors = VectorCache::new(embedder);
    let alike = LessonMatcher { vectors: &vectors, policy };
    let in_these_words = facts.memories.iter().find(|memory| says_the_same(memory, &facts.written));
    let known = of_request.or(in_these_words);
    let known = known.or_else(|| alike.best_match(facts.memories.iter(), scope, lesson, None));
    let weight = Weight::from_thousandths(policy.confirmed_weight);
    let effect = match known {
        Some(memory)
            if of_request.is_some() || is_in_use(memory) && says_the_same(memory, &facts.written) =>
        {
            return Ok(AddedMemory { changes: Vec::new(), memory: memory.clone(), messages: Vec::new() });
        }
        Some(memory) if memory.status == MemoryStatus::Active || memory.disabled_by.is_some() => {
            let state = if memory.disabled_by.is_some() { "disabled" } else { memory.status.as_str() };
            return Err(AdditionError::Known { memory: memory.id, state });
        }
        Some(_) => {
            ChangeEffect::Accepted { weight, proposal: None, by: by.clone(), tombstone_override: None }
        }
        None => {
            let live = facts.tombstones.iter().filter(|tombstone| tombstone.until > at);
            if let Some((tombstone, _)) = alike.blocking_tombstone(live, scope, lesson) {
                let Tombstone { memory, until, reason, .. } = tombstone.clone();
                return Err(AdditionError::Tombstone { of: memory, until, reason });
            }
            ChangeEffect::Created {
                scope: scope.clone(),
                lesson: lesson.clone(),
                status: MemoryStatus::Active,
                weight,
                evidence: None,
                quarantine: None,
                by: Some(by.clone()),
            }
        }
    };
    let done = if known.is_some() { "confirmed" } else { "written" };
    let mut changes = Changes { facts, at, memory: known.cloned(), made: Vec::new() };
    changes.make_change(effect, format!("{done} by {by}: {reason}"))?;
    changes.hold_if_endangering(policy)?;
    let memory = changes.memory.expect("the memory was known or has just been created");
    let messages = changes.made.iter().map(|change| Notice::of_change(change).into_message(&facts.key));
    Ok(AddedMemory { memory, messages: messages.collect(), changes: changes.made })
}

fn says_the_same(memory: &Memory, written: &WrittenMemory) -> bool {
    memory.status.is_living()
        && memory.scope == written.scope
        && memory.lesson.title == written.lesson.title
        && memory.lesson.content == written.lesson.content
}

fn is_in_use(memory: &Memory) -> bool {
    memory.status == MemoryStatus::Active && memory.disabled_by.is_none()
}

/// Changes of one addition, while it is decided.
struct Changes<'f> {
    facts: &'f AdditionFacts,
    at: Timestamp,
    memory: Option<Memory>,
    made: Vec<Change>,
}

impl Changes<'_> {
    fn make_change(&mut self, effect: ChangeEffect, reason: String) -> Result<(), FoldError> {
        let AdditionFacts { key, written, .. } = self.facts;
        let cause = ChangeCause::Operator { request: written.request.clone() };
        let id = self.memory.as_ref().map_or(written.id, |memory| memory.id);
        let change = Change::new(key, id, cause, effect, reason, self.at);
        self.memory = fold_change(self.memory.take(), &change)?;
        self.made.push(change);
        Ok(())
    }

    /// Holds the memory if the gate objects to it: writing it says that it is true, and handing it to agents in spite
    /// of a danger is a decision of its own.
    fn hold_if_endangering(&mut self, policy: &Policy) -> Result<(), FoldError> {
        let memory =
            self.memory.as_ref().filter(|memory| memory.quarantine.is_none() && memory.released_by.is_none());
        let Some(Memory { scope, lesson, .. }) = memory else { return Ok(()) };
        let decision = judge_lesson(scope, lesson, &policy.held_dangers);
        let Some(why) = decision.objection().map(str::to_owned) else { return Ok(()) };
        self.make_change(ChangeEffect::Held { why: why.clone() }, why)
    }
}
