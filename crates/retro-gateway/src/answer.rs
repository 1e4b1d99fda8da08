//! What is asked and answered, on every transport.

use retro_core::id::{MemoryId, RunId, Step, Workflow};
use retro_core::memory::{Evidence, Memory, Scope, Status};
use retro_core::recall::Recalled;
use retro_core::review::Repository;
use retro_core::weight::Weight;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A step is about to start. Fields that are not known are left alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ContextRequest {
    /// The workflow.
    #[schema(value_type = String)]
    pub workflow: Workflow,
    /// The step; `main` when none is named.
    #[serde(default = "Step::main")]
    #[schema(value_type = String, default = "main", required = false)]
    pub step: Step,
    /// The run that will see the answer. Without it the answer is a preview.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub run_id: Option<RunId>,
    /// The repository that the run works on, `owner/name`, after its host unless that is github.com: its rules are
    /// answered as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub repo: Option<Repository>,
    /// Paths that the run touches, at most 100: rules that are confined to other paths are left out. Without any, every rule of
    /// the repository is eligible.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub paths: Vec<String>,
}

/// Paths that are looked at; more of them no step touches on purpose.
pub(crate) const PATHS_MAX: usize = 100;

/// What the run is handed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ContextAnswer {
    /// The memories, best first; at most the policy's `inject_memories_max`.
    #[schema(value_type = Vec<crate::described::Recalled>)]
    pub memories: Vec<Recalled>,
    /// The block to put into the prompt as it is; empty when there is nothing to say.
    pub text: String,
    /// Tokens of `text`; at most the policy's `inject_tokens_max`.
    pub tokens: u32,
    /// Eligible memories that found no place.
    pub left_out: u32,
    /// Rules of the repository, when one was named: their own lines, their own block and their own budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<RulesAnswer>,
    /// Whether they are recorded as presented to the run.
    pub recorded: Recording,
    /// Why there is nothing, or why recording is not certain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The rules of a repository that the run is handed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RulesAnswer {
    /// The rules, best first; at most the policy's `rule_inject_max`.
    #[schema(value_type = Vec<crate::described::Recalled>)]
    pub rules: Vec<Recalled>,
    /// The block to put into the prompt as it is, behind that of the memories; empty when there is nothing to say.
    pub text: String,
    /// Tokens of `text`; at most the policy's `rule_tokens_max`.
    pub tokens: u32,
    /// Eligible rules that found no place.
    pub left_out: u32,
    /// Rules that were kept back because their words are taken for hostile.
    pub withheld: u32,
}

/// Whether what a run met was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Recording {
    /// It is stored.
    Recorded,
    /// No run was named: a preview, nothing is recorded.
    Preview,
    /// There was nothing to record.
    Nothing,
    /// The database did not confirm it in time: it may or may not be stored. The event of the run may say it again.
    Unknown,
}

impl ContextAnswer {
    /// Nothing, and why.
    pub(crate) fn nothing(run: Option<&RunId>, reason: String) -> Self {
        Self {
            memories: Vec::new(),
            text: String::new(),
            tokens: 0,
            left_out: 0,
            rules: None,
            recorded: if run.is_some() { Recording::Nothing } else { Recording::Preview },
            reason: Some(reason),
        }
    }
}

/// The answer to "read this memory".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemoryAnswer {
    /// The memory; `None` when the database could not say.
    pub memory: Option<MemoryText>,
    /// Whether it is recorded as read by the run.
    pub recorded: Recording,
    /// Why there is nothing, or why recording is not certain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A memory in full, as an agent reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemoryText {
    /// Its id.
    #[schema(value_type = String)]
    pub id: MemoryId,
    /// What it is about.
    #[schema(value_type = Object)]
    pub scope: Scope,
    /// Where it stands: only an active one is handed out by context, and one that is not living is to be distrusted.
    #[schema(value_type = String)]
    pub status: Status,
    /// What it has earned.
    #[schema(value_type = u16)]
    pub weight: Weight,
    /// Its one line.
    pub title: String,
    /// The case, and what to do.
    pub content: String,
    /// Distinct runs that showed it.
    pub observed_runs: u32,
    /// Words of runs that show it, the most recent last. None of a rule: whole remarks of reviews are for people.
    #[schema(value_type = Vec<crate::described::Evidence>)]
    pub evidence: Vec<Evidence>,
}

impl From<Memory> for MemoryText {
    fn from(memory: Memory) -> Self {
        let of_review = matches!(memory.scope, Scope::Repository { .. });
        Self {
            id: memory.id,
            scope: memory.scope,
            status: memory.status,
            weight: memory.weight,
            title: memory.lesson.title,
            content: memory.lesson.content,
            observed_runs: memory.observed_runs,
            evidence: if of_review { Vec::new() } else { memory.evidence },
        }
    }
}
