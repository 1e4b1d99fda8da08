//! Sampling: the draw is stored before anything is investigated.

use async_trait::async_trait;
use retro_core::id::{RetrospectiveId, Tenant};
use retro_core::investigate::Next;
use retro_core::message::Notice;
use retro_core::retrospective::State;
use retro_fault::Label;
use retro_store::sample::Decide;
use retro_store::{Result, SamplerStore, Step};

use crate::dialect::Store;
use crate::investigate::{add_investigation, store_batch};
use crate::open::commit;
use crate::{outbox, retrospective, run};

#[async_trait]
impl SamplerStore for Store {
    async fn sample(&self, tenant: &Tenant, id: RetrospectiveId, decide: Decide<'_>) -> Result<Step> {
        let mut transaction = self.write().await?;
        let Some((due, _)) = retrospective::load_locked(&mut transaction, tenant, id).await? else {
            return Ok(Step::Unknown);
        };
        if due.state != State::Due {
            return Ok(Step::AlreadyDone);
        }
        let window = run::window_ordinals(&mut transaction, &due).await?;
        let sampling = decide(&due, window);
        retrospective::set_sample(&mut transaction, &due, &sampling.sample).await?;
        let notice = match sampling.first {
            Next::Investigate { number, at, replacement } => {
                add_investigation(&mut transaction, &due, &sampling.sample, number, at, replacement).await?;
                retrospective::move_on(&mut transaction, &due, State::Investigating).await?;
                Notice::InvestigationDue { retrospective: id, investigation: number }
            }
            Next::Settle => {
                store_batch(&mut transaction, &due, &[]).await?;
                retrospective::move_on(&mut transaction, &due, State::Settling).await?;
                Notice::MutationsDue { retrospective: id }
            }
        };
        outbox::put(&mut transaction, std::iter::once(&notice.about(&due.key))).await?;
        commit(transaction, Label::SampleCommit).await?;
        Ok(Step::Done)
    }

    async fn overdue_samples(&self, older_than_s: u64, limit: u32) -> Result<Vec<(Tenant, RetrospectiveId)>> {
        self.waiting_in(State::Due, older_than_s, limit).await
    }
}
