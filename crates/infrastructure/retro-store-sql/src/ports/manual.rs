//! Stores manual retrospectives and their proposals.

use async_trait::async_trait;
use retro_core::id::{ProposalId, RetrospectiveId, Tenant, Workflow, WorkflowKey};
use retro_core::manual::{DecisionRecord, NamedRun, ProposalFacts, TriggerError};
use retro_core::memory::Proposal;
use retro_core::retrospective::ManualRequest;
use retro_fault::Label;
use retro_store::manual::DecideTrigger;
use retro_store::{CommitResult, ManualStore, ProposalFilter, ProposalRow, ProposalStore, Result};

use super::dialect::{
    Connection, OnTable, ROW_LOCKS, Store, any_of, bind_rows, list_parameter, now_ms, of_workflow, rows_table,
};
use super::investigate::add_investigation;
use super::open::commit;
use super::{lock, memory, outbox, retrospective};
use crate::rows::manual::{ProposalRecord, named_run_from_row, possible_causes};
use crate::{at, parse_workflow_key, to_json};

#[async_trait]
impl ManualStore for Store {
    async fn trigger_retrospective(
        &self,
        key: &WorkflowKey,
        request: &ManualRequest,
        decide: DecideTrigger<'_>,
    ) -> Result<std::result::Result<CommitResult, TriggerError>> {
        let id = RetrospectiveId::of_request(key, &request.request);
        let mut transaction = self.begin_write().await?;
        // A workflow without a row has no runs: there is nothing to lock, and `decide` will open nothing.
        lock::lock_workflow(&mut transaction, key).await?;
        if let Some((earlier, _)) =
            retrospective::find_retrospective(&mut transaction, &key.tenant, id).await?
        {
            // A repeated request is accepted, but the same request id with different content is refused.
            let same = earlier.manual_request.is_some_and(|earlier| earlier.is_same_request(request));
            let other = || TriggerError::RequestConflict(request.request.clone());
            return Ok(if same { Ok(CommitResult::AlreadyDone) } else { Err(other()) });
        }
        let triggered = match decide(&load_named_runs(&mut transaction, key, request).await?) {
            Ok(triggered) => triggered,
            Err(untriggered) => return Ok(Err(untriggered)),
        };
        let manual = &triggered.retrospective;
        retrospective::insert_manual(&mut transaction, manual).await?;
        retrospective::set_sample(&mut transaction, manual, &triggered.sample).await?;
        add_investigation(&mut transaction, manual, &triggered.sample, 1, 0, false).await?;
        outbox::enqueue_messages(&mut transaction, std::iter::once(&triggered.message)).await?;
        commit(transaction, Label::TriggerCommit).await?;
        Ok(Ok(CommitResult::Done))
    }
}

async fn load_named_runs(
    connection: &mut Connection,
    key: &WorkflowKey,
    request: &ManualRequest,
) -> Result<Vec<NamedRun>> {
    const LOAD: &str = concat!(
        "SELECT runs.run_id, runs.ordinal, run_facts.number IS NOT NULL FROM runs
         LEFT JOIN run_facts USING (tenant, workflow, number)
         WHERE runs.tenant = $1 AND runs.workflow = $2 AND runs.run_id",
        any_of!("$3")
    );
    let rows: Vec<(String, Option<i64>, bool)> = sqlx::query_as(LOAD)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(list_parameter(&request.runs))
        .fetch_all(connection)
        .await
        .on_table("runs")?;
    rows.iter().map(|row| named_run_from_row(key, row)).collect()
}

#[async_trait]
impl ProposalStore for Store {
    async fn list_proposals(&self, tenant: &Tenant, filter: &ProposalFilter) -> Result<Vec<ProposalRow>> {
        const LOAD: &str = concat!(
            "SELECT id, workflow, proposal, decision FROM proposals WHERE tenant = $1 AND ",
            of_workflow!("workflow", "$2"),
            " AND ($3 IS NULL OR retrospective = $3) AND ($4 IS NULL OR status = $4)
             ORDER BY created_ms DESC, retrospective, position LIMIT $5"
        );
        let rows: Vec<ProposalRecord> = sqlx::query_as(LOAD)
            .bind(tenant.as_str())
            .bind(filter.workflow.as_ref().map(Workflow::as_str))
            .bind(filter.retrospective.map(|id| id.to_string()))
            .bind(filter.status.map(|status| status.as_str()))
            .bind(i64::from(filter.limit))
            .fetch_all(self.reader())
            .await
            .on_table("proposals")?;
        rows.iter().map(ProposalRecord::to_proposal_row).collect()
    }

