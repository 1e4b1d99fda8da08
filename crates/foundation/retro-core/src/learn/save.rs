//! Saves a lesson that an agent states during its run.
//!
//! An agent states fields, never prose: which tool answered what, and what is to be changed in the call. The sentence of
//! the lesson is built from them by the code that builds it from a trace (`finding/line.rs`), so no sentence of the
//! agent becomes an order to the next one. The memory is tentative: no agent is handed it until a separate run shows the
//! same in its trace. The run that saved it has shown it once, so it does not confirm what it saved.

use std::iter;

use jiff::Timestamp;
use retro_gate::{Speaker, quote_as_data};

use crate::audience::{Audience, RunRepository};
use crate::finding::{
    Advice, EvidenceOrigin, LessonCue, LessonFieldError, QUOTE_CHARS_MAX, Quote, SavedChange, StatedFields,
    TITLE_CHARS_MAX, format_advice, format_title, stated_form,
};
use crate::gate::{GateDecision, judge_lesson, refused_quote_reason};
use crate::id::{MemoryId, RunId, Step, WorkflowKey};
use crate::matching::LessonMatcher;
use crate::memory::{
    Change, ChangeCause, ChangeEffect, Evidence, FoldError, Lesson, Memory, MemoryScope, MemoryStatus,
    Tombstone, fold_change,
};
use crate::message::{Message, Notice};
use crate::policy::Policy;
use crate::similarity::{ComparedLessons, ComparesTexts, Embedder, VectorCache};
use crate::trajectory::QuotePlace;
use crate::weight::Weight;

/// Maximum number of tentative memories that one run may have saved. No run finds out more that nobody knew.
pub const SAVED_PER_RUN_MAX: usize = 10;
/// Maximum number of tentative memories of a workflow that agents have saved and no other run has shown yet.
pub const SAVED_PER_WORKFLOW_MAX: usize = 200;
/// Maximum length of the cause that an agent gives, in characters.
pub const CAUSE_CHARS_MAX: usize = 240;

/// Fields of a lesson, as an agent states them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LessonFields {
    /// Step of the run.
    pub step: Step,
    /// Run of the agent.
    pub run: RunId,
    /// Repository that the run works on.
    pub repository: Option<RunRepository>,
    /// What is to be changed in the call.
    pub change: SavedChange,
    /// Tool whose call failed.
    pub tool: String,
    /// Argument that is to be changed.
    pub argument: Option<String>,
    /// Value of the argument that failed.
    pub bad: Option<String>,
    /// Value of the argument that works, or the tool or the call.
    pub good: Option<String>,
    /// What the tool answered, verbatim.
    pub error: String,
    /// Cause, in a few words for people.
    pub cause: Option<String>,
}

/// A lesson that an agent states, as the sentence that is built from its fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedLesson {
    /// Id that its memory gets, derived from the run and the lesson.
    pub id: MemoryId,
    /// Run of the agent.
    pub run: RunId,
    /// Scope of the memory.
    pub scope: MemoryScope,
    /// The lesson.
    pub lesson: Lesson,
    step: Step,
    repository: Option<RunRepository>,
    quote: Quote,
    cause: Option<String>,
}

