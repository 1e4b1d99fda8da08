//! The journal of a model's calls in memory, with the prompts of the pipeline that is tried.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use retro_core::model_use::ModelSpending;
use retro_core::workflow_brief::WorkflowBrief;
use retro_investigator::CallJournal;
use retro_store::{ModelCall, StoreError};

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

    async fn load_spending(&self) -> Result<ModelSpending, StoreError> {
        Ok(ModelSpending::default())
    }

    async fn load_prompts(&self) -> Result<Option<BTreeMap<String, String>>, StoreError> {
        Ok(Some(self.prompts.clone()))
    }

    async fn open_workflow_brief(&self) -> Result<WorkflowBrief, StoreError> {
        Ok(self.workflow.clone())
    }
}