    async fn find_proposal(&self, tenant: &Tenant, id: ProposalId) -> Result<Option<ProposalRow>> {
        let found = find_proposal(&mut *self.begin_snapshot().await?, tenant, id).await?;
        found.map(|record| record.to_proposal_row()).transpose()
    }
}

async fn find_proposal(
    connection: &mut Connection,
    tenant: &Tenant,
    id: ProposalId,
) -> Result<Option<ProposalRecord>> {
    const LOAD: &str = "SELECT id, workflow, proposal, decision FROM proposals WHERE tenant = $1 AND id = $2";
    sqlx::query_as(LOAD)
        .bind(tenant.as_str())
        .bind(id.to_string())
        .fetch_optional(connection)
        .await
        .on_table("proposals")
}

/// Locks the workflow of a proposal. Does nothing if the tenant has no such proposal.
pub(crate) async fn lock_proposal(
    connection: &mut Connection,
    tenant: &Tenant,
    id: ProposalId,
) -> Result<()> {
    if !ROW_LOCKS {
        return Ok(());
    }
    // The workflow of a proposal never changes, so it can be read before the lock.
    let Some(record) = find_proposal(connection, tenant, id).await? else { return Ok(()) };
    lock::lock_workflow(connection, &parse_workflow_key(tenant.as_str(), record.workflow())?).await
}

/// Loads the facts for deciding a proposal. Returns `None` if the tenant has no such proposal. A decision locks
/// the proposal first.
pub(crate) async fn load_proposal_facts(
    connection: &mut Connection,
    tenant: &Tenant,
    id: ProposalId,
) -> Result<Option<ProposalFacts>> {
    let Some(record) = find_proposal(connection, tenant, id).await? else { return Ok(None) };
    let key = parse_workflow_key(tenant.as_str(), record.workflow())?;
    let ProposalRow { proposal, decision } = record.to_proposal_row()?;
    let (applied, changed) =
        memory::find_changes_caused_by(connection, &key, &possible_causes(&key, &proposal)).await?;
    Ok(Some(ProposalFacts {
        memories: memory::list_living_and_named(connection, &key, &changed).await?,
        tombstones: memory::list_tombstones(connection, &key).await?,
        key,
        proposal,
        decision,
        applied,
    }))
}

/// Stores the proposals of a manual retrospective in report order.
pub(crate) async fn store_proposals(
    connection: &mut Connection,
    key: &WorkflowKey,
    proposals: &[Proposal],
) -> Result<()> {
    const STORE: &str = concat!(
        "INSERT INTO proposals (tenant, id, workflow, retrospective, position, status, proposal, created_ms)
         SELECT $1, id, $2, retrospective, place, 'open', proposal, ",
        now_ms!(),
        " FROM ",
        rows_table!("new", "$3" "id", "$4" "retrospective", "$5" "proposal")
    );
    if proposals.is_empty() {
        return Ok(());
    }
    let query = sqlx::query(STORE).bind(key.tenant.as_str()).bind(key.workflow.as_str());
    let query = bind_rows!(query, proposals, |proposal| [
        proposal.id.to_string(),
        proposal.retrospective.to_string(),
        to_json(proposal),
    ]);
    let done = query.execute(connection).await.on_table("proposals")?;
    at("proposals", key).check_rows_affected(done.rows_affected(), proposals.len())
}

/// Stores the decision on a proposal. Fails if the proposal is no longer open.
pub(crate) async fn set_decision(
    connection: &mut Connection,
    tenant: &Tenant,
    id: ProposalId,
    decision: &DecisionRecord,
) -> Result<()> {
    const SET: &str = "
        UPDATE proposals SET status = $3, decision = $4 WHERE tenant = $1 AND id = $2 AND status = 'open'";
    let done = sqlx::query(SET)
        .bind(tenant.as_str())
        .bind(id.to_string())
        .bind(decision.decision.as_str())
        .bind(to_json(decision))
        .execute(connection)
        .await
        .on_table("proposals")?;
    at("proposals.decision", id).check_rows_affected(done.rows_affected(), 1)
}
