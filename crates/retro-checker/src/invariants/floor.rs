//! How far the program came, and how far it has to come.

use std::collections::BTreeMap;
use std::fmt;

use super::{Invariant, Judge};
use crate::history::History;
use crate::state::State;

/// How far the program has to come, so that a test which did nothing does not pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Floor {
    /// Counted runs.
    pub counted: u64,
    /// Retrospectives that ended in a report.
    pub closed: u64,
    /// Dead letters.
    pub letters: u64,
    /// Faults that happened, of each kind.
    pub faults: BTreeMap<String, u64>,
}

/// How far it came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// Counted runs.
    pub counted: u64,
    /// Retrospectives that ended in a report.
    pub closed: u64,
    /// Dead letters.
    pub letters: u64,
    /// Changes of memories.
    pub changes: u64,
    /// Faults that happened, of each kind.
    pub faults: BTreeMap<String, u64>,
}

impl Floor {
    /// The same, with at least so many faults of a kind.
    #[must_use]
    pub fn with_fault(mut self, kind: &str, times: u64) -> Self {
        self.faults.insert(kind.to_owned(), times);
        self
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { counted, closed, letters, changes, faults } = self;
        write!(
            f,
            "{counted} runs counted, {closed} retrospectives closed, {changes} changes, {letters} dead letters"
        )?;
        let faults: Vec<_> = faults.iter().map(|(kind, times)| format!("{times} × {kind}")).collect();
        write!(f, "; faults: {}", if faults.is_empty() { "none".to_owned() } else { faults.join(", ") })
    }
}

pub(super) fn check(judge: &mut Judge, history: &History, state: &State, floor: &Floor) {
    let progress = Progress {
        counted: state.runs.iter().filter(|run| run.ordinal.is_some()).count() as u64,
        closed: state.retrospectives.iter().filter(|one| one.state == "closed").count() as u64,
        letters: state.letters.len() as u64,
        changes: state.changes.len() as u64,
        faults: history.faults().into_iter().map(|(kind, times)| (kind.to_owned(), times)).collect(),
    };
    let figures = [
        ("counted runs", progress.counted, floor.counted),
        ("closed retrospectives", progress.closed, floor.closed),
        ("dead letters", progress.letters, floor.letters),
    ];
    for (what, came, least) in figures {
        below(judge, what, came, least);
    }
    for (kind, least) in &floor.faults {
        let came = progress.faults.get(kind).copied().unwrap_or_default();
        below(judge, &format!("faults of the kind {kind}"), came, *least);
    }
    judge.checked.progress = progress;
}

fn below(judge: &mut Judge, what: &str, came: u64, least: u64) {
    if came < least {
        judge.finds(Invariant::Progress, what, format!("{came}, and at least {least} are asked for"));
    }
}
