//! Tests that damaged rows are reported with their location, are distinguished from transient errors, and do
//! not block other rows.

use jiff::Timestamp;
use retro_core::id::{Tenant, Workflow, WorkflowKey};
use retro_core::report::InvestigationTiming;
use retro_core::retrospective::InvestigationResult;
use retro_store::conformance::samples::sample_sql;
use retro_store::{
    AttemptStart, DeliveryPosition, DeliveryStore, InvestigatorStore, MemoryFilter, OperatorStore,
    RecallStore, Redelivery, RetentionStore, RunFilter, SamplerStore, StoreError, StoredBody, retention,
};
use retro_store_sql::PostgresStore;
use retro_store_sql::postgres::migrate;
use retro_testkit::TestPostgres;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

/// Database with sample rows, and a raw connection that damages them.
struct SampledDatabase {
    server: TestPostgres,
    raw: PgConnection,
    store: PostgresStore,
}

async fn open_sampled() -> SampledDatabase {
    let server = TestPostgres::start().await;
    migrate(&server.url()).await.expect("a fresh database");
    let mut raw = PgConnection::connect(&server.url()).await.expect("the database");
    let unhex = "CREATE FUNCTION unhex(text) RETURNS bytea LANGUAGE sql AS $$ SELECT decode($1, 'hex') $$";
    sqlx::raw_sql(unhex).execute(&mut raw).await.expect("legal SQL");
    let rows = AssertSqlSafe(sample_sql(1).expect("the baseline has rows"));
    sqlx::raw_sql(rows).execute(&mut raw).await.expect("the samples");
    let store = PostgresStore::open(&server.url()).await.expect("a migrated database");
    SampledDatabase { server, raw, store }
}

impl SampledDatabase {
    async fn damage_rows(&mut self, sql: impl Into<String>) {
        let sql = sql.into();
        let done = sqlx::raw_sql(AssertSqlSafe(sql.clone())).execute(&mut self.raw).await.expect("legal SQL");
        assert!(done.rows_affected() > 0, "no row was damaged by {sql}");
    }
}

#[tokio::test]
async fn a_damaged_row_is_reported_with_table_column_and_key() {
    let mut world = open_sampled().await;
    let tenant = Tenant::default_tenant();
    let filter = MemoryFilter { limit: 1, ..Default::default() };
    let memory = world.store.list_memories(&tenant, &filter).await.unwrap().remove(0);
    world.damage_rows("UPDATE memories SET memory = (memory::jsonb - 'weight')::text").await;
    let error = world.store.list_memories(&tenant, &filter).await.unwrap_err().to_string();
    let named = format!("memories.memory of {} is damaged: missing field `weight`", memory.id);
    assert!(error.starts_with(&named), "{error}");
    world.damage_rows("UPDATE run_facts SET facts = '{'").await;
    let filter = RunFilter { limit: 1, ..Default::default() };
    let error = world.store.list_runs(&tenant, &filter).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Damaged { place, .. } if place.starts_with("run_facts.facts of default/")),
        "{error}"
    );
}

