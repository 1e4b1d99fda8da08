//! The journal of a model's calls in memory, with the prompts of the pipeline that is tried.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use retro_core::model_use::{BudgetBound, Spending};
use retro_investigator::InvestigationJournal;
use retro_model::CallJournal;
use retro_store::{ModelCall, StoreError};

/// Journal of one played investigation.
pub(super) struct CaseJournal {
    calls: Mutex<Vec<ModelCall>>,
    prompts: BTreeMap<String, String>,
}

impl CaseJournal {
    /// Creates an empty journal with these prompts.
    pub(super) const fn with_prompts(prompts: BTreeMap<String, String>) -> Self {
        Self { calls: Mutex::new(Vec::new()), prompts }
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
        Ok(Vec::new())
    }
}

#[async_trait]
impl InvestigationJournal for CaseJournal {
    async fn load_prompts(&self) -> Result<Option<BTreeMap<String, String>>, StoreError> {
        Ok(Some(self.prompts.clone()))
    }
}
