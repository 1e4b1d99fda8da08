//! Builds the history of a memory: every change with its reason.

use jiff::Timestamp;
use retro_core::attribution::DecisionToken;
use retro_core::id::{Epoch, MemoryId};
use retro_core::memory::{Change, ChangeCause, ChangeEffect, Memory, MemoryStatus, fold_change};
use retro_core::pipeline::PipelineHash;
use retro_core::weight::Weight;
use retro_store::{FeedbackRow, MemoryUsage};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::audit_log::describe_actor;
use crate::feedback::render_feedback;
use crate::text_table::render_table;
use crate::{memory, text};

/// History of a memory since its first change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemoryHistory {
    /// Id of the memory, a UUID.
    #[schema(value_type = String)]
    pub id: MemoryId,
    /// The memory with all changes applied; null for a lesson that was suppressed before it became a memory.
    #[schema(required = true)]
    pub memory: Option<Memory>,
    /// All changes of the memory, oldest first. Each has the status and weight before and after, the cause, the
    /// reason and the quote.
    #[schema(value_type = Vec<Object>)]
    pub history: Vec<HistoryEntry>,
    /// Number of runs that it was presented to, read in and applied in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<MemoryUsage>,
    /// Effect of the memory in one line; absent if there are no runs of one workflow to compare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// What agents, people and evaluations said of it, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub feedback: Vec<FeedbackRow>,
}

/// One change in the history of a memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// Policy moment at which the change was made.
    pub at: Timestamp,
    /// Epoch of the retrospective that made the change; `None` for a change made outside a retrospective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
    /// Version of the pipeline under which that retrospective ran; `None` if none was stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<PipelineHash>,
    /// Name of the kind of change.
    pub change: String,
    /// Status and weight before the change; `None` if the memory did not exist yet.
    pub before: Option<MemoryState>,
    /// Status and weight after the change; `None` if there is still no memory.
    pub after: Option<MemoryState>,
    /// Cause of the change, such as a run, a retrospective or a person.
    pub cause: ChangeCause,
    /// Access token with which a person requested the change; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_token: Option<DecisionToken>,
    /// Reason for the change in one sentence.
    pub reason: String,
    /// Quote that supports the change; `None` if the change has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote: Option<String>,
}

/// Status and weight of a memory at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryState {
    /// Status at that moment.
    pub status: MemoryStatus,
    /// Weight at that moment.
    pub weight: Weight,
}

impl MemoryHistory {
    /// Builds the history from the changes of a memory, without use and effect; `None` if there are no changes. A
    /// change that cannot be applied is listed but not applied; `verify` reports such a log.
    pub fn from_changes(id: MemoryId, changes: &[Change]) -> Option<Self> {
        if changes.is_empty() {
            return None;
        }
        let mut memory: Option<Memory> = None;
        let mut history = Vec::with_capacity(changes.len());
        for change in changes {
            let before = memory.as_ref().map(memory_state);
            // A change that cannot be applied keeps the previous state, so later changes are still shown.
            if let Ok(after) = fold_change(memory.clone(), change) {
                memory = after;
            }
            history.push(build_entry(change, before, memory.as_ref().map(memory_state)));
        }
        Some(Self { id, memory, history, usage: None, effect: None, feedback: Vec::new() })
    }

    /// Renders the history for a terminal that is `columns` wide: lesson, status, effect, changes and evidence.
    pub fn render_text(&self, columns: u16) -> String {
        let rows = self.history.iter().map(|event| {
            let epoch = event.epoch.map_or_else(|| "—".to_owned(), |epoch| epoch.to_string());
            let cause = describe_actor(&text::describe_cause(&event.cause), event.with_token.as_ref());
            [
                text::format_timestamp(event.at),
                epoch,
                event.change.clone(),
                render_transition(event),
                cause,
                text::single_line(&event.reason),
            ]
        });
        let head = ["when", "epoch", "change", "from → to", "cause", "reason"];
        let table = render_table(columns, head, rows.collect());
        match &self.memory {
            Some(memory) => {
                let opening = memory::render_summary(memory, self.usage, self.effect.as_deref());
                let feedback = render_feedback(&self.feedback);
                let pipelines = self.render_pipelines();
                format!("{opening}\n{table}\n{pipelines}{}{feedback}", memory::render_evidence(memory))
            }
            None => format!("{}: it never became a memory\n\n{table}", self.id),
        }
    }
}

impl MemoryHistory {
    /// Names the versions of the pipeline that changed the memory, each with its first epoch; empty if none were stored.
    fn render_pipelines(&self) -> String {
        let mut seen: Vec<&PipelineHash> = Vec::new();
        let mut lines = String::new();
        for entry in &self.history {
            let (Some(pipeline), Some(epoch)) = (&entry.pipeline, entry.epoch) else { continue };
            if !seen.contains(&pipeline) {
                seen.push(pipeline);
                lines.push_str(&format!("pipeline {} from epoch {epoch}\n", pipeline.short()));
            }
        }
        lines
    }
}

fn build_entry(change: &Change, before: Option<MemoryState>, after: Option<MemoryState>) -> HistoryEntry {
    let quote = match &change.effect {
        ChangeEffect::Created { evidence: Some(evidence), .. }
        | ChangeEffect::Promoted { evidence, .. }
        | ChangeEffect::Observed { evidence }
        | ChangeEffect::Revived { evidence } => Some(evidence.quote.text.clone()),
        _ => None,
    };
    HistoryEntry {
        at: change.at,
        epoch: change.epoch,
        pipeline: change.pipeline.clone(),
        change: change.effect.kind().to_owned(),
        before,
        after,
        cause: change.cause.clone(),
        with_token: change.with_token.clone(),
        reason: change.reason.clone(),
        quote,
    }
}

fn memory_state(memory: &Memory) -> MemoryState {
    MemoryState { status: memory.status, weight: memory.weight }
}

fn render_transition(event: &HistoryEntry) -> String {
    let shown = |standing: MemoryState| format!("{} {}", standing.status, standing.weight);
    match (event.before, event.after) {
        (None, None) => "—".to_owned(),
        (None, Some(after)) => format!("new → {}", shown(after)),
        (Some(before), Some(after)) if before == after => shown(after),
        (Some(before), Some(after)) if before.status == after.status => {
            format!("{} {} → {}", after.status, before.weight, after.weight)
        }
        (Some(before), Some(after)) => format!("{} → {}", shown(before), shown(after)),
        (Some(before), None) => shown(before),
    }
}

#[cfg(test)]
mod tests;
