use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use retro_core::id::{ReviewedPullRequest, Tenant};
use retro_core::model_use::ReviewSpending;
use retro_core::pipeline::{PipelineContents, PipelineVersion};
use retro_core::policy::Policy;
use retro_core::remark::{AuthorAssociation, AuthorStanding, Remark};
use retro_core::review::{OtherRequest, ReadingKind, RemarkReading, ReviewReading, RuleText};
use retro_core::similarity::SimilarityScale;
use retro_core::time::FixedClock;
use retro_store::{EmbeddingSourceError, ModelCall, PullRequestReviews, ReviewCall};

use super::*;
use crate::reader::{ReadingTask, ReviewReadings};

/// A request, the same request in nearly the same words, and the same request in other words.
const ASKED: &str = "List the tables of the database before every statement";
const REWORDED: &str = "List all tables of the database before each statement";
const PARAPHRASED: &str = "Show which relations exist until something is executed";

/// A store with one remark on a pull request, and one request on another.
#[derive(Default)]
struct Asked {
    elsewhere: Mutex<String>,
    settled: Mutex<Vec<NewReviewBatch>>,
}

fn pull_request(name: &str) -> ReviewedPullRequest {
    name.parse().unwrap()
}

/// Returns a remark of a member of the organisation.
pub(crate) fn remark_with(id: u64, by: &str, body: &str) -> Remark {
    serde_json::from_value(serde_json::json!({
        "key": format!("acme/shop#7/line_comment/{id}"),
        "by": by,
        "association": "member",
        "body": body,
        "at": "2026-11-20T12:00:00Z",
    }))
    .unwrap()
}

#[async_trait]
impl ReviewerStore for Asked {
    async fn record_events(&self, _: &[ReviewEvent], _: u64) -> Result<Vec<ReviewEventResult>, StoreError> {
        unreachable!("the test records no events")
    }

    async fn list_due_reviews(&self, _: u32) -> Result<Vec<PullRequestKey>, StoreError> {
        let tenant = Tenant::default_tenant();
        Ok(vec![PullRequestKey { tenant, pull_request: pull_request("acme/shop#7") }])
    }

    async fn find_pull_request_reviews(
        &self,
        _: &PullRequestKey,
    ) -> Result<Option<PullRequestReviews>, StoreError> {
        let other = OtherRequest {
            added_rule: None,
            remark: "acme/shop#3/line_comment/9".parse().unwrap(),
            standing: AuthorStanding::from_association(AuthorAssociation::Member, false),
            title: self.elsewhere.lock().unwrap().clone(),
        };
        let remarks = vec![(remark_with(1, "ann", ASKED), 0)];
        let (author, resolved_threads) = (None, vec![]);
        Ok(Some(PullRequestReviews {
            revision: 1,
            rounds: 0,
            author,
            remarks,
            resolved_threads,
            other_requests: vec![other],
        }))
    }

    async fn commit_review(
        &self,
        _: &PullRequestKey,
        _: u64,
        _: Option<&ReviewClaim>,
        settled: Option<&NewReviewBatch>,
    ) -> Result<CommitResult, StoreError> {
        self.settled.lock().unwrap().extend(settled.cloned());
        Ok(CommitResult::Done)
    }

    async fn claim_reviews(&self, _: &PullRequestKey, _: u64) -> Result<Option<ReviewClaim>, StoreError> {
        unreachable!("the reader asks no model")
    }

    async fn extend_review_claim(&self, _: &ReviewClaim, _: u64) -> Result<(), StoreError> {
        unreachable!("the reader asks no model")
    }

    async fn list_review_calls(&self, _: &PullRequestKey) -> Result<Vec<ReviewCall>, StoreError> {
        unreachable!("the reader asks no model")
    }

    async fn append_review_call(&self, _: &ReviewClaim, _: &ModelCall) -> Result<(), StoreError> {
        unreachable!("the reader asks no model")
    }

    async fn load_review_spending(&self, _: &PullRequestKey) -> Result<ReviewSpending, StoreError> {
        unreachable!("the reader asks no model")
    }
}

struct OneOffs;

