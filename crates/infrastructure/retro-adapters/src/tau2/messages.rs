//! Converts the messages of a simulation, or the ticks of a spoken simulation, to ATIF.

use std::collections::HashMap;

use retro_core::run::Agent;
use serde::Deserialize;
use serde_json::Value;

use crate::atif_document::{self, AtifDocument};

/// A message with the role `system`, `user`, `assistant` or `tool`.
#[derive(Deserialize, Default)]
pub(super) struct Message {
    pub(super) role: String,
    /// For a tool result, the id of the tool call.
    id: Option<String>,
    content: Option<String>,
    /// `true` if the content is Base64 audio instead of text.
    #[serde(default)]
    is_audio: bool,
    tool_calls: Option<Vec<Call>>,
    /// Tool results, if the message combines several of them; `None` for other messages.
    tool_messages: Option<Vec<Message>>,
    /// `true` if the tool reported a failure; `None` if unknown.
    error: Option<bool>,
    timestamp: Option<String>,
    pub(super) usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Call {
    #[serde(default)]
    id: String,
    name: String,
    #[serde(default)]
    arguments: Value,
}

/// Token usage of one message.
#[derive(Deserialize)]
pub(super) struct Usage {
    pub(super) prompt_tokens: Option<u64>,
    pub(super) completion_tokens: Option<u64>,
}

/// A tick of a spoken simulation, in which agent and user may each say a part of a sentence.
#[derive(Deserialize)]
pub(super) struct Tick {
    agent_chunk: Option<Message>,
    user_chunk: Option<Message>,
    #[serde(default)]
    agent_tool_calls: Vec<Call>,
    #[serde(default)]
    user_tool_calls: Vec<Call>,
    #[serde(default)]
    agent_tool_results: Vec<Message>,
    #[serde(default)]
    user_tool_results: Vec<Message>,
}

/// Builds the ATIF document of a run from its messages.
pub(super) fn into_atif(messages: Vec<Message>, agent: &Agent) -> Value {
    let name = agent.name.as_deref().unwrap_or("tau2");
    let mut atif = AtifDocument::new(name, agent.version.as_deref(), agent.model.as_deref());
    let mut callers = HashMap::new();
    for message in messages {
        add_message(message, &mut atif, &mut callers);
    }
    atif.into_json()
}

/// Adds a message to the document. `callers` maps the id of each call to the index of the entry that gets its
/// result.
fn add_message(message: Message, atif: &mut AtifDocument, callers: &mut HashMap<String, usize>) {
    if let Some(answers) = message.tool_messages {
        answers.into_iter().for_each(|answer| add_message(answer, atif, callers));
        return;
    }
    let text = match (&message.content, message.is_audio) {
        (Some(_), true) => "[sound]".to_owned(),
        (content, _) => content.clone().unwrap_or_default(),
    };
    if message.role == "tool" {
        return add_tool_result(
            message.id.as_deref().unwrap_or_default(),
            &text,
            message.error,
            atif,
            callers,
        );
    }
    let calls = message.tool_calls.unwrap_or_default();
    if text.is_empty() && calls.is_empty() {
        return;
    }
    let nth = atif.steps.len();
    let entry = match message.role.as_str() {
        "assistant" => atif.add_entry("agent", text),
        "user" => atif.add_entry("user", text),
        _ => atif.add_entry("system", text),
    };
    entry.timestamp = message.timestamp;
    if message.role != "assistant" && !calls.is_empty() {
        // The call uses the simulated user's tools, so the agent decided nothing here.
        entry.step_kind = Some("deterministic");
    }
    for call in calls {
        callers.insert(call.id.clone(), nth);
        entry.tool_calls.push(atif_document::Call {
            tool_call_id: call.id,
            function_name: call.name,
            arguments: call.arguments,
        });
    }
}

fn add_tool_result(
    call: &str,
    text: &str,
    error: Option<bool>,
    atif: &mut AtifDocument,
    callers: &HashMap<String, usize>,
) {
    let caller = callers.get(call).copied();
    match caller.and_then(|nth| atif.steps.get_mut(nth)) {
        Some(entry) => entry.add_result(Some(call), text, error),
        // The call is unknown, so its result cannot be attached to one; as a message, it is not lost.
        None => drop(atif.add_entry("system", text)),
    }
}

/// Merges ticks into messages. Consecutive parts said by one side form one message. The message ends when
/// that side calls a tool, or is silent while the other side speaks.
pub(super) fn messages_from_ticks(ticks: Vec<Tick>) -> Vec<Message> {
    let mut spoken = SpokenTranscript::default();
    for tick in ticks {
        let (agent, user) = (spoken_text(tick.agent_chunk), spoken_text(tick.user_chunk));
        let (agent_spoke, user_spoke) = (agent.is_some(), user.is_some());
        if user_spoke && !agent_spoke {
            spoken.agent = None;
        }
        if agent_spoke && !user_spoke {
            spoken.user = None;
        }
        spoken.agent = spoken.add_turn("assistant", spoken.agent, agent, tick.agent_tool_calls);
        spoken.messages.extend(tick.agent_tool_results);
        spoken.user = spoken.add_turn("user", spoken.user, user, tick.user_tool_calls);
        spoken.messages.extend(tick.user_tool_results);
    }
    spoken.messages
}

#[derive(Default)]
struct SpokenTranscript {
    messages: Vec<Message>,
    /// Index of the agent's unfinished message; `None` if there is none.
    agent: Option<usize>,
    /// Index of the user's unfinished message; `None` if there is none.
    user: Option<usize>,
}

impl SpokenTranscript {
    /// Adds what one side said and called in a tick. Returns the index of that side's unfinished message, if
    /// any.
    fn add_turn(
        &mut self,
        role: &str,
        open: Option<usize>,
        said: Option<Message>,
        calls: Vec<Call>,
    ) -> Option<usize> {
        let mut open = open;
        if let Some(said) = said {
            match open.and_then(|nth| self.messages.get_mut(nth)) {
                Some(before) => {
                    before.content.get_or_insert_default().push_str(said.content.as_deref().unwrap_or(""))
                }
                None => {
                    open = Some(self.messages.len());
                    self.messages.push(Message { role: role.to_owned(), ..said });
                }
            }
        }
        if calls.is_empty() {
            return open;
        }
        self.messages.push(Message { role: role.to_owned(), tool_calls: Some(calls), ..Message::default() });
        None
    }
}

/// Returns the part of a message that a side said in a tick, or `None` if it said nothing.
fn spoken_text(chunk: Option<Message>) -> Option<Message> {
    chunk.filter(|chunk| chunk.content.as_deref().is_some_and(|content| !content.is_empty()))
}
