//! Defines the requests and responses of the agents' API, independent of the transport.

use retro_core::audience::{RepoVisibility, RunRepository};
use retro_core::gate::{shown_content, shown_evidence, shown_scope, shown_title};
use retro_core::id::{MemoryId, Repository, RunId, Step, Workflow};
use retro_core::memory::{Evidence, Memory, MemoryScope, MemoryStatus};
use retro_core::recall::{FoundKind, RecalledMemory};
use retro_core::weight::Weight;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Request for the context of a step that is about to start. Unknown fields are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ContextRequest {
    /// Workflow that the step belongs to.
    #[schema(value_type = String)]
    pub workflow: Workflow,
    /// Name of the step; defaults to `main`.
    #[serde(default = "Step::main")]
    #[schema(value_type = String, default = "main", required = false)]
    pub step: Step,
    /// Id of the run that receives the context. Without it, the response is a preview and nothing is
    /// recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub run_id: Option<RunId>,
    /// Repository that the run works on: `owner/name`, or `host/owner/name` for hosts other than github.com.
    /// Its rules are added to the response, and what was learnt in it is selected from. Without it, nothing that was
    /// learnt in a repository is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub repo: Option<Repository>,
    /// Who may read the repository; defaults to what its runs have last said. What several private repositories have
    /// shown is selected from only if it is `private`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo_visibility: Option<RepoVisibility>,
    /// Paths that the run touches, at most 100. Rules that apply only to other paths are left out. Without
    /// paths, every rule of the repository is eligible.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub paths: Vec<String>,
    /// What the run is about to do, in plain text. Memories and rules that are about it come first among the eligible
    /// ones, and each says why it is there. At most 4,096 bytes are read. It is neither stored nor logged; an embedder
    /// behind an address gets it without the secrets in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
}

impl ContextRequest {
    /// Returns the repository that the run works on, or `None` if the request names none.
    pub fn repository(&self) -> Option<RunRepository> {
        let visibility = self.repo_visibility;
        self.repo.clone().map(|repo| RunRepository { repo, visibility })
    }
}

/// Who opens a memory. A field is `None` if the request does not say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemoryReader {
    /// Run that opens the memory, which is recorded.
    pub run: Option<RunId>,
    /// Workflow of the run; defaults to the memory's workflow.
    pub workflow: Option<Workflow>,
    /// Repository that the run works on.
    pub repository: Option<RunRepository>,
}

/// Maximum number of paths that are considered. No ordinary step touches more.
pub(crate) const PATHS_MAX: usize = 100;

/// Context for a run: the selected memories and rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ContextAnswer {
    /// Selected memories, best first; at most the policy's `inject_memories_max`.
    pub memories: Vec<RecalledMemory>,
    /// Block to insert into the prompt unchanged; empty if no memory was selected.
    pub text: String,
    /// Number of tokens in `text`; at most the policy's `inject_tokens_max`.
    pub tokens: u32,
    /// Number of eligible memories that exceeded the policy's limits.
    pub omitted: u32,
    /// Number of memories that are heavy enough and blocked until a person has looked at them.
    #[serde(default)]
    pub blocked: u32,
    /// Number of memories that would have been selected and are withheld from this run by chance, to measure
    /// their effect. A repeated request of the run gets the same answer.
    #[serde(default)]
    pub withheld_by_chance: u32,
    /// Rules of the repository, with a block and token budget of their own; absent if the request names no
    /// repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<RulesAnswer>,
    /// How the memories were compared with the task; absent if the request names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranking: Option<TaskRanking>,
    /// Outcome of recording the memories as presented to the run.
    pub recorded: Recording,
    /// Reason why the response is empty or why it is unknown whether the memories were recorded; absent
    /// otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Rules of a repository, selected for a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RulesAnswer {
    /// Selected rules, best first; at most the policy's `rule_inject_max`.
    pub rules: Vec<RecalledMemory>,
    /// Block to insert into the prompt unchanged, after the block of the memories; empty if no rule was
    /// selected.
    pub text: String,
    /// Number of tokens in `text`; at most the policy's `rule_tokens_max`.
    pub tokens: u32,
    /// Number of eligible rules that exceeded the policy's limits.
    pub omitted: u32,
    /// Number of rules that are heavy enough and blocked until a person has looked at them.
    pub blocked: u32,
}

/// How memories were compared with a task or query, besides by their words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TaskRanking {
    /// Name and version of the embedder.
    pub embedder: String,
    /// Reason why the built-in embedder was used instead of the configured one; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

/// Search for what helps a run that is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchRequest {
    /// What to search for, in plain text. At most 4,096 bytes are read.
    pub query: String,
    /// Maximum number of memories and rules to find, at most [`FOUND_MAX`].
    pub limit: usize,
    /// Workflow whose memories are searched; `None` to search rules only.
    pub workflow: Option<Workflow>,
    /// Step whose memories are searched.
    pub step: Step,
    /// Repository that the run works on, whose rules are searched, too.
    pub repository: Option<RunRepository>,
    /// Run that searches, to which is recorded what was found.
    pub run: Option<RunId>,
}

