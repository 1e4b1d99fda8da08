//! Reads and writes retrospectives, and assigns ordinals to their windows.

use retro_core::id::{RetrospectiveId, Tenant};
use retro_core::retrospective::{Retrospective, RetrospectiveState};
use retro_core::sample::Sample;
use retro_store::Result;

use super::dialect::{Connection, OnTable, ROW_LOCKS, Store, bind_rows, least, now_ms, rows_table};
use super::{lock, pipeline};
use crate::rows::retrospective::RetrospectiveRecord;
use crate::rows::trace;
use crate::{at, format_policy_time, to_i64, to_json};

/// Finds a retrospective and its sample. Returns `None` if the tenant has no such retrospective.
pub(crate) async fn find_retrospective(
    connection: &mut Connection,
    tenant: &Tenant,
    id: RetrospectiveId,
) -> Result<Option<(Retrospective, Option<Sample>)>> {
    const LOAD: &str = "
        SELECT tenant, id, workflow, epoch, first_ordinal, last_ordinal, as_of, policy, pipeline, prompts, state, sample,
            request
        FROM retrospectives WHERE tenant = $1 AND id = $2";
    let row: Option<RetrospectiveRecord> = sqlx::query_as(LOAD)
        .bind(tenant.as_str())
        .bind(id.to_string())
        .fetch_optional(connection)
        .await
        .on_table("retrospectives")?;
    row.map(|row| row.to_retrospective()).transpose()
}

/// Locks the workflow of a retrospective, then finds the retrospective. Returns `None` if the tenant has no
/// such retrospective.
pub(crate) async fn load_locked(
    connection: &mut Connection,
    tenant: &Tenant,
    id: RetrospectiveId,
) -> Result<Option<(Retrospective, Option<Sample>)>> {
    let unlocked = find_retrospective(connection, tenant, id).await?;
    if !ROW_LOCKS {
        return Ok(unlocked);
    }
    // The workflow of a retrospective never changes, so it can be read before the lock. The rest is read
    // again.
    let Some((retrospective, _)) = unlocked else { return Ok(None) };
    lock::lock_workflow(connection, &retrospective.key).await?;
    find_retrospective(connection, tenant, id).await
}

/// Inserts opened retrospectives, after assigning the final ordinals of their windows.
pub(crate) async fn insert_opened(connection: &mut Connection, opened: &[&Retrospective]) -> Result<()> {
    const OPEN: &str = concat!(
        "INSERT INTO retrospectives (tenant, id, workflow, epoch, first_ordinal, last_ordinal, as_of, policy,
             pipeline, prompts, state, trace, opened_ms, state_ms)
         SELECT tenant, id, workflow, epoch, first_ordinal, last_ordinal, as_of, policy, pipeline, prompts,
             state,
             -- It continues the run that filled its window; a window that was claimed before is only linked to it, and
             -- continues whatever opened it again.
             CASE WHEN EXISTS (SELECT 1 FROM retrospectives AS before
                     WHERE before.tenant = new.tenant AND before.workflow = new.workflow
                         AND new.last_ordinal BETWEEN before.first_ordinal AND before.last_ordinal)
                 THEN $1
                 ELSE (SELECT run_facts.trace FROM runs JOIN run_facts USING (tenant, workflow, number)
                     WHERE runs.tenant = new.tenant AND runs.workflow = new.workflow
                         AND runs.ordinal = new.last_ordinal)
             END, ",
        now_ms!(),
        ", ",
        now_ms!(),
        " FROM ",
        rows_table!(
            "new", "$2" "tenant", "$3" "id", "$4" "workflow", "$5" "epoch", "$6" "first_ordinal",
            "$7" "last_ordinal", "$8" "as_of", "$9" "policy", "$10" "pipeline", "$11" "prompts", "$12" "state"
        ),
        " ORDER BY place"
    );
    if opened.is_empty() {
        return Ok(());
    }
    for retrospective in opened {
        assign_ordinals(connection, retrospective).await?;
    }
    pipeline::record_versions(connection, opened).await?;
    let query = sqlx::query(OPEN).bind(trace::current_trace());
    let query = bind_rows!(query, opened, |one| [
        one.key.tenant.as_str(),
        one.id.to_string(),
        one.key.workflow.as_str(),
        to_i64(one.epoch),
        to_i64(one.first),
        to_i64(one.last),
        format_policy_time(one.as_of),
        to_json(&one.policy),
        one.pipeline.as_ref().map(|version| version.pipeline.as_str()),
        one.pipeline.as_ref().map(|version| version.prompts.as_str()),
        one.state.as_str(),
    ]);
    let done = query.execute(connection).await.on_table("retrospectives")?;
    at("retrospectives", "a batch").check_rows_affected(done.rows_affected(), opened.len())
}

