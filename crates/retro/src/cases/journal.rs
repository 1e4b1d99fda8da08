//! The journals of a model's calls in memory, with the prompts of the pipeline that is tried.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use retro_core::model_use::{BudgetBound, Spending};
use retro_core::review::ModelCosts;
use retro_core::workflow_brief::WorkflowBrief;
use retro_investigator::InvestigationJournal;
use retro_model::CallJournal;
use retro_reviewer::{ReadingJournal, sum_costs};
use retro_store::{ModelCall, ReviewCall, StoreError};

/// Journal of one played investigation.
pub(super) struct CaseJournal {
    calls: Mutex<Vec<ModelCall>>,
    prompts: BTreeMap<String, String>,
    workflow: WorkflowBrief,
}

impl CaseJournal {
    /// Creates an empty journal with these prompts and this brief of the workflow.
    pub(super) const fn new(prompts: BTreeMap<String, String>, workflow: WorkflowBrief) -> Self {
        Self { calls: Mutex::new(Vec::new()), prompts, workflow }
    }
}

#[async_trait]
impl CallJournal for CaseJournal {
    async fn list_calls(&self) -> Result<Vec<ModelCall>, StoreError> {
        Ok(self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    async fn append_call(&self, call: &ModelCall) -> Result<(), StoreError> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call.clone());
        Ok(())
    }

    async fn load_spending(&self) -> Result<Vec<(BudgetBound, Spending)>, StoreError> {
        let spent = sum_tokens(self.calls.lock().unwrap_or_else(PoisonError::into_inner).iter());
        Ok(vec![(BudgetBound::Investigation, spent), (BudgetBound::Retrospective, spent)])
    }
}

/// Sums the tokens of calls. A script costs nothing.
fn sum_tokens<'a>(calls: impl Iterator<Item = &'a ModelCall>) -> Spending {
    Spending { tokens: calls.map(|call| call.usage.total()).sum(), micro_usd: 0 }
}

#[async_trait]
impl InvestigationJournal for CaseJournal {
    async fn load_prompts(&self) -> Result<Option<BTreeMap<String, String>>, StoreError> {
        Ok(Some(self.prompts.clone()))
    }

    async fn open_workflow_brief(&self) -> Result<WorkflowBrief, StoreError> {
        Ok(self.workflow.clone())
    }
}

/// Journal of the played reviews of one pull request.
#[derive(Default)]
pub(super) struct ReviewCaseJournal {
    calls: Mutex<Vec<ReviewCall>>,
    round: AtomicU64,
}

impl ReviewCaseJournal {
    /// Begins a decision.
    pub(super) fn begin_round(&self, round: u64) {
        self.round.store(round, Ordering::Relaxed);
    }

    fn lock_calls(&self) -> MutexGuard<'_, Vec<ReviewCall>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl CallJournal for ReviewCaseJournal {
    async fn list_calls(&self) -> Result<Vec<ModelCall>, StoreError> {
        Ok(self.lock_calls().iter().map(|one| one.call.clone()).collect())
    }

    async fn append_call(&self, call: &ModelCall) -> Result<(), StoreError> {
        // How long a script takes is not told by a case, and must not stand in its report.
        let call = ModelCall { duration_ms: 0, ..call.clone() };
        self.lock_calls().push(ReviewCall { round: self.round.load(Ordering::Relaxed), call });
        Ok(())
    }

    async fn load_spending(&self) -> Result<Vec<(BudgetBound, Spending)>, StoreError> {
        let spent = sum_tokens(self.lock_calls().iter().map(|one| &one.call));
        Ok(vec![(BudgetBound::Review, spent)])
    }
}

#[async_trait]
impl ReadingJournal for ReviewCaseJournal {
    async fn sum_costs(&self, answered: &[String]) -> Result<ModelCosts, StoreError> {
        Ok(sum_costs(&self.lock_calls(), self.round.load(Ordering::Relaxed), answered))
    }
}
