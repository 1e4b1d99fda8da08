//! Tests decisions over a real database while others change the memories that are compared: the texts are
//! collected again, and nothing is decided with vectors that were never resolved.

#![expect(clippy::unwrap_used, reason = "a failed unwrap shows where the test failed")]

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use jiff::Timestamp;
use retro_consumer::{Consumer, HandlerOutcome, STORE_RETRY_DELAY};
use retro_core::canonical::content_hash;
use retro_core::count::{self, Arrival};
use retro_core::finding::{CheckedAnswer, EvidenceOrigin, Finding, FindingKind, LessonCue, Quote};
use retro_core::id::{EventKey, ProposalId, RetrospectiveId, RunId, Step, Tenant, Workflow, WorkflowKey};
use retro_core::investigate::decide_next_stage;
use retro_core::learn::build_batch;
use retro_core::manual::{Acceptance, NamedRun, trigger_retrospective};
use retro_core::message::Notice;
use retro_core::policy::Policy;
use retro_core::report::InvestigationTiming;
use retro_core::retrospective::{InvestigationResult, ManualRequest, Retrospective};
use retro_core::sample::draw_sample;
use retro_core::similarity::SimilarityScale;
use retro_core::time::FixedClock;
use retro_core::trajectory::QuotePlace;
use retro_events::Delivery;
use retro_store::{
    CounterStore, DrawnSample, EmbeddingSource, EmbeddingSourceError, FollowUp, IncomingBody, IncomingRun,
    InvestigationSequence, InvestigatorStore, ManualStore, MemoryFilter, OperatorStore, ProposalFilter,
    ProposalStore, SamplerStore, WindowsToCheck, WriterStore,
};
use retro_store_sql::SqliteStore;
use retro_writer::Writer;
use serde_json::json;

/// Returns a policy under which a single run opens a retrospective and a single finding creates an active
/// memory.
fn policy() -> Policy {
    Policy { threshold_runs: 1, confirm_runs: 1, ..Policy::default() }
}

fn key() -> WorkflowKey {
    WorkflowKey { tenant: Tenant::default_tenant(), workflow: Workflow::new("shop").unwrap() }
}

/// Returns a title that is not merged with that of another table, however similar their vectors are.
fn title(table: &str) -> String {
    format!("Query table `{table}`")
}

fn found(tables: &[&str]) -> InvestigationResult {
    let finding = |table: &&str| Finding {
        kind: FindingKind::SelfFeedback,
        step: Step::main(),
        subject: "test".to_owned(),
        title: title(table),
        content: String::new(),
        cue: LessonCue::default(),
        quote: Quote { place: QuotePlace::SelfFeedback { remark: 0 }, text: "words".to_owned() },
        contradicts: None,
        origin: EvidenceOrigin::default(),
    };
    let findings = tables.iter().map(finding).collect();
    let checked = CheckedAnswer { findings, ..CheckedAnswer::default() };
    InvestigationResult::Found { checked, presented: Vec::new() }
}

fn settle_sequence(sequence: &InvestigationSequence) -> FollowUp {
    let id = sequence.retrospective.id;
    let results: Vec<_> = sequence.ended.iter().filter_map(|one| one.result.clone()).collect();
    FollowUp {
        next: decide_next_stage(&sequence.sample, &results),
        batch: build_batch(&sequence.retrospective, &sequence.ended, &sequence.window),
        calls: None,
        message: Notice::MutationsDue { retrospective: id }.into_message(&sequence.retrospective.key),
    }
}

