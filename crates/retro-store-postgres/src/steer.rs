//! A person's hand on retrospectives, under the lock of the workflow.

use async_trait::async_trait;
use retro_core::dead_letter::Code;
use retro_core::id::{DeadLetterId, RetrospectiveId, Tenant, WorkflowKey};
use retro_core::retrospective::{Retrospective, State, WorkflowState};
use retro_core::steer::Act;
use retro_store::steer::{DecideCancel, DecideReopen, failed_retrospective};
use retro_store::{ActRow, Cancelled, DeadLetter, Deed, LetterStatus, Reopened, Result, SteerStore};
use retro_store_sql::{at, policy_time};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::answer::{OnTable, shown};
use crate::open::commit;
use crate::{PostgresStore, count, delivery, investigate, now_ms, outbox, retrospective};

#[async_trait]
impl SteerStore for PostgresStore {
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
            let mut acts = acts(&mut transaction, tenant, id.0).await?;
            acts.retain(|row| row.deed == Deed::Cancelled);
            return Ok(Cancelled::Ended { retrospective, act: acts.pop().map(|row| row.act) });
        }
        let state = decide(&retrospective, workflow(&mut transaction, &retrospective.key).await?);
        investigate::fence(&mut transaction, tenant, id).await?;
        retrospective::move_on(&mut transaction, &retrospective, State::Cancelled).await?;
        count::set_workflow_state(&mut transaction, &retrospective.key, &state).await?;
        append(&mut transaction, tenant, Deed::Cancelled, id.0, act, None).await?;
        commit(transaction).await?;
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
        let Some(letter) = delivery::load(&mut transaction, tenant, letter).await? else {
            return Ok(Reopened::Unknown);
        };
        if letter.letter.rejection.code != Code::RetrospectiveFailed {
            return Ok(Reopened::OtherCode(letter.letter.rejection.code));
        }
        let failed = failed_locked(&mut transaction, tenant, &letter).await?;
        // As it is now that its workflow is locked: nobody else replays it meanwhile.
        let letter = delivery::load(&mut transaction, tenant, letter.id).await?.unwrap_or(letter);
        if letter.status == LetterStatus::Replayed {
            return before(&mut transaction, tenant, letter.id).await;
        }
        let state = workflow(&mut transaction, &failed.key).await?;
        let (state, opening) = match decide(&failed, state) {
            Ok(decided) => decided,
            Err(why) => return Ok(Reopened::Not(why)),
        };
        let opened = opening.retrospective;
        retrospective::open(&mut transaction, &[&opened]).await?;
        count::set_workflow_state(&mut transaction, &failed.key, &state).await?;
        outbox::put(&mut transaction, std::iter::once(&opening.message)).await?;
        delivery::replayed(&mut transaction, letter.id).await?;
        append(&mut transaction, tenant, Deed::Replayed, letter.id.0, act, Some(opened.id)).await?;
        commit(transaction).await?;
        Ok(Reopened::Now(opened))
    }
}

async fn workflow(connection: &mut PgConnection, key: &WorkflowKey) -> Result<WorkflowState> {
    let state = count::workflow_state(connection, key).await?;
    state.ok_or_else(|| at("workflows", key).damaged("it has a retrospective and no row"))
}

/// The retrospective that a letter is about, once its workflow is locked.
async fn failed_locked(
    connection: &mut PgConnection,
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
async fn before(connection: &mut PgConnection, tenant: &Tenant, letter: DeadLetterId) -> Result<Reopened> {
    let place = at("acts", letter);
    let acts = acts(connection, tenant, letter.0).await?;
    let replayed = acts.into_iter().find(|row| row.deed == Deed::Replayed);
    let Some(ActRow { act, opened: Some(opened), .. }) = replayed else {
        return Err(place.damaged("the letter was replayed and no act says what that opened"));
    };
    let stored = retrospective::load(connection, tenant, opened).await?;
    let (opened, _) = stored.ok_or_else(|| place.damaged(format!("there is no retrospective {opened}")))?;
    Ok(Reopened::Before { act, opened })
}

async fn append(
    connection: &mut PgConnection,
    tenant: &Tenant,
    deed: Deed,
    subject: Uuid,
    act: &Act,
    opened: Option<RetrospectiveId>,
) -> Result<()> {
    const APPEND: &str = concat!(
        "INSERT INTO acts (tenant, deed, subject, asked_by, reason, at, opened, acted_ms)
         VALUES ($1, $2, $3, $4, $5, $6, $7, ",
        now_ms!(),
        ")"
    );
    let done = sqlx::query(APPEND)
        .bind(tenant.as_str())
        .bind(deed.as_str())
        .bind(subject.to_string())
        .bind(shown(&act.by))
        .bind(shown(&act.reason))
        .bind(policy_time(act.at))
        .bind(opened.map(|id| id.to_string()))
        .execute(connection)
        .await
        .on("acts")?;
    at("acts", subject).touched(done.rows_affected(), 1)
}

/// The acts of a tenant about one thing, the first one first.
pub(crate) async fn acts(
    connection: &mut PgConnection,
    tenant: &Tenant,
    subject: Uuid,
) -> Result<Vec<ActRow>> {
    const LOAD: &str = "
        SELECT deed, asked_by, reason, at, opened FROM acts WHERE tenant = $1 AND subject = $2 ORDER BY sequence";
    let rows: Vec<(String, String, String, String, Option<String>)> = sqlx::query_as(LOAD)
        .bind(tenant.as_str())
        .bind(subject.to_string())
        .fetch_all(connection)
        .await
        .on("acts")?;
    let place = at("acts", subject);
    let row = |(deed, by, reason, moment, opened): (String, _, _, String, Option<String>)| {
        let act = Act { by, reason, at: place.parse(&moment)? };
        let opened = opened.map(|id| place.parse(&id)).transpose()?;
        Ok(ActRow { deed: place.word(&deed)?, act, opened })
    };
    rows.into_iter().map(row).collect()
}