#[async_trait]
impl RemarkReader for OneOffs {
    async fn read_remarks(&self, task: &ReadingTask) -> Result<ReviewReadings, StoreError> {
        let read = |remark: &Remark| {
            let title = remark.body.clone();
            let rule = RuleText { subject: "database".into(), content: title.clone(), title, path: None };
            let (kind, reason) = (ReadingKind::OneOff, "it asks for something".into());
            RemarkReading { kind, certainty: 400, features: vec![], rule: Some(rule), reason, model: None }
        };
        let readings = task.remarks.iter().map(read).collect();
        Ok(ReviewReadings { readings, reading: ReviewReading::default() })
    }
}

/// A source that gives all texts the same vector, until it is made unavailable.
#[derive(Default)]
struct Same {
    is_away: AtomicBool,
    requested_texts: Mutex<Vec<String>>,
}

#[async_trait]
impl EmbeddingSource for Same {
    fn name(&self) -> &'static str {
        "same@1"
    }

    fn scale(&self) -> SimilarityScale {
        SimilarityScale { contradiction: 500, tombstone: 600, merge: 700 }
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<i32>>, EmbeddingSourceError> {
        self.requested_texts.lock().unwrap().extend_from_slice(texts);
        if self.is_away.load(Ordering::Relaxed) {
            return Err(EmbeddingSourceError::Failed("it is away".into()));
        }
        Ok(vec![vec![1]; texts.len()])
    }
}

/// Creates a reviewer with its store.
fn reviewer(vectors: Option<Arc<Same>>) -> (Reviewer, Arc<Asked>) {
    let store = Arc::new(Asked::default());
    let judgement = ReviewerPorts {
        reader: Arc::new(OneOffs),
        policies: Arc::new(Policy::default()),
        pipelines: Arc::new(PipelineVersion::new(PipelineContents::default(), "")),
        vectors: vectors.map(|source| source as Arc<dyn EmbeddingSource>),
        clock: Arc::new(FixedClock("2026-11-20T13:00:00Z".parse().unwrap())),
    };
    (Reviewer::new(store.clone(), judgement, Arc::default(), 60, 60), store)
}

/// Returns `true` if the reviewer finds the same request on the other pull request and therefore requests a
/// rule.
async fn finds_same_request(reviewer: &Reviewer, store: &Asked, elsewhere: &str) -> bool {
    elsewhere.clone_into(&mut store.elsewhere.lock().unwrap());
    assert_eq!(reviewer.sweep().await.unwrap(), 1);
    let settled = store.settled.lock().unwrap().pop().expect("the pull request was decided");
    let found = settled.review.decided[0].requested_on == [pull_request("acme/shop#3")];
    assert_eq!(settled.mutations.len(), usize::from(found), "{:?}", settled.review.decided);
    found
}

#[tokio::test]
async fn a_paraphrased_request_is_found_by_the_configured_embedder() {
    let (by_words, store) = reviewer(None);
    assert!(finds_same_request(&by_words, &store, REWORDED).await);
    assert!(!finds_same_request(&by_words, &store, PARAPHRASED).await);
    let (by_meaning, store) = reviewer(Some(Arc::default()));
    assert!(finds_same_request(&by_meaning, &store, PARAPHRASED).await);
}

#[tokio::test]
async fn without_the_embedder_requests_are_compared_by_their_words() {
    let source = Arc::new(Same::default());
    source.is_away.store(true, Ordering::Relaxed);
    let (reviewer, store) = reviewer(Some(source.clone()));
    assert!(finds_same_request(&reviewer, &store, REWORDED).await);
    assert!(!finds_same_request(&reviewer, &store, PARAPHRASED).await);
    source.is_away.store(false, Ordering::Relaxed);
    assert!(finds_same_request(&reviewer, &store, PARAPHRASED).await, "the source is called again");
}

#[tokio::test]
async fn a_request_is_embedded_once_however_often_it_is_compared() {
    let source = Arc::new(Same::default());
    let (reviewer, store) = reviewer(Some(source.clone()));
    for elsewhere in [PARAPHRASED, REWORDED, PARAPHRASED] {
        assert!(finds_same_request(&reviewer, &store, elsewhere).await);
    }
    let mut requested_texts = source.requested_texts.lock().unwrap().clone();
    requested_texts.sort();
    assert_eq!(requested_texts, [REWORDED, ASKED, PARAPHRASED]);
}