/// A settling retrospective that found the table `eel`, beside an active memory of the table `ant` and open
/// proposals of `bee`, `cat` and `dog`, all in one scope.
struct World {
    store: SqliteStore,
    retrospective: RetrospectiveId,
    proposals: Vec<ProposalId>,
    _folder: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open_and_migrate(&folder.path().join("retro.db")).await.unwrap();
        let (key, now) = (key(), Timestamp::UNIX_EPOCH);
        let facts = json!({"run_id": "first", "outcome": "failure"});
        let arrival = Arrival {
            event: EventKey { tenant: key.tenant.clone(), source: "test".to_owned(), id: "first".to_owned() },
            key: key.clone(),
            content_hash: content_hash(&facts),
            position: 1,
            run: serde_json::from_value(facts).unwrap(),
        };
        let decide = |facts, arrivals: &[Arrival]| {
            count::count_arrivals(facts, arrivals, count::IntakeProgress::NotAwaited, &policy(), now)
        };
        let incoming = IncomingRun { arrival, body: IncomingBody::None, trace: None };
        store.count_runs(&[incoming], WindowsToCheck::default(), &decide).await.unwrap();
        let due = store.list_retrospectives(&key.tenant, None, 1).await.unwrap().remove(0).retrospective.id;
        let sampling = |one: &Retrospective, window| {
            let sample = draw_sample(one.id, window, &one.policy);
            let first = decide_next_stage(&sample, &[]);
            DrawnSample { sample, first }
        };
        store.draw_sample(&key.tenant, due, &sampling).await.unwrap();
        let request = ManualRequest {
            request: "ask".to_owned(),
            by: "ada".to_owned(),
            with_token: None,
            runs: vec![RunId::new("first").unwrap()],
            focus: None,
            reason: None,
        };
        let trigger = |known: &[NamedRun]| trigger_retrospective(&key, &request, known, &policy(), now);
        store.trigger_retrospective(&key, &request, &trigger).await.unwrap().unwrap();
        while let Some(claim) = store.claim_investigation("test", 60).await.unwrap() {
            let is_due = claim.retrospective.id == due;
            let result = if is_due { found(&["eel"]) } else { found(&["ant", "bee", "cat", "dog"]) };
            let timing = InvestigationTiming::default();
            store.finish_investigation(&claim, &result, timing, &settle_sequence).await.unwrap();
        }
        let writer = writer(&store);
        let manual = RetrospectiveId::of_request(&key, "ask");
        assert_eq!(close(&writer, manual).await, HandlerOutcome::Done);
        let all = ProposalFilter { limit: 10, ..ProposalFilter::default() };
        let rows = store.list_proposals(&key.tenant, &all).await.unwrap();
        let proposals: Vec<_> = rows.iter().map(|row| row.proposal.id).collect();
        assert_eq!(proposals.len(), 4);
        accept(&writer, proposals[0]).await;
        Self { store, retrospective: due, proposals: proposals[1..].to_vec(), _folder: folder }
    }

    /// Returns a source that accepts some of the open proposals, one in each call, before it answers.
    fn source(&self, accepted: usize) -> Arc<InterruptedSource> {
        let arriving = self.proposals[..accepted].iter().rev().copied().collect();
        Arc::new(InterruptedSource {
            writer: writer(&self.store),
            arriving: Mutex::new(arriving),
            embedded: Mutex::default(),
            is_away: false,
        })
    }

    /// Closes the retrospective with vectors of a source.
    async fn close(&self, source: &Arc<InterruptedSource>) -> HandlerOutcome {
        let vectors: Arc<dyn EmbeddingSource> = source.clone();
        let writer = writer(&self.store).with_vector_source(Some(vectors));
        close(&writer, self.retrospective).await
    }

    /// Returns the embedder of the report; `None` if the retrospective is not closed.
    async fn closed_by(&self) -> Option<String> {
        let report = self.store.find_report(&key().tenant, self.retrospective).await.unwrap();
        report.map(|report| report.embedder)
    }

    async fn has_memory(&self, table: &str) -> bool {
        let all = MemoryFilter { limit: 10, ..MemoryFilter::default() };
        let memories = self.store.list_memories(&key().tenant, &all).await.unwrap();
        memories.iter().any(|memory| memory.lesson.title == title(table))
    }
}

/// A source that gives all texts the same vector. While it is called, the memories change.
struct InterruptedSource {
    writer: Writer,
    arriving: Mutex<Vec<ProposalId>>,
    embedded: Mutex<Vec<Vec<String>>>,
    is_away: bool,
}

