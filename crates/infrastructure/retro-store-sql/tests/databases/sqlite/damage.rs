//! Tests that damaged rows are reported with their location and do not block other rows.

use std::path::PathBuf;

use retro_core::id::{Tenant, Workflow, WorkflowKey};
use retro_core::report::InvestigationTiming;
use retro_core::retrospective::InvestigationResult;
use retro_store::retention::RetentionStage;
use retro_store::{
    InvestigatorStore, MemoryFilter, OperatorStore, RecallStore, RetentionStore, RunFilter, SamplerStore,
    StoreError, StoredBody,
};
use retro_store_sql::SqliteStore;
use retro_store_sql::sqlite::migrate;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use tempfile::TempDir;

/// Database with sample rows, and a raw connection that damages them.
struct SampledDatabase {
    _folder: TempDir,
    path: PathBuf,
    raw: SqliteConnection,
    store: SqliteStore,
}

async fn open_sampled() -> SampledDatabase {
    let folder = tempfile::tempdir().expect("a folder for the file");
    let path = folder.path().join("retro.db");
    migrate(&path).await.expect("a fresh file");
    let mut raw = SqliteConnectOptions::new().filename(&path).connect().await.expect("the file");
    let rows = include_str!("../../../../../../migrations/samples/0001_baseline.sql");
    sqlx::raw_sql(rows).execute(&mut raw).await.expect("the samples");
    let store = SqliteStore::open(&path).await.expect("a migrated file");
    SampledDatabase { _folder: folder, path, raw, store }
}

impl SampledDatabase {
    async fn damage_rows(&mut self, sql: &'static str) {
        let done = sqlx::raw_sql(sql).execute(&mut self.raw).await.expect("legal SQL");
        assert!(done.rows_affected() > 0, "no row was damaged by {sql}");
    }
}

fn default_tenant() -> Tenant {
    Tenant::default_tenant()
}

#[tokio::test]
async fn a_damaged_row_is_reported_with_table_column_and_key() {
    let mut world = open_sampled().await;
    let filter = MemoryFilter { limit: 1, ..Default::default() };
    let memory = world.store.list_memories(&default_tenant(), &filter).await.unwrap().remove(0);
    world.damage_rows("UPDATE memories SET memory = json_remove(memory, '$.weight')").await;
    let error = world.store.list_memories(&default_tenant(), &filter).await.unwrap_err().to_string();
    let named = format!("memories.memory of {} is damaged: missing field `weight`", memory.id);
    assert!(error.starts_with(&named), "{error}");
    world.damage_rows("UPDATE run_facts SET facts = '{'").await;
    let filter = RunFilter { limit: 1, ..Default::default() };
    let error = world.store.list_runs(&default_tenant(), &filter).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Damaged { place, .. } if place.starts_with("run_facts.facts of default/")),
        "{error}"
    );
}

#[tokio::test]
async fn a_damaged_investigation_does_not_block_the_next_ones() {
    let mut world = open_sampled().await;
    // Only one investigation of the samples is due, and one of another workflow that is due later.
    world
        .damage_rows(
            "UPDATE retrospectives SET state = 'cancelled' WHERE tenant = 'default' AND state = 'investigating';
             INSERT INTO retrospectives (tenant, id, workflow, epoch, first_ordinal, last_ordinal, as_of, policy,
                 state, sample, opened_ms, state_ms)
             SELECT tenant, '00000000-0000-8000-8000-000000000001', 'second', epoch, first_ordinal,
                 last_ordinal, as_of, policy, 'due', NULL, opened_ms, state_ms
             FROM retrospectives WHERE state = 'investigating';
             INSERT INTO runs (tenant, workflow, run_id, number, ordinal, attempt, received_ms, intake_sequence)
             SELECT tenant, 'second', run_id, number, ordinal, attempt, received_ms, intake_sequence FROM runs;
             INSERT INTO run_facts (tenant, workflow, number, facts, body)
             SELECT tenant, 'second', number, facts, body FROM run_facts",
        )
        .await;
    let tenant = Tenant::new("acme").unwrap();
    let second = "00000000-0000-8000-8000-000000000001".parse().unwrap();
    let decide = |one: &retro_core::retrospective::Retrospective, window| {
        let sample = retro_core::sample::draw_sample(one.id, window, &one.policy);
        let first = retro_core::investigate::decide_next_stage(&sample, &[]);
        retro_store::DrawnSample { sample, first }
    };
    world.store.draw_sample(&tenant, second, &decide).await.unwrap();
    world
        .damage_rows("UPDATE retrospectives SET policy = '{}broken' WHERE workflow = 'airline-support'")
        .await;
    let error = world.store.claim_investigation("tests", 60).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Damaged { place, .. } if place.starts_with("retrospectives.policy of ")),
        "{error}"
    );
    let claim =
        world.store.claim_investigation("tests", 60).await.unwrap().expect("the next investigation is due");
    let workflow = Workflow::new("second").unwrap();
    assert_eq!(claim.retrospective.key, WorkflowKey { tenant, workflow });
    assert!(
        world.store.claim_investigation("tests", 60).await.unwrap().is_none(),
        "the damaged one is set aside"
    );
}

