//! Tests the agents' API over a real database: presentations and reads are counted once per run and stay
//! within their tenant, and no run fails if the database becomes unavailable.

#![expect(clippy::unwrap_used, reason = "a failed unwrap shows where the test failed")]

use std::sync::Arc;

use jiff::Timestamp;
use retro_core::calls::Contrast;
use retro_core::canonical::content_hash;
use retro_core::count::{self, Arrival};
use retro_core::finding::{CheckedAnswer, EvidenceOrigin, Finding, FindingKind, Quote};
use retro_core::id::{EventKey, RunId, Step, Tenant, Workflow, WorkflowKey};
use retro_core::investigate::decide_next_stage;
use retro_core::learn::{close_retrospective, settle_investigations};
use retro_core::message::Notice;
use retro_core::policy::Policy;
use retro_core::report::InvestigationTiming;
use retro_core::retrospective::{InvestigationResult, Retrospective};
use retro_core::sample::draw_sample;
use retro_core::similarity::NgramEmbedder;
use retro_core::trajectory::QuotePlace;
use retro_gateway::{ContextAnswer, ContextRequest, Gateway, MemoryReader, Recording};
use retro_store::{
    CounterStore, DrawnSample, FollowUp, IncomingBody, IncomingRun, InvestigationSequence, InvestigatorStore,
    OperatorStore, RecallStore, SamplerStore, UnresolvedRef, WindowsToCheck, WriterStore,
};
use retro_store_sql::SqliteStore;
use serde_json::json;

/// Returns a policy under which a single run opens a retrospective and a single finding creates an active
/// memory.
fn policy() -> Policy {
    Policy { threshold_runs: 1, confirm_runs: 1, withhold_permille: 0, ..Policy::default() }
}

fn key(tenant: &str) -> WorkflowKey {
    WorkflowKey { tenant: Tenant::new(tenant).unwrap(), workflow: Workflow::new("shop").unwrap() }
}

/// Takes a run with these lessons through every stage: counted, investigated, settled and written.
async fn learn_memories(store: &SqliteStore, key: &WorkflowKey, lessons: &[String]) {
    let facts = json!({"run_id": "first", "outcome": "failure"});
    let arrival = Arrival {
        event: EventKey { tenant: key.tenant.clone(), source: "test".to_owned(), id: "first".to_owned() },
        key: key.clone(),
        content_hash: content_hash(&facts),
        position: 1,
        run: serde_json::from_value(facts).unwrap(),
    };
    let now = Timestamp::UNIX_EPOCH;
    let decide = |facts, arrivals: &[Arrival]| {
        count::count_arrivals(facts, arrivals, count::IntakeProgress::NotAwaited, &policy(), now)
    };
    store
        .count_runs(
            &[IncomingRun { arrival, body: IncomingBody::None, trace: None }],
            WindowsToCheck::default(),
            &decide,
        )
        .await
        .unwrap();
    let due = store.list_retrospectives(&key.tenant, None, 1).await.unwrap().remove(0).retrospective.id;
    let sampling = |one: &Retrospective, window| {
        let sample = draw_sample(one.id, window, &one.policy);
        let first = decide_next_stage(&sample, &[]);
        DrawnSample { sample, first }
    };
    store.draw_sample(&key.tenant, due, &sampling).await.unwrap();
    let claim = store.claim_investigation("test", 60).await.unwrap().unwrap();
    let findings = lessons.iter().map(|title| finding(title)).collect();
    let checked = CheckedAnswer { findings, ..CheckedAnswer::default() };
    let found = InvestigationResult::Found { checked, presented: vec![] };
    store
        .finish_investigation(&claim, &found, InvestigationTiming::default(), &settle_sequence)
        .await
        .unwrap();
    let closing = |facts| Ok(close_retrospective(facts, &NgramEmbedder, &policy(), now));
    let closed = WriterStore::close_retrospective(store, &key.tenant, due, now, &closing).await.unwrap();
    closed.expect("every text can be compared");
}

fn finding(title: &str) -> Finding {
    Finding {
        kind: FindingKind::SelfFeedback,
        step: Step::main(),
        subject: "test".to_owned(),
        title: title.to_owned(),
        content: format!("{title}, in full"),
        cue: Default::default(),
        quote: Quote { place: QuotePlace::SelfFeedback { remark: 0 }, text: title.to_owned() },
        contradicts: None,
        origin: EvidenceOrigin::default(),
    }
}

fn settle_sequence(sequence: &InvestigationSequence) -> FollowUp {
    let id = sequence.retrospective.id;
    let results: Vec<_> = sequence.ended.iter().filter_map(|one| one.result.clone()).collect();
    let message = Notice::MutationsDue { retrospective: id }.into_message(&sequence.retrospective.key);
    FollowUp {
        next: decide_next_stage(&sequence.sample, &results),
        batch: settle_investigations(id, &sequence.ended, &Contrast::of_window(&sequence.window)),
        calls: None,
        message,
    }
}

