//! tau2 simulation results: a results file with all its simulations, or one simulation of a results folder.
//!
//! The reward becomes the outcome and nothing else, and of a task only its name is taken; tasks, checks and reviews, which
//! hold the expected answers, are never read. Times are written without an offset and are taken for UTC.

mod messages;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use retro_core::dead_letter::{Code, Rejection};
use retro_core::run::{Agent, MemoryUse, Outcome, RunFacts, RunKind, Usage};
use retro_events::field;
use retro_events::run_completed::RunEvent;
use serde::Deserialize;
use serde_json::Value;

use self::messages::{Message, Tick};
use crate::{ForeignRun, Options, run_id, task, workflow};

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

/// Reads a results file, a run for each simulation, or one simulation.
pub(crate) fn read(document: &Value, options: &Options) -> Result<Vec<ForeignRun>, Rejection> {
    let Some(info) = document.get("info").filter(|_| document.get("termination_reason").is_none()) else {
        return Ok(vec![read_simulation(document, "", &Info::default(), options)?]);
    };
    let info: Info = field::read(Code::TrajectoryInvalid, "info", info)?;
    let simulations = document.get("simulations").and_then(Value::as_array).filter(|found| !found.is_empty());
    let Some(simulations) = simulations else {
        let detail = "holds no run; when the simulations are files of a folder, read those";
        return Err(Rejection::at(Code::TrajectoryInvalid, "simulations", detail));
    };
    let read =
        |(nth, simulation)| read_simulation(simulation, &format!("simulations[{nth}]"), &info, options);
    simulations.iter().enumerate().map(read).collect()
}

fn read_simulation(
    document: &Value,
    place: &str,
    info: &Info,
    options: &Options,
) -> Result<ForeignRun, Rejection> {
    let simulation: Simulation = field::read(Code::TrajectoryInvalid, place, document)?;
    let workflow = workflow(options, "info.environment_info.domain_name", || {
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
        run_id: run_id(&field::join(place, "id"), simulation.id.clone())?,
        attempt: 1,
        kind: RunKind::Normal,
        outcome: simulation.outcome(options),
        started_at: simulation.start_time.as_deref().and_then(read_time),
        finished_at: simulation.end_time.as_deref().and_then(read_time),
        repo: None,
        pull_request: None,
        commit: None,
        user: None,
        agent: (agent != Agent::default()).then_some(agent.clone()),
        prompt_version: None,
        task: task(options, simulation.task()),
        usage: simulation.usage(),
        memories: MemoryUse::default(),
        self_feedback: Vec::new(),
    };
    let trajectory = messages::into_atif(simulation.into_messages(), &agent);
    let event = RunEvent::new(SOURCE, workflow, run, Some(trajectory));
    Ok(ForeignRun { place: place.to_owned(), event })
}

impl Simulation {
    /// A name or a number, by the version that wrote it.
    fn task(&self) -> Option<String> {
        match self.task_id.as_ref()? {
            Value::String(name) => Some(name.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    /// How it ended first, then its reward: a run that broke off was never judged.
    fn outcome(&self, options: &Options) -> Outcome {
        let reward = self.reward_info.as_ref().map(|info| info.reward);
        match self.termination_reason.as_str() {
            "timeout" => Outcome::Timeout,
            "user_error" | "infrastructure_error" | "context_window_exceeded" | "unexpected_error" => {
                Outcome::Error
            }
            "user_stop" | "agent_stop" => match reward {
                Some(reward) if reward >= 1.0 => Outcome::Success,
                Some(_) => Outcome::Failure,
                // It ended in order, and nobody judged what it did.
                None => options.outcome.unwrap_or(Outcome::Unknown),
            },
            _ => Outcome::Failure,
        }
    }

    /// The agent's part; the simulated user's tokens are nobody's cost.
    fn usage(&self) -> Option<Usage> {
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
        self.messages.unwrap_or_else(|| messages::of_ticks(self.ticks.unwrap_or_default()))
    }
}

fn read_time(text: &str) -> Option<Timestamp> {
    let with_offset = text.parse::<Timestamp>();
    with_offset
        .or_else(|_| text.parse::<DateTime>()?.to_zoned(TimeZone::UTC).map(|zoned| zoned.timestamp()))
        .ok()
}
