//! Trajectories of runs: their turns, tool calls and tool answers, in one representation for all formats.
//!
//! A **turn** is one entry of the emitter's log, and every turn belongs to a **step** of the workflow. All text here
//! is redacted. The wire format is ATIF (`retro-adapters`), whose `steps[]` are called turns here.

use serde::{Deserialize, Serialize};

use crate::id::Step;
use crate::memory::Memory;
use crate::recall::{strip_injected, strip_memory_content};

/// The turns of one run in chronological order.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Trajectory {
    /// Turns in chronological order.
    pub turns: Vec<Turn>,
}

/// One entry of an agent's log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Step of the workflow that the turn belongs to.
    pub step: Step,
    /// `true` if a model decided something in this turn.
    pub agentic: bool,
    /// Speaker of the turn.
    pub source: TurnSource,
    /// Message text; empty when there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Recorded reasoning of the model; empty when there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// Tool calls with their answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
}

/// Speaker of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnSource {
    /// Instructions or messages of the harness.
    System,
    /// A person, or a program in a person's place.
    User,
    /// The model.
    Agent,
}

/// One call of a tool and its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Name of the tool.
    pub tool: String,
    /// Arguments as text: the canonical JSON of an object, or the command line itself.
    pub arguments: String,
    /// Answer of the tool; `None` when the log contains no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// `true` if the log marks the call as failed; `None` when the log does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<bool>,
}

/// Place in a run that a quote is taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "snake_case")]
pub enum QuotePlace {
    /// Message of a turn.
    Message {
        /// Index of the turn, from 0.
        turn: u32,
    },
    /// Reasoning of the model in a turn.
    Reasoning {
        /// Index of the turn, from 0.
        turn: u32,
    },
    /// Arguments of a tool call.
    Arguments {
        /// Index of the turn, from 0.
        turn: u32,
        /// Index of the call within the turn, from 0.
        call: u32,
    },
    /// Answer to a tool call.
    Answer {
        /// Index of the turn, from 0.
        turn: u32,
        /// Index of the call within the turn, from 0.
        call: u32,
    },
    /// Remark of the agent in the feedback on its own run.
    SelfFeedback {
        /// Index of the remark, from 0.
        remark: u32,
    },
    /// Remark in a code review. It is evidence for a rule and is not part of any run.
    Review,
}

impl Trajectory {
    /// Returns the text at a place of this trajectory; `None` when there is no such place.
    pub fn text_at(&self, place: QuotePlace) -> Option<&str> {
        let turn = |index: u32| self.turns.get(index as usize);
        let call = |index: u32, call: u32| turn(index)?.calls.get(call as usize);
        match place {
            QuotePlace::Message { turn: at } => Some(turn(at)?.message.as_str()),
            QuotePlace::Reasoning { turn: at } => Some(turn(at)?.reasoning.as_str()),
            QuotePlace::Arguments { turn: at, call: nth } => Some(call(at, nth)?.arguments.as_str()),
            QuotePlace::Answer { turn: at, call: nth } => call(at, nth)?.answer.as_deref(),
            QuotePlace::SelfFeedback { .. } | QuotePlace::Review => None,
        }
    }

    /// Removes injected memory blocks from every text, because the system must not learn from its own output.
    pub fn without_injected_blocks(self) -> Self {
        self.map_texts(strip_injected)
    }

    /// Removes the contents of these memories from every text. The trajectory of a run that opened a memory repeats
    /// the memory's words and errors, and would otherwise confirm the memory.
    pub fn without_memory_content(self, memories: &[&Memory]) -> Self {
        self.map_texts(|text| strip_memory_content(text, memories))
    }

    /// Replaces every text for which `change` returns a new text.
    fn map_texts(mut self, change: impl Fn(&str) -> Option<String>) -> Self {
        let apply = |text: &mut String| {
            if let Some(changed) = change(text) {
                *text = changed;
            }
        };
        for turn in &mut self.turns {
            apply(&mut turn.message);
            apply(&mut turn.reasoning);
            for call in &mut turn.calls {
                apply(&mut call.arguments);
                call.answer.as_mut().map(apply);
            }
        }
        self
    }
}
