//! Searches prepared memories for those that are about a query.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use super::fence::RecalledMemory;
use super::prepared::PreparedMemories;
use super::relevance::{TaskOrder, bonus};
use super::withhold::{Assignment, is_withheld};
use super::{RecallPlace, RecallReason};
use crate::id::RunId;

/// A memory that a search has found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundMemory {
    /// The memory, with the reason for which it was found.
    pub memory: RecalledMemory,
    /// Weight and bonus for the relevance together, in thousandths, by which they are sorted.
    pub score: u32,
}

/// Result of a search among the memories of one scope.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FoundMemories {
    /// Memories about the query, best first.
    pub found: Vec<FoundMemory>,
    /// Decisions by chance about these, and about those that were withheld; as for the context.
    pub assignments: Vec<Assignment>,
}

impl PreparedMemories {
    /// Finds at most `limit` memories about a query, of which `order` is the order. If `run` is given, memories that
    /// are withheld from it with a probability of `permille` thousandths are not found.
    pub fn search(
        &self,
        order: &TaskOrder<'_>,
        limit: usize,
        run: Option<&RunId>,
        permille: u16,
    ) -> FoundMemories {
        // Not less what the others are about, too: a query is answered by all that are about it.
        let score = |at: usize| u32::from(self.lines[at].weight.get()) + bonus(order.scores[at].relevance);
        let mut about: Vec<usize> = (0..self.lines.len()).filter(|at| order.scores[*at].is_about).collect();
        about.sort_by_key(|at| (Reverse(score(*at)), *at));
        let mut result = FoundMemories::default();
        for at in about {
            if result.found.len() == limit {
                break;
            }
            let line = &self.lines[at];
            let withheld = run.is_some_and(|run| is_withheld(line.id, run, permille));
            if run.is_some() && permille > 0 {
                result.assignments.push(Assignment { memory: line.id, withheld, permille });
            }
            if !withheld {
                let (relevance, words) = (order.scores[at].relevance, order.shared_words(line));
                let because = RecallReason { place: RecallPlace::Task, relevance, words };
                let memory = RecalledMemory { because: Some(because), ..line.recalled(false) };
                result.found.push(FoundMemory { memory, score: score(at) });
            }
        }
        result
    }
}
