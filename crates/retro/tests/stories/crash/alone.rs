//! Crashes in rare steps that a test cannot wait for: renewing a lease, releasing a claim, retention and the
//! audit log. A process that does nothing else, this test binary itself, runs each step through the same port
//! and dies during it. The program then continues from the state left behind.

use std::sync::Arc;

use jiff::Timestamp;
use retro_core::attribution::Attribution;
use retro_core::id::{EventKey, Tenant};
use retro_core::model_use::TokenUsage;
use retro_core::remark::Remark;
use retro_core::trace_collection::{SpanOutline, TraceWaits};
use retro_fault::Label;
use retro_store::broker::{LossKey, RepublishScope, StreamObservation};
use retro_store::retention::RetentionStage;
use retro_store::{
    AddSpansResult, AddedTrace, ArrivingSpan, ArrivingTrace, AuditAction, CollectionBounds, CollectionRules,
    CompressedDocument, DeliveryPosition, JournalEntry, JournalStage, ModelCall, ModelCallResult,
    PullRequestKey, Redelivery, ReviewEvent, ReviewEventKind, Store, TraceEnd,
};
use retro_store_sql::{PostgresStore, SqliteStore};
use tokio::process::Command;
use uuid::Uuid;

use super::commands::open_investigation;
use super::harness::{CrashHarness, CrashPoint, RUNS, compare_with_undisturbed};
use crate::world::{DatabaseKind, build_correcting_runs, json_items, run_command};

pub(super) const LABELS: [Label; 20] = [
    Label::HeartbeatCommit,
    Label::JournalBriefedCommit,
    Label::ModelCallCommit,
    Label::RetryCommit,
    Label::ReleaseCommit,
    Label::AuditCommit,
    Label::PurgeBodiesCommit,
    Label::PurgeJournalsCommit,
    Label::PurgeRunsCommit,
    Label::PurgeEventsCommit,
    Label::PurgeMessagesCommit,
    Label::PurgeAttemptsCommit,
    Label::StreamCheckCommit,
    Label::StreamPendingCommit,
    Label::CloseLossesCommit,
    Label::ReconcileBeginCommit,
    Label::ReconcileCommit,
    Label::StoreEmbeddingsCommit,
    Label::PurgeEmbeddingsCommit,
    Label::TracesPurgeCommit,
];
/// Steps under a claim on the reviews of a pull request.
pub(super) const REVIEW_LABELS: [Label; 3] =
    [Label::ReviewClaimCommit, Label::ReviewRenewCommit, Label::ReviewCallCommit];
/// Number of labels, at the front of the list, that need a claim.
const CLAIM_LABELS: usize = 5;
/// Environment variables that pass the step and the database to the separate process.
const STEP_VARIABLE: &str = "CRASH_STEP";
const DATABASE_VARIABLE: &str = "CRASH_DATABASE";
/// Maximum number of rows per retention call.
const ROWS_MAX: u32 = 1000;

#[test]
fn killed_at_a_rare_step_the_program_continues_from_what_is_left() {
    println!("{}", compare_with_undisturbed(|_| &LABELS, run_script));
}

#[test]
fn killed_while_a_model_reads_a_review_the_program_decides_it() {
    println!("{}", compare_with_undisturbed(|_| &REVIEW_LABELS, run_review_script));
}

/// Runs the steps while no other process works, then lets the program decide the reviews that were claimed.
async fn run_review_script(ground: &mut CrashHarness) {
    ground.run_retro(&["migrate"]).await;
    for point in CrashPoint::for_labels(&REVIEW_LABELS) {
        crash_and_repeat_step(ground, point).await;
    }
    ground.up().await;
    // `retro verify` requires at least one counted run.
    ground.publish_events("runs", &build_correcting_runs("runs", "deploy_service", 0..RUNS)).await;
    ground.wait_until_finished("runs", RUNS).await;
    let decided = async || {
        let reports = ground.run_json(&["rules", "reports"]).await;
        let report = json_items(&reports).first()?.clone();
        (report["review"]["pull_request"] == "acme/alone#1").then_some(())
    };
    ground.wait_for("the reviews are decided", decided).await;
}

