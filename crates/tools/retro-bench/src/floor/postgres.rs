//! Stores a batch in Postgres with one `INSERT … SELECT … FROM unnest(…)` a table.

use std::collections::BTreeMap;

use anyhow::Result;
use sqlx::{Connection as _, PgConnection};

use super::row::{Row, assign_numbers, check_all_new, count_by_workflow};

const INBOX: &str = "
    INSERT INTO inbox (consumer, tenant, source, event_id, content_hash, received_ms)
    SELECT 'counter', tenant, source, id, hash, floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint
    FROM unnest($1::text[], $2::bytea[], $3::bytea[], $4::text[]) AS new (tenant, source, id, hash)
    ON CONFLICT DO NOTHING";
// Sorted by the caller, so two loops lock the rows in the same order.
const WORKFLOWS: &str = "
    INSERT INTO workflows (tenant, workflow, recorded, counted, claimed, epoch, open, failures, events)
    SELECT tenant, workflow, runs, runs, 0, 0, FALSE, 0, runs
    FROM unnest($1::text[], $2::text[], $3::bigint[]) AS new (tenant, workflow, runs)
    ON CONFLICT (tenant, workflow) DO UPDATE SET recorded = workflows.recorded + excluded.recorded,
        counted = workflows.counted + excluded.counted, events = workflows.events + excluded.events
    RETURNING tenant, workflow, recorded";
const RUNS: &str = "
    INSERT INTO runs (tenant, workflow, run_id, number, ordinal, attempt, intake_sequence, received_ms)
    SELECT tenant, workflow, run_id, number, number, 1, sequence,
        floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint
    FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[])
        AS new (tenant, workflow, run_id, number, sequence)";
const FACTS: &str = r#"
    INSERT INTO run_facts (tenant, workflow, number, facts, body)
    SELECT tenant, workflow, number, facts, '"stored"'
    FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[]) AS new (tenant, workflow, number, facts)"#;
const BODIES: &str = "
    INSERT INTO run_bodies (tenant, workflow, number, trajectory)
    SELECT tenant, workflow, number, trajectory
    FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bytea[]) AS new (tenant, workflow, number, trajectory)";

pub(super) async fn store_rows(connection: &mut PgConnection, rows: &mut [Row]) -> Result<()> {
    let mut transaction = connection.begin().await?;
    let stored = sqlx::query(INBOX)
        .bind(column(rows, |row| row.tenant.as_str()))
        .bind(column(rows, |row| row.source.as_bytes()))
        .bind(column(rows, |row| row.event_id.as_bytes()))
        .bind(column(rows, |row| row.content_hash.as_str()))
        .execute(&mut *transaction)
        .await?;
    check_all_new(stored.rows_affected(), rows.len())?;

    let counts = count_by_workflow(rows);
    let counted: Vec<(String, String, i64)> = sqlx::query_as(WORKFLOWS)
        .bind(counts.keys().map(|(tenant, _)| *tenant).collect::<Vec<_>>())
        .bind(counts.keys().map(|(_, workflow)| *workflow).collect::<Vec<_>>())
        .bind(counts.values().copied().collect::<Vec<_>>())
        .fetch_all(&mut *transaction)
        .await?;
    let last: BTreeMap<_, _> =
        counted.into_iter().map(|(tenant, workflow, recorded)| ((tenant, workflow), recorded)).collect();
    assign_numbers(rows, &last)?;

    let (tenants, workflows) =
        (column(rows, |row| row.tenant.as_str()), column(rows, |row| row.workflow.as_str()));
    let numbers = column(rows, |row| row.number);
    sqlx::query(RUNS)
        .bind(&tenants)
        .bind(&workflows)
        .bind(column(rows, |row| row.run_id.as_str()))
        .bind(&numbers)
        .bind(column(rows, |row| row.sequence))
        .execute(&mut *transaction)
        .await?;
    let facts = sqlx::query(FACTS).bind(&tenants).bind(&workflows).bind(&numbers);
    facts.bind(column(rows, |row| row.facts.as_str())).execute(&mut *transaction).await?;
    let bodies = sqlx::query(BODIES).bind(&tenants).bind(&workflows).bind(&numbers);
    bodies.bind(column(rows, |row| row.trajectory.as_slice())).execute(&mut *transaction).await?;
    Ok(transaction.commit().await?)
}

fn column<'a, T>(rows: &'a [Row], value: impl Fn(&'a Row) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}
