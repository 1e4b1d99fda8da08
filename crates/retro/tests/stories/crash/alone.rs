//! What the program does only now and then, and no story can wait for: renewing a lease and giving a claim back, retention,
//! the record of what people did. Each is done through the same port by a process that does nothing else, this test binary
//! itself, and dies of it; then the program goes on with what that left.

use std::sync::Arc;

use jiff::Timestamp;
use retro_core::cancel::Attribution;
use retro_core::id::Tenant;
use retro_fault::Label;
use retro_store::broker::{LossKey, RepublishScope, StreamObservation};
use retro_store::retention::RetentionStage;
use retro_store::{AuditAction, DeliveryPosition, Redelivery, Store};
use retro_store_postgres::PostgresStore;
use retro_store_sqlite::SqliteStore;
use tokio::process::Command;
use uuid::Uuid;

use super::ground::{Ground, Point, RUNS, tell};
use super::people::under_way;
use crate::world::{Kind, carry_out, mending};

pub(super) const LABELS: [Label; 17] = [
    Label::HeartbeatCommit,
    Label::RetryCommit,
    Label::ReleaseCommit,
    Label::NoteCommit,
    Label::PurgeBodiesCommit,
    Label::PurgeJournalsCommit,
    Label::PurgeRunsCommit,
    Label::PurgeEventsCommit,
    Label::PurgeMessagesCommit,
    Label::PurgeAttemptsCommit,
    Label::LookCommit,
    Label::NameWaitingCommit,
    Label::CloseLossesCommit,
    Label::CompareCommit,
    Label::CheckedCommit,
    Label::KeepVectorsCommit,
    Label::ForgetVectorsCommit,
];
/// So many of them are about a claim.
const CLAIMS: usize = 3;
/// Which step, and on which database, for the process that does nothing else.
const STEP: &str = "CRASH_STEP";
const DATABASE: &str = "CRASH_DATABASE";
/// Rows of one call of retention.
const ROWS: u32 = 1000;

#[tokio::test]
async fn killed_at_a_rare_step_on_sqlite_it_goes_on_with_what_that_left() {
    println!("{}", tell(Kind::Sqlite, &LABELS, script).await);
}

#[tokio::test]
async fn killed_at_a_rare_step_on_postgres_it_goes_on_with_what_that_left() {
    println!("{}", tell(Kind::Postgres, &LABELS, script).await);
}

/// Claims while nobody else works, everything else beside the running program.
async fn script(ground: &mut Ground) {
    let (claims, others) = LABELS.split_at(CLAIMS);
    ground.retro(&["migrate"]).await;
    for point in Point::of(claims) {
        under_way(&*ground.store().await, &point.workflow()).await;
        taken(ground, point).await;
    }
    ground.up().await;
    for point in Point::of(claims) {
        ground.finished(&point.workflow(), RUNS).await;
    }
    for point in Point::of(others) {
        let workflow = point.workflow();
        ground.publish_all(&workflow, &mending(&workflow, "deploy_service", 0..RUNS)).await;
        ground.finished(&workflow, RUNS).await;
        grown_old(&*ground.store().await, point.label).await;
        taken(ground, point).await;
    }
}

/// What has to be there before there is something to purge.
async fn grown_old(store: &dyn Store, label: Label) {
    match label {
        // What a run said goes after its body.
        Label::PurgeRunsCommit => purge(store, RetentionStage::Bodies).await,
        Label::PurgeAttemptsCommit => {
            let (consumer, stream) = ("counter".to_owned(), "RETRO_INTAKE".to_owned());
            let position = DeliveryPosition { consumer, stream, sequence: 1_000_000 };
            let message = Redelivery::new(position, b"a message of long ago", Timestamp::UNIX_EPOCH);
            store.begin_attempt(&message, 5).await.expect("it is counted");
        }
        _ => {}
    }
}

/// By a process of its own, which dies of it, and once more.
async fn taken(ground: &mut Ground, point: Point) {
    if ground.is_killed() {
        dies_alone(ground, point).await;
    }
    take(&*ground.store().await, point.label).await;
    ground.recovered();
}

async fn dies_alone(ground: &mut Ground, point: Point) {
    let database = match ground.kind() {
        Kind::Sqlite => ground.data().join("retro.db").display().to_string(),
        Kind::Postgres => ground.database_url().to_owned(),
    };
    let mut alone = Command::new(std::env::current_exe().expect("this test binary"));
    alone.args(["--exact", "crash::alone::a_rare_step_is_taken_by_a_process_that_does_nothing_else"]);
    alone.env("FAULT_CRASH", point.word()).env(STEP, point.label.as_str()).env(DATABASE, database);
    let told = carry_out(&mut alone).await;
    assert_eq!(told.code, None, "it does not die at {}: {told:?}", point.word());
    ground.dead(point).await;
}

