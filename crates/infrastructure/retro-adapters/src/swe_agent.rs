//! Parser for SWE-agent trajectories (`.traj`), both early ones with fenced commands and those with function
//! calls.
//!
//! `trajectory` contains the agent's thoughts, actions and observations, `history` its prompts, and `info`
//! the way the run ended. The demonstration at the start of some histories comes from another run and is
//! skipped. The tool of an action is the first word of its command if that is one of SWE-agent's own
//! commands, and `bash` otherwise, so all variants of a file give the same result.

use retro_core::canonical::content_hash;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::run::{Agent, RunFacts, RunKind, RunMemories, RunOutcome, Usage};
use retro_events::field;
use retro_events::run_completed::RunEvent;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::atif_document::{AtifDocument, Call};
use crate::import::{ImportOptions, ImportedRun, choose_task, choose_workflow, parse_run_id};

const SOURCE: &str = "retro-emit/swe-agent";
/// Tool name of every command that is not one of SWE-agent's own.
const SHELL: &str = "bash";
/// Names of SWE-agent's own commands, including those of the CTF challenges.
const SWE_AGENT_COMMANDS: [&str; 22] = [
    "open",
    "goto",
    "scroll_up",
    "scroll_down",
    "create",
    "edit",
    "insert",
    "append",
    "search_dir",
    "search_file",
    "find_file",
    "filemap",
    "view_image",
    "str_replace_editor",
    "undo_edit",
    "submit",
    "decompile",
    "disassemble",
    "connect_start",
    "connect_sendline",
    "debug_start",
    "debug_exec",
];

#[derive(Deserialize)]
struct Traj {
    environment: Option<String>,
    trajectory: Vec<Step>,
    #[serde(default)]
    history: Vec<HistoryEntry>,
    #[serde(default)]
    info: Info,
    #[serde(default)]
    replay_config: Value,
}

#[derive(Deserialize)]
struct Step {
    action: String,
    observation: Option<String>,
    thought: Option<String>,
    response: Option<String>,
}

#[derive(Deserialize)]
struct HistoryEntry {
    role: String,
    #[serde(default)]
    content: Value,
    #[serde(default)]
    is_demo: bool,
}

#[derive(Deserialize, Default)]
struct Info {
    exit_status: Option<String>,
    submission: Option<String>,
    model_stats: Option<ModelStats>,
    swe_agent_version: Option<String>,
}

#[derive(Deserialize)]
struct ModelStats {
    tokens_sent: Option<u64>,
    tokens_received: Option<u64>,
    instance_cost: Option<f64>,
}

/// Parses one trajectory, which describes one run.
pub(crate) fn parse_document(
    document: &Value,
    options: &ImportOptions,
) -> Result<Vec<ImportedRun>, Rejection> {
    let traj: Traj = field::deserialize_field(DeadLetterCode::TrajectoryInvalid, "", document)?;
    let replay = ReplayConfig::from_value(&traj.replay_config);
    let workflow = choose_workflow(options, "environment", || match &traj.environment {
        Some(environment) => format!("swe-agent-{environment}"),
        None => "swe-agent".to_owned(),
    })?;
    // One problem is attempted many times, and only the content distinguishes the attempts.
    let problem = replay.problem().unwrap_or("swe-agent");
    let id = parse_run_id(
        "replay_config.problem_statement.id",
        format!("{problem}-{}", &content_hash(document)[..16]),
    )?;
    let agent = Agent {
        name: Some("swe-agent".to_owned()),
        version: traj.info.swe_agent_version.clone(),
        model: replay.model().map(str::to_owned),
    };
    let run = RunFacts {
        run_id: id,
        attempt: 1,
        kind: RunKind::Normal,
        outcome: traj.info.decide_outcome(options),
        outcome_only: false,
        started_at: None,
        finished_at: None,
        repo: replay.repo(),
        repo_visibility: None,
        pull_request: None,
        commit: replay.commit(),
        user: None,
        usage: traj.info.model_stats.as_ref().and_then(ModelStats::to_usage),
        agent: Some(agent),
        prompt_version: None,
        task: choose_task(options, replay.problem().map(str::to_owned)),
        memories: RunMemories::default(),
        self_feedback: Vec::new(),
    };
    let trajectory = traj.into_atif(run.agent.as_ref());
    Ok(vec![ImportedRun {
        location: String::new(),
        event: RunEvent::new(SOURCE, workflow, run, Some(trajectory)),
    }])
}

