//! Contexts for a task, and searches, beside an embedder that answers, refuses or says nothing.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use retro_core::similarity::SimilarityScale;
use retro_store::{EmbeddingSourceError, MemoryText, MissingEmbeddingsPage, Result};

use super::*;
use crate::answer::{SearchAnswer, SearchRequest};

/// An embedder for which only a text about columns has anything in common with the memory `insert`.
#[derive(Default)]
struct FakeEmbedder {
    state: EmbedderState,
    calls: AtomicU32,
    texts: Mutex<Vec<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum EmbedderState {
    #[default]
    Answers,
    Refuses,
    Hangs,
}

fn embed(text: &str) -> Vec<i32> {
    if text.contains("insert") || text.contains("Frankfurt") { vec![9, 0] } else { vec![0, 9] }
}

#[async_trait]
impl EmbeddingSource for FakeEmbedder {
    fn name(&self) -> &str {
        "fake@2"
    }

    fn scale(&self) -> SimilarityScale {
        SimilarityScale { contradiction: 300, tombstone: 500, merge: 700 }
    }

    async fn embed(&self, texts: &[String]) -> std::result::Result<Vec<Vec<i32>>, EmbeddingSourceError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.texts.lock().unwrap().extend_from_slice(texts);
        match self.state {
            EmbedderState::Answers => Ok(texts.iter().map(|text| embed(text)).collect()),
            EmbedderState::Refuses => Err(EmbeddingSourceError::Failed("http://10.0.0.7: gone".to_owned())),
            EmbedderState::Hangs => std::future::pending().await,
        }
    }
}

/// Stored vectors of every title.
struct FakeVectors;

#[async_trait]
impl EmbeddingStore for FakeVectors {
    async fn load_embeddings(
        &self,
        _tenant: &Tenant,
        _embedder: &str,
        texts: &[String],
    ) -> Result<BTreeMap<String, Vec<i32>>> {
        Ok(texts.iter().map(|text| (text.clone(), embed(text))).collect())
    }

    async fn list_missing_embeddings(
        &self,
        _embedder: &str,
        _after: Option<&(Tenant, MemoryId)>,
        _limit: u32,
    ) -> Result<MissingEmbeddingsPage> {
        Ok(MissingEmbeddingsPage::default())
    }

    async fn count_missing_embeddings(&self, _embedder: &str) -> Result<u64> {
        Ok(0)
    }

    async fn store_embeddings(&self, _embedder: &str, _new: &[(MemoryText, Vec<i32>)]) -> Result<()> {
        Ok(())
    }

    async fn purge_embeddings(&self, _embedder: &str, _older_than_s: u64, _limit: u32) -> Result<u64> {
        Ok(0)
    }
}

fn store() -> FakeStore {
    FakeStore::with_memories(vec![active_memory("select", 900), active_memory("insert", 100)])
}

fn with_embedder(state: EmbedderState) -> (Gateway, Arc<FakeEmbedder>) {
    let embedder = Arc::new(FakeEmbedder { state, ..FakeEmbedder::default() });
    (gateway(store()).0.with_embedder(embedder.clone(), Arc::new(FakeVectors)), embedder)
}

async fn ask(gateway: &Gateway, task: &str) -> ContextAnswer {
    let request = ContextRequest { task: Some(task.to_owned()), ..request(None) };
    gateway.context(&home(), request).await
}

fn query(query: &str, run: Option<&str>) -> SearchRequest {
    SearchRequest {
        query: query.to_owned(),
        limit: 5,
        workflow: Some(Workflow::new("shop").unwrap()),
        step: Step::main(),
        repository: None,
        run: run.map(|run| RunId::new(run).unwrap()),
    }
}

fn first_title(answer: &ContextAnswer) -> &str {
    &answer.memories[0].title
}

#[tokio::test]
async fn a_vector_finds_what_no_word_does_and_is_computed_once() {
    let secret = concat!("ghp_", "x7Kd93LmQz0pVb5RtYw2Nc8Hs4Jf6Ga1Ue7O");
    let (gateway, embedder) = with_embedder(EmbedderState::Answers);
    for _ in 0..2 {
        let answer = ask(&gateway, &format!("Publish to Frankfurt with {secret}")).await;
        assert!(first_title(&answer).contains("insert"), "{answer:?}");
        assert_eq!(answer.ranking.unwrap().embedder, "fake@2");
    }
    assert_eq!(embedder.calls.load(Ordering::Relaxed), 1);
    assert!(embedder.texts.lock().unwrap().iter().all(|text| !text.contains(secret)));
    let words = ask(&self::gateway(store()).0, "Publish to Frankfurt").await;
    assert!(first_title(&words).contains("select"), "positive control: no word says so");
}

