//! Builds the run of a conversation between a user, a model and its tools, which the transcripts of agents are.

use std::collections::HashMap;

use jiff::Timestamp;
use retro_core::canonical::content_hash;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::run::{Agent, RunFacts, RunKind, RunMemories, RunOutcome, Usage};
use retro_events::run_completed::RunEvent;
use serde_json::{Value, json};

use crate::atif_document::{AtifDocument, Call, Entry};
use crate::import::{ImportOptions, ImportedRun, choose_task, choose_workflow, parse_run_id};

/// Number of digits of a content hash in the id of a run whose transcript has none.
const HASH_DIGITS: usize = 16;

/// Format of a conversation.
pub(crate) struct ConversationFormat {
    /// CloudEvents source of the events.
    pub(crate) source: &'static str,
    /// Workflow of the runs, unless the options name one. Also the agent's name.
    pub(crate) workflow: &'static str,
    /// Path of the run id, for rejections.
    pub(crate) id_path: &'static str,
}

/// A conversation under construction.
pub(crate) struct Conversation {
    atif: AtifDocument,
    /// Entry with the call of each id.
    calls: HashMap<String, usize>,
    /// Step of the entries that are added; `main` without one.
    pub(crate) step: Option<String>,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    /// Id of the run; `None` if the transcript has none.
    pub(crate) id: Option<String>,
    /// Name of the agent; that of the format without one.
    pub(crate) agent_name: Option<String>,
    /// Outcome of the run, if the transcript states one.
    pub(crate) outcome: Option<RunOutcome>,
    /// Task of the run, if the transcript states one.
    pub(crate) task: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) repo: Option<String>,
    pub(crate) commit: Option<String>,
    pub(crate) usage: Usage,
}

impl Conversation {
    /// Creates an empty conversation.
    pub(crate) fn new(format: &ConversationFormat) -> Self {
        Self {
            atif: AtifDocument::new(format.workflow, None, None),
            calls: HashMap::new(),
            step: None,
            first: None,
            last: None,
            id: None,
            agent_name: None,
            outcome: None,
            task: None,
            version: None,
            model: None,
            repo: None,
            commit: None,
            usage: Usage::default(),
        }
    }

    /// Returns `true` if nothing was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.atif.steps.is_empty()
    }

    /// Adds a message of `system`, `user` or `agent`, unless it has no text.
    pub(crate) fn add_message(&mut self, source: &'static str, text: &str, time: Option<&str>) {
        if !text.trim().is_empty() {
            self.add_entry(source, text, time);
        }
    }

    /// Adds what a model thought before it went on, unless it has no text.
    pub(crate) fn add_reasoning(&mut self, text: &str, time: Option<&str>) {
        if !text.trim().is_empty() {
            self.add_entry("agent", "", time).reasoning_content = Some(text.to_owned());
        }
    }

    fn add_entry(&mut self, source: &'static str, text: &str, time: Option<&str>) -> &mut Entry {
        let step = self.step.clone();
        let entry = self.atif.add_entry(source, text);
        entry.timestamp = time.map(str::to_owned);
        entry.step = step;
        entry
    }

    /// Adds a call of a tool. Arguments may be an object, or text that contains one.
    pub(crate) fn add_call(&mut self, id: Option<&str>, tool: &str, arguments: Value, time: Option<&str>) {
        let at = self.atif.steps.len();
        let id = id.map_or_else(|| format!("entry-{at}"), str::to_owned);
        let entry = self.add_entry("agent", "", time);
        entry.tool_calls.push(Call { tool_call_id: id.clone(), function_name: tool.to_owned(), arguments });
        self.calls.insert(id, at);
    }

    /// Adds the result of a call. A result of an unknown call is kept as a message of the harness.
    pub(crate) fn add_result(&mut self, id: &str, text: &str, is_error: Option<bool>, time: Option<&str>) {
        match self.calls.get(id) {
            Some(at) => self.atif.steps[*at].add_result(Some(id), text, is_error),
            None => self.add_message("system", text, time),
        }
    }

    /// Notes the time of an entry, of any kind. A time without an offset from UTC is ignored.
    pub(crate) fn note_time(&mut self, time: Option<&str>) {
        let Some(time) = time.and_then(|time| time.parse::<Timestamp>().ok()) else { return };
        self.first = Some(self.first.map_or(time, |first| first.min(time)));
        self.last = Some(self.last.map_or(time, |last| last.max(time)));
    }

    /// Returns the run. Fails if the conversation is empty, or if its id is no valid name.
    pub(crate) fn into_run(
        mut self,
        format: &ConversationFormat,
        options: &ImportOptions,
    ) -> Result<ImportedRun, Rejection> {
        if self.atif.steps.is_empty() {
            let detail = "has no message and no call of a tool";
            return Err(Rejection::of_message(DeadLetterCode::TrajectoryInvalid, detail));
        }
        let agent = self.agent_name.unwrap_or_else(|| format.workflow.to_owned());
        self.atif.set_agent(&agent, self.version.as_deref(), self.model.as_deref());
        let trajectory = self.atif.into_json();
        let id = self
            .id
            .unwrap_or_else(|| format!("{}-{}", format.workflow, &content_hash(&trajectory)[..HASH_DIGITS]));
        let run = RunFacts {
            run_id: parse_run_id(format.id_path, id)?,
            attempt: 1,
            kind: RunKind::Normal,
            outcome: self.outcome.or(options.outcome).unwrap_or(RunOutcome::Unknown),
            outcome_only: false,
            started_at: self.first,
            finished_at: self.last,
            repo: self.repo,
            repo_visibility: None,
            pull_request: None,
            commit: self.commit,
            user: None,
            agent: Some(Agent { name: Some(agent), version: self.version, model: self.model }),
            prompt_version: None,
            task: choose_task(options, self.task),
            usage: (self.usage != Usage::default()).then_some(self.usage),
            memories: RunMemories::default(),
            self_feedback: Vec::new(),
        };
        let workflow = choose_workflow(options, "", || format.workflow.to_owned())?;
        let event = RunEvent::new(format.source, workflow, run, Some(trajectory));
        Ok(ImportedRun { location: String::new(), event })
    }
}

