//! Measures the work done by the program and checks it against a minimum.

use std::collections::BTreeMap;

use super::invariant::Invariant;
use super::judge::Judge;
use super::report::Progress;
use crate::history::History;
use crate::state::State;

/// Minimum work that the program must have done, so a test in which nothing happened fails.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgressFloor {
    /// Minimum number of counted runs.
    pub counted: u64,
    /// Minimum number of closed retrospectives.
    pub closed: u64,
    /// Minimum number of dead letters.
    pub dead_letters: u64,
    /// Minimum number of injected faults by kind.
    pub faults: BTreeMap<String, u64>,
}

impl ProgressFloor {
    /// Requires at least `times` injected faults of a kind.
    #[must_use]
    pub fn with_fault(mut self, kind: &str, times: u64) -> Self {
        self.faults.insert(kind.to_owned(), times);
        self
    }
}

pub(super) fn check_progress(judge: &mut Judge, history: &History, state: &State, floor: &ProgressFloor) {
    let progress = Progress {
        counted: state.runs.iter().filter(|run| run.ordinal.is_some()).count() as u64,
        closed: state.retrospectives.iter().filter(|one| one.state == "closed").count() as u64,
        dead_letters: state.dead_letters.len() as u64,
        changes: state.changes.len() as u64,
        faults: history.faults_by_kind().into_iter().map(|(kind, times)| (kind.to_owned(), times)).collect(),
    };
    let figures = [
        ("counted runs", progress.counted, floor.counted),
        ("closed retrospectives", progress.closed, floor.closed),
        ("dead letters", progress.dead_letters, floor.dead_letters),
    ];
    for (what, came, least) in figures {
        require_at_least(judge, what, came, least);
    }
    for (kind, least) in &floor.faults {
        let came = progress.faults.get(kind).copied().unwrap_or_default();
        require_at_least(judge, &format!("faults of kind {kind}"), came, *least);
    }
    judge.checked.progress = progress;
}

fn require_at_least(judge: &mut Judge, what: &str, came: u64, least: u64) {
    if came < least {
        judge.add_violation(Invariant::Progress, what, format!("{came}, but at least {least} are required"));
    }
}
