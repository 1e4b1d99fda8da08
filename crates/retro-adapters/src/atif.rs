//! ATIF documents as agents' harnesses write them.
//!
//! The format says nothing of a workflow, an outcome or a task: all are options. The workflow is else the agent's name; the
//! outcome else stands in `extra.outcome`, or is unknown. A task stands in `extra.task`.

use jiff::Timestamp;
use retro_core::canonical::content_hash;
use retro_core::dead_letter::{Code, Rejection};
use retro_core::json::Document;
use retro_core::run::{Agent, MemoryUse, Outcome, RunFacts, RunKind, Usage};
use retro_events::run_completed::RunEvent;
use retro_events::{atif, field};
use serde::Deserialize;
use serde_json::Value;

use crate::{ForeignRun, Options, TASK_BYTES_MAX, run_id, task, workflow};

const SOURCE: &str = "retro-emit/atif";

#[derive(Deserialize)]
struct Header {
    session_id: Option<String>,
    trajectory_id: Option<String>,
    agent: Option<AgentHeader>,
    final_metrics: Option<FinalMetrics>,
    #[serde(default)]
    extra: Value,
    steps: Vec<Times>,
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
struct Times {
    timestamp: Option<String>,
}

/// Reads one document: one run.
pub(crate) fn read(document: &Value, options: &Options) -> Result<Vec<ForeignRun>, Rejection> {
    atif::read(Document::of_value(document).root(), "")?;
    let header: Header = field::read(Code::TrajectoryInvalid, "", document)?;
    let agent = header.agent.as_ref();
    let workflow = workflow(options, "agent.name", || {
        agent.and_then(|agent| agent.name.clone()).unwrap_or_else(|| "atif".to_owned())
    })?;
    let own_id = header.trajectory_id.clone().or_else(|| header.session_id.clone());
    let id = own_id.unwrap_or_else(|| format!("atif-{}", &content_hash(document)[..16]));
    // Everybody may write what they like into `extra`: another word there is not an error.
    let own_outcome = header.extra.get("outcome").and_then(|word| Outcome::deserialize(word).ok());
    let own_task = header.extra.get("task").and_then(Value::as_str);
    let own_task = own_task.filter(|task| (1..=TASK_BYTES_MAX).contains(&task.len()));
    let (started_at, finished_at) = header.times();
    let run = RunFacts {
        run_id: run_id("session_id", id)?,
        attempt: 1,
        kind: RunKind::Normal,
        outcome: own_outcome.or(options.outcome).unwrap_or(Outcome::Unknown),
        started_at,
        finished_at,
        repo: None,
        pull_request: None,
        commit: None,
        user: None,
        agent: agent.map(AgentHeader::facts),
        prompt_version: None,
        task: task(options, own_task.map(str::to_owned)),
        usage: header.final_metrics.map(FinalMetrics::facts),
        memories: MemoryUse::default(),
        self_feedback: Vec::new(),
    };
    let event = RunEvent::new(SOURCE, workflow, run, Some(document.clone()));
    Ok(vec![ForeignRun { place: String::new(), event }])
}

impl Header {
    /// The first and the last time of an entry; times without an offset say no moment and are left out.
    fn times(&self) -> (Option<Timestamp>, Option<Timestamp>) {
        let mut times = self.steps.iter().filter_map(|step| step.timestamp.as_deref()?.parse().ok());
        let first: Option<Timestamp> = times.next();
        let last = times.next_back().or(first);
        if first > last { (None, None) } else { (first, last) }
    }
}

impl AgentHeader {
    fn facts(&self) -> Agent {
        Agent { name: self.name.clone(), version: self.version.clone(), model: self.model_name.clone() }
    }
}

impl FinalMetrics {
    fn facts(self) -> Usage {
        Usage {
            input_tokens: self.total_prompt_tokens,
            output_tokens: self.total_completion_tokens,
            cost_usd: self.total_cost_usd,
        }
    }
}
