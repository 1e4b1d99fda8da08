//! What an engine that asks a model finds in the database: the prompts of the investigation's pipeline, the calls that were
//! paid for, and where new answers are stored before they are used.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use retro_core::model_use::{BudgetBound, Spending};
use retro_core::pipeline::PipelineName;
use retro_model::CallJournal;
use retro_store::{Claim, InvestigatorStore, ModelCall, StoreError};

/// Calls of models of one investigation, and the prompts of its pipeline.
#[async_trait]
pub trait InvestigationJournal: CallJournal {
    /// Loads the texts of the prompts under which the retrospective was opened, by file name. Returns `None` if none were
    /// stored, because an earlier version of the program opened it; the shipped ones apply then.
    async fn load_prompts(&self) -> Result<Option<BTreeMap<String, String>>, StoreError>;
}

/// The journal of a claimed investigation, in the database.
pub(crate) struct ClaimJournal {
    pub(crate) store: Arc<dyn InvestigatorStore>,
    pub(crate) claim: Claim,
}

#[async_trait]
impl CallJournal for ClaimJournal {
    async fn list_calls(&self) -> Result<Vec<ModelCall>, StoreError> {
        self.store.list_model_calls(&self.claim).await
    }

    async fn append_call(&self, call: &ModelCall) -> Result<(), StoreError> {
        self.store.append_model_call(&self.claim, call).await
    }

    async fn load_spending(&self) -> Result<Vec<(BudgetBound, Spending)>, StoreError> {
        Ok(self.store.load_model_spending(&self.claim).await?.by_bound().to_vec())
    }
}

#[async_trait]
impl InvestigationJournal for ClaimJournal {
    async fn load_prompts(&self) -> Result<Option<BTreeMap<String, String>>, StoreError> {
        let retrospective = &self.claim.retrospective;
        let Some(version) = &retrospective.pipeline else { return Ok(None) };
        let stored = self
            .store
            .load_pipeline(&retrospective.key.tenant, PipelineName::Retrospective, &version.pipeline)
            .await?;
        Ok(stored.map(|contents| contents.prompts))
    }
}
