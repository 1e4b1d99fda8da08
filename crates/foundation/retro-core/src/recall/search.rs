//! Searches prepared memories for those that are about a query.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use super::fence::RecalledMemory;
use super::prepared::PreparedMemories;
use super::relevance::{TaskOrder, bonus};
use super::withhold::{Assignment, is_withheld};
use super::{RecallPlace, RecallReason};
use crate::id::RunId;

/// A memory or rule about a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundMemory {
    /// The memory, with the reason for which it was found.
    pub memory: RecalledMemory,
    /// A memory of the step, or a rule of the repository.
    pub kind: FoundKind,
    /// Weight and bonus for the relevance together, in thousandths, by which the list is sorted.
    pub score: u32,
    /// Decision by chance about it; `None` for a rule, without a run, or if the policy withholds nothing.
    pub assignment: Option<Assignment>,
}

/// Kind of what a search finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FoundKind {
    /// A memory of the step.
    Memory,
    /// A rule of the repository.
    Rule,
}

/// Result of a search.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FoundMemories {
    /// Memories and rules about the query, best first.
    pub found: Vec<FoundMemory>,
    /// Decisions by chance about the memories among them, and about those that would be among them and are withheld.
    pub assignments: Vec<Assignment>,
}

impl PreparedMemories {
    /// Returns all memories about a query, of which `order` is the order, including those that are withheld from the
    /// run by chance with a probability of `permille` thousandths. Nothing is withheld of rules.
    pub fn find_about(
        &self,
        order: &TaskOrder<'_>,
        kind: FoundKind,
        run: Option<&RunId>,
        permille: u16,
    ) -> Vec<FoundMemory> {
        let chance = run.filter(|_| kind == FoundKind::Memory && permille > 0);
        let about = (0..self.lines.len()).filter(|at| order.scores[*at].is_about);
        let found = |at: usize| {
            let line = &self.lines[at];
            let relevance = order.scores[at].relevance;
            let because = RecallReason { place: RecallPlace::Task, relevance, words: order.shared_words(at) };
            let assign =
                |run| Assignment { memory: line.id, withheld: is_withheld(line.id, run, permille), permille };
            FoundMemory {
                memory: RecalledMemory { because: Some(because), ..line.recalled(false) },
                kind,
                // Unlike a context, not reduced by what the others are about, too: all of them are an answer.
                score: u32::from(line.weight.get()) + bonus(relevance),
                assignment: chance.map(assign),
            }
        };
        about.map(found).collect()
    }
}

impl FoundMemories {
    /// Takes the best memories and rules, at most `limit`, and leaves out those that are withheld. Of two with the same
    /// score, the one that was found first is first.
    pub fn take_best(mut about: Vec<FoundMemory>, limit: usize) -> Self {
        about.sort_by_key(|one| Reverse(one.score));
        let mut best = Self::default();
        for one in about {
            if best.found.len() == limit {
                break;
            }
            best.assignments.extend(one.assignment);
            if one.assignment.is_none_or(|assignment| !assignment.withheld) {
                best.found.push(one);
            }
        }
        best
    }
}