/// Maximum number of memories and rules that a search finds.
pub const FOUND_MAX: usize = 20;

/// What a search has found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SearchAnswer {
    /// Memories and rules about the query, best first.
    pub memories: Vec<FoundEntry>,
    /// The same as a block for a prompt; empty if nothing was found.
    pub text: String,
    /// Number of memories that would have been found and are withheld from this run by chance, to measure their effect.
    #[serde(default)]
    pub withheld_by_chance: u32,
    /// How the memories were compared with the query; absent if that was not possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranking: Option<TaskRanking>,
    /// Outcome of recording what was found as presented to the run.
    pub recorded: Recording,
    /// Reason why nothing was found, or why it is unknown whether it was recorded; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A memory or rule that a search has found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FoundEntry {
    /// Id of the memory.
    #[schema(value_type = String)]
    pub id: MemoryId,
    /// A memory of the step, or a rule of the repository.
    pub kind: FoundKind,
    /// Weight, from 0 to 1,000 thousandths.
    #[schema(value_type = u16, maximum = 1000)]
    pub weight: Weight,
    /// Title of the lesson.
    pub title: String,
    /// Weight and bonus for the relevance together, in thousandths, by which the list is sorted.
    pub score: u32,
    /// What it has in common with the query, in thousandths.
    #[schema(maximum = 1000)]
    pub relevance: u16,
    /// Words of the query that it contains, the most telling first and at most 5.
    pub words: Vec<String>,
}

/// Outcome of recording which memories were presented to a run or read by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Recording {
    /// The presentation or read is stored.
    Recorded,
    /// The presentation will be stored within moments, unless the process is killed before. The run's completion
    /// event can report it again.
    Queued,
    /// The request named no run, so nothing is recorded.
    Preview,
    /// There was nothing to record.
    Nothing,
    /// The database did not confirm in time, or too many presentations wait to be stored, so the presentation or read
    /// may or may not be stored. The run's completion event can report it again.
    Unknown,
}

impl ContextAnswer {
    /// Returns an empty response that gives this reason.
    pub(crate) fn empty(run: Option<&RunId>, reason: String) -> Self {
        Self {
            memories: Vec::new(),
            text: String::new(),
            tokens: 0,
            omitted: 0,
            blocked: 0,
            withheld_by_chance: 0,
            rules: None,
            ranking: None,
            recorded: if run.is_some() { Recording::Nothing } else { Recording::Preview },
            reason: Some(reason),
        }
    }
}

impl ContextAnswer {
    /// Returns about the size of the answer as JSON, in bytes. A line of the block stands in it twice.
    pub(crate) fn json_bytes(&self) -> usize {
        const FIELDS_BYTES: usize = 512;
        const LINE_FIELDS_BYTES: usize = 128;
        let rules = self.rules.as_ref();
        let texts = self.text.len() + rules.map_or(0, |rules| rules.text.len());
        let lines = self.memories.len() + rules.map_or(0, |rules| rules.rules.len());
        FIELDS_BYTES + lines * LINE_FIELDS_BYTES + 2 * texts
    }
}

/// Response to a request for a single memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemoryAnswer {
    /// The memory; null if it is blocked or the database did not respond.
    pub memory: Option<MemoryText>,
    /// Outcome of recording the memory as read by the run.
    pub recorded: Recording,
    /// Reason why the memory is missing or why it is unknown whether the read was recorded; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Full text and facts of a memory, for an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemoryText {
    /// Memory id.
    #[schema(value_type = String)]
    pub id: MemoryId,
    /// Scope of the memory, such as a step of a workflow or a repository.
    #[schema(value_type = Object)]
    pub scope: MemoryScope,
    /// Status of the memory. Only active memories are selected as context; do not rely on archived, deleted
    /// or superseded ones.
    #[schema(value_type = String)]
    pub status: MemoryStatus,
    /// Weight of the memory, from 0 to 1,000 thousandths.
    #[schema(value_type = u16)]
    pub weight: Weight,
    /// One-line summary of the lesson, as plain text. Words of a tool or an agent are quoted and attributed.
    pub title: String,
    /// Full text of the lesson as one line of plain text: the situation, and what to do in it.
    pub content: String,
    /// Number of distinct runs in which the lesson was observed.
    pub observed_runs: u32,
    /// Quotes from the runs in which the lesson was observed, most recent last, as data: without addresses,
    /// markup and what they tell their reader to do. Empty for a rule, because full review comments are shown
    /// only to operators.
    pub evidence: Vec<Evidence>,
}

impl From<Memory> for MemoryText {
    fn from(memory: Memory) -> Self {
        Self {
            id: memory.id,
            title: shown_title(&memory.scope, &memory.lesson),
            content: shown_content(&memory.scope, &memory.lesson),
            evidence: shown_evidence(&memory),
            scope: shown_scope(memory.scope),
            status: memory.status,
            weight: memory.weight,
            observed_runs: memory.observed_runs,
        }
    }
}