impl SavedLesson {
    /// Builds the lesson. Fails if a field is missing or is not what it should be.
    pub fn from_fields(key: &WorkflowKey, fields: LessonFields) -> Result<Self, LessonFieldError> {
        let (form, avoid) = stated_form(&StatedFields {
            program: None,
            change: fields.change,
            tool: &fields.tool,
            argument: fields.argument.as_deref(),
            bad: fields.bad.as_deref(),
            good: fields.good.as_deref(),
        })?;
        let LessonFields { step, run, repository, change, tool, argument, error, cause, .. } = fields;
        let error = bounded("error_quote", &error, QUOTE_CHARS_MAX)?;
        let cause = cause.map(|cause| bounded("cause", &cause, CAUSE_CHARS_MAX)).transpose()?;
        let advice = Advice::When(format_advice(&[&form], avoid.as_deref()));
        let title = format_title(&tool, &error, &advice, &[]);
        let title = title.filter(|title| title.chars().count() <= TITLE_CHARS_MAX);
        let title = title
            .ok_or_else(|| LessonFieldError::new("good", "makes the sentence of the lesson too long"))?;
        let answered = quote_as_data(&error, Speaker::Tool, &[], QUOTE_CHARS_MAX);
        let content = answered.map_or_else(
            || format!("`{tool}` failed with an error that is not quoted here."),
            |answer| format!("`{tool}` answered “{answer}”."),
        );
        let about = argument.filter(|_| change == SavedChange::SetArgument);
        let cue = LessonCue {
            tool: Some(tool.clone()),
            error: Some(error.clone()),
            avoid,
            prefer: Some(form),
            worked: None,
        };
        let subject = about.map_or_else(|| tool.clone(), |about| format!("{tool} {about}"));
        let lesson = Lesson { subject, title, content, cue, worded_by: None };
        let id = MemoryId::of_saved(key, &step, &run, &lesson.cue.signature().unwrap_or_default());
        let audience = Audience::of_run(repository.as_ref());
        let scope = MemoryScope::Step { workflow: key.workflow.clone(), step: step.clone(), audience };
        let quote = Quote { place: QuotePlace::Saved, text: error };
        Ok(Self { id, run, scope, lesson, step, repository, quote, cause })
    }

    fn evidence(&self) -> Evidence {
        let origin = EvidenceOrigin { repository: self.repository.clone(), ..EvidenceOrigin::default() };
        Evidence { run: self.run.clone(), epoch: None, quote: self.quote.clone(), remark: None, origin }
    }

    fn describe(&self) -> String {
        let cause = self.cause.as_ref().map(|cause| {
            let quoted = quote_as_data(cause, Speaker::Agent, &[], CAUSE_CHARS_MAX);
            quoted.map_or_else(|| "; its cause cannot be quoted".to_owned(), |cause| format!(": “{cause}”"))
        });
        let wait = "a separate run has to confirm it";
        format!("saved by the agent of run {}{}; {wait}", self.run, cause.unwrap_or_default())
    }
}

fn bounded(field: &'static str, text: &str, chars_max: usize) -> Result<String, LessonFieldError> {
    let text = text.trim();
    match text.chars().count() {
        0 => Err(LessonFieldError::new(field, "is empty")),
        long if long > chars_max => {
            Err(LessonFieldError::new(field, format!("is {long} characters long; at most {chars_max}")))
        }
        _ => Ok(text.to_owned()),
    }
}

/// Stored facts from which a lesson is saved, read under the workflow lock.
#[derive(Debug, Clone)]
pub struct SaveFacts {
    /// Workflow of the run.
    pub key: WorkflowKey,
    /// The lesson.
    pub saved: SavedLesson,
    /// Living memories of the workflow, and the one that the run saved before, in any status.
    pub memories: Vec<Memory>,
    /// Tombstones of the workflow, including expired ones.
    pub tombstones: Vec<Tombstone>,
}

impl ComparesTexts for SaveFacts {
    fn texts_to_compare(&self) -> Vec<String> {
        let mut compared = ComparedLessons::default();
        compared.add_new(&self.saved.scope, &self.saved.lesson);
        compared.add_all_known(&self.memories, &self.tombstones);
        compared.into_texts()
    }
}

/// Effects of saving a lesson.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LessonSaving {
    /// New changes, in order; empty if a memory says so already.
    pub changes: Vec<Change>,
    /// The memory: the new one, or the one that says so.
    pub memory: Memory,
    /// Messages that announce the changes.
    pub messages: Vec<Message>,
}

/// Reason why a lesson was not saved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SaveError {
    /// The gate refuses the text.
    #[error("{why}")]
    Refused {
        /// Reason, in one sentence.
        why: String,
    },
    /// The run saved it before, and it has ended since.
    #[error("this run has saved it before, and it is {status} now")]
    Ended {
        /// Status of the memory.
        status: MemoryStatus,
    },
    /// A similar memory was deleted a short time ago.
    #[error("a similar memory was deleted, which stands until {until}")]
    Tombstone {
        /// Time until which nothing similar is saved.
        until: Timestamp,
    },
    /// A limit is reached.
    #[error(
        "{what} saved as many lessons as wait to be confirmed; the trace of the run teaches them as well"
    )]
    Full {
        /// Who has reached the limit.
        what: &'static str,
    },
    /// A change is illegal for its memory, so the stored data is damaged.
    #[error(transparent)]
    Damaged(#[from] FoldError),
}