#[tokio::test]
async fn an_unreadable_body_is_reported_as_gone_with_the_reason() {
    for (sql, reason) in [
        ("UPDATE run_bodies SET trajectory = X'0011223344'", "is not a compressed body"),
        ("UPDATE run_bodies SET trajectory = substr(trajectory, 1, 20)", "cannot be decompressed"),
        ("DELETE FROM run_bodies", "its row in run_bodies is missing"),
        ("UPDATE run_facts SET body = '{\"location\":\"dropped\"}'", "dropped on purpose"),
        ("UPDATE run_facts SET body = 'nonsense'", "run_facts.body cannot be read"),
    ] {
        let mut world = open_sampled().await;
        world.damage_rows(sql).await;
        let claim = world.store.claim_investigation("tests", 60).await.unwrap().expect("one is due");
        assert!(matches!(&claim.body, StoredBody::Gone(text) if text.contains(reason)), "{:?}", claim.body);
    }
}

#[tokio::test]
async fn a_worker_on_a_cancelled_retrospective_is_fenced() {
    let mut world = open_sampled().await;
    let claim = world.store.claim_investigation("tests", 60).await.unwrap().expect("one is due");
    world.damage_rows("UPDATE retrospectives SET state = 'cancelled' WHERE state = 'investigating'").await;
    let result = InvestigationResult::Failed { reason: "too late".to_owned() };
    let decide = |_: &retro_store::InvestigationSequence| unreachable!("nothing is left to decide");
    let answer =
        world.store.finish_investigation(&claim, &result, InvestigationTiming::default(), &decide).await;
    assert!(matches!(answer, Err(StoreError::Fenced { .. })), "{answer:?}");
    world.store.schedule_retry(&claim, 0, "later").await.unwrap();
    assert!(world.store.claim_investigation("tests", 60).await.unwrap().is_none(), "it is not due any more");
}

#[tokio::test]
async fn readers_do_not_wait_for_a_writer_and_see_what_is_committed() {
    let mut world = open_sampled().await;
    let before = world.store.load_health().await.unwrap();
    assert!(before.events_seen > 0);
    let mut writing = world.raw.begin_with("BEGIN IMMEDIATE").await.unwrap();
    sqlx::query("UPDATE workflows SET events = 0").execute(&mut *writing).await.unwrap();
    assert_eq!(world.store.load_health().await.unwrap(), before);
    writing.commit().await.unwrap();
    assert_eq!(world.store.load_health().await.unwrap().events_seen, 0);
    // A migration of a newer program must not lock out this one.
    world.damage_rows("INSERT INTO _sqlx_migrations SELECT 9999, 'later', installed_on, success, checksum, execution_time FROM _sqlx_migrations WHERE version = 1").await;
    assert_eq!(migrate(&world.path).await.unwrap(), Vec::<String>::new());
    SqliteStore::open(&world.path).await.unwrap();
    // An edited migration that was already applied is an error.
    world.damage_rows("UPDATE _sqlx_migrations SET checksum = X'00' WHERE version = 1").await;
    assert!(matches!(migrate(&world.path).await, Err(StoreError::Damaged { .. })));
}

#[tokio::test]
async fn a_damaged_presentation_that_waits_keeps_no_run_from_being_purged() {
    let mut database = open_sampled().await;
    let rows = "INSERT INTO pending_presentations (tenant, workflow, run_id, memories, presented_ms)
                VALUES ('default', 'shop', 'run-1', 'broken', 0)";
    database.damage_rows(rows).await;
    let applied = database.store.apply_presentations(9).await;
    assert!(matches!(applied, Err(StoreError::Damaged { .. })), "positive control: {applied:?}");
    database.store.purge_stage(RetentionStage::Runs, 0, 9).await.expect("runs are purged all the same");
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM pending_presentations")
        .fetch_one(&mut database.raw)
        .await
        .expect("the table");
    assert_eq!(left, 1, "the row is kept as it is");
}