#[tokio::test(start_paused = true)]
async fn an_embedder_that_does_not_answer_is_left_out_in_time_and_bounded() {
    for (state, reason) in
        [(EmbedderState::Refuses, "is not available"), (EmbedderState::Hangs, "did not answer in time")]
    {
        let (gateway, _) = with_embedder(state);
        let began = Instant::now();
        let answer = ask(&gateway, "Run the insert statement").await;
        assert!(began.elapsed() < Duration::from_millis(CONTEXT_TIMEOUT_MS), "{:?}", began.elapsed());
        assert!(first_title(&answer).contains("insert"), "by its words: {answer:?}");
        let ranking = answer.ranking.unwrap();
        assert_eq!(ranking.embedder, "ngram-2");
        let left_out = ranking.left_out.unwrap();
        assert!(left_out.contains(reason) && !left_out.contains("10.0.0.7"), "{left_out}");
    }
    let (gateway, embedder) = with_embedder(EmbedderState::Hangs);
    let mut last = None;
    for nth in 0..20 {
        last = ask(&gateway, &format!("Run the insert statement {nth}")).await.ranking;
    }
    assert!(last.unwrap().left_out.unwrap().contains("too many"));
    assert_eq!(embedder.calls.load(Ordering::Relaxed), 6, "calls of one tenant that hang");
}

#[tokio::test]
async fn without_a_word_in_its_task_an_answer_is_as_before() {
    let (gateway, _) = gateway(store());
    let without = gateway.context(&home(), request(None)).await;
    assert_eq!(ask(&gateway, " … ").await, without);
    let json = serde_json::to_string(&without).unwrap();
    assert!(!json.contains("because") && !json.contains("ranking"), "{json}");
}

#[tokio::test]
async fn a_search_is_recorded_as_presented_to_its_run() {
    let (gateway, store) = gateway(store());
    let preview = gateway.search(&home(), query("insert", None)).await;
    assert_eq!((preview.memories.len(), preview.recorded), (1, Recording::Preview));
    assert!(store.records.lock().unwrap().is_empty());
    let found = gateway.search(&home(), query("insert", Some("run-1"))).await;
    assert_eq!((found.memories[0].id, found.recorded), (active_memory("insert", 0).id, Recording::Recorded));
    assert!(found.text.starts_with(FENCE_BEGIN) && found.text.ends_with(FENCE_END));
    let records = store.records.lock().unwrap();
    let expected = ("default/shop".to_owned(), "run-1".to_owned(), "presented", found.memories[0].id);
    assert_eq!(*records, [expected]);
}

#[tokio::test]
async fn a_search_leaves_out_what_chance_withholds_and_records_that() {
    let policy = Policy { withhold_permille: 500, ..Policy::default() };
    let (gateway, store) = gateway_with(store(), policy);
    let id = active_memory("insert", 0).id;
    let mut withheld = 0;
    for nth in 0..20 {
        let run = format!("run-{nth}");
        let answer: SearchAnswer = gateway.search(&home(), query("insert", Some(&run))).await;
        let is_drawn = is_withheld(id, &RunId::new(run.as_str()).unwrap(), 500);
        assert_eq!((answer.memories.is_empty(), answer.withheld_by_chance), (is_drawn, u32::from(is_drawn)));
        let what = if is_drawn { "withheld" } else { "presented" };
        assert!(store.records.lock().unwrap().iter().any(|row| row.1 == run && row.2 == what && row.3 == id));
        withheld += u32::from(is_drawn);
    }
    assert!((1..20).contains(&withheld));
}

#[tokio::test(start_paused = true)]
async fn a_search_never_fails() {
    for trouble in [Trouble::Down, Trouble::Hangs] {
        let (gateway, _) = gateway(FakeStore { trouble, ..store() });
        let began = Instant::now();
        let answer = gateway.search(&home(), query("insert", Some("run-1"))).await;
        assert!(began.elapsed() <= Duration::from_millis(CONTEXT_TIMEOUT_MS));
        assert!(answer.memories.is_empty() && answer.reason.unwrap().starts_with("no memories: "));
    }
    let (gateway, _) = gateway(store());
    let answer = gateway.search(&home(), query(" … ", None)).await;
    assert!(answer.memories.is_empty() && answer.reason.unwrap().contains("no word"));
    let other = Tenant::new("acme").unwrap();
    assert!(gateway.search(&other, query("insert", None)).await.memories.is_empty(), "another tenant");
}