/// The process of its own. Undisturbed, it takes every rare step on a database of its own.
#[tokio::test]
async fn a_rare_step_is_taken_by_a_process_that_does_nothing_else() {
    if let (Ok(step), Ok(database)) = (std::env::var(STEP), std::env::var(DATABASE)) {
        let label = Label::ALL.iter().find(|label| label.as_str() == step).expect("a label");
        return take(&*open(&database).await, *label).await;
    }
    let folder = tempfile::TempDir::new().expect("a temporary folder can be made");
    let store = SqliteStore::open_and_migrate(&folder.path().join("retro.db")).await.expect("a new file");
    under_way(&store, "rare").await;
    for label in LABELS {
        take(&store, label).await;
    }
}

async fn open(database: &str) -> Arc<dyn Store> {
    if database.starts_with("postgres://") {
        Arc::new(PostgresStore::open(database).await.expect("it is there"))
    } else {
        Arc::new(SqliteStore::open(database.as_ref()).await.expect("it is there"))
    }
}

async fn take(store: &dyn Store, label: Label) {
    match label {
        Label::NoteCommit => note(store).await,
        Label::PurgeBodiesCommit => purge(store, RetentionStage::Bodies).await,
        Label::PurgeJournalsCommit => purge(store, RetentionStage::Journals).await,
        Label::PurgeRunsCommit => purge(store, RetentionStage::Runs).await,
        Label::PurgeEventsCommit => purge(store, RetentionStage::Events).await,
        Label::PurgeMessagesCommit => purge(store, RetentionStage::Messages).await,
        Label::PurgeAttemptsCommit => purge(store, RetentionStage::Attempts).await,
        Label::LookCommit => look(store).await,
        Label::NameWaitingCommit => {
            store.record_waiting_messages(LOOKED_AT, 1, &[]).await.expect("it is named")
        }
        Label::CloseLossesCommit => close_loss(store).await,
        Label::CompareCommit => drop(store.begin_reconciliation(LOOKED_AT, 1, 0).await.expect("it is begun")),
        Label::CheckedCommit => store.record_reconciled(LOOKED_AT, 1, 0).await.expect("it is remembered"),
        Label::KeepVectorsCommit => embed(store).await,
        Label::ForgetVectorsCommit => {
            store.purge_embeddings("another", 0, ROWS).await.expect("they are forgotten");
        }
        _ => claimed(store, label).await,
    }
}

/// What is kept of memories that lack a vector, if there are some.
async fn embed(store: &dyn Store) {
    let page = store.list_missing_embeddings("one", None, ROWS).await.expect("it is read");
    let made: Vec<_> = page.missing.into_iter().map(|one| (one, vec![1, 2])).collect();
    store.store_embeddings("one", &made).await.expect("they are kept");
}

/// A stream of no broker.
const LOOKED_AT: &str = "ALONE";

async fn look(store: &dyn Store) {
    let known_before = store.load_stream(LOOKED_AT).await.expect("it is read");
    let (stream, made) = (LOOKED_AT.to_owned(), "then".to_owned());
    let (anchor, anchor_before) = (None, None);
    let sight = StreamObservation {
        stream,
        known_before,
        created: made,
        first: 1,
        last: 0,
        anchor,
        anchor_before,
        handled: 0,
    };
    store.record_observation(&sight, &[], RepublishScope::Nothing).await.expect("it is looked at");
}

/// A loss that nobody has told of.
async fn close_loss(store: &dyn Store) {
    let key = LossKey { stream: LOOKED_AT.to_owned(), number: 1, first: 1 };
    let at = "2026-11-20T10:00:00Z".parse().expect("a moment");
    let act = Attribution { by: "ana".to_owned(), reason: "nothing was lost".to_owned(), at };
    store.close_losses(&[key], &act).await.expect("it is closed");
}

async fn claimed(store: &dyn Store, label: Label) {
    // One that died holds its claim for a second at most, and another investigation may be free meanwhile.
    let Some(claim) = store.claim_investigation("alone", 1).await.expect("it can be read") else { return };
    let done = match label {
        Label::HeartbeatCommit => store.extend_lease(&claim, 1).await,
        Label::RetryCommit => store.schedule_retry(&claim, 0, "the test wants it so").await,
        _ => store.release_claim(&claim).await,
    };
    done.expect("the claim is its own");
}

async fn purge(store: &dyn Store, stage: RetentionStage) {
    store.purge_stage(stage, 0, ROWS).await.expect("it is purged");
}

async fn note(store: &dyn Store) {
    let at = "2026-11-20T10:00:00Z".parse().expect("a moment");
    let act = Attribution { by: "ann".to_owned(), reason: "to see".to_owned(), at };
    let noted = store
        .record_audit_rows(&Tenant::default_tenant(), &[Uuid::nil()], AuditAction::ReadRaw, &act, None)
        .await;
    noted.expect("it is written down");
}