async fn open_gateway(folder: &tempfile::TempDir) -> (Gateway, SqliteStore) {
    let store = SqliteStore::open_and_migrate(&folder.path().join("retro.db")).await.unwrap();
    let gateway = Gateway::new(Arc::new(store.clone()), Arc::new(policy()));
    // On a machine that runs every test at once, the default timeout could expire.
    (gateway.with_timeout(std::time::Duration::from_secs(30)), store)
}

async fn request_context(gateway: &Gateway, tenant: &str, run: Option<&str>) -> ContextAnswer {
    let run_id = run.map(|run| RunId::new(run).unwrap());
    let request = ContextRequest {
        workflow: key(tenant).workflow,
        step: Step::main(),
        run_id,
        repo: None,
        repo_visibility: None,
        paths: Vec::new(),
        task: None,
    };
    gateway.context(&key(tenant).tenant, request).await
}

#[tokio::test]
async fn a_presentation_counts_once_per_run_and_a_preview_never() {
    let folder = tempfile::tempdir().unwrap();
    let (gateway, store) = open_gateway(&folder).await;
    learn_memories(&store, &key("default"), &["Always close the file".to_owned()]).await;
    for (run, recorded) in [
        (None, Recording::Preview),
        (Some("run-1"), Recording::Recorded),
        (Some("run-1"), Recording::Recorded),
        (Some("run-2"), Recording::Recorded),
    ] {
        let answer = request_context(&gateway, "default", run).await;
        assert_eq!((answer.memories.len(), answer.recorded), (1, recorded), "{answer:?}");
    }
    let candidates = store.load_candidates(&key("default"), &Step::main(), None, 0).await.unwrap();
    assert_eq!(candidates[0].presentations, 2);
}

#[tokio::test]
async fn the_least_presented_memories_get_the_reserved_places() {
    let folder = tempfile::tempdir().unwrap();
    let (gateway, store) = open_gateway(&folder).await;
    let animals = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay", "kiwi", "lynx"];
    let lessons: Vec<_> = animals.iter().map(|animal| format!("`{animal}`")).collect();
    learn_memories(&store, &key("default"), &lessons).await;
    let (mut met, mut newcomers) = (std::collections::BTreeSet::new(), 0);
    for run in 1..=4 {
        let answer = request_context(&gateway, "default", Some(&format!("run-{run}"))).await;
        assert!(answer.tokens <= 500 && answer.memories.len() + answer.omitted as usize == 12, "{answer:?}");
        newcomers += answer.memories.iter().filter(|memory| memory.newcomer).count();
        met.extend(answer.memories.iter().map(|memory| memory.id));
    }
    assert_eq!((met.len(), newcomers), (12, 8), "every memory was presented, two places per run");
}

#[tokio::test]
async fn nothing_crosses_tenants_that_use_the_same_names() {
    let folder = tempfile::tempdir().unwrap();
    let (gateway, store) = open_gateway(&folder).await;
    for tenant in ["default", "acme"] {
        learn_memories(&store, &key(tenant), &[format!("A lesson of {tenant}")]).await;
    }
    let own = request_context(&gateway, "acme", Some("run-1")).await;
    assert_eq!(own.memories[0].title, "An agent noted: “A lesson of acme”", "positive control");
    let id = own.memories[0].id;
    assert!(!request_context(&gateway, "default", Some("run-1")).await.text.contains("acme"));
    let run = Some(RunId::new("run-1").unwrap());
    let (home, acme) = (key("default").tenant, key("acme").tenant);
    for name in [id.into(), id.short_id().parse().unwrap()] {
        let foreign = gateway
            .read_memory(&home, name, MemoryReader { run: run.clone(), ..MemoryReader::default() })
            .await;
        assert_eq!(
            foreign,
            Err(UnresolvedRef::Missing(name)),
            "the memory of another tenant is reported like a missing one"
        );
        let own = gateway.read_memory(&acme, name, MemoryReader::default()).await.unwrap();
        assert_eq!(own.memory.unwrap().id, id, "positive control");
    }
    let answer =
        gateway.read_memory(&acme, id.into(), MemoryReader { run, ..MemoryReader::default() }).await.unwrap();
    assert_eq!(answer.memory.unwrap().content, "A lesson of acme, in full", "positive control");
}

#[tokio::test]
async fn a_database_that_became_unavailable_gives_an_empty_answer() {
    let folder = tempfile::tempdir().unwrap();
    let (gateway, store) = open_gateway(&folder).await;
    learn_memories(&store, &key("default"), &["Always close the file".to_owned()]).await;
    assert_eq!(request_context(&gateway, "default", None).await.memories.len(), 1, "positive control");
    store.disconnect().await;
    let answer = request_context(&gateway, "default", Some("run-1")).await;
    assert!(answer.memories.is_empty() && answer.recorded == Recording::Nothing, "{answer:?}");
    assert!(answer.reason.as_ref().is_some_and(|reason| reason.contains("not available")), "{answer:?}");
}
