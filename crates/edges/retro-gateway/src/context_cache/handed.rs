//! Remembers which memories runs were handed, so that a run that asks again with the same task gets the same ones.

use std::sync::Arc;

use quick_cache::sync::Cache;
use retro_core::id::{RunId, Step, WorkflowKey};
use retro_core::policy::Policy;
use retro_core::recall::{HandedList, Recall};

/// Maximum number of runs and steps that are remembered, the least used forgotten first: some 40 MiB.
const REMEMBERED_MAX: usize = 50_000;

/// A step of a run, with the digest of its task if it named one. A run that asks with another task asks for something
/// else, and one that repeats a request must not get another list.
type RunStep = (WorkflowKey, Step, RunId, Option<[u8; 32]>);

/// Lists that were handed to steps of runs.
pub(crate) struct HandedLists(Cache<RunStep, Arc<RememberedList>>);

/// A list with the policy by which it was chosen.
struct RememberedList {
    list: HandedList,
    policy: Policy,
}

impl HandedLists {
    pub(crate) fn new() -> Self {
        Self(Cache::new(REMEMBERED_MAX))
    }

    /// Returns what a step of a run was handed, unless the policy has changed since.
    pub(crate) fn find(&self, step: &RunStep, policy: &Policy) -> Option<HandedList> {
        self.0.get(step).filter(|remembered| remembered.policy == *policy).map(|found| found.list.clone())
    }

    /// Remembers what a step of a run is handed, unless it is nothing.
    pub(crate) fn remember(&self, step: RunStep, recall: &Recall, policy: &Policy) {
        let list = HandedList::from(recall);
        if !list.is_empty() {
            self.0.insert(step, Arc::new(RememberedList { list, policy: policy.clone() }));
        }
    }
}
