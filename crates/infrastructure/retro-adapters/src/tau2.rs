//! Parser for tau2 simulation results: a results file with all its simulations, or one simulation from a
//! results folder.
//!
//! The reward is used only for the outcome. Of a task, only the name is read: task descriptions, checks and
//! reviews contain the expected answers. Times without an offset are interpreted as UTC.

mod messages;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::run::{Agent, RunFacts, RunKind, RunMemories, RunOutcome, Usage};
use retro_events::field;
use retro_events::run_completed::RunEvent;
use serde::Deserialize;
use serde_json::Value;

use self::messages::{Message, Tick};
use crate::import::{ImportOptions, ImportedRun, choose_task, choose_workflow, parse_run_id};

const SOURCE: &str = "retro-emit/tau2";

#[derive(Deserialize, Default)]
struct Info {
    #[serde(default)]
    environment_info: EnvironmentInfo,
    #[serde(default)]
    agent_info: AgentInfo,
    git_commit: Option<String>,
}

#[derive(Deserialize, Default)]
struct EnvironmentInfo {
    domain_name: Option<String>,
}

#[derive(Deserialize, Default)]
struct AgentInfo {
    implementation: Option<String>,
    llm: Option<String>,
}

#[derive(Deserialize)]
struct Simulation {
    id: String,
    task_id: Option<Value>,
    start_time: Option<String>,
    end_time: Option<String>,
    termination_reason: String,
    agent_cost: Option<f64>,
    reward_info: Option<RewardInfo>,
    messages: Option<Vec<Message>>,
    #[serde(default)]
    ticks: Option<Vec<Tick>>,
}

#[derive(Deserialize)]
struct RewardInfo {
    reward: f64,
}

/// Parses a results file into one run per simulation, or parses a single simulation.
pub(crate) fn parse_document(
    document: &Value,
    options: &ImportOptions,
) -> Result<Vec<ImportedRun>, Rejection> {
    let Some(info) = document.get("info").filter(|_| document.get("termination_reason").is_none()) else {
        return Ok(vec![parse_simulation(document, "", &Info::default(), options)?]);
    };
    let info: Info = field::deserialize_field(DeadLetterCode::TrajectoryInvalid, "info", info)?;
    let simulations = document.get("simulations").and_then(Value::as_array).filter(|found| !found.is_empty());
    let Some(simulations) = simulations else {
        let detail = "contains no run; if the simulations are files in a folder, import those";
        return Err(Rejection::of_field(DeadLetterCode::TrajectoryInvalid, "simulations", detail));
    };
    let read =
        |(nth, simulation)| parse_simulation(simulation, &format!("simulations[{nth}]"), &info, options);
    simulations.iter().enumerate().map(read).collect()
}

fn parse_simulation(
    document: &Value,
    place: &str,
    info: &Info,
    options: &ImportOptions,
) -> Result<ImportedRun, Rejection> {
    let simulation: Simulation =
        field::deserialize_field(DeadLetterCode::TrajectoryInvalid, place, document)?;
    let workflow = choose_workflow(options, "info.environment_info.domain_name", || {
        info.environment_info
            .domain_name
            .as_ref()
            .map_or_else(|| "tau2".to_owned(), |name| format!("tau2-{name}"))
    })?;
    let agent = Agent {
        name: info.agent_info.implementation.clone(),
        version: info.git_commit.clone(),
        model: info.agent_info.llm.clone(),
    };
    let run = RunFacts {
        run_id: parse_run_id(&field::join_path(place, "id"), simulation.id.clone())?,
        attempt: 1,
        kind: RunKind::Normal,
        outcome: simulation.decide_outcome(options),
        outcome_only: false,
        started_at: simulation.start_time.as_deref().and_then(parse_time),
        finished_at: simulation.end_time.as_deref().and_then(parse_time),
        repo: None,
        repo_visibility: None,
        pull_request: None,
        commit: None,
        user: None,
        agent: (agent != Agent::default()).then_some(agent.clone()),
        prompt_version: None,
        task: choose_task(options, simulation.task_name()),
        usage: simulation.agent_usage(),
        memories: RunMemories::default(),
        self_feedback: Vec::new(),
    };
    let trajectory = messages::into_atif(simulation.into_messages(), &agent);
    let event = RunEvent::new(SOURCE, workflow, run, Some(trajectory));
    Ok(ImportedRun { location: place.to_owned(), event })
}

impl Simulation {
    /// Returns the name of the task, which is a string or a number depending on the tau2 version.
    fn task_name(&self) -> Option<String> {
        match self.task_id.as_ref()? {
            Value::String(name) => Some(name.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    /// Derives the outcome from the termination reason. The reward counts only if the run ended normally,
    /// because an aborted run was never judged.
    fn decide_outcome(&self, options: &ImportOptions) -> RunOutcome {
        let reward = self.reward_info.as_ref().map(|info| info.reward);
        match self.termination_reason.as_str() {
            "timeout" => RunOutcome::Timeout,
            "user_error" | "infrastructure_error" | "context_window_exceeded" | "unexpected_error" => {
                RunOutcome::Error
            }
            "user_stop" | "agent_stop" => match reward {
                Some(reward) if reward >= 1.0 => RunOutcome::Success,
                Some(_) => RunOutcome::Failure,
                // The run ended normally but was not judged.
                None => options.outcome.unwrap_or(RunOutcome::Unknown),
            },
            _ => RunOutcome::Failure,
        }
    }

    /// Returns the agent's token usage and cost, excluding those of the simulated user.
    fn agent_usage(&self) -> Option<Usage> {
        let usages = || {
            let messages = self.messages.iter().flatten().filter(|message| message.role == "assistant");
            messages.filter_map(|message| message.usage.as_ref())
        };
        let sum = |part: fn(&messages::Usage) -> Option<u64>| {
            usages().filter_map(part).reduce(u64::saturating_add).filter(|sum| *sum > 0)
        };
        let usage = Usage {
            input_tokens: sum(|usage| usage.prompt_tokens),
            output_tokens: sum(|usage| usage.completion_tokens),
            cost_usd: self.agent_cost,
        };
        (usage != Usage::default()).then_some(usage)
    }

    fn into_messages(self) -> Vec<Message> {
        self.messages.unwrap_or_else(|| messages::messages_from_ticks(self.ticks.unwrap_or_default()))
    }
}

fn parse_time(text: &str) -> Option<Timestamp> {
    let with_offset = text.parse::<Timestamp>();
    with_offset
        .or_else(|_| text.parse::<DateTime>()?.to_zoned(TimeZone::UTC).map(|zoned| zoned.timestamp()))
        .ok()
}
