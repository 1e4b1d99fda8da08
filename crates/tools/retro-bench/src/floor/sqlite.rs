//! Stores a batch in SQLite with one multi-row `INSERT` a table.

use std::collections::BTreeMap;

use anyhow::Result;
use sqlx::{Connection as _, QueryBuilder, Row as _, Sqlite, SqliteConnection};

use super::row::{Row, assign_numbers, check_all_new, count_by_workflow};

const NOW_MS: &str = "CAST(unixepoch('subsec') * 1000 AS INTEGER)";

pub(super) async fn store_rows(connection: &mut SqliteConnection, rows: &mut [Row]) -> Result<()> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let mut inbox: QueryBuilder<Sqlite> = QueryBuilder::new(
        "INSERT INTO inbox (consumer, tenant, source, event_id, content_hash, received_ms) ",
    );
    inbox.push_values(rows.iter(), |mut values, row| {
        values.push("'counter'");
        values
            .push_bind(&row.tenant)
            .push_bind(&row.source)
            .push_bind(&row.event_id)
            .push_bind(&row.content_hash);
        values.push(NOW_MS);
    });
    inbox.push(" ON CONFLICT DO NOTHING");
    check_all_new(inbox.build().execute(&mut *transaction).await?.rows_affected(), rows.len())?;

    let mut workflows: QueryBuilder<Sqlite> = QueryBuilder::new(
        "INSERT INTO workflows (tenant, workflow, recorded, counted, claimed, epoch, open, failures, events) ",
    );
    workflows.push_values(count_by_workflow(rows), |mut values, ((tenant, workflow), runs)| {
        values.push_bind(tenant).push_bind(workflow).push_bind(runs).push_bind(runs);
        values.push("0, 0, 0, 0").push_bind(runs);
    });
    workflows.push(
        " ON CONFLICT DO UPDATE SET recorded = recorded + excluded.recorded, counted = counted + excluded.counted,
             events = events + excluded.events RETURNING tenant, workflow, recorded",
    );
    let mut last = BTreeMap::new();
    for row in workflows.build().fetch_all(&mut *transaction).await? {
        last.insert((row.try_get(0)?, row.try_get(1)?), row.try_get(2)?);
    }
    assign_numbers(rows, &last)?;

    let mut runs: QueryBuilder<Sqlite> = QueryBuilder::new(
        "INSERT INTO runs (tenant, workflow, run_id, number, ordinal, attempt, intake_sequence, received_ms) ",
    );
    runs.push_values(rows.iter(), |mut values, row| {
        values.push_bind(&row.tenant).push_bind(&row.workflow).push_bind(&row.run_id).push_bind(row.number);
        values.push_bind(row.number).push("1").push_bind(row.sequence).push(NOW_MS);
    });
    runs.build().execute(&mut *transaction).await?;

    let mut facts: QueryBuilder<Sqlite> =
        QueryBuilder::new("INSERT INTO run_facts (tenant, workflow, number, facts, body) ");
    facts.push_values(rows.iter(), |mut values, row| {
        values.push_bind(&row.tenant).push_bind(&row.workflow).push_bind(row.number).push_bind(&row.facts);
        values.push(r#"'"stored"'"#);
    });
    facts.build().execute(&mut *transaction).await?;

    let mut bodies: QueryBuilder<Sqlite> =
        QueryBuilder::new("INSERT INTO run_bodies (tenant, workflow, number, trajectory) ");
    bodies.push_values(rows.iter(), |mut values, row| {
        values
            .push_bind(&row.tenant)
            .push_bind(&row.workflow)
            .push_bind(row.number)
            .push_bind(&row.trajectory);
    });
    bodies.build().execute(&mut *transaction).await?;
    Ok(transaction.commit().await?)
}
