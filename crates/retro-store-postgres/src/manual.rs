//! Manual retrospectives and their proposals.

use async_trait::async_trait;
use retro_core::id::{ProposalId, RetrospectiveId, Tenant, Workflow, WorkflowKey};
use retro_core::manual::{Asked, Decision, NamedRun, Proposal, ProposalFacts, Untriggered};
use retro_fault::Label;
use retro_store::manual::DecideTrigger;
use retro_store::{ManualStore, ProposalFilter, ProposalRow, ProposalStore, Result, Step};
use retro_store_sql::manual::{Record, causes, named_run};
use retro_store_sql::{at, json, workflow_key};
use sqlx::PgConnection;

use crate::answer::OnTable;
use crate::count::column;
use crate::investigate::add_investigation;
use crate::open::commit;
use crate::{PostgresStore, close, lock, memory, now_ms, outbox, retrospective};

#[async_trait]
impl ManualStore for PostgresStore {
    async fn trigger(
        &self,
        key: &WorkflowKey,
        asked: &Asked,
        decide: DecideTrigger<'_>,
    ) -> Result<std::result::Result<Step, Untriggered>> {
        let id = RetrospectiveId::manual(key, &asked.request);
        let mut transaction = self.write().await?;
        // A workflow without a row has no runs either: there is nothing to lock, and nothing will be opened.
        lock::workflow(&mut transaction, key).await?;
        if let Some((earlier, _)) = retrospective::load(&mut transaction, &key.tenant, id).await? {
            let same = earlier.asked.is_some_and(|earlier| earlier.asks_the_same_as(asked));
            let other = || Untriggered::OtherContent(asked.request.clone());
            return Ok(if same { Ok(Step::AlreadyDone) } else { Err(other()) });
        }
        let triggered = match decide(&named_runs(&mut transaction, key, asked).await?) {
            Ok(triggered) => triggered,
            Err(untriggered) => return Ok(Err(untriggered)),
        };
        let manual = &triggered.retrospective;
        retrospective::open_manual(&mut transaction, manual).await?;
        retrospective::set_sample(&mut transaction, manual, &triggered.sample).await?;
        add_investigation(&mut transaction, manual, &triggered.sample, 1, 0, false).await?;
        outbox::put(&mut transaction, std::iter::once(&triggered.message)).await?;
        commit(transaction, Label::TriggerCommit).await?;
        Ok(Ok(Step::Done))
    }
}

async fn named_runs(
    connection: &mut PgConnection,
    key: &WorkflowKey,
    asked: &Asked,
) -> Result<Vec<NamedRun>> {
    const LOAD: &str = "
        SELECT runs.run_id, runs.ordinal, run_facts.number IS NOT NULL FROM runs
        LEFT JOIN run_facts USING (tenant, workflow, number)
        WHERE runs.tenant = $1 AND runs.workflow = $2 AND runs.run_id = ANY($3::text[])";
    let rows: Vec<(String, Option<i64>, bool)> = sqlx::query_as(LOAD)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(column(&asked.runs, |run| run.as_str()))
        .fetch_all(connection)
        .await
        .on("runs")?;
    rows.iter().map(|row| named_run(key, row)).collect()
}

#[async_trait]
impl ProposalStore for PostgresStore {
    async fn proposals(&self, tenant: &Tenant, filter: &ProposalFilter) -> Result<Vec<ProposalRow>> {
        const LOAD: &str = "
            SELECT id, workflow, proposal, decision FROM proposals
            WHERE tenant = $1 AND ($2::text IS NULL OR workflow = $2)
                AND ($3::text IS NULL OR retrospective = $3) AND ($4::text IS NULL OR status = $4)
            ORDER BY made_ms DESC, retrospective, place LIMIT $5";
        let rows: Vec<Record> = sqlx::query_as(LOAD)
            .bind(tenant.as_str())
            .bind(filter.workflow.as_ref().map(Workflow::as_str))
            .bind(filter.retrospective.map(|id| id.to_string()))
            .bind(filter.status.map(|status| status.as_str()))
            .bind(i64::from(filter.limit))
            .fetch_all(self.reader())
            .await
            .on("proposals")?;
        rows.iter().map(Record::read).collect()
    }

    async fn proposal(&self, tenant: &Tenant, id: ProposalId) -> Result<Option<ProposalRow>> {
        let found = load(&mut *self.snapshot().await?, tenant, id).await?;
        found.map(|record| record.read()).transpose()
    }
}

async fn load(connection: &mut PgConnection, tenant: &Tenant, id: ProposalId) -> Result<Option<Record>> {
    const LOAD: &str = "SELECT id, workflow, proposal, decision FROM proposals WHERE tenant = $1 AND id = $2";
    sqlx::query_as(LOAD)
        .bind(tenant.as_str())
        .bind(id.to_string())
        .fetch_optional(connection)
        .await
        .on("proposals")
}

/// What a person's decision is made with, as it is once the workflow is locked; `None` when the tenant has no such
/// proposal.
pub(crate) async fn facts_locked(
    connection: &mut PgConnection,
    tenant: &Tenant,
    id: ProposalId,
) -> Result<Option<ProposalFacts>> {
    // Which workflow it is of never changes.
    let Some(unlocked) = load(connection, tenant, id).await? else { return Ok(None) };
    let key = workflow_key(tenant.as_str(), unlocked.workflow())?;
    lock::workflow(connection, &key).await?;
    let Some(record) = load(connection, tenant, id).await? else { return Ok(None) };
    let ProposalRow { proposal, decision } = record.read()?;
    let (applied, changed) = close::caused(connection, &key, &causes(&key, &proposal)).await?;
    Ok(Some(ProposalFacts {
        memories: memory::living_and_named(connection, &key, &changed).await?,
        tombstones: memory::tombstones(connection, &key).await?,
        key,
        proposal,
        decision,
        applied,
    }))
}

/// Stores what a retrospective proposes, in the order of its report.
pub(crate) async fn store_proposals(
    connection: &mut PgConnection,
    key: &WorkflowKey,
    proposals: &[Proposal],
) -> Result<()> {
    const STORE: &str = concat!(
        "INSERT INTO proposals (tenant, id, workflow, retrospective, place, status, proposal, made_ms)
         SELECT $1, id, $2, retrospective, place, 'open', proposal, ",
        now_ms!(),
        " FROM unnest($3::text[], $4::text[], $5::text[])
             WITH ORDINALITY AS new (id, retrospective, proposal, place)"
    );
    if proposals.is_empty() {
        return Ok(());
    }
    let done = sqlx::query(STORE)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(column(proposals, |one| one.id.to_string()))
        .bind(column(proposals, |one| one.retrospective.to_string()))
        .bind(column(proposals, json))
        .execute(connection)
        .await
        .on("proposals")?;
    at("proposals", key).touched(done.rows_affected(), proposals.len())
}

/// Stores the decision about an open proposal.
pub(crate) async fn set_decision(
    connection: &mut PgConnection,
    tenant: &Tenant,
    id: ProposalId,
    decision: &Decision,
) -> Result<()> {
    const SET: &str = "
        UPDATE proposals SET status = $3, decision = $4 WHERE tenant = $1 AND id = $2 AND status = 'open'";
    let done = sqlx::query(SET)
        .bind(tenant.as_str())
        .bind(id.to_string())
        .bind(decision.verdict.as_str())
        .bind(json(decision))
        .execute(connection)
        .await
        .on("proposals")?;
    at("proposals.decision", id).touched(done.rows_affected(), 1)
}
