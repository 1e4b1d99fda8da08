//! What the file `AGENTS.md` of a repository says, as one of its runs had it.
//!
//! It is told to runs of that repository alone (law 15). What a run that names no repository carries is told to those that name
//! none: it is not known whose file it is.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::calls::StoredSummary;
use crate::id::{Ordinal, Repository, RunId};
use crate::retrospective::Retrospective;

/// Maximum length of the text in a brief, in bytes: as much as a list of earlier findings may have.
pub const BRIEFED_AGENTS_MD_BYTES_MAX: usize = 8 * 1024;

/// Maximum number of repositories whose file a brief has: as many as have a part of their own, and the runs that name none.
const REPOSITORIES_MAX: usize = 33;
/// Maximum number of runs of one repository that are offered: the body of the newest one may be gone.
const RUNS_OFFERED_MAX: usize = 3;

/// What the file `AGENTS.md` of a repository says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BriefedAgentsMd {
    /// Repository; `None` for runs that name none.
    pub repository: Option<Repository>,
    /// Run that carried the text.
    pub run: RunId,
    /// Beginning of the text, of whole lines if possible, at most [`BRIEFED_AGENTS_MD_BYTES_MAX`] bytes.
    pub text: String,
    /// Length of the whole text in bytes.
    pub bytes: u64,
}

impl BriefedAgentsMd {
    /// Shortens the text that a run carried.
    pub fn new(repository: Option<Repository>, run: RunId, text: &str) -> Self {
        let mut shown = &text[..text.floor_char_boundary(BRIEFED_AGENTS_MD_BYTES_MAX)];
        if shown.len() < text.len()
            && let Some(end) = shown.rfind('\n')
        {
            shown = &shown[..=end];
        }
        Self { repository, run, text: shown.to_owned(), bytes: text.len() as u64 }
    }

    /// Returns `true` if a part of the text is left out.
    pub const fn is_cut(&self) -> bool {
        (self.text.len() as u64) < self.bytes
    }
}

/// Chooses the runs whose bodies are asked for the `AGENTS.md` of their repository: for each repository the newest runs of the
/// window that carry one, newest first. For a manual retrospective they are among the named runs.
pub fn choose_agents_md_runs(
    newest: &[StoredSummary],
    retrospective: &Retrospective,
) -> BTreeMap<Option<Repository>, Vec<(RunId, Ordinal)>> {
    let is_looked_at = |one: &&StoredSummary| match &retrospective.manual_request {
        Some(request) => request.runs.contains(&one.run),
        None => (retrospective.first..=retrospective.last).contains(&one.ordinal),
    };
    let mut sorted: Vec<&StoredSummary> = newest.iter().filter(is_looked_at).collect();
    sorted.sort_by_key(|one| std::cmp::Reverse(one.ordinal));
    let mut chosen: BTreeMap<Option<Repository>, Vec<(RunId, Ordinal)>> = BTreeMap::new();
    for stored in sorted {
        let Some(summary) = stored.summary().filter(|summary| summary.has_agents_md) else { continue };
        let repository = summary.repository.as_ref().map(|one| one.repo.clone());
        if chosen.len() == REPOSITORIES_MAX && !chosen.contains_key(&repository) {
            continue;
        }
        let runs = chosen.entry(repository).or_default();
        if runs.len() < RUNS_OFFERED_MAX {
            runs.push((stored.run.clone(), stored.ordinal));
        }
    }
    chosen
}
