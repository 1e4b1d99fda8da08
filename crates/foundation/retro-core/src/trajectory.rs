//! Trajectories of runs: turns, tool calls and tool results, in one representation for all formats.
//!
//! A **turn** is one entry of the emitter's log, and every turn is part of a **step** of the workflow. All
//! text here is redacted. The wire format is ATIF (`retro-adapters`), whose `steps[]` are called turns here.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::Step;

/// Maximum length of [`Trajectory::agents_md`], in bytes: twice what Codex reads of such files by default.
pub const AGENTS_MD_BYTES_MAX: usize = 64 * 1024;

/// Turns of one run in chronological order.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Trajectory {
    /// Turns in chronological order.
    pub turns: Vec<Turn>,
    /// What the file `AGENTS.md` of the repository said during the run, at most [`AGENTS_MD_BYTES_MAX`] bytes; `None` if the
    /// emitter did not give it. It is background for a language model: it is no place of a quote and no evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents_md: Option<String>,
}

/// One entry of an agent's log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Step of the workflow that the turn is part of.
    pub step: Step,
    /// `true` if a model decided something in this turn.
    pub agentic: bool,
    /// Number that the emitter gave the entry, such as `step_id` in ATIF; `None` if the log does not number its
    /// entries. Entries without content are no turns, so it may differ from the position of the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<u64>,
    /// Time of the entry; `None` if the log does not tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Speaker of the turn.
    pub source: TurnSource,
    /// Message text; empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Recorded reasoning of the model; empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// Tool calls with their results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
}

/// Speaker of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnSource {
    /// Instructions or messages of the harness.
    System,
    /// A user, or a program in the role of one.
    User,
    /// The model.
    Agent,
}

/// A tool call and its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Name of the tool.
    pub tool: String,
    /// Arguments as a string: the canonical JSON of an object, or the command line itself.
    pub arguments: String,
    /// Result of the call; `None` if the log contains none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// `true` if the log marks the call as failed; `None` if the log does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<bool>,
}

/// Place in a run that a quote is taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "snake_case")]
pub enum QuotePlace {
    /// Message of a turn.
    Message {
        /// 0-based index of the turn.
        turn: u32,
    },
    /// Reasoning of the model in a turn.
    Reasoning {
        /// 0-based index of the turn.
        turn: u32,
    },
    /// Arguments of a tool call.
    Arguments {
        /// 0-based index of the turn.
        turn: u32,
        /// 0-based index of the call within the turn.
        call: u32,
    },
    /// Result of a tool call.
    Answer {
        /// 0-based index of the turn.
        turn: u32,
        /// 0-based index of the call within the turn.
        call: u32,
    },
    /// Remark in the agent's feedback on its own run.
    SelfFeedback {
        /// 0-based index of the remark.
        remark: u32,
    },
    /// Remark in a code review, which is evidence for a rule and not part of any run.
    Review,
    /// What an agent says during its run that a tool answered. The trace does not exist yet, so people are shown it and
    /// agents are not, until it is found in the trace.
    Saved,
}

impl From<Vec<Turn>> for Trajectory {
    fn from(turns: Vec<Turn>) -> Self {
        Self { turns, agents_md: None }
    }
}

impl Trajectory {
    /// Returns the place of a text in what a step got to read: the first answer to a call that contains it, or else the
    /// first message that is not the agent's own.
    pub fn find_answer(&self, step: &Step, text: &str) -> Option<QuotePlace> {
        let turns = || (0..).zip(&self.turns).filter(|(_, turn)| turn.step == *step);
        let in_answer = turns().find_map(|(at, turn)| {
            let contains = |call: &ToolCall| call.answer.as_ref().is_some_and(|answer| answer.contains(text));
            let nth = turn.calls.iter().position(contains)?;
            Some(QuotePlace::Answer { turn: at, call: u32::try_from(nth).ok()? })
        });
        in_answer.or_else(|| {
            let mut others = turns().filter(|(_, turn)| turn.source != TurnSource::Agent);
            let (at, _) = others.find(|(_, turn)| turn.message.contains(text))?;
            Some(QuotePlace::Message { turn: at })
        })
    }

    /// Returns the text at a place of this trajectory, or `None` if there is no such place.
    pub fn text_at(&self, place: QuotePlace) -> Option<&str> {
        let turn = |index: u32| self.turns.get(index as usize);
        let call = |index: u32, call: u32| turn(index)?.calls.get(call as usize);
        match place {
            QuotePlace::Message { turn: at } => Some(turn(at)?.message.as_str()),
            QuotePlace::Reasoning { turn: at } => Some(turn(at)?.reasoning.as_str()),
            QuotePlace::Arguments { turn: at, call: nth } => Some(call(at, nth)?.arguments.as_str()),
            QuotePlace::Answer { turn: at, call: nth } => call(at, nth)?.answer.as_deref(),
            QuotePlace::SelfFeedback { .. } | QuotePlace::Review | QuotePlace::Saved => None,
        }
    }

    /// Replaces each text for which `change` returns a replacement.
    pub(crate) fn map_texts(mut self, change: impl Fn(&str) -> Option<String>) -> Self {
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
        self.agents_md.as_mut().map(apply);
        self
    }
}
