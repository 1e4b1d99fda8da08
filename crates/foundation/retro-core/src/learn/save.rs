//! Saves a lesson that an agent states during its run.
//!
//! An agent states fields, never prose: which tool answered what, and what is to be changed in the call. The sentence of
//! the lesson is built from them by the code that builds it from a trace (`finding/line.rs`), so no sentence of the
//! agent becomes an order to the next one. The memory is tentative: no agent is handed it until a separate run shows the
//! same in its trace. The run that saved it has shown it once, so it does not confirm what it saved.

use std::iter;

use jiff::Timestamp;
use retro_gate::{Speaker, is_plain_name, quote_as_data};
use serde::{Deserialize, Serialize};

use crate::audience::{Audience, RunRepository};
use crate::finding::{
    Advice, EvidenceOrigin, LessonCue, QUOTE_CHARS_MAX, Quote, TITLE_CHARS_MAX, format_advice, format_title,
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
/// Maximum length of an argument's value, in characters.
const VALUE_CHARS_MAX: usize = 64;
/// Maximum number of words of a call that is to come first.
const CALL_WORDS_MAX: usize = 4;
/// Maximum length of the cause that an agent gives, in characters.
pub const CAUSE_CHARS_MAX: usize = 240;

/// What is to be changed in a call, according to an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SavedChange {
    /// `argument` gets the value `good`, instead of `bad` if that is given.
    SetArgument,
    /// `argument` was missing.
    AddArgument,
    /// `argument` is left out.
    DropArgument,
    /// The tool `good` is called instead.
    UseTool,
    /// `good` is called first: a tool, or a command of up to four words.
    CallFirst,
}

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

/// Error for a field of a lesson that an agent states.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {problem}")]
pub struct LessonFieldError {
    /// Name of the field.
    pub field: &'static str,
    /// What is the matter with it, and what to do.
    pub problem: String,
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
        let (form, avoid) = form_of(&fields)?;
        let LessonFields { step, run, repository, change, tool, argument, error, cause, .. } = fields;
        let error = bounded("error_quote", &error, QUOTE_CHARS_MAX)?;
        let cause = cause.map(|cause| bounded("cause", &cause, CAUSE_CHARS_MAX)).transpose()?;
        let advice = Advice::When(format_advice(&[&form], avoid.as_deref()));
        let title = format_title(&tool, &error, &advice, &[]);
        let title = title.filter(|title| title.chars().count() <= TITLE_CHARS_MAX);
        let title = title.ok_or_else(|| invalid("good", "makes the sentence of the lesson too long"))?;
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

fn invalid(field: &'static str, problem: impl Into<String>) -> LessonFieldError {
    LessonFieldError { field, problem: problem.into() }
}

fn bounded(field: &'static str, text: &str, chars_max: usize) -> Result<String, LessonFieldError> {
    let text = text.trim();
    match text.chars().count() {
        0 => Err(invalid(field, "is empty")),
        long if long > chars_max => {
            Err(invalid(field, format!("is {long} characters long; at most {chars_max}")))
        }
        _ => Ok(text.to_owned()),
    }
}

/// Returns the form of what is to be done, as in `LessonCue::prefer`, and what it replaces.
fn form_of(fields: &LessonFields) -> Result<(String, Option<String>), LessonFieldError> {
    named("tool", Some(&fields.tool))?;
    let argument = || named("argument", fields.argument.as_ref());
    Ok(match fields.change {
        SavedChange::SetArgument => {
            let (argument, good) = (argument()?, value("good", fields.good.as_ref())?);
            let bad = fields.bad.as_ref().map(|bad| value("bad", Some(bad))).transpose()?;
            (format!("`{argument}` = `{good}`"), bad.map(|bad| format!("`{argument}` = `{bad}`")))
        }
        SavedChange::AddArgument => (format!("with `{}`", argument()?), None),
        SavedChange::DropArgument => (format!("without `{}`", argument()?), None),
        SavedChange::UseTool => (format!("tool `{}`", named("good", fields.good.as_ref())?), None),
        SavedChange::CallFirst => (format!("first `{}`", call("good", fields.good.as_ref())?), None),
    })
}

fn given<'f>(field: &'static str, text: Option<&'f String>) -> Result<&'f str, LessonFieldError> {
    text.map(String::as_str).ok_or_else(|| invalid(field, "is missing; this change needs it"))
}

/// Returns a name of a tool or an argument.
fn named<'f>(field: &'static str, text: Option<&'f String>) -> Result<&'f str, LessonFieldError> {
    let text = given(field, text)?;
    let problem = "is no plain name: letters, digits and `_.-/:`, no sentence and no address";
    if is_plain_name(text) { Ok(text) } else { Err(invalid(field, problem)) }
}

/// Returns a value of an argument: one word, which is a number, a date or a plain name.
fn value<'f>(field: &'static str, text: Option<&'f String>) -> Result<&'f str, LessonFieldError> {
    let text = given(field, text)?;
    let is_word = (1..=VALUE_CHARS_MAX).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_.-/:+@#".contains(c));
    let is_plain = !text.chars().any(char::is_alphabetic) || is_plain_name(text.trim_start_matches('#'));
    let problem = format!("is no plain value: one word of at most {VALUE_CHARS_MAX} characters, no address");
    if is_word && is_plain { Ok(text) } else { Err(invalid(field, problem)) }
}

/// Returns a call: a tool, or a program with a few words.
fn call<'f>(field: &'static str, text: Option<&'f String>) -> Result<&'f str, LessonFieldError> {
    let text = given(field, text)?;
    let words: Vec<&str> = text.split(' ').collect();
    let is_plain = |word: &&str| is_plain_name(word.trim_start_matches('-'));
    let problem = format!("is no plain call: a tool, or a command of at most {CALL_WORDS_MAX} plain words");
    let fits = words.len() <= CALL_WORDS_MAX && words.iter().all(is_plain);
    if fits { Ok(text) } else { Err(invalid(field, problem)) }
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
