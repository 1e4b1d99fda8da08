//! Parser for ATIF documents, which agent harnesses write.
//!
//! ATIF has no fields for workflow, outcome and task. The workflow comes from the options, or else from the
//! agent's name. Outcome and task come from `extra.outcome` and `extra.task`, or else from the options.

use jiff::Timestamp;
use retro_core::canonical::content_hash;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::json::JsonDocument;
use retro_core::run::{Agent, RunFacts, RunKind, RunMemories, RunOutcome, Usage};
use retro_events::run_completed::RunEvent;
use retro_events::{atif, field};
use serde::Deserialize;
use serde_json::Value;

use crate::import::{ImportOptions, ImportedRun, TASK_BYTES_MAX, choose_task, choose_workflow, parse_run_id};

const SOURCE: &str = "retro-emit/atif";

#[derive(Deserialize)]
struct AtifHeader {
    session_id: Option<String>,
    trajectory_id: Option<String>,
    agent: Option<AgentHeader>,
    final_metrics: Option<FinalMetrics>,
    #[serde(default)]
    extra: Value,
    steps: Vec<StepTime>,
}

#[derive(Deserialize)]
struct AgentHeader {
    name: Option<String>,
    version: Option<String>,
    model_name: Option<String>,
}

#[derive(Deserialize)]
struct FinalMetrics {
    total_prompt_tokens: Option<u64>,
    total_completion_tokens: Option<u64>,
    total_cost_usd: Option<f64>,
}

#[derive(Deserialize)]
struct StepTime {
    timestamp: Option<String>,
}

/// Parses one document, which describes one run.
pub(crate) fn parse_document(
    document: &Value,
    options: &ImportOptions,
) -> Result<Vec<ImportedRun>, Rejection> {
    // Validation only: the document itself is sent unchanged.
    atif::parse_trajectory(JsonDocument::from_value(document).root(), "")?;
    let header: AtifHeader = field::deserialize_field(DeadLetterCode::TrajectoryInvalid, "", document)?;
    let agent = header.agent.as_ref();
    let workflow = choose_workflow(options, "agent.name", || {
        agent.and_then(|agent| agent.name.clone()).unwrap_or_else(|| "atif".to_owned())
    })?;
    let own_id = header.trajectory_id.clone().or_else(|| header.session_id.clone());
    let id = own_id.unwrap_or_else(|| format!("atif-{}", &content_hash(document)[..16]));
    // `extra` is free-form, so an unknown outcome there is not an error.
    let own_outcome = header.extra.get("outcome").and_then(|word| RunOutcome::deserialize(word).ok());
    let own_task = header.extra.get("task").and_then(Value::as_str);
    let own_task = own_task.filter(|task| (1..=TASK_BYTES_MAX).contains(&task.len()));
    let (started_at, finished_at) = header.time_range();
    let run = RunFacts {
        run_id: parse_run_id("session_id", id)?,
        attempt: 1,
        kind: RunKind::Normal,
        outcome: own_outcome.or(options.outcome).unwrap_or(RunOutcome::Unknown),
        outcome_only: false,
        started_at,
        finished_at,
        repo: None,
        repo_visibility: None,
        pull_request: None,
        commit: None,
        user: None,
        agent: agent.map(AgentHeader::to_agent),
        prompt_version: None,
        task: choose_task(options, own_task.map(str::to_owned)),
        usage: header.final_metrics.map(FinalMetrics::into_usage),
        memories: RunMemories::default(),
        self_feedback: Vec::new(),
    };
    let event = RunEvent::new(SOURCE, workflow, run, Some(document.clone()));
    Ok(vec![ImportedRun { location: String::new(), event }])
}

impl AtifHeader {
    /// Returns the first and last timestamps of the entries. Timestamps without an offset are ambiguous and
    /// are ignored. Both are `None` if the first is later than the last.
    fn time_range(&self) -> (Option<Timestamp>, Option<Timestamp>) {
        let mut times = self.steps.iter().filter_map(|step| step.timestamp.as_deref()?.parse().ok());
        let first: Option<Timestamp> = times.next();
        let last = times.next_back().or(first);
        if first > last { (None, None) } else { (first, last) }
    }
}

impl AgentHeader {
    fn to_agent(&self) -> Agent {
        Agent { name: self.name.clone(), version: self.version.clone(), model: self.model_name.clone() }
    }
}

impl FinalMetrics {
    fn into_usage(self) -> Usage {
        Usage {
            input_tokens: self.total_prompt_tokens,
            output_tokens: self.total_completion_tokens,
            cost_usd: self.total_cost_usd,
        }
    }
}
