//! Draws samples. A sample is stored before any of its runs is investigated.

use async_trait::async_trait;
use retro_core::id::{RetrospectiveId, Tenant};
use retro_core::investigate::NextStage;
use retro_core::message::Notice;
use retro_core::retrospective::RetrospectiveState;
use retro_fault::Label;
use retro_store::sample::DecideSample;
use retro_store::{CommitResult, Result, SamplerStore};

use super::dialect::Store;
use super::investigate::{add_investigation, store_batch};
use super::open::commit;
use super::{outbox, retrospective, run};

#[async_trait]
impl SamplerStore for Store {
    async fn draw_sample(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
        decide: DecideSample<'_>,
    ) -> Result<CommitResult> {
        let mut transaction = self.begin_write().await?;
        let Some((due, _)) = retrospective::load_locked(&mut transaction, tenant, id).await? else {
            return Ok(CommitResult::NotFound);
        };
        if due.state != RetrospectiveState::Due {
            return Ok(CommitResult::AlreadyDone);
        }
        let window = run::list_window_ordinals(&mut transaction, &due).await?;
        let sampling = decide(&due, window);
        retrospective::set_sample(&mut transaction, &due, &sampling.sample).await?;
        let notice = match sampling.first {
            NextStage::Investigate { number, at, replacement } => {
                add_investigation(&mut transaction, &due, &sampling.sample, number, at, replacement).await?;
                retrospective::set_state(&mut transaction, &due, RetrospectiveState::Investigating).await?;
                Notice::InvestigationDue { retrospective: id, investigation: number }
            }
            NextStage::Settle => {
                // The writer reads a batch for every settling retrospective and would report a missing one as
                // damage.
                store_batch(&mut transaction, &due, &[], None).await?;
                retrospective::set_state(&mut transaction, &due, RetrospectiveState::Settling).await?;
                Notice::MutationsDue { retrospective: id }
            }
        };
        outbox::enqueue_messages(&mut transaction, std::iter::once(&notice.into_message(&due.key))).await?;
        commit(transaction, Label::SampleCommit).await?;
        Ok(CommitResult::Done)
    }

    async fn list_overdue_samples(
        &self,
        older_than_s: u64,
        limit: u32,
    ) -> Result<Vec<(Tenant, RetrospectiveId)>> {
        self.list_waiting_in(RetrospectiveState::Due, older_than_s, limit).await
    }
}
