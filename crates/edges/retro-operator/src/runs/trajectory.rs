//! Reads the trajectory of a run within bounds.

use std::collections::BTreeMap;

use jiff::Timestamp;
use retro_core::finding::Quote;
use retro_core::trajectory::{QuotePlace, ToolCall, Trajectory, Turn, TurnSource};
use retro_store::StoredBody;
use serde::Serialize;
use utoipa::ToSchema;

use crate::text;

/// Default number of turns that are shown: most runs in full.
pub const RUN_TURNS_DEFAULT: u32 = 100;
/// Maximum number of turns that are shown at once. With texts of the maximum length it is a few megabytes.
pub const RUN_TURNS_MAX: u32 = 500;
/// Maximum number of calls that are shown for one turn.
const CALLS_SHOWN_MAX: usize = 50;
/// Maximum length of a text of a turn that is shown, in characters: about a screenful.
const TEXT_CHARS_MAX: usize = 2000;

/// Part of a trajectory that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunPages {
    /// 0-based index of the first turn that is shown.
    pub from_turn: u32,
    /// Maximum number of turns that are shown, at most [`RUN_TURNS_MAX`].
    pub turns: u32,
}

impl Default for RunPages {
    fn default() -> Self {
        Self { from_turn: 0, turns: RUN_TURNS_DEFAULT }
    }
}

/// Trajectory of a run as far as it is shown, with secrets redacted as stored.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TrajectoryView {
    /// Where the trajectory is: `none`, `stored`, `object` (at the broker), `https` (at a host of the emitter) or
    /// `gone`.
    pub location: &'static str,
    /// Sentence about a trajectory that cannot be shown; null if it is shown.
    #[schema(required = true)]
    pub note: Option<String>,
    /// Number of turns of the trajectory; null if it cannot be shown.
    #[schema(required = true)]
    pub turns_total: Option<u64>,
    /// What the repository's `AGENTS.md` said during the run, cut after 2000 characters; absent if the run carries none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agents_md: Option<String>,
    /// Turns in chronological order.
    pub turns: Vec<TurnView>,
}

/// One turn: an entry of the emitter's log.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TurnView {
    /// 0-based index of the turn, by which quotes name it.
    pub turn: u32,
    /// Number that the emitter gave the entry, such as `step_id` in ATIF; absent if the log does not number them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<u64>,
    /// Step of the workflow.
    pub step: String,
    /// Speaker: `system`, `user` or `agent`.
    #[schema(value_type = String)]
    pub source: TurnSource,
    /// Time of the entry; absent if the log does not tell it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub at: Option<Timestamp>,
    /// Message, cut after 2000 characters.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Recorded reasoning of the model, cut after 2000 characters.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// The first 50 calls of tools, each text cut after 2000 characters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallView>,
    /// Number of calls that are not shown.
    #[serde(skip_serializing_if = "is_zero")]
    pub calls_left_out: u64,
    /// What a retrospective saw in this turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub seen: Vec<String>,
}

/// One call of a tool with its answer.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct CallView {
    /// Name of the tool that was called.
    pub tool: String,
    /// Arguments, as JSON or as the command line itself, cut after 2000 characters.
    pub arguments: String,
    /// Answer, cut after 2000 characters; null if the log contains none.
    #[schema(required = true)]
    pub answer: Option<String>,
    /// `true` if the log marks the call as failed; absent if the log does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<bool>,
}

const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Trajectory of a run, parsed as a whole: quotes name turns that may not be shown.
pub(super) struct ReadTrajectory {
    location: &'static str,
    content: Result<Trajectory, String>,
}

impl ReadTrajectory {
    /// Reads the trajectory from the body of a run.
    pub(super) fn from_body(body: &StoredBody) -> Self {
        let elsewhere = |location, note: String| Self { location, content: Err(note) };
        match body {
            StoredBody::None => elsewhere("none", "the event of the run had no trajectory".to_owned()),
            StoredBody::Inline(bytes) => Self {
                location: "stored",
                content: serde_json::from_slice(bytes)
                    .map_err(|error| format!("the stored trajectory cannot be read: {error}")),
            },
            StoredBody::Object(object) => elsewhere(
                "object",
                format!(
                    "the trajectory is an object at the broker, {} ({} bytes)",
                    object.name, object.bytes
                ),
            ),
            StoredBody::Https(at) => elsewhere(
                "https",
                format!("the trajectory is at a host of the emitter: {}", at.display_url()),
            ),
            StoredBody::GithubLog(log) => {
                elsewhere("github", format!("the trajectory is read from GitHub: {log}"))
            }
            StoredBody::Gone(reason) => elsewhere("gone", format!("the trajectory is gone: {reason}")),
        }
    }

    /// Returns the number that the emitter gave the entry of a quote.
    pub(super) fn entry_of(&self, quote: &Quote) -> Option<u64> {
        let turn = turn_of(quote.place)?;
        self.content.as_ref().ok()?.turns.get(turn as usize)?.entry
    }

    /// Returns the step of the workflow that a quote is from.
    pub(super) fn step_of(&self, quote: &Quote) -> Option<String> {
        let turn = turn_of(quote.place)?;
        Some(self.content.as_ref().ok()?.turns.get(turn as usize)?.step.to_string())
    }

    /// Returns the part that is shown. `seen` is what was seen in the turns, by turn.
    pub(super) fn into_view(self, pages: RunPages, seen: &BTreeMap<u32, Vec<String>>) -> TrajectoryView {
        let Self { location, content } = self;
        match content {
            Err(note) => TrajectoryView {
                location,
                note: Some(note),
                turns_total: None,
                agents_md: None,
                turns: Vec::new(),
            },
            Ok(trajectory) => {
                let turns = (0..).zip(&trajectory.turns).skip(pages.from_turn as usize);
                let turns = turns.take(pages.turns.min(RUN_TURNS_MAX) as usize);
                TrajectoryView {
                    location,
                    note: None,
                    turns_total: Some(trajectory.turns.len() as u64),
                    agents_md: trajectory.agents_md.as_deref().map(cut),
                    turns: turns.map(|(nth, turn)| turn_view(nth, turn, seen)).collect(),
                }
            }
        }
    }
}

/// Returns the index of the turn that a place is in; `None` for a place outside the trajectory.
pub(super) const fn turn_of(place: QuotePlace) -> Option<u32> {
    match place {
        QuotePlace::Message { turn }
        | QuotePlace::Reasoning { turn }
        | QuotePlace::Arguments { turn, .. }
        | QuotePlace::Answer { turn, .. } => Some(turn),
        QuotePlace::SelfFeedback { .. } | QuotePlace::Review | QuotePlace::Saved => None,
    }
}

fn turn_view(nth: u32, turn: &Turn, seen: &BTreeMap<u32, Vec<String>>) -> TurnView {
    TurnView {
        turn: nth,
        entry: turn.entry,
        step: turn.step.to_string(),
        source: turn.source,
        at: turn.at,
        message: cut(&turn.message),
        reasoning: cut(&turn.reasoning),
        calls: turn.calls.iter().take(CALLS_SHOWN_MAX).map(call_view).collect(),
        calls_left_out: turn.calls.len().saturating_sub(CALLS_SHOWN_MAX) as u64,
        seen: seen.get(&nth).cloned().unwrap_or_default(),
    }
}

fn call_view(call: &ToolCall) -> CallView {
    CallView {
        tool: cut(&call.tool),
        arguments: cut(&call.arguments),
        answer: call.answer.as_deref().map(cut),
        failed: call.failed,
    }
}

fn cut(text: &str) -> String {
    text::truncate(text, TEXT_CHARS_MAX)
}
