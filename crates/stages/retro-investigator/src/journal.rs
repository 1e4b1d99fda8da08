//! What an engine that asks a model finds in the database: the prompts of the investigation's pipeline, the calls that were
//! paid for, and where new answers are stored before they are used.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use retro_consumer::run_blocking;
use retro_core::calls::CONTRAST_RUNS;
use retro_core::model_use::{BudgetBound, Spending};
use retro_core::pipeline::PipelineName;
use retro_core::workflow_brief::WorkflowBrief;
use retro_model::CallJournal;
use retro_store::{Claim, InvestigatorStore, JournalEntry, JournalStage, ModelCall, StoreError};

use crate::agents_md::load_agents_md;
use crate::brief::BodySources;

/// Calls of models of one investigation, and the prompts of its pipeline.
#[async_trait]
pub trait InvestigationJournal: CallJournal {
    /// Loads the texts of the workflow's prompts under which the retrospective was opened, by file name. Returns `None` if none were
    /// stored, because an earlier version of the program opened it; the shipped ones apply then.
    async fn load_prompts(&self) -> Result<Option<BTreeMap<String, String>>, StoreError>;

    /// Loads the brief of the workflow. The first investigation of a retrospective that asks for it computes and stores it,
    /// so that all of them, and whoever takes one over, see the same.
    async fn open_workflow_brief(&self) -> Result<WorkflowBrief, StoreError>;
}

/// The journal of a claimed investigation, in the database.
pub(crate) struct ClaimJournal {
    pub(crate) store: Arc<dyn InvestigatorStore>,
    pub(crate) bodies: BodySources,
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
        Ok(stored.map(|contents| contents.prompts_of(&retrospective.key.workflow).clone()))
    }

    async fn open_workflow_brief(&self) -> Result<WorkflowBrief, StoreError> {
        let stored = self.store.load_workflow_brief(&self.claim).await?;
        // What another version of the program stored may be something else; it is then computed for this investigation.
        if let Some(brief) = stored.and_then(|stored| serde_json::from_value(stored).ok()) {
            return Ok(brief);
        }
        let limit = u32::try_from(CONTRAST_RUNS).unwrap_or(u32::MAX);
        let newest = self.store.list_newest_summaries(&self.claim, limit).await?;
        let agents_md = load_agents_md(&*self.store, &self.bodies, &self.claim, &newest).await?;
        let claim = self.claim.clone();
        let brief = run_blocking(move || {
            let retrospective = &claim.retrospective;
            // A manual retrospective names its runs and has no window.
            let is_automatic = retrospective.manual_request.is_none();
            let window_runs = if is_automatic { retrospective.window_runs() } else { 0 };
            let workflow = &retrospective.key.workflow;
            WorkflowBrief {
                agents_md,
                ..WorkflowBrief::build(workflow, window_runs, &newest, &claim.memories)
            }
        })
        .await;
        let body = serde_json::to_value(&brief).expect("a brief is plain data");
        let entry = JournalEntry { stage: JournalStage::Briefed, body };
        self.store.append_journal(&self.claim, &entry).await?;
        Ok(brief)
    }
}