impl Traj {
    fn into_atif(self, agent: Option<&Agent>) -> Value {
        let version = agent.and_then(|agent| agent.version.as_deref());
        let model = agent.and_then(|agent| agent.model.as_deref());
        let mut atif = AtifDocument::new("swe-agent", version, model);
        let entries = self.history.into_iter().filter(|entry| !entry.is_demo);
        for entry in entries.take_while(|entry| entry.role != "assistant") {
            atif.add_entry(if entry.role == "system" { "system" } else { "user" }, entry.content);
        }
        for (nth, step) in self.trajectory.into_iter().enumerate() {
            step.add_to(&mut atif, nth + 1);
        }
        atif.into_json()
    }
}

impl Step {
    fn add_to(self, atif: &mut AtifDocument, number: usize) {
        let command = self.action.trim_end();
        let thought = self.thought.filter(|thought| !thought.trim().is_empty());
        // Without a command, SWE-agent could not parse the response, so its full text is all there is.
        let message = match thought {
            Some(thought) => thought,
            None if command.is_empty() => self.response.unwrap_or_default(),
            None => String::new(),
        };
        let entry = atif.add_entry("agent", message.trim_end());
        let call = (!command.is_empty()).then(|| format!("call-{number}"));
        if let Some(call) = &call {
            entry.tool_calls.push(Call {
                tool_call_id: call.clone(),
                function_name: tool_name(command).to_owned(),
                arguments: json!({"command": command}),
            });
        }
        if let Some(observation) = self.observation {
            entry.add_result(call.as_deref(), &observation, None);
        }
    }
}

fn tool_name(command: &str) -> &str {
    let first = command.split_whitespace().next().unwrap_or_default();
    if SWE_AGENT_COMMANDS.contains(&first) { first } else { SHELL }
}

impl Info {
    /// Derives the outcome from the exit status. `submitted` with a submission is a success; a submission
    /// forced by a limit is a failure. Without an exit status, the file does not say how the run ended, so
    /// the outcome comes from the options.
    fn decide_outcome(&self, options: &ImportOptions) -> RunOutcome {
        let submitted = self.submission.as_deref().is_some_and(|text| !text.trim().is_empty());
        match self.exit_status.as_deref().unwrap_or_default() {
            "" => options.outcome.unwrap_or(RunOutcome::Unknown),
            "submitted" if submitted => RunOutcome::Success,
            "skipped" => RunOutcome::Skip,
            status if status.contains("timeout") || status.contains("execution_time") => RunOutcome::Timeout,
            status if ["error", "api", "environment"].iter().any(|word| status.contains(word)) => {
                RunOutcome::Error
            }
            _ => RunOutcome::Failure,
        }
    }
}

impl ModelStats {
    /// Returns the usage, or `None` if nothing was measured. Zeros are ignored, because replayed runs write
    /// them for values that were not measured.
    fn to_usage(&self) -> Option<Usage> {
        let usage = Usage {
            input_tokens: self.tokens_sent.filter(|tokens| *tokens > 0),
            output_tokens: self.tokens_received.filter(|tokens| *tokens > 0),
            cost_usd: self.instance_cost.filter(|cost| *cost > 0.0),
        };
        (usage != Usage::default()).then_some(usage)
    }
}

/// Replay configuration of the run. Newer versions store it as an object or as a JSON string.
struct ReplayConfig(Value);

impl ReplayConfig {
    fn from_value(config: &Value) -> Self {
        match config {
            Value::String(text) => Self(serde_json::from_str(text).unwrap_or_default()),
            other => Self(other.clone()),
        }
    }

    fn text_at(&self, pointer: &str) -> Option<&str> {
        self.0.pointer(pointer)?.as_str().filter(|text| !text.is_empty())
    }

    fn problem(&self) -> Option<&str> {
        self.text_at("/problem_statement/id")
    }

    fn model(&self) -> Option<&str> {
        self.text_at("/agent/model/name")
    }

    fn repo(&self) -> Option<String> {
        let address = self.text_at("/env/repo/github_url")?;
        let path = address.strip_prefix("https://github.com/")?.trim_end_matches('/');
        (path.split('/').count() == 2).then(|| path.trim_end_matches(".git").to_owned())
    }

    fn commit(&self) -> Option<String> {
        let commit = self.text_at("/env/repo/base_commit")?;
        // A branch or tag may be given instead, which identifies no commit.
        (commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| commit.to_owned())
    }
}
