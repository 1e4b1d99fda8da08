//! Cancels and reopens retrospectives under the workflow lock.

use async_trait::async_trait;
use retro_core::attribution::Attribution;
use retro_core::dead_letter::DeadLetterCode;
use retro_core::id::{DeadLetterId, RetrospectiveId, Tenant, WorkflowKey};
use retro_core::retrospective::{Retrospective, RetrospectiveState, WorkflowState};
use retro_fault::Label;
use retro_store::cancel::{DecideCancel, DecideReopen, failed_retrospective};
use retro_store::{
    AuditAction, AuditRow, CancelResult, CancelStore, DeadLetter, DeadLetterStatus, ReopenResult, Result,
};

use super::dialect::{Connection, Store};
use super::open::commit;
use super::{audit, count, investigate, outbox, retrospective, stored_dead_letters};
use crate::at;
use crate::rows::audit::AuditSubject;

#[async_trait]
impl CancelStore for Store {
    async fn cancel_retrospective(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
        act: &Attribution,
        decide: DecideCancel<'_>,
    ) -> Result<CancelResult> {
        let mut transaction = self.begin_write().await?;
        let stored = retrospective::load_locked(&mut transaction, tenant, id).await?;
        let Some((mut retrospective, _)) = stored else {
            return Ok(CancelResult::NotFound);
        };
        if !retrospective.state.is_open() {
            let mut rows = audit::list_actions(&mut transaction, tenant, id.0).await?;
            rows.retain(|row| row.action == AuditAction::Cancelled);
            return Ok(CancelResult::AlreadyEnded { retrospective, act: rows.pop().map(|row| row.act) });
        }
        let state = decide(&retrospective, load_workflow_state(&mut transaction, &retrospective.key).await?);
        // A worker that still holds a claim must not commit anything after the cancellation.
        investigate::fence_investigations(&mut transaction, tenant, id).await?;
        retrospective::set_state(&mut transaction, &retrospective, RetrospectiveState::Cancelled).await?;
        count::set_workflow_state(&mut transaction, &retrospective.key, &state).await?;
        let subject = AuditSubject::Retrospective(id);
        audit::record_action(&mut transaction, tenant, AuditAction::Cancelled, subject, act, None).await?;
        commit(transaction, Label::CancelCommit).await?;
        retrospective.state = RetrospectiveState::Cancelled;
        Ok(CancelResult::Cancelled { retrospective, state })
    }

    async fn reopen_retrospective(
        &self,
        tenant: &Tenant,
        dead_letter: DeadLetterId,
        act: &Attribution,
        decide: DecideReopen<'_>,
    ) -> Result<ReopenResult> {
        let mut transaction = self.begin_write().await?;
        let reopened =
            reopen_failed_retrospective(&mut transaction, tenant, dead_letter, act, decide).await?;
        commit(transaction, Label::ReopenCommit).await?;
        Ok(reopened)
    }
}

/// Opens the successor of a failed retrospective unless its dead letter was already replayed.
pub(crate) async fn reopen_failed_retrospective(
    connection: &mut Connection,
    tenant: &Tenant,
    dead_letter: DeadLetterId,
    act: &Attribution,
    decide: DecideReopen<'_>,
) -> Result<ReopenResult> {
    let Some(dead_letter) = stored_dead_letters::find_dead_letter(connection, tenant, dead_letter).await?
    else {
        return Ok(ReopenResult::NotFound);
    };
    if dead_letter.message.rejection.code != DeadLetterCode::RetrospectiveFailed {
        return Ok(ReopenResult::OtherCode(dead_letter.message.rejection.code));
    }
    let failed = failed_locked(connection, tenant, &dead_letter).await?;
    // Read again under the workflow lock: another operator may have replayed the dead letter in between.
    let dead_letter = stored_dead_letters::find_dead_letter(connection, tenant, dead_letter.id)
        .await?
        .unwrap_or(dead_letter);
    if dead_letter.status == DeadLetterStatus::Replayed {
        return find_earlier_reopening(connection, tenant, dead_letter.id).await;
    }
    let state = load_workflow_state(connection, &failed.key).await?;
    let (state, opening) = match decide(&failed, state) {
        Ok(decided) => decided,
        Err(why) => return Ok(ReopenResult::Refused(why)),
    };
    let opened = opening.retrospective;
    retrospective::insert_opened(connection, &[&opened]).await?;
    count::set_workflow_state(connection, &failed.key, &state).await?;
    outbox::enqueue_messages(connection, std::iter::once(&opening.message)).await?;
    stored_dead_letters::mark_replayed(connection, dead_letter.id).await?;
    let subject = AuditSubject::DeadLetter(dead_letter.id);
    audit::record_action(connection, tenant, AuditAction::Replayed, subject, act, Some(opened.id)).await?;
    Ok(ReopenResult::Opened(opened))
}

async fn load_workflow_state(connection: &mut Connection, key: &WorkflowKey) -> Result<WorkflowState> {
    let state = count::find_workflow_state(connection, key).await?;
    state.ok_or_else(|| at("workflows", key).damaged_error("it has a retrospective but no row"))
}

/// Locks the workflow of the failed retrospective that a dead letter records, and loads the retrospective.
async fn failed_locked(
    connection: &mut Connection,
    tenant: &Tenant,
    dead_letter: &DeadLetter,
) -> Result<Retrospective> {
    let place = at("dead_letters.payload", dead_letter.id);
    let id = failed_retrospective(&dead_letter.message)
        .ok_or_else(|| place.damaged_error("it names no retrospective"))?;
    let stored = retrospective::load_locked(connection, tenant, id).await?;
    stored
        .map(|(failed, _)| failed)
        .ok_or_else(|| place.damaged_error(format!("there is no retrospective {id}")))
}

/// Finds who replayed a dead letter and the retrospective that was opened.
async fn find_earlier_reopening(
    connection: &mut Connection,
    tenant: &Tenant,
    dead_letter: DeadLetterId,
) -> Result<ReopenResult> {
    let place = at("audit_log", dead_letter);
    let rows = audit::list_actions(connection, tenant, dead_letter.0).await?;
    let replayed = rows.into_iter().find(|row| row.action == AuditAction::Replayed);
    let Some(AuditRow { act, opened_retrospective: Some(opened), .. }) = replayed else {
        return Err(place.damaged_error(
            "the dead letter was replayed but no audit entry names the opened retrospective",
        ));
    };
    let stored = retrospective::find_retrospective(connection, tenant, opened).await?;
    let (opened, _) =
        stored.ok_or_else(|| place.damaged_error(format!("there is no retrospective {opened}")))?;
    Ok(ReopenResult::AlreadyReopened { act, opened })
}
