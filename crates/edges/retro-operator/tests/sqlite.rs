//! Tests the operator commands on a real database: data stored through the ports is sound, exports of two
//! files are equal, and nothing leaves its tenant.

#![expect(clippy::unwrap_used, reason = "a failed unwrap shows where the test failed")]

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use jiff::{SignedDuration, Timestamp};
use retro_core::calls::Contrast;
use retro_core::canonical::content_hash;
use retro_core::count::{self, Arrival};
use retro_core::finding::{CheckedAnswer, EvidenceOrigin, Finding, FindingKind, LessonCue, Quote};
use retro_core::id::{EventKey, RunId, Step, Tenant, Workflow, WorkflowKey};
use retro_core::investigate::{NextStage, decide_next_stage};
use retro_core::learn::{close_retrospective, settle_investigations};
use retro_core::message::Notice;
use retro_core::policy::Policy;
use retro_core::report::InvestigationTiming;
use retro_core::retrospective::InvestigationResult;
use retro_core::sample::draw_sample;
use retro_core::similarity::NgramEmbedder;
use retro_core::time::FixedClock;
use retro_core::trajectory::QuotePlace;
use retro_operator::{export_canonical, find_history_with_effect, report, router, verify_store};
use retro_store::{
    CompressedDocument, CounterStore, DrawnSample, FollowUp, IncomingBody, IncomingRun,
    InvestigationSequence, InvestigatorStore, MemoryFilter, OperatorStore, SamplerStore, WindowsToCheck,
    WriterStore,
};
use retro_store_sql::SqliteStore;
use serde_json::{Value, json};
use tower::ServiceExt;

fn key(tenant: &str) -> WorkflowKey {
    WorkflowKey { tenant: Tenant::new(tenant).unwrap(), workflow: Workflow::new("shop").unwrap() }
}

/// Processes ten more runs of a workflow through every port. Each sampled run has the failure `error`.
async fn run_retrospective(store: &SqliteStore, key: &WorkflowKey, batch: u64, error: &str, now: Timestamp) {
    let runs: Vec<_> = (batch * 10 + 1..=batch * 10 + 10).map(|n| incoming_run(key, n)).collect();
    let decide = |facts, arrivals: &[Arrival]| {
        count::count_arrivals(facts, arrivals, count::IntakeProgress::NotAwaited, &Policy::default(), now)
    };
    store.count_runs(&runs, WindowsToCheck::default(), &decide).await.unwrap();
    let due = store
        .list_retrospectives(&key.tenant, Some(&key.workflow), 1)
        .await
        .unwrap()
        .remove(0)
        .retrospective
        .id;
    let sampling = |one: &retro_core::retrospective::Retrospective, window| {
        let sample = draw_sample(one.id, window, &one.policy);
        let first = decide_next_stage(&sample, &[]);
        DrawnSample { sample, first }
    };
    store.draw_sample(&key.tenant, due, &sampling).await.unwrap();
    while let Some(claim) = store.claim_investigation("test", 60).await.unwrap() {
        store
            .finish_investigation(&claim, &found_result(error), InvestigationTiming::default(), &follow_up)
            .await
            .unwrap();
    }
    let closing = |facts| Ok(close_retrospective(facts, &NgramEmbedder, &Policy::default(), now));
    let closed = WriterStore::close_retrospective(store, &key.tenant, due, now, &closing).await.unwrap();
    closed.expect("every text can be compared");
}