impl InterruptedSource {
    fn embedded(&self) -> Vec<Vec<String>> {
        self.embedded.lock().unwrap().clone()
    }
}

#[async_trait]
impl EmbeddingSource for InterruptedSource {
    fn name(&self) -> &'static str {
        "same@1"
    }

    fn scale(&self) -> SimilarityScale {
        SimilarityScale { contradiction: 500, tombstone: 600, merge: 700 }
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<i32>>, EmbeddingSourceError> {
        self.embedded.lock().unwrap().push(texts.to_vec());
        let arriving = self.arriving.lock().unwrap().pop();
        if let Some(proposal) = arriving {
            accept(&self.writer, proposal).await;
        }
        if self.is_away {
            return Err(EmbeddingSourceError::Failed("it is away".to_owned()));
        }
        Ok(vec![vec![1]; texts.len()])
    }
}

fn writer(store: &SqliteStore) -> Writer {
    let clock = Arc::new(FixedClock(Timestamp::UNIX_EPOCH));
    Writer::new(Arc::new(store.clone()), Arc::new(policy()), clock, Arc::default())
}

async fn close(writer: &Writer, retrospective: RetrospectiveId) -> HandlerOutcome {
    let message = Notice::MutationsDue { retrospective }.into_message(&key());
    let delivery = Delivery {
        stream: "RETRO_WORK".to_owned(),
        subject: "retro.mutations.due".to_owned(),
        sequence: 1,
        headers: Vec::new(),
        payload: serde_json::to_vec(&message).unwrap().into(),
        delivered: 1,
        stored_at: Timestamp::UNIX_EPOCH,
    };
    writer.handle(&[delivery]).await.remove(0)
}

async fn accept(writer: &Writer, proposal: ProposalId) {
    let request = "yes".to_owned();
    let acceptance = Acceptance { request, by: "ada".to_owned(), override_tombstone: None, reason: None };
    let outcome = writer.accept_proposal(&key().tenant, proposal, &acceptance).await.unwrap();
    outcome.unwrap().unwrap();
}

#[tokio::test]
async fn a_scope_that_changes_while_vectors_are_fetched_is_collected_again() {
    let world = World::new().await;
    let source = world.source(1);
    assert_eq!(world.close(&source).await, HandlerOutcome::Done);
    assert_eq!(source.embedded(), [vec![title("eel"), title("ant")], vec![title("bee")]]);
    assert_eq!(world.closed_by().await.as_deref(), Some("same@1"));
    assert!(world.has_memory("bee").await && world.has_memory("eel").await);
}

#[tokio::test]
async fn a_scope_that_keeps_changing_is_retried_later_and_nothing_is_stored() {
    let world = World::new().await;
    let source = world.source(3);
    let reason = "nothing was decided: the memories to compare changed in each of 3 attempts".to_owned();
    let later = HandlerOutcome::Snooze { wait: STORE_RETRY_DELAY, reason };
    assert_eq!(world.close(&source).await, later);
    let expected = [vec![title("eel"), title("ant")], vec![title("bee")], vec![title("cat")]];
    assert_eq!(source.embedded(), expected);
    assert_eq!((world.closed_by().await, world.has_memory("eel").await), (None, false));
    let settling = world.store.load_closing_facts(&key().tenant, world.retrospective).await.unwrap();
    assert!(settling.is_some());

    assert_eq!(world.close(&source).await, HandlerOutcome::Done, "the next delivery finds it unchanged");
    assert_eq!(world.closed_by().await.as_deref(), Some("same@1"));
}

#[tokio::test]
async fn a_source_that_is_away_delays_no_decision() {
    let world = World::new().await;
    let source = Arc::new(InterruptedSource {
        writer: writer(&world.store),
        arriving: Mutex::default(),
        embedded: Mutex::default(),
        is_away: true,
    });
    assert_eq!(world.close(&source).await, HandlerOutcome::Done);
    assert_eq!(source.embedded().len(), 1);
    assert!(world.has_memory("eel").await);
}