/// Runs the claim steps while no other process works, and all others alongside the running program.
async fn run_script(ground: &mut CrashHarness) {
    let (claims, others) = LABELS.split_at(CLAIM_LABELS);
    ground.run_retro(&["migrate"]).await;
    for point in CrashPoint::for_labels(claims) {
        open_investigation(&*ground.open_store().await, &point.workflow_name()).await;
        crash_and_repeat_step(ground, point).await;
    }
    ground.up().await;
    for point in CrashPoint::for_labels(claims) {
        ground.wait_until_finished(&point.workflow_name(), RUNS).await;
    }
    for point in CrashPoint::for_labels(others) {
        let workflow = point.workflow_name();
        ground.publish_events(&workflow, &build_correcting_runs(&workflow, "deploy_service", 0..RUNS)).await;
        ground.wait_until_finished(&workflow, RUNS).await;
        prepare_step(&*ground.open_store().await, point.label).await;
        crash_and_repeat_step(ground, point).await;
    }
}

/// Creates the data that a step purges.
async fn prepare_step(store: &dyn Store, label: Label) {
    match label {
        // A run's details are purged after its body.
        Label::PurgeRunsCommit => purge_stage(store, RetentionStage::Bodies).await,
        Label::PurgeAttemptsCommit => {
            let (consumer, stream) = ("counter".to_owned(), "RETRO_INTAKE".to_owned());
            let position = DeliveryPosition { consumer, stream, sequence: 1_000_000 };
            let message = Redelivery::new(position, b"a message of long ago", Timestamp::UNIX_EPOCH);
            store.begin_attempt(&message, 5).await.expect("the attempt is counted");
        }
        Label::TracesPurgeCommit => close_trace(store).await,
        _ => {}
    }
}

/// Runs a step in a separate process that dies during it, then runs the step again.
pub(super) async fn crash_and_repeat_step(ground: &mut CrashHarness, point: CrashPoint) {
    if ground.is_killed() {
        crash_in_own_process(ground, point).await;
    }
    run_step(&*ground.open_store().await, point.label).await;
    ground.record_recovery();
}

async fn crash_in_own_process(ground: &mut CrashHarness, point: CrashPoint) {
    let database = match ground.kind() {
        DatabaseKind::Sqlite => ground.data_dir().join("retro.db").display().to_string(),
        DatabaseKind::Postgres => ground.database_url().to_owned(),
    };
    let mut alone = Command::new(std::env::current_exe().expect("this test binary"));
    alone.args(["--exact", "crash::alone::a_separate_process_runs_one_rare_step"]);
    alone
        .env("FAULT_CRASH", point.to_fault_value())
        .env(STEP_VARIABLE, point.label.as_str())
        .env(DATABASE_VARIABLE, database);
    let output = run_command(&mut alone).await;
    assert_eq!(output.code, None, "the process does not die at {}: {output:?}", point.to_fault_value());
    ground.record_death(point).await;
}

/// Entry point of the separate process. Without the variables, runs every rare step on its own database.
#[tokio::test]
async fn a_separate_process_runs_one_rare_step() {
    if let (Ok(step), Ok(database)) = (std::env::var(STEP_VARIABLE), std::env::var(DATABASE_VARIABLE)) {
        let label = Label::ALL.iter().find(|label| label.as_str() == step).expect("a label");
        return run_step(&*open_store(&database).await, *label).await;
    }
    let folder = tempfile::TempDir::new().expect("a temporary folder can be made");
    let store = SqliteStore::open_and_migrate(&folder.path().join("retro.db")).await.expect("a new file");
    open_investigation(&store, "rare").await;
    for label in LABELS.iter().chain(&REVIEW_LABELS).copied() {
        run_step(&store, label).await;
    }
}

async fn open_store(database: &str) -> Arc<dyn Store> {
    if database.starts_with("postgres://") {
        Arc::new(PostgresStore::open(database).await.expect("the database exists"))
    } else {
        Arc::new(SqliteStore::open(database.as_ref()).await.expect("the database exists"))
    }
}

