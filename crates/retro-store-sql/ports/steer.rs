//! A person's hand on retrospectives, under the lock of the workflow.

use async_trait::async_trait;
use retro_core::dead_letter::Code;
use retro_core::id::{DeadLetterId, RetrospectiveId, Tenant, WorkflowKey};
use retro_core::retrospective::{Retrospective, State, WorkflowState};
use retro_core::steer::Act;
use retro_fault::Label;
use retro_store::steer::{DecideCancel, DecideReopen, failed_retrospective};
use retro_store::{ActRow, Cancelled, DeadLetter, Deed, LetterStatus, Reopened, Result, SteerStore};
use retro_store_sql::at;

use crate::dialect::{Connection, Store};
use crate::open::commit;
use crate::{audit, count, delivery, investigate, outbox, retrospective};

#[async_trait]
impl SteerStore for Store {
    async fn cancel(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
        act: &Act,
        decide: DecideCancel<'_>,
    ) -> Result<Cancelled> {
        let mut transaction = self.write().await?;
        let stored = retrospective::load_locked(&mut transaction, tenant, id).await?;
        let Some((mut retrospective, _)) = stored else {
            return Ok(Cancelled::Unknown);
        };
        if !retrospective.state.is_open() {
            let mut acts = audit::acts(&mut transaction, tenant, id.0).await?;
            acts.retain(|row| row.deed == Deed::Cancelled);
            return Ok(Cancelled::Ended { retrospective, act: acts.pop().map(|row| row.act) });
        }
        let state = decide(&retrospective, workflow(&mut transaction, &retrospective.key).await?);
        investigate::fence(&mut transaction, tenant, id).await?;
        retrospective::move_on(&mut transaction, &retrospective, State::Cancelled).await?;
        count::set_workflow_state(&mut transaction, &retrospective.key, &state).await?;
        audit::append(&mut transaction, tenant, Deed::Cancelled, id.0, act, None).await?;
        commit(transaction, Label::CancelCommit).await?;
        retrospective.state = State::Cancelled;
        Ok(Cancelled::Now { retrospective, state })
    }

    async fn reopen(
        &self,
        tenant: &Tenant,
        letter: DeadLetterId,
        act: &Act,
        decide: DecideReopen<'_>,
    ) -> Result<Reopened> {
        let mut transaction = self.write().await?;
        let reopened = reopen(&mut transaction, tenant, letter, act, decide).await?;
        commit(transaction, Label::ReopenCommit).await?;
        Ok(reopened)
    }
}

/// Opens what follows a failed retrospective, if its letter was not replayed before.
pub(crate) async fn reopen(
    connection: &mut Connection,
    tenant: &Tenant,
    letter: DeadLetterId,
    act: &Act,
    decide: DecideReopen<'_>,
) -> Result<Reopened> {
    let Some(letter) = delivery::load(connection, tenant, letter).await? else {
        return Ok(Reopened::Unknown);
    };
    if letter.letter.rejection.code != Code::RetrospectiveFailed {
        return Ok(Reopened::OtherCode(letter.letter.rejection.code));
    }
    let failed = failed_locked(connection, tenant, &letter).await?;
    // As it is now that its workflow is locked: nobody else replays it meanwhile.
    let letter = delivery::load(connection, tenant, letter.id).await?.unwrap_or(letter);
    if letter.status == LetterStatus::Replayed {
        return before(connection, tenant, letter.id).await;
    }
    let state = workflow(connection, &failed.key).await?;
    let (state, opening) = match decide(&failed, state) {
        Ok(decided) => decided,
        Err(why) => return Ok(Reopened::Not(why)),
    };
    let opened = opening.retrospective;
    retrospective::open(connection, &[&opened]).await?;
    count::set_workflow_state(connection, &failed.key, &state).await?;
    outbox::put(connection, std::iter::once(&opening.message)).await?;
    delivery::replayed(connection, letter.id).await?;
    audit::append(connection, tenant, Deed::Replayed, letter.id.0, act, Some(opened.id)).await?;
    Ok(Reopened::Now(opened))
}

async fn workflow(connection: &mut Connection, key: &WorkflowKey) -> Result<WorkflowState> {
    let state = count::workflow_state(connection, key).await?;
    state.ok_or_else(|| at("workflows", key).damaged("it has a retrospective and no row"))
}

/// The retrospective that a letter is about, once its workflow is locked.
async fn failed_locked(
    connection: &mut Connection,
    tenant: &Tenant,
    letter: &DeadLetter,
) -> Result<Retrospective> {
    let place = at("dead_letters.payload", letter.id);
    let id =
        failed_retrospective(&letter.letter).ok_or_else(|| place.damaged("it names no retrospective"))?;
    let stored = retrospective::load_locked(connection, tenant, id).await?;
    stored.map(|(failed, _)| failed).ok_or_else(|| place.damaged(format!("there is no retrospective {id}")))
}

/// Who replayed a letter, and what it opened.
async fn before(connection: &mut Connection, tenant: &Tenant, letter: DeadLetterId) -> Result<Reopened> {
    let place = at("acts", letter);
    let acts = audit::acts(connection, tenant, letter.0).await?;
    let replayed = acts.into_iter().find(|row| row.deed == Deed::Replayed);
    let Some(ActRow { act, opened: Some(opened), .. }) = replayed else {
        return Err(place.damaged("the letter was replayed and no act says what that opened"));
    };
    let stored = retrospective::load(connection, tenant, opened).await?;
    let (opened, _) = stored.ok_or_else(|| place.damaged(format!("there is no retrospective {opened}")))?;
    Ok(Reopened::Before { act, opened })
}
