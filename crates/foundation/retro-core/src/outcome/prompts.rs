//! Compares how runs ended by the version of the prompt that their agents were given.
//!
//! The version is what the event of a run says, or else what the commits of the run say in the trailer
//! `Retro-Prompt-Version`. Nobody assigns versions by chance, so the table describes the runs of each version and
//! claims no effect.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::totals::LinkFlags;
use crate::id::RunId;
use crate::pull_request::PullRequestFacts;
use crate::run::{RunFacts, RunOutcome};

/// One counted run with what is known of its prompt, its outcome and its pull requests.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptRun {
    /// Id of the run.
    pub run: RunId,
    /// Time at which the run was first stored.
    pub received_at: Timestamp,
    /// Outcome of the run, by its event.
    pub outcome: RunOutcome,
    /// Version in the event of the run; `None` if it names none.
    pub event_version: Option<String>,
    /// Versions in the trailers of the commits that name this run, and no other.
    pub commit_versions: BTreeSet<String>,
    /// Input and output tokens of the run; `None` if the event reports neither.
    pub tokens: Option<u64>,
    /// Facts about the pull requests that the run is linked to.
    pub pull_requests: Vec<PullRequestFacts>,
}

impl PromptRun {
    /// Takes from the facts of a run what the table needs, without commits and pull requests.
    pub fn from_run_facts(facts: RunFacts, received_at: Timestamp) -> Self {
        let tokens = facts.usage.as_ref().and_then(|usage| match (usage.input_tokens, usage.output_tokens) {
            (None, None) => None,
            (input, output) => Some(input.unwrap_or(0).saturating_add(output.unwrap_or(0))),
        });
        Self {
            run: facts.run_id,
            received_at,
            outcome: facts.outcome,
            event_version: facts.prompt_version,
            commit_versions: BTreeSet::new(),
            tokens,
            pull_requests: Vec::new(),
        }
    }

    /// Returns the version of the run's prompt. `None` if nothing names one, or if the commits of the run disagree.
    pub fn version(&self) -> Option<&str> {
        match (&self.event_version, self.commit_versions.len()) {
            (Some(version), _) => Some(version),
            (None, 1) => self.commit_versions.first().map(String::as_str),
            (None, _) => None,
        }
    }
}

/// How the runs of one prompt version ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PromptVersionTotals {
    /// Version of the prompt; null for the runs of which none is known.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub version: Option<String>,
    /// Number of counted runs.
    pub runs: u64,
    /// Number of runs that ended in success.
    pub succeeded: u64,
    /// Number of runs that ended in a failure, an error or a timeout. The other runs do not say how they ended.
    pub failed: u64,
    /// Median of the input and output tokens of the runs that report any; the lower of the two middle values if their
    /// number is even. Null if none does.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub tokens_median: Option<u64>,
    /// Number of runs with at least one known pull request.
    pub with_pull_request: u64,
    /// Number of runs with a pull request on which changes were requested.
    pub changes_requested: u64,
    /// Number of runs with a pull request that was merged.
    pub merged: u64,
    /// Number of runs with a pull request that is closed without a merge.
    pub closed_unmerged: u64,
    /// Number of runs with a pull request that was merged and then reverted.
    pub reverted: u64,
    /// Time at which the first of the runs was stored.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub first_at: Timestamp,
    /// Time at which the last of the runs was stored.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub last_at: Timestamp,
}

/// Totals the runs by the version of their prompt. The version of the newest run comes first; runs without a known
/// version come last.
pub fn total_prompt_versions(runs: &[PromptRun]) -> Vec<PromptVersionTotals> {
    let mut by_version: BTreeMap<Option<&str>, Vec<&PromptRun>> = BTreeMap::new();
    for run in runs {
        by_version.entry(run.version()).or_default().push(run);
    }
    let mut totals: Vec<_> =
        by_version.into_iter().filter_map(|(version, runs)| total_version(version, &runs)).collect();
    totals.sort_by(|one, other| {
        let order = |row: &PromptVersionTotals| (row.version.is_none(), std::cmp::Reverse(row.last_at));
        order(one).cmp(&order(other)).then_with(|| one.version.cmp(&other.version))
    });
    totals
}