fn incoming_run(key: &WorkflowKey, n: u64) -> IncomingRun {
    let run_id = RunId::new(format!("run-{n}")).unwrap();
    let facts = json!({"run_id": run_id, "outcome": "failure"});
    let arrival = Arrival {
        event: EventKey { tenant: key.tenant.clone(), source: "test".to_owned(), id: run_id.to_string() },
        key: key.clone(),
        content_hash: content_hash(&facts),
        position: n,
        run: serde_json::from_value(facts).unwrap(),
    };
    let body = IncomingBody::Inline(CompressedDocument::from_document(br#"{"turns":[]}"#).unwrap());
    IncomingRun { arrival, body, trace: None }
}

fn found_result(error: &str) -> InvestigationResult {
    let cue =
        LessonCue { tool: Some("mysql".to_owned()), error: Some(error.to_owned()), ..LessonCue::default() };
    let finding = Finding {
        kind: FindingKind::Failure,
        step: Step::main(),
        subject: "mysql".to_owned(),
        title: format!("Expect “{error}” from `mysql`"),
        content: "It came up and nobody left it.".to_owned(),
        cue,
        quote: Quote { place: QuotePlace::Answer { turn: 1, call: 0 }, text: error.to_owned() },
        contradicts: None,
        origin: EvidenceOrigin::default(),
    };
    let checked = CheckedAnswer { findings: vec![finding], ..CheckedAnswer::default() };
    InvestigationResult::Found { checked, presented: vec![] }
}

fn follow_up(sequence: &InvestigationSequence) -> FollowUp {
    let id = sequence.retrospective.id;
    let results: Vec<_> = sequence.ended.iter().filter_map(|one| one.result.clone()).collect();
    let next = decide_next_stage(&sequence.sample, &results);
    let (batch, notice) = match next {
        NextStage::Investigate { number, .. } => {
            (Vec::new(), Notice::InvestigationDue { retrospective: id, investigation: number })
        }
        NextStage::Settle => (
            settle_investigations(id, &sequence.ended, &Contrast::of_window(&sequence.window)),
            Notice::MutationsDue { retrospective: id },
        ),
    };
    FollowUp { next, batch, calls: None, message: notice.into_message(&sequence.retrospective.key) }
}

/// Builds a database with two tenants that use the same names but have different lessons, and two
/// retrospectives each.
async fn build_store(folder: &tempfile::TempDir, name: &str, now: Timestamp) -> SqliteStore {
    let store = SqliteStore::open_and_migrate(&folder.path().join(name)).await.unwrap();
    for batch in 0..2 {
        run_retrospective(&store, &key("default"), batch, "ERROR default", now).await;
        run_retrospective(&store, &key("acme"), batch, "ERROR acme", now).await;
    }
    store
}

fn noon() -> Timestamp {
    "2026-11-20T12:00:00Z".parse().unwrap()
}

#[tokio::test]
async fn data_stored_through_the_ports_is_sound_and_has_a_history() {
    let folder = tempfile::tempdir().unwrap();
    let store = build_store(&folder, "a.db", noon()).await;
    let verification = verify_store(&store).await.unwrap();
    assert!(verification.is_sound(), "{}", verification.render_text());
    let checked = verification.checked;
    assert_eq!((checked.tenants, checked.runs, checked.retrospectives, checked.reports), (2, 40, 4, 4));
    assert_eq!((checked.memories, checked.changes), (2, 16), "{}", verification.render_text());
    let filter = MemoryFilter { limit: 10, ..MemoryFilter::default() };
    let memory = store.list_memories(&key("default").tenant, &filter).await.unwrap().remove(0);
    let why = find_history_with_effect(&store, &key("default").tenant, memory.id).await.unwrap().unwrap();
    assert_eq!(why.memory, Some(memory));
    assert!(why.render_text(120).contains("tentative 0.000 → active 0.300"), "{}", why.render_text(120));
}

#[tokio::test]
async fn two_databases_with_the_same_input_export_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let tenant = key("default").tenant;
    let first = export_canonical(&build_store(&folder, "a.db", noon()).await, &tenant).await.unwrap();
    let later = noon() + SignedDuration::from_hours(30);
    let second = export_canonical(&build_store(&folder, "b.db", later).await, &tenant).await.unwrap();
    assert_eq!(first, second);
    assert_eq!(first.lines().count(), 1 + 8 + 2, "a memory, its changes, the reports");
    assert!(first.contains("ERROR default") && !first.contains("acme"));
}

async fn get_path(store: &SqliteStore, tenant: &str, path: &str) -> (u16, String) {
    let clock = Arc::new(FixedClock(noon()));
    let app = retro_http::finish_router(router(Arc::new(store.clone()), Arc::new(str::to_owned), clock));
    let request = Request::get(path).header("Retro-Tenant", tenant).body(Body::empty()).unwrap();
    let response = app.oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let bytes = to_bytes(response.into_body(), 1 << 22).await.unwrap();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

#[tokio::test]
async fn objects_of_another_tenant_do_not_exist() {
    let folder = tempfile::tempdir().unwrap();
    let store = build_store(&folder, "a.db", noon()).await;
    for path in ["/v1/memories", "/v1/retrospectives", "/v1/runs"] {
        let (own, foreign) =
            (get_path(&store, "acme", path).await.1, get_path(&store, "default", path).await.1);
        let items =
            |body: &str| serde_json::from_str::<Value>(body).unwrap()["items"].as_array().unwrap().len();
        assert!(items(&own) > 0 && items(&own) == items(&foreign), "positive control: {path}");
        assert!(!foreign.contains("acme"), "{path}: {foreign}");
    }
    let tenant = key("acme").tenant;
    let retrospective = store.list_retrospectives(&tenant, None, 1).await.unwrap().remove(0).retrospective.id;
    let filter = MemoryFilter { limit: 1, ..MemoryFilter::default() };
    let memory = store.list_memories(&tenant, &filter).await.unwrap().remove(0).id;
    let missing = retro_core::id::derive_uuid("missing", &[]).to_string();
    for (before, id, rest) in [
        ("/v1/retrospectives/", retrospective.to_string(), ""),
        ("/v1/reports/", retrospective.to_string(), ""),
        ("/v1/memories/", memory.to_string(), "/why"),
        ("/v1/memories/", memory.short_id(), "/why"),
        ("/v1/memories/", memory.to_string(), "/effect"),
    ] {
        let path = |id: &str| format!("{before}{id}{rest}");
        assert_eq!(get_path(&store, "acme", &path(&id)).await.0, 200, "positive control: {before}");
        let (status, foreign) = get_path(&store, "default", &path(&id)).await;
        let (_, none) = get_path(&store, "default", &path(&missing)).await;
        assert_eq!((status, foreign.replace(&id, "ID")), (404, none.replace(&missing, "ID")), "{before}");
    }
}

#[tokio::test]
async fn a_stored_report_reads_back_and_renders() {
    let folder = tempfile::tempdir().unwrap();
    let store = build_store(&folder, "a.db", noon()).await;
    let tenant = key("default").tenant;
    let row = store.list_retrospectives(&tenant, None, 10).await.unwrap().pop().unwrap();
    let report_row = store.find_report(&tenant, row.retrospective.id).await.unwrap().unwrap();
    assert_eq!(
        report::render_headline(&report_row),
        "Retrospective 1 of shop in tenant default: Investigated 4 of the 10 runs 1 to 10. 1 memory became active."
    );
    assert!(report::render_markdown(&report_row).contains("Expect “ERROR default” from `mysql`"));
}
