//! Why a memory is there: its life, change by change.

use jiff::Timestamp;
use retro_core::id::{Epoch, MemoryId};
use retro_core::memory::{Cause, Change, Effect, Memory, Status, fold};
use retro_core::weight::Weight;
use serde::{Deserialize, Serialize};

use crate::effect::WithEffect;
use crate::grid::grid;
use crate::{memory, words};

/// The life of a memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    /// Its id.
    pub id: MemoryId,
    /// As its changes make it; `None` for a lesson that was kept away before it became a memory.
    pub memory: Option<Memory>,
    /// What happened to it, in order.
    pub life: Vec<Event>,
}

/// One change in a life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The policy moment.
    pub at: Timestamp,
    /// The epoch of the retrospective in which it happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
    /// The kind of change.
    pub change: String,
    /// Status and weight before; `None` before it existed.
    pub before: Option<Standing>,
    /// Status and weight after; `None` when it still did not exist.
    pub after: Option<Standing>,
    /// What made it happen.
    pub cause: Cause,
    /// Why, in one sentence.
    pub reason: String,
    /// The words that it rests on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote: Option<String>,
}

/// Where a memory stands at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Its status.
    pub status: Status,
    /// Its weight.
    pub weight: Weight,
}

impl Why {
    /// The life that a history tells; `None` for an empty one. A change that does not fit is listed without moving
    /// the memory: that the log is sound is for `verify` to say.
    pub fn of(id: MemoryId, history: &[Change]) -> Option<Self> {
        if history.is_empty() {
            return None;
        }
        let mut memory: Option<Memory> = None;
        let mut life = Vec::with_capacity(history.len());
        for change in history {
            let before = memory.as_ref().map(standing);
            if let Ok(after) = fold(memory.clone(), change) {
                memory = after;
            }
            life.push(event(change, before, memory.as_ref().map(standing)));
        }
        Some(Self { id, memory, life })
    }
}

impl WithEffect<Why> {
    /// The life for a terminal of `columns`: what it says, where it stands, what it does, and how it came to that.
    pub fn text(&self, columns: u16) -> String {
        let rows = self.of.life.iter().map(|event| {
            let epoch = event.epoch.map_or_else(|| "—".to_owned(), |epoch| epoch.to_string());
            let cause = words::line(&words::cause(&event.cause));
            [
                words::moment(event.at),
                epoch,
                event.change.clone(),
                moved(event),
                cause,
                words::line(&event.reason),
            ]
        });
        let head = ["when", "epoch", "change", "from → to", "cause", "reason"];
        let life = grid(columns, head, rows.collect());
        match &self.of.memory {
            Some(memory) => {
                let opening = memory::opening(memory, self.effect.as_deref());
                format!("{opening}\n{life}\n{}", memory::evidence(memory))
            }
            None => format!("{}: it never became a memory\n\n{life}", self.of.id),
        }
    }
}

fn event(change: &Change, before: Option<Standing>, after: Option<Standing>) -> Event {
    let quote = match &change.effect {
        Effect::Created { evidence, .. }
        | Effect::Promoted { evidence, .. }
        | Effect::Observed { evidence }
        | Effect::Revived { evidence } => Some(evidence.quote.text.clone()),
        _ => None,
    };
    Event {
        at: change.at,
        epoch: change.epoch,
        change: change.effect.kind().to_owned(),
        before,
        after,
        cause: change.cause.clone(),
        reason: change.reason.clone(),
        quote,
    }
}

fn standing(memory: &Memory) -> Standing {
    Standing { status: memory.status, weight: memory.weight }
}

fn moved(event: &Event) -> String {
    let shown = |standing: Standing| format!("{} {}", standing.status, standing.weight);
    match (event.before, event.after) {
        (None, None) => "—".to_owned(),
        (None, Some(after)) => format!("new → {}", shown(after)),
        (Some(before), Some(after)) if before == after => shown(after),
        (Some(before), Some(after)) if before.status == after.status => {
            format!("{} {} → {}", after.status, before.weight, after.weight)
        }
        (Some(before), Some(after)) => format!("{} → {}", shown(before), shown(after)),
        (Some(before), None) => shown(before),
    }
}

#[cfg(test)]
mod tests;