/// Totals the runs of one version. Returns `None` if there are none.
fn total_version(version: Option<&str>, runs: &[&PromptRun]) -> Option<PromptVersionTotals> {
    let count = |holds: &dyn Fn(&PromptRun) -> bool| runs.iter().filter(|run| holds(run)).count() as u64;
    let flags: Vec<LinkFlags> = runs.iter().map(|run| LinkFlags::of_links(&run.pull_requests)).collect();
    let flagged = |flag: fn(&LinkFlags) -> bool| flags.iter().filter(|flags| flag(flags)).count() as u64;
    let mut tokens: Vec<u64> = runs.iter().filter_map(|run| run.tokens).collect();
    tokens.sort_unstable();
    Some(PromptVersionTotals {
        version: version.map(str::to_owned),
        runs: runs.len() as u64,
        succeeded: count(&|run| run.outcome == RunOutcome::Success),
        failed: count(&|run| {
            matches!(run.outcome, RunOutcome::Failure | RunOutcome::Error | RunOutcome::Timeout)
        }),
        tokens_median: tokens.get(tokens.len().saturating_sub(1) / 2).copied(),
        with_pull_request: flagged(LinkFlags::is_linked),
        changes_requested: flagged(LinkFlags::changes_requested),
        merged: flagged(LinkFlags::is_merged),
        closed_unmerged: flagged(LinkFlags::is_closed_unmerged),
        reverted: flagged(LinkFlags::is_reverted),
        first_at: runs.iter().map(|run| run.received_at).min()?,
        last_at: runs.iter().map(|run| run.received_at).max()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_of(id: &str, version: Option<&str>, outcome: RunOutcome, second: i64) -> PromptRun {
        PromptRun {
            run: RunId::new(id).expect("a name"),
            received_at: Timestamp::from_second(second).expect("a time"),
            outcome,
            event_version: version.map(str::to_owned),
            commit_versions: BTreeSet::new(),
            tokens: None,
            pull_requests: Vec::new(),
        }
    }

    #[test]
    fn the_event_decides_before_the_commits_and_commits_that_disagree_decide_nothing() {
        let mut run = run_of("a", Some("4"), RunOutcome::Success, 1);
        run.commit_versions = ["3".to_owned()].into();
        assert_eq!(run.version(), Some("4"));
        run.event_version = None;
        assert_eq!(run.version(), Some("3"));
        run.commit_versions.insert("5".to_owned());
        assert_eq!(run.version(), None);
    }

    #[test]
    fn runs_are_totalled_by_version_the_newest_first_and_unknown_ones_last() {
        let merged = PullRequestFacts {
            merged_at: Some(Timestamp::UNIX_EPOCH),
            latest_state: Some((Timestamp::UNIX_EPOCH, false)),
            ..PullRequestFacts::default()
        };
        let mut runs = vec![
            run_of("a", Some("1"), RunOutcome::Success, 1),
            run_of("b", Some("1"), RunOutcome::Timeout, 2),
            run_of("c", Some("2"), RunOutcome::Unknown, 3),
            run_of("d", None, RunOutcome::Error, 9),
        ];
        (runs[0].tokens, runs[1].tokens) = (Some(10), Some(30));
        // Two pull requests of one run count it once.
        runs[0].pull_requests = vec![merged.clone(), merged];
        let rows = total_prompt_versions(&runs);
        let told: Vec<_> = rows
            .iter()
            .map(|row| (row.version.as_deref(), row.runs, row.succeeded, row.failed, row.merged))
            .collect();
        assert_eq!(told, [(Some("2"), 1, 0, 0, 0), (Some("1"), 2, 1, 1, 1), (None, 1, 0, 1, 0)]);
        assert_eq!((rows[1].tokens_median, rows[0].tokens_median), (Some(10), None));
        assert_eq!((rows[1].first_at.as_second(), rows[1].last_at.as_second()), (1, 2));
    }

    #[test]
    fn the_order_of_the_runs_changes_nothing() {
        let runs: Vec<_> = (0..9_u32)
            .map(|nth| {
                let version = (nth % 3 > 0).then(|| (nth % 3).to_string());
                run_of(&nth.to_string(), version.as_deref(), RunOutcome::Success, i64::from(nth / 2))
            })
            .collect();
        let backwards: Vec<_> = runs.iter().rev().cloned().collect();
        assert_eq!(total_prompt_versions(&runs), total_prompt_versions(&backwards));
    }
}
