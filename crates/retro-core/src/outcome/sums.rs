//! What became of the runs of each workflow, in numbers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{PullRequestFacts, PullRequestRef, Standing};
use crate::id::{RunId, Workflow};

/// What became of a workflow's runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkflowOutcomes {
    /// The workflow.
    pub workflow: Workflow,
    /// Runs that belong to a pull request. A run that belongs to several counts once here and wherever one of them says so.
    pub runs: u64,
    /// Of those, whose pull request was approved.
    pub approved: u64,
    /// Of those, whose pull request had changes requested.
    pub changes_requested: u64,
    /// Requests for changes in the mean, over runs whose pull request has a review or has ended; thousandths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review_rounds_mean_milli: Option<u64>,
    /// Of those, whose pull request was merged.
    pub merged: u64,
    /// Of those, whose pull request stands closed without a merge.
    pub closed_unmerged: u64,
    /// Seconds from opening to merge, the median over the merged pull requests; of an even number the lower middle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_to_merge_median_s: Option<u64>,
}

/// Sums up the runs of workflows, link by link: what is kept meanwhile grows with the pull requests that were merged, by a
/// few dozen bytes each, and not with what is known of them.
#[derive(Debug, Clone, Default)]
pub struct OutcomeSums {
    by_workflow: BTreeMap<Workflow, WorkflowSums>,
}

#[derive(Debug, Clone, Default)]
struct WorkflowSums {
    /// The last run that a link was of, and what one of its links said.
    run: Option<(RunId, Said)>,
    runs: [u64; Said::KINDS],
    rounds: u64,
    judged: u64,
    /// Seconds to the merge.
    times: BTreeMap<PullRequestRef, u64>,
}

/// What the links of one run say, each by the first of them that does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Said([bool; Said::KINDS]);

impl Said {
    /// It is linked; approved; sent back; merged; closed.
    const KINDS: usize = 5;

    fn of(facts: &PullRequestFacts) -> Self {
        let standing = facts.standing();
        let (merged, closed) = (standing == Standing::Merged, standing == Standing::Closed);
        Self([true, facts.approved(), facts.review_rounds() > 0, merged, closed])
    }
}

impl OutcomeSums {
    /// Adds a run with one of its pull requests. The links of one run of a workflow come one after the other.
    pub fn add(&mut self, workflow: &Workflow, run: &RunId, one: &PullRequestRef, facts: &PullRequestFacts) {
        if !self.by_workflow.contains_key(workflow) {
            self.by_workflow.insert(workflow.clone(), WorkflowSums::default());
        }
        let sums = self.by_workflow.get_mut(workflow).expect("it is there by now");
        sums.add(run, one, facts);
    }

    /// The sums, in the order of the workflows' names.
    pub fn told(self) -> Vec<WorkflowOutcomes> {
        self.by_workflow.into_iter().map(|(workflow, sums)| sums.told(workflow)).collect()
    }
}

impl WorkflowSums {
    fn add(&mut self, run: &RunId, one: &PullRequestRef, facts: &PullRequestFacts) {
        if self.run.as_ref().is_none_or(|(last, _)| last != run) {
            self.run = Some((run.clone(), Said::default()));
        }
        let (_, before) = self.run.as_mut().expect("it was just set");
        let says = Said::of(facts);
        for ((kind, said), runs) in says.0.into_iter().zip(&mut before.0).zip(&mut self.runs) {
            *runs += u64::from(kind && !*said);
            *said |= kind;
        }
        if !facts.reviews.is_empty() || facts.standing() != Standing::Open {
            self.judged += 1;
            self.rounds += u64::from(facts.review_rounds());
        }
        if let Some(time) = facts.time_to_merge_s() {
            self.times.insert(one.clone(), time);
        }
    }

    fn told(self, workflow: Workflow) -> WorkflowOutcomes {
        let Self {
            runs: [runs, approved, changes_requested, merged, closed_unmerged], rounds, judged, ..
        } = self;
        let mut times: Vec<u64> = self.times.into_values().collect();
        times.sort_unstable();
        WorkflowOutcomes {
            workflow,
            runs,
            approved,
            changes_requested,
            review_rounds_mean_milli: (judged > 0).then(|| (rounds * 1000 + judged / 2) / judged),
            merged,
            closed_unmerged,
            time_to_merge_median_s: times.get(times.len().saturating_sub(1) / 2).copied(),
        }
    }
}