/// Reassigns the ordinals of all runs that wait when the first of them are about to be claimed, in the order of the
/// intake stream.
///
/// With several counters, the order of counting depends on timing, but the order of the stream does not, so
/// the same stream yields the same windows (law 3): of a backlog, too, which is claimed in parts. Runs that were ever claimed or investigated keep their
/// ordinals. While a manual retrospective is open, all runs keep their ordinals, because it refers to runs by
/// ordinal.
async fn assign_ordinals(connection: &mut Connection, retrospective: &Retrospective) -> Result<()> {
    const DEAL: &str = "
        WITH examined AS (
            -- The newest epoch's window reaches furthest; a manual one has a negative number instead.
            SELECT max(last_ordinal) AS last FROM (SELECT last_ordinal FROM retrospectives
                WHERE tenant = $1 AND workflow = $2 ORDER BY epoch DESC LIMIT 1) AS newest
            UNION ALL
            SELECT max(investigations.ordinal) FROM retrospectives
            JOIN investigations ON investigations.tenant = retrospectives.tenant
                AND investigations.retrospective = retrospectives.id
            WHERE retrospectives.tenant = $1 AND retrospectives.workflow = $2 AND retrospectives.epoch < 0
        ), free AS (SELECT CASE WHEN max(last) >= $3 THEN max(last) + 1 ELSE $3 END AS first FROM examined),
        placed AS (
            SELECT run_id, free.first - 1 + row_number() OVER (
                ORDER BY intake_sequence, ordinal) AS ordinal
            FROM runs, free
            WHERE tenant = $1 AND workflow = $2 AND ordinal >= free.first
        )
        UPDATE runs SET ordinal = -placed.ordinal FROM placed
        WHERE runs.tenant = $1 AND runs.workflow = $2 AND runs.run_id = placed.run_id
            AND runs.ordinal <> placed.ordinal AND NOT EXISTS (
                SELECT 1 FROM retrospectives WHERE tenant = $1 AND workflow = $2
                AND state IN ('due', 'investigating', 'settling'))";
    // Assign negative ordinals first, because no two runs may share an ordinal at any moment.
    const TURN: &str =
        "UPDATE runs SET ordinal = -ordinal WHERE tenant = $1 AND workflow = $2 AND ordinal < 0";
    let key = &retrospective.key;
    let dealt = sqlx::query(DEAL)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(to_i64(retrospective.first))
        .execute(&mut *connection)
        .await
        .on_table("runs")?;
    if dealt.rows_affected() == 0 {
        return Ok(());
    }
    let turned = sqlx::query(TURN)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .execute(connection)
        .await
        .on_table("runs")?;
    at("runs.ordinal", key).check_rows_affected(
        turned.rows_affected(),
        usize::try_from(dealt.rows_affected()).unwrap_or(usize::MAX),
    )
}