/// Decides the effects of a lesson that an agent saves: a tentative memory, unless a memory says so already. What is
/// known stays as it is, because only a trace confirms.
pub fn save_lesson(
    facts: &SaveFacts,
    policy: &Policy,
    embedder: &dyn Embedder,
    at: Timestamp,
) -> Result<LessonSaving, SaveError> {
    let SaveFacts { key, saved, memories, tombstones } = facts;
    let known =
        |memory: &Memory| LessonSaving { changes: Vec::new(), memory: memory.clone(), messages: Vec::new() };
    match memories.iter().find(|memory| memory.id == saved.id) {
        Some(memory) if memory.status.is_living() => return Ok(known(memory)),
        Some(Memory { status, .. }) => return Err(SaveError::Ended { status: *status }),
        None => {}
    }
    let decision = judge_lesson(&saved.scope, &saved.lesson, &policy.held_dangers);
    let refused = refused_quote_reason(&saved.quote);
    if let (Some(why), _) | (None, GateDecision::Refused { why }) = (refused, decision.clone()) {
        return Err(SaveError::Refused { why });
    }
    let vectors = VectorCache::new(embedder);
    let alike = LessonMatcher { vectors: &vectors, policy };
    let scopes = MemoryScope::all_of_run(&key.workflow, &saved.step, saved.repository.as_ref());
    let readable = iter::once(&saved.scope).chain(scopes.iter().filter(|scope| **scope != saved.scope));
    for scope in readable.clone() {
        if let Some(memory) = alike.best_match(memories.iter(), scope, &saved.lesson, None) {
            return Ok(known(memory));
        }
    }
    let live = || tombstones.iter().filter(|tombstone| tombstone.until > at);
    for scope in readable {
        if let Some((tombstone, _)) = alike.blocking_tombstone(live(), scope, &saved.lesson) {
            return Err(SaveError::Tombstone { until: tombstone.until });
        }
    }
    check_limits(saved, memories)?;
    let created = ChangeEffect::Created {
        scope: saved.scope.clone(),
        lesson: saved.lesson.clone(),
        status: MemoryStatus::Tentative,
        weight: Weight::ZERO,
        evidence: Some(saved.evidence()),
        quarantine: None,
        by: None,
    };
    let cause = || ChangeCause::Save { workflow: key.workflow.clone(), run: saved.run.clone() };
    let mut changes = vec![Change::new(key, saved.id, cause(), created, saved.describe(), at)];
    if let GateDecision::Held { why } = decision {
        let held = ChangeEffect::Held { why: why.clone() };
        changes.push(Change::new(key, saved.id, cause(), held, why, at));
    }
    let folded = changes.iter().try_fold(None, fold_change)?;
    let memory = folded.expect("the first change created it");
    let messages = changes.iter().map(|change| Notice::of_change(change).into_message(key)).collect();
    Ok(LessonSaving { changes, memory, messages })
}

fn check_limits(saved: &SavedLesson, memories: &[Memory]) -> Result<(), SaveError> {
    let waits = |memory: &&Memory| {
        memory.status == MemoryStatus::Tentative
            && memory.evidence.iter().all(Evidence::is_unchecked)
            && (!memory.evidence.is_empty() || memory.quote_missing_in.is_some())
    };
    let waiting: Vec<&Memory> = memories.iter().filter(waits).collect();
    let of_run = waiting.iter().filter(|memory| memory.tentative_runs.contains(&saved.run)).count();
    if of_run >= SAVED_PER_RUN_MAX {
        Err(SaveError::Full { what: "this run has" })
    } else if waiting.len() >= SAVED_PER_WORKFLOW_MAX {
        Err(SaveError::Full { what: "the runs of this workflow have" })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