async fn run_step(store: &dyn Store, label: Label) {
    match label {
        Label::AuditCommit => record_audit_row(store).await,
        Label::PurgeBodiesCommit => purge_stage(store, RetentionStage::Bodies).await,
        Label::PurgeJournalsCommit => purge_stage(store, RetentionStage::Journals).await,
        Label::PurgeRunsCommit => purge_stage(store, RetentionStage::Runs).await,
        Label::PurgeEventsCommit => purge_stage(store, RetentionStage::Events).await,
        Label::PurgeMessagesCommit => purge_stage(store, RetentionStage::Messages).await,
        Label::PurgeAttemptsCommit => purge_stage(store, RetentionStage::Attempts).await,
        Label::StreamCheckCommit => record_observation(store).await,
        Label::StreamPendingCommit => {
            store.record_waiting_messages(STREAM, 1, &[]).await.expect("the messages are recorded")
        }
        Label::CloseLossesCommit => close_loss(store).await,
        Label::ReconcileBeginCommit => {
            store.begin_reconciliation(STREAM, 1, 0).await.expect("the reconciliation begins");
        }
        Label::ReconcileCommit => {
            store.record_reconciled(STREAM, 1, 0).await.expect("the position is stored")
        }
        Label::StoreEmbeddingsCommit => store_embeddings(store).await,
        Label::PurgeEmbeddingsCommit => {
            store.purge_embeddings("another", 0, ROWS_MAX).await.expect("the vectors are purged");
        }
        Label::TracesPurgeCommit => {
            store.purge_closed_traces(0, ROWS_MAX).await.expect("the traces are purged");
        }
        Label::ReviewClaimCommit | Label::ReviewRenewCommit | Label::ReviewCallCommit => {
            use_review_claim(store, label).await;
        }
        _ => update_claim(store, label).await,
    }
}

/// Claims the reviews of a pull request, and renews the claim or stores a call under it. The claim ends at once, so that the
/// process that repeats the step need not wait for it.
async fn use_review_claim(store: &dyn Store, label: Label) {
    let remark: Remark = serde_json::from_value(serde_json::json!({
        "key": "acme/alone#1/line_comment/1",
        "by": "ann",
        "association": "member",
        "body": "Nice work, thanks!",
        "at": "2026-11-20T12:00:00Z",
    }))
    .expect("a remark");
    let key =
        PullRequestKey { tenant: Tenant::default_tenant(), pull_request: remark.key.pull_request.clone() };
    let (source, id) = ("https://github.com/acme/alone".to_owned(), "alone".to_owned());
    let event = ReviewEvent {
        event: EventKey { tenant: key.tenant.clone(), source, id },
        content_hash: "of the remark".to_owned(),
        pull_request: key.pull_request.clone(),
        author: None,
        kind: Some(ReviewEventKind::Remark { changed_at: remark.at, remark, thumbs_up: 0 }),
    };
    store.record_events(&[event], 0).await.expect("the event is recorded");
    let claim = store.claim_reviews(&key, 0).await.expect("the store can be read").expect("it is due");
    let done = match label {
        Label::ReviewRenewCommit => store.extend_review_claim(&claim, 0).await,
        Label::ReviewCallCommit => store.append_review_call(&claim, &answered_call()).await,
        _ => Ok(()),
    };
    done.expect("the claim is still valid");
}