/// Inserts a manual retrospective, whose workflow is locked. Its epoch only has to be unique and counts down
/// from -1 within the workflow.
pub(crate) async fn insert_manual(connection: &mut Connection, manual: &Retrospective) -> Result<()> {
    const OPEN: &str = concat!(
        "INSERT INTO retrospectives (tenant, id, workflow, epoch, first_ordinal, last_ordinal, as_of, policy,
             pipeline, prompts, state, request, trace, opened_ms, state_ms)
         SELECT $1, $2, $3, ",
        least!(),
        "(coalesce(min(epoch), 0), 0) - 1, 0, 0, $4, $5, $9, $10, $6, $7, $8, ",
        now_ms!(),
        ", ",
        now_ms!(),
        " FROM retrospectives WHERE tenant = $1 AND workflow = $3"
    );
    pipeline::record_versions(connection, &[manual]).await?;
    let done = sqlx::query(OPEN)
        .bind(manual.key.tenant.as_str())
        .bind(manual.id.to_string())
        .bind(manual.key.workflow.as_str())
        .bind(format_policy_time(manual.as_of))
        .bind(to_json(&manual.policy))
        .bind(manual.state.as_str())
        .bind(to_json(&manual.manual_request))
        .bind(trace::current_trace())
        .bind(manual.pipeline.as_ref().map(|version| version.pipeline.as_str()))
        .bind(manual.pipeline.as_ref().map(|version| version.prompts.as_str()))
        .execute(connection)
        .await
        .on_table("retrospectives")?;
    at("retrospectives", manual.id).check_rows_affected(done.rows_affected(), 1)
}

/// Changes the state of a retrospective. Fails if the stored state is no longer the loaded one.
pub(crate) async fn set_state(
    connection: &mut Connection,
    retrospective: &Retrospective,
    to: RetrospectiveState,
) -> Result<()> {
    const MOVE: &str = concat!(
        "UPDATE retrospectives SET state = $4, state_ms = ",
        now_ms!(),
        " WHERE tenant = $1 AND id = $2 AND state = $3"
    );
    let done = sqlx::query(MOVE)
        .bind(retrospective.key.tenant.as_str())
        .bind(retrospective.id.to_string())
        .bind(retrospective.state.as_str())
        .bind(to.as_str())
        .execute(connection)
        .await
        .on_table("retrospectives")?;
    at("retrospectives.state", retrospective.id).check_rows_affected(done.rows_affected(), 1)
}

/// Stores the sample of a retrospective. Fails if it already has one.
pub(crate) async fn set_sample(
    connection: &mut Connection,
    retrospective: &Retrospective,
    sample: &Sample,
) -> Result<()> {
    const SET: &str =
        "UPDATE retrospectives SET sample = $3 WHERE tenant = $1 AND id = $2 AND sample IS NULL";
    let done = sqlx::query(SET)
        .bind(retrospective.key.tenant.as_str())
        .bind(retrospective.id.to_string())
        .bind(to_json(sample))
        .execute(connection)
        .await
        .on_table("retrospectives")?;
    at("retrospectives.sample", retrospective.id).check_rows_affected(done.rows_affected(), 1)
}

impl Store {
    /// Lists the retrospectives that have been in `state` for at least `older_than_s` seconds, longest
    /// waiting first.
    pub(crate) async fn list_waiting_in(
        &self,
        state: RetrospectiveState,
        older_than_s: u64,
        limit: u32,
    ) -> Result<Vec<(Tenant, RetrospectiveId)>> {
        // The states are repeated as literals, because the planner would not use the partial index with a
        // parameter alone.
        const WAITING: &str = concat!(
            "SELECT tenant, id FROM retrospectives WHERE state IN ('due', 'settling') AND state = $1
             AND state_ms <= ",
            now_ms!(),
            " - $2 * 1000 ORDER BY state_ms, tenant, id LIMIT $3"
        );
        // Maximum age: a thousand years, in seconds. Keeps the age in milliseconds within 64 bits.
        const AGE_MAX_S: u64 = 1_000 * 366 * 24 * 3600;
        let rows: Vec<(String, String)> = sqlx::query_as(WAITING)
            .bind(state.as_str())
            .bind(to_i64(older_than_s.min(AGE_MAX_S)))
            .bind(i64::from(limit))
            .fetch_all(self.reader())
            .await
            .on_table("retrospectives")?;
        let read = |(tenant, id): &(String, String)| {
            let place = at("retrospectives", id);
            Ok((place.parse(tenant)?, place.parse(id)?))
        };
        rows.iter().map(read).collect()
    }
}
