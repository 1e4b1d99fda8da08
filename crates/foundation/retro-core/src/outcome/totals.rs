//! Totals the outcomes of pull requests per workflow.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::{RunId, Workflow};
use crate::pull_request::{PullRequestFacts, PullRequestRef, PullRequestState};

/// Totals of the pull request outcomes of a workflow's runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WorkflowOutcomes {
    /// Name of the workflow.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub workflow: Workflow,
    /// Number of runs with at least one pull request. A run with several pull requests counts once here, and
    /// once in each number below that applies to any of them.
    pub runs: u64,
    /// Number of runs with a pull request that was approved.
    pub approved: u64,
    /// Number of runs with a pull request on which changes were requested.
    pub changes_requested: u64,
    /// Mean number of review rounds per link between a run and a pull request, in thousandths. Only pull
    /// requests that have a review or have ended are included; `None` if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review_rounds_mean_milli: Option<u64>,
    /// Number of runs with a pull request that was merged.
    pub merged: u64,
    /// Number of runs with a pull request that is closed without a merge.
    pub closed_unmerged: u64,
    /// Number of runs with a pull request that was merged and then reverted.
    #[serde(default)]
    pub reverted: u64,
    /// Median time from opening to merge of the merged pull requests, in seconds; the lower of the two middle
    /// values if their number is even. `None` if no time is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_to_merge_median_s: Option<u64>,
}

/// Accumulates outcome totals of workflows, one link between a run and a pull request at a time. Memory use
/// is a few dozen bytes per merged pull request, regardless of the size of the facts.
#[derive(Debug, Clone, Default)]
pub struct OutcomeTotals {
    by_workflow: BTreeMap<Workflow, WorkflowTotals>,
}

#[derive(Debug, Clone, Default)]
struct WorkflowTotals {
    /// Run of the last added link, with the flags of its links so far; `None` before the first link.
    run: Option<(RunId, LinkFlags)>,
    runs: [u64; LinkFlags::KINDS],
    rounds: u64,
    judged: u64,
    /// Seconds from opening to merge for each merged pull request.
    times: BTreeMap<PullRequestRef, u64>,
}

/// Flags that are set if they apply to at least one link of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct LinkFlags([bool; LinkFlags::KINDS]);

impl LinkFlags {
    /// Number of flags: linked, approved, changes requested, merged, closed and reverted.
    const KINDS: usize = 6;

    fn from_facts(facts: &PullRequestFacts) -> Self {
        let state = facts.state();
        let (merged, closed) = (state == PullRequestState::Merged, state == PullRequestState::Closed);
        let requested = facts.review_rounds() > 0;
        Self([true, facts.is_approved(), requested, merged, closed, facts.is_reverted()])
    }

    /// Returns the flags of a run with these pull requests.
    pub(super) fn of_links(links: &[PullRequestFacts]) -> Self {
        let mut flags = Self::default();
        for link in links {
            flags.add(Self::from_facts(link));
        }
        flags
    }

    fn add(&mut self, other: Self) {
        for (flag, set) in self.0.iter_mut().zip(other.0) {
            *flag |= set;
        }
    }

    pub(super) const fn is_linked(&self) -> bool {
        self.0[0]
    }

    pub(super) const fn changes_requested(&self) -> bool {
        self.0[2]
    }

    pub(super) const fn is_merged(&self) -> bool {
        self.0[3]
    }

    pub(super) const fn is_closed_unmerged(&self) -> bool {
        self.0[4]
    }

    pub(super) const fn is_reverted(&self) -> bool {
        self.0[5]
    }
}

impl OutcomeTotals {
    /// Adds a link between a run and one of its pull requests. All links of one run must be added
    /// consecutively.
    pub fn add_link(
        &mut self,
        workflow: &Workflow,
        run: &RunId,
        one: &PullRequestRef,
        facts: &PullRequestFacts,
    ) {
        if !self.by_workflow.contains_key(workflow) {
            self.by_workflow.insert(workflow.clone(), WorkflowTotals::default());
        }
        let sums = self.by_workflow.get_mut(workflow).expect("the workflow was just inserted");
        sums.add_link(run, one, facts);
    }

    /// Returns the totals of the workflows, sorted by name.
    pub fn into_outcomes(self) -> Vec<WorkflowOutcomes> {
        self.by_workflow.into_iter().map(|(workflow, sums)| sums.into_outcomes(workflow)).collect()
    }
}

impl WorkflowTotals {
    fn add_link(&mut self, run: &RunId, one: &PullRequestRef, facts: &PullRequestFacts) {
        if self.run.as_ref().is_none_or(|(last, _)| last != run) {
            self.run = Some((run.clone(), LinkFlags::default()));
        }
        let (_, before) = self.run.as_mut().expect("the run was just set");
        let says = LinkFlags::from_facts(facts);
        for ((kind, said), runs) in says.0.into_iter().zip(before.0).zip(&mut self.runs) {
            *runs += u64::from(kind && !said);
        }
        before.add(says);
        if !facts.reviews.is_empty() || facts.state() != PullRequestState::Open {
            self.judged += 1;
            self.rounds += u64::from(facts.review_rounds());
        }
        if let Some(time) = facts.time_to_merge_s() {
            // Keyed by pull request, so several runs of one pull request count its time once.
            self.times.insert(one.clone(), time);
        }
    }

    fn into_outcomes(self, workflow: Workflow) -> WorkflowOutcomes {
        let Self {
            runs: [runs, approved, changes_requested, merged, closed_unmerged, reverted],
            rounds,
            judged,
            ..
        } = self;
        let mut times: Vec<u64> = self.times.into_values().collect();
        times.sort_unstable();
        WorkflowOutcomes {
            workflow,
            runs,
            approved,
            changes_requested,
            // Half of the divisor is added first, to round to the nearest thousandth.
            review_rounds_mean_milli: (judged > 0).then(|| (rounds * 1000 + judged / 2) / judged),
            merged,
            closed_unmerged,
            reverted,
            time_to_merge_median_s: times.get(times.len().saturating_sub(1) / 2).copied(),
        }
    }
}