/// Collects a trace and closes it.
async fn close_trace(store: &dyn Store) {
    let waits = TraceWaits { quiet_ms: 0, root_ms: 0 };
    let bounds = CollectionBounds {
        trace_spans_max: 1,
        trace_bytes_max: 100,
        tenant_traces_max: 10,
        tenant_bytes_max: 100,
    };
    let rules = CollectionRules { waits, bounds, lease_s: 600 };
    let outline =
        SpanOutline { span_id: "1".to_owned(), has_ended: true, is_call: true, ..SpanOutline::default() };
    let document = CompressedDocument::from_document(b"{}").expect("memory");
    let spans = vec![ArrivingSpan { outline, document, bytes: 2 }];
    let trace = ArrivingTrace { trace_id: "1".repeat(32), spans, has_run: true };
    let added =
        store.add_spans(&Tenant::default_tenant(), &[trace], &rules).await.expect("the spans are stored");
    let AddSpansResult::Added(added) = added else { panic!("the tenant has space") };
    // The trace of the other side of the step may be there still.
    if let [AddedTrace::HasRun(Some(claim))] = added.as_slice() {
        assert!(store.end_trace_claim(claim, TraceEnd::Forget).await.expect("the trace is closed"));
    }
}

/// Stores embeddings for the memories that have none.
async fn store_embeddings(store: &dyn Store) {
    let page = store.list_missing_embeddings("one", None, ROWS_MAX).await.expect("the store can be read");
    let made: Vec<_> = page.missing.into_iter().map(|one| (one, vec![1, 2])).collect();
    store.store_embeddings("one", &made).await.expect("the vectors are stored");
}

/// Name of a stream that does not exist at any broker.
const STREAM: &str = "ALONE";

async fn record_observation(store: &dyn Store) {
    let known_before = store.load_stream(STREAM).await.expect("the store can be read");
    let (stream, made) = (STREAM.to_owned(), "then".to_owned());
    let (anchor, anchor_before) = (None, None);
    let observation = StreamObservation {
        stream,
        known_before,
        created: made,
        first: 1,
        last: 0,
        anchor,
        anchor_before,
        handled: 0,
    };
    store
        .record_observation(&observation, &[], RepublishScope::Nothing)
        .await
        .expect("the observation is recorded");
}

/// Closes a loss that was never recorded.
async fn close_loss(store: &dyn Store) {
    let key = LossKey { stream: STREAM.to_owned(), incarnation: 1, first: 1 };
    let at = "2026-11-20T10:00:00Z".parse().expect("a timestamp");
    let act =
        Attribution { by: "ana".to_owned(), with_token: None, reason: "nothing was lost".to_owned(), at };
    store.close_losses(&[key], &act).await.expect("the loss is closed");
}

async fn update_claim(store: &dyn Store, label: Label) {
    // The dead process keeps its claim for at most a second, and another investigation may be free in the
    // meantime.
    let Some(claim) = store.claim_investigation("alone", 1).await.expect("the store can be read") else {
        return;
    };
    let done = match label {
        Label::HeartbeatCommit => store.extend_lease(&claim, 1).await,
        Label::JournalBriefedCommit => {
            let entry = JournalEntry { stage: JournalStage::Briefed, body: serde_json::json!({"parts": []}) };
            store.append_journal(&claim, &entry).await
        }
        Label::ModelCallCommit => store.append_model_call(&claim, &answered_call()).await,
        Label::RetryCommit => store.schedule_retry(&claim, 0, "the test wants it so").await,
        _ => store.release_claim(&claim).await,
    };
    done.expect("the claim is still valid");
}

fn answered_call() -> ModelCall {
    ModelCall {
        prompt: "a prompt".to_owned(),
        model: "small".to_owned(),
        result: ModelCallResult::Answered(serde_json::json!({"stop": "complete"})),
        usage: TokenUsage::default(),
        cost_micro_usd: None,
        duration_ms: 1,
    }
}

async fn purge_stage(store: &dyn Store, stage: RetentionStage) {
    store.purge_stage(stage, 0, ROWS_MAX).await.expect("the stage is purged");
}

async fn record_audit_row(store: &dyn Store) {
    let at = "2026-11-20T10:00:00Z".parse().expect("a timestamp");
    let act = Attribution { by: "ann".to_owned(), with_token: None, reason: "to see".to_owned(), at };
    let noted = store
        .record_audit_rows(&Tenant::default_tenant(), &[Uuid::nil()], AuditAction::ReadRaw, &act, None)
        .await;
    noted.expect("the audit row is stored");
}
