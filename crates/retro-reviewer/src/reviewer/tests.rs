use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use retro_core::id::Tenant;
use retro_core::policy::Policy;
use retro_core::review::{
    Association, OtherRequest, PullRequestRef, Reading, ReadingKind, Remark, RuleText, Standing,
};
use retro_core::similar::Scale;
use retro_core::time::FixedClock;
use retro_store::{Collected, SourceError};

use super::*;

/// What is asked for here, the same in nearly the same words, and in others.
const ASKED: &str = "List the tables of the database before every statement";
const REWORDED: &str = "List all tables of the database before each statement";
const PARAPHRASED: &str = "Show which relations exist until something is executed";

/// A pull request with one remark, and one request on another.
#[derive(Default)]
struct Asked {
    elsewhere: Mutex<String>,
    settled: Mutex<Vec<SettledReview>>,
}

fn pull_request(name: &str) -> PullRequestRef {
    name.parse().unwrap()
}

fn remark() -> Remark {
    serde_json::from_value(serde_json::json!({
        "key": "acme/shop#7/line_comment/1",
        "by": "ann",
        "association": "member",
        "body": ASKED,
        "at": "2026-11-20T12:00:00Z",
    }))
    .unwrap()
}

#[async_trait]
impl ReviewerStore for Asked {
    async fn hear(&self, _: &[Heard], _: u64) -> Result<Vec<Taken>, StoreError> {
        unreachable!("nobody speaks")
    }

    async fn due_reviews(&self, _: u32) -> Result<Vec<PullRequestKey>, StoreError> {
        let tenant = Tenant::default_tenant();
        Ok(vec![PullRequestKey { tenant, pull_request: pull_request("acme/shop#7") }])
    }

    async fn collected(&self, _: &PullRequestKey) -> Result<Option<Collected>, StoreError> {
        let other = OtherRequest {
            remark: "acme/shop#3/line_comment/9".parse().unwrap(),
            standing: Standing::of(Association::Member, false),
            title: self.elsewhere.lock().unwrap().clone(),
        };
        let remarks = vec![(remark(), 0)];
        let (author, resolved) = (None, vec![]);
        Ok(Some(Collected { revision: 1, rounds: 0, author, remarks, resolved, others: vec![other] }))
    }

    async fn settle_review(
        &self,
        _: &PullRequestKey,
        _: u64,
        settled: Option<&SettledReview>,
    ) -> Result<Step, StoreError> {
        self.settled.lock().unwrap().extend(settled.cloned());
        Ok(Step::Done)
    }
}

struct OneOffs;

#[async_trait]
impl Reader for OneOffs {
    fn name(&self) -> &'static str {
        "one-offs"
    }

    async fn read(&self, remark: &Remark) -> Reading {
        let title = remark.body.clone();
        let rule = RuleText { subject: "database".into(), content: title.clone(), title, path: None };
        let (kind, why) = (ReadingKind::OneOff, "it asks for something".into());
        Reading { kind, certainty: 400, features: vec![], rule: Some(rule), why }
    }
}

/// To it everything is the same, until it is away.
#[derive(Default)]
struct Same {
    is_away: AtomicBool,
    asked: Mutex<Vec<String>>,
}

#[async_trait]
impl VectorSource for Same {
    fn name(&self) -> &'static str {
        "same@1"
    }

    fn scale(&self) -> Scale {
        Scale { contradiction: 500, tombstone: 600, merge: 700 }
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<i32>>, SourceError> {
        self.asked.lock().unwrap().extend_from_slice(texts);
        if self.is_away.load(Ordering::Relaxed) {
            return Err(SourceError::Failed("it is away".into()));
        }
        Ok(vec![vec![1]; texts.len()])
    }
}

/// A reviewer, and where it looks what was asked elsewhere.
fn reviewer(vectors: Option<Arc<Same>>) -> (Reviewer, Arc<Asked>) {
    let store = Arc::new(Asked::default());
    let judgement = Judgement {
        reader: Arc::new(OneOffs),
        policies: Arc::new(Policy::default()),
        vectors: vectors.map(|source| source as Arc<dyn VectorSource>),
        clock: Arc::new(FixedClock("2026-11-20T13:00:00Z".parse().unwrap())),
    };
    (Reviewer::new(store.clone(), judgement, Arc::default(), 60), store)
}

/// Whether it finds that the same was asked elsewhere, and asks for a rule because of that.
async fn finds(reviewer: &Reviewer, store: &Asked, elsewhere: &str) -> bool {
    elsewhere.clone_into(&mut store.elsewhere.lock().unwrap());
    assert_eq!(reviewer.sweep().await.unwrap(), 1);
    let settled = store.settled.lock().unwrap().pop().expect("it was decided");
    let found = settled.review.decided[0].asked_on == [pull_request("acme/shop#3")];
    assert_eq!(settled.mutations.len(), usize::from(found), "{:?}", settled.review.decided);
    found
}

#[tokio::test]
async fn what_is_asked_again_in_other_words_is_found_by_the_embedder_that_is_configured() {
    let (by_words, store) = reviewer(None);
    assert!(finds(&by_words, &store, REWORDED).await);
    assert!(!finds(&by_words, &store, PARAPHRASED).await);
    let (by_meaning, store) = reviewer(Some(Arc::default()));
    assert!(finds(&by_meaning, &store, PARAPHRASED).await);
}

#[tokio::test]
async fn while_the_embedder_is_away_requests_are_compared_by_their_words() {
    let source = Arc::new(Same::default());
    source.is_away.store(true, Ordering::Relaxed);
    let (reviewer, store) = reviewer(Some(source.clone()));
    assert!(finds(&reviewer, &store, REWORDED).await);
    assert!(!finds(&reviewer, &store, PARAPHRASED).await);
    source.is_away.store(false, Ordering::Relaxed);
    assert!(finds(&reviewer, &store, PARAPHRASED).await, "it is asked again");
}

#[tokio::test]
async fn a_request_is_embedded_once_however_often_it_is_compared() {
    let source = Arc::new(Same::default());
    let (reviewer, store) = reviewer(Some(source.clone()));
    for elsewhere in [PARAPHRASED, REWORDED, PARAPHRASED] {
        assert!(finds(&reviewer, &store, elsewhere).await);
    }
    let mut asked = source.asked.lock().unwrap().clone();
    asked.sort();
    assert_eq!(asked, [REWORDED, ASKED, PARAPHRASED]);
}
