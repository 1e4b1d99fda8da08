//! SWE-agent trajectories (`.traj`), from the first ones with fenced commands to those with function calls.
//!
//! `trajectory` holds what the agent thought, did and saw; `history` what it was told; `info` how it ended. The
//! demonstration that some histories begin with is another run's and is left out. The tool of an action is the first
//! word of its command when that is one of SWE-agent's own commands, `bash` otherwise: so a file says the same in
//! every variant.

use retro_core::canonical::content_hash;
use retro_core::dead_letter::{Code, Rejection};
use retro_core::run::{Agent, MemoryUse, Outcome, RunFacts, RunKind, Usage};
use retro_events::field;
use retro_events::run_completed::RunEvent;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::document::{Call, Document};
use crate::{ForeignRun, Options, run_id, task, workflow};

const SOURCE: &str = "retro-emit/swe-agent";
/// The shell's own tool, for every command that is not SWE-agent's.
const SHELL: &str = "bash";
/// The commands that SWE-agent brings along; the challenges' own among them.
const OWN_COMMANDS: [&str; 22] = [
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
    history: Vec<Told>,
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
struct Told {
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

/// Reads one trajectory: one run.
pub(crate) fn read(document: &Value, options: &Options) -> Result<Vec<ForeignRun>, Rejection> {
    let traj: Traj = field::read(Code::TrajectoryInvalid, "", document)?;
    let replay = Replay::read(&traj.replay_config);
    let workflow = workflow(options, "environment", || match &traj.environment {
        Some(environment) => format!("swe-agent-{environment}"),
        None => "swe-agent".to_owned(),
    })?;
    // The same problem is tried again and again: only the content tells one try from another.
    let problem = replay.problem().unwrap_or("swe-agent");
    let id =
        run_id("replay_config.problem_statement.id", format!("{problem}-{}", &content_hash(document)[..16]))?;
    let agent = Agent {
        name: Some("swe-agent".to_owned()),
        version: traj.info.swe_agent_version.clone(),
        model: replay.model().map(str::to_owned),
    };
    let run = RunFacts {
        run_id: id,
        attempt: 1,
        kind: RunKind::Normal,
        outcome: traj.info.outcome(options),
        started_at: None,
        finished_at: None,
        repo: replay.repo(),
        pull_request: None,
        commit: replay.commit(),
        user: None,
        usage: traj.info.model_stats.as_ref().and_then(ModelStats::usage),
        agent: Some(agent),
        prompt_version: None,
        task: task(options, replay.problem().map(str::to_owned)),
        memories: MemoryUse::default(),
        self_feedback: Vec::new(),
    };
    let trajectory = traj.into_atif(run.agent.as_ref());
    Ok(vec![ForeignRun {
        place: String::new(),
        event: RunEvent::new(SOURCE, workflow, run, Some(trajectory)),
    }])
}

impl Traj {
    fn into_atif(self, agent: Option<&Agent>) -> Value {
        let version = agent.and_then(|agent| agent.version.as_deref());
        let model = agent.and_then(|agent| agent.model.as_deref());
        let mut atif = Document::new("swe-agent", version, model);
        let told = self.history.into_iter().filter(|told| !told.is_demo);
        for told in told.take_while(|told| told.role != "assistant") {
            atif.say(if told.role == "system" { "system" } else { "user" }, told.content);
        }
        for (nth, step) in self.trajectory.into_iter().enumerate() {
            step.add_to(&mut atif, nth + 1);
        }
        atif.into_json()
    }
}

impl Step {
    fn add_to(self, atif: &mut Document, number: usize) {
        let command = self.action.trim_end();
        let thought = self.thought.filter(|thought| !thought.trim().is_empty());
        // Without a command the answer was not understood: then what the model wrote is all there is.
        let message = match thought {
            Some(thought) => thought,
            None if command.is_empty() => self.response.unwrap_or_default(),
            None => String::new(),
        };
        let entry = atif.say("agent", message.trim_end());
        let call = (!command.is_empty()).then(|| format!("call-{number}"));
        if let Some(call) = &call {
            entry.tool_calls.push(Call {
                tool_call_id: call.clone(),
                function_name: tool_of(command).to_owned(),
                arguments: json!({"command": command}),
            });
        }
        if let Some(observation) = self.observation {
            entry.observe(call.as_deref(), &observation, None);
        }
    }
}

fn tool_of(command: &str) -> &str {
    let first = command.split_whitespace().next().unwrap_or_default();
    if OWN_COMMANDS.contains(&first) { first } else { SHELL }
}

impl Info {
    /// `submitted` with something to submit is a success; one that was submitted because a limit was hit is not. Without
    /// an exit status the file does not say how the run ended.
    fn outcome(&self, options: &Options) -> Outcome {
        let submitted = self.submission.as_deref().is_some_and(|text| !text.trim().is_empty());
        match self.exit_status.as_deref().unwrap_or_default() {
            "" => options.outcome.unwrap_or(Outcome::Unknown),
            "submitted" if submitted => Outcome::Success,
            "skipped" => Outcome::Skip,
            status if status.contains("timeout") || status.contains("execution_time") => Outcome::Timeout,
            status if ["error", "api", "environment"].iter().any(|word| status.contains(word)) => {
                Outcome::Error
            }
            _ => Outcome::Failure,
        }
    }
}

impl ModelStats {
    /// What was used; replayed runs write zeros for what nobody measured.
    fn usage(&self) -> Option<Usage> {
        let usage = Usage {
            input_tokens: self.tokens_sent.filter(|tokens| *tokens > 0),
            output_tokens: self.tokens_received.filter(|tokens| *tokens > 0),
            cost_usd: self.instance_cost.filter(|cost| *cost > 0.0),
        };
        (usage != Usage::default()).then_some(usage)
    }
}

/// The configuration of the run, kept by newer versions: as an object, or as its JSON text.
struct Replay(Value);

impl Replay {
    fn read(config: &Value) -> Self {
        match config {
            Value::String(text) => Self(serde_json::from_str(text).unwrap_or_default()),
            other => Self(other.clone()),
        }
    }

    fn text(&self, pointer: &str) -> Option<&str> {
        self.0.pointer(pointer)?.as_str().filter(|text| !text.is_empty())
    }

    fn problem(&self) -> Option<&str> {
        self.text("/problem_statement/id")
    }

    fn model(&self) -> Option<&str> {
        self.text("/agent/model/name")
    }

    fn repo(&self) -> Option<String> {
        let address = self.text("/env/repo/github_url")?;
        let path = address.strip_prefix("https://github.com/")?.trim_end_matches('/');
        (path.split('/').count() == 2).then(|| path.trim_end_matches(".git").to_owned())
    }

    fn commit(&self) -> Option<String> {
        let commit = self.text("/env/repo/base_commit")?;
        (commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| commit.to_owned())
    }
}