/// Returns the text of a message's content: a string, or the texts of its parts, one a line. Parts of another kind are
/// left out.
pub(crate) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part.as_str().or_else(|| part.get("text")?.as_str()));
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// Returns the arguments of a call without these texts if they are a command with them, so that it reads as the command:
/// what an agent tells people about it, or where it is executed, is no part of it. A command that is a list of words
/// becomes a line. Arguments that are JSON text are parsed.
pub(crate) fn command_arguments(arguments: Value, beside: &[&str]) -> Value {
    let parsed = arguments.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let mut read = parsed.filter(Value::is_object).unwrap_or(arguments);
    if let Some(members) = read.as_object_mut()
        && let Some(command) = ["command", "cmd"].into_iter().find(|name| members.contains_key(*name))
    {
        if members[command].is_array() {
            members[command] = command_line(&members[command]).into();
        }
        members.retain(|name, _| !beside.contains(&name.as_str()));
    }
    read
}

/// Returns a command as one line. It is a list of words, the last of which is a script if a shell runs it.
pub(crate) fn command_line(command: &Value) -> String {
    let words: Vec<&str> = command.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    match words.as_slice() {
        [shell, "-c" | "-lc", script] if shell.ends_with("sh") => (*script).to_owned(),
        words => words.join(" "),
    }
}

/// Returns the text of a tool's result, as it is or, if it is no text, as JSON. Of content parts, which have a type, only
/// the texts are read: an image takes megabytes and says nothing.
pub(crate) fn result_text(result: &Value) -> String {
    match result {
        Value::Null => String::new(),
        Value::String(_) => text_of(result),
        Value::Array(parts) if parts.iter().all(|part| part.get("type").is_some() || part.is_string()) => {
            text_of(result)
        }
        other => other.to_string(),
    }
}

/// Adds the parts of a message as the Messages API of Anthropic has them, in their order: texts, thoughts, calls of tools
/// and their results. Returns `false` if the content is neither text nor a list of parts.
pub(crate) fn add_parts(
    conversation: &mut Conversation,
    source: &'static str,
    content: &Value,
    time: Option<&str>,
) -> bool {
    let parts = match content {
        Value::String(text) => {
            conversation.add_message(source, text, time);
            return true;
        }
        Value::Array(parts) => parts,
        _ => return false,
    };
    for part in parts {
        let text = |name: &str| part.get(name).and_then(Value::as_str);
        match text("type").unwrap_or_default() {
            "tool_use" | "server_tool_use" => {
                let arguments = part.get("input").cloned().unwrap_or_else(|| json!({}));
                let arguments = command_arguments(arguments, &["description"]);
                conversation.add_call(text("id"), text("name").unwrap_or("unknown"), arguments, time);
            }
            "tool_result" => {
                let result = result_text(part.get("content").unwrap_or(&Value::Null));
                let is_error = part.get("is_error").and_then(Value::as_bool);
                conversation.add_result(text("tool_use_id").unwrap_or_default(), &result, is_error, time);
            }
            "image" => {}
            "thinking" => conversation.add_reasoning(text("thinking").unwrap_or_default(), time),
            _ => conversation.add_message(source, text("text").or(part.as_str()).unwrap_or_default(), time),
        }
    }
    true
}