#[tokio::test]
async fn a_damaged_investigation_does_not_block_the_next_ones() {
    let mut world = open_sampled().await;
    // Leave one due investigation of the samples, and add one of another workflow that is due later.
    world
        .damage_rows(
            "UPDATE retrospectives SET state = 'cancelled' WHERE tenant = 'default' AND state = 'investigating';
             INSERT INTO workflows SELECT tenant, 'second', recorded, counted, claimed, epoch, open, failures
             FROM workflows WHERE tenant = 'acme';
             INSERT INTO retrospectives SELECT tenant, '00000000-0000-8000-8000-000000000001', 'second', epoch,
                 first_ordinal, last_ordinal, as_of, policy, 'due', NULL, opened_ms, state_ms
             FROM retrospectives WHERE state = 'investigating';
             INSERT INTO runs
             SELECT tenant, 'second', run_id, number, ordinal, attempt, received_ms, intake_sequence FROM runs;
             INSERT INTO run_facts SELECT tenant, 'second', number, facts, body FROM run_facts",
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
    let mut world = open_sampled().await;
    for (sql, reason) in [
        ("UPDATE run_bodies SET trajectory = substr(trajectory, 1, 20)", "cannot be decompressed"),
        ("UPDATE run_bodies SET trajectory = '\\x0011223344'", "is not a compressed body"),
        ("DELETE FROM run_bodies", "its row in run_bodies is missing"),
        ("UPDATE run_facts SET body = '{\"location\":\"dropped\"}'", "dropped on purpose"),
        ("UPDATE run_facts SET body = 'nonsense'", "run_facts.body cannot be read"),
    ] {
        world.damage_rows(sql).await;
        let claim = world.store.claim_investigation("tests", 0).await.unwrap().expect("one is due");
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
    world.store.schedule_retry(&claim, 0, "a reason with a \0 in it").await.unwrap();
    assert!(world.store.claim_investigation("tests", 60).await.unwrap().is_none(), "it is not due any more");
}

#[tokio::test]
async fn old_attempts_are_purged() {
    const DAY_S: u64 = 24 * 3600;
    const AGE: &str =
        "UPDATE attempts SET last_attempt_ms = floor(extract(epoch FROM now()) * 1000)::bigint - ";
    let mut world = open_sampled().await;
    // Attempts are also purged by the age of their history, which would hide the age tested here.
    world.damage_rows("DELETE FROM attempt_history WHERE dead_letter IS NULL").await;
    let position = DeliveryPosition { consumer: "counter".into(), stream: "RETRO_RUNS".into(), sequence: 41 };
    let message = Redelivery::new(position, b"a message", Timestamp::UNIX_EPOCH);
    world.damage_rows(format!("{AGE}23 * 3600 * 1000, attempts = 2")).await;
    assert_eq!(
        world.store.purge_stage(retention::RetentionStage::Attempts, DAY_S, 100).await.unwrap().rows,
        0
    );
    assert_eq!(world.store.begin_attempt(&message, 5).await.unwrap(), AttemptStart::Begun(4));
    world.damage_rows(format!("{AGE}25 * 3600 * 1000")).await;
    assert!(world.store.purge_stage(retention::RetentionStage::Attempts, DAY_S, 100).await.unwrap().rows > 0);
    assert_eq!(world.store.begin_attempt(&message, 5).await.unwrap(), AttemptStart::Begun(2));
}

#[tokio::test]
async fn a_lock_timeout_is_temporary_and_readers_need_no_lock() {
    let mut world = open_sampled().await;
    let mut holding = world.raw.begin().await.unwrap();
    sqlx::query("SELECT FROM workflows FOR UPDATE").execute(&mut *holding).await.unwrap();
    let before = world.store.load_health().await.unwrap().events_seen;
    sqlx::query("UPDATE workflows SET events = events + 7").execute(&mut *holding).await.unwrap();
    let tenant = Tenant::default_tenant();
    assert_eq!(
        world.store.load_health().await.unwrap().events_seen,
        before,
        "a reader sees only committed rows"
    );
    let memory =
        world.store.list_memories(&tenant, &MemoryFilter { limit: 1, ..Default::default() }).await.unwrap();
    let decide = |_: &WorkflowKey, _: &retro_core::memory::Memory| unreachable!("the lock does not come");
    let answer = retro_store::WriterStore::delete_memory(&world.store, &tenant, memory[0].id, &decide).await;
    assert!(
        matches!(&answer, Err(StoreError::Unavailable(why)) if why.contains("lock timeout")),
        "{answer:?}"
    );
    holding.rollback().await.unwrap();
    assert!(world.store.find_memory(&tenant, memory[0].id).await.unwrap().is_some());
}

#[tokio::test]
async fn a_crashed_server_is_temporary_and_nothing_is_lost() {
    let mut world = open_sampled().await;
    let before = world.store.load_health().await.unwrap();
    world.server.stop();
    let answer = world.store.load_health().await;
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    world.server.start_again().await;
    assert_eq!(world.store.load_health().await.unwrap(), before);
}

#[tokio::test]
async fn an_edited_migration_is_refused_and_a_newer_one_is_accepted() {
    let mut world = open_sampled().await;
    world.damage_rows("INSERT INTO _sqlx_migrations SELECT 9999, 'later', installed_on, success, checksum, execution_time FROM _sqlx_migrations WHERE version = 1").await;
    assert_eq!(migrate(&world.server.url()).await.unwrap(), Vec::<String>::new());
    PostgresStore::open(&world.server.url()).await.unwrap();
    world.damage_rows("UPDATE _sqlx_migrations SET checksum = '\\x00' WHERE version = 1").await;
    assert!(matches!(migrate(&world.server.url()).await, Err(StoreError::Damaged { .. })));
}
