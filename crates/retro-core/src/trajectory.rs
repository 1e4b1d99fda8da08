//! What an agent did in a run: turns, tool calls and what the tools answered, in one shape for every format.
//!
//! A **turn** is one entry of the emitter's log; every turn belongs to a **step** of the workflow. Everything read
//! here has passed redaction. The wire form is ATIF (`retro-adapters`); this is what is reasoned about.

use serde::{Deserialize, Serialize};

use crate::id::Step;
use crate::memory::Memory;
use crate::recall::{strip_injected, strip_told};

/// The turns of one run in the order in which they happened.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Trajectory {
    /// The turns.
    pub turns: Vec<Turn>,
}

/// One entry of an agent's log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// The step of the workflow it belongs to.
    pub step: Step,
    /// Whether a model decided something in it.
    pub agentic: bool,
    /// Who speaks.
    pub source: Source,
    /// What was said; empty when nothing was.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What the model thought aloud; empty when nothing was kept.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// Tools called, each with what it answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
}

/// Who speaks in a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The instructions, and what the harness says.
    System,
    /// A person, or a program in a person's place.
    User,
    /// The model.
    Agent,
}

/// One call of a tool and its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The tool's name.
    pub tool: String,
    /// The arguments as text: the JSON of an object in canonical form, or the command line itself.
    pub arguments: String,
    /// What the tool answered; `None` when the log holds no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Whether the log itself says that the call failed; `None` when it says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<bool>,
}

/// A place in a run from which a quote is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "snake_case")]
pub enum Place {
    /// The message of turn `turn` (from 0).
    Message {
        /// Index of the turn, from 0.
        turn: u32,
    },
    /// The reasoning of a turn.
    Reasoning {
        /// Index of the turn, from 0.
        turn: u32,
    },
    /// The arguments of call `call` (from 0) of a turn.
    Arguments {
        /// Index of the turn, from 0.
        turn: u32,
        /// Index of the call within the turn, from 0.
        call: u32,
    },
    /// The answer to a call.
    Answer {
        /// Index of the turn, from 0.
        turn: u32,
        /// Index of the call within the turn, from 0.
        call: u32,
    },
    /// Remark `remark` (from 0) of the agent's feedback on its own run.
    SelfFeedback {
        /// Index of the remark, from 0.
        remark: u32,
    },
    /// A remark of a review: what shows a rule stands in no run.
    Review,
}

impl Trajectory {
    /// The text at a place of this trajectory; `None` when there is no such place.
    pub fn text_at(&self, place: Place) -> Option<&str> {
        let turn = |index: u32| self.turns.get(index as usize);
        let call = |index: u32, call: u32| turn(index)?.calls.get(call as usize);
        match place {
            Place::Message { turn: at } => Some(turn(at)?.message.as_str()),
            Place::Reasoning { turn: at } => Some(turn(at)?.reasoning.as_str()),
            Place::Arguments { turn: at, call: nth } => Some(call(at, nth)?.arguments.as_str()),
            Place::Answer { turn: at, call: nth } => call(at, nth)?.answer.as_deref(),
            Place::SelfFeedback { .. } | Place::Review => None,
        }
    }

    /// Removes the block of memories that we injected ourselves from every text, or the system would learn from
    /// its own voice.
    pub fn without_injected_blocks(self) -> Self {
        self.with_texts(strip_injected)
    }

    /// Removes what these memories say beyond their titles from every text: a run that opened one holds its words,
    /// errors and all, and would confirm it with them.
    pub fn without_told(self, memories: &[&Memory]) -> Self {
        self.with_texts(|text| strip_told(text, memories))
    }

    /// Changes every text for which `change` gives another one.
    fn with_texts(mut self, change: impl Fn(&str) -> Option<String>) -> Self {
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
