//! Checks the claim on the reviews of a pull request and the calls of models under it: one holder, each call stored once, found by
//! whoever takes over, summed and purged. And the version of the review pipeline, stored with the first review under it.

use retro_core::model_use::{FailureKind, ReviewSpending, Spending, TokenUsage};
use retro_core::pipeline::PipelineName;
use serde_json::json;

use super::Database;
use super::investigate::{assert_fenced, make_investigation_due};
use super::retention::purge_all;
use super::review::{
    RULE, close_rule_batch, commit_review_now, decide_review, new_remark, pull_request_key, record_events,
    remark_event,
};
use super::scenario::{LONG_S, Scenario, review_pipeline, test_tenant, time_at};
use crate::retention::RetentionStage;
use crate::review::ReviewClaim;
use crate::{CommitResult, ModelCall, ModelCallResult, Store};

fn answered(prompt: &str, cost_micro_usd: Option<u64>) -> ModelCall {
    ModelCall {
        prompt: prompt.to_owned(),
        model: "small".to_owned(),
        result: ModelCallResult::Answered(json!({"text": "a\u{0}b", "stop": "complete"})),
        usage: TokenUsage { input_tokens: 100, cached_tokens: 40, output_tokens: 7 },
        cost_micro_usd,
        duration_ms: 12,
    }
}

fn failed(prompt: &str) -> ModelCall {
    let (kind, problem) = (FailureKind::Unavailable, "it answers 503".to_owned());
    ModelCall { result: ModelCallResult::Failed { kind, problem }, ..answered(prompt, Some(5)) }
}

async fn make_reviews_due(store: &dyn Store, of: &str) {
    record_events(store, &[remark_event(of, "1", new_remark(1, RULE), time_at(0))]).await;
}

async fn claim(store: &dyn Store, of: &str, lease_s: u64) -> Option<ReviewClaim> {
    store.claim_reviews(&pull_request_key(of), lease_s).await.expect("claiming")
}

/// Checks that due reviews have one holder, that nobody else finds them due meanwhile, and that a lease that ended is taken over.
pub async fn due_reviews_have_one_holder(database: &Database) {
    let (one, two) = (&*database.one, &*database.two);
    assert_eq!(claim(one, "t", LONG_S).await, None, "there is no such pull request");
    make_reviews_due(one, "t").await;
    let first = claim(one, "t", LONG_S).await.expect("it is due");
    assert_eq!(first.round, 1);
    assert_eq!(claim(two, "t", LONG_S).await, None);
    assert_eq!(two.list_due_reviews(10).await.expect("listing"), []);
    // The holder lets its lease end.
    one.extend_review_claim(&first, 0).await.expect("it is still its own");
    assert_eq!(two.list_due_reviews(10).await.expect("listing"), [pull_request_key("t")]);
    let second = claim(two, "t", LONG_S).await.expect("it is free");
    assert!(second.token > first.token);
    assert_fenced(&one.extend_review_claim(&first, LONG_S).await);
    assert_fenced(&one.append_review_call(&first, &answered("p", None)).await);
    two.append_review_call(&second, &answered("p", None)).await.expect("storing");
    // A decision ends the claim, and a decided pull request is not due.
    let (revision, settled) = decide_review(two, "t").await;
    let key = pull_request_key("t");
    let done = two.commit_review(&key, revision, Some(&second), Some(&settled)).await.expect("settling");
    assert_eq!(done, CommitResult::Done);
    assert_eq!(claim(one, "t", LONG_S).await, None);
    assert_fenced(&two.append_review_call(&second, &answered("late", None)).await);
}

/// Checks that a decision on an outdated revision is not stored and still ends the claim, so that the reviews are decided again
/// at once, and that the next decision finds the calls.
pub async fn an_outdated_decision_ends_its_claim_and_keeps_its_calls(database: &Database) {
    let (one, two) = (&*database.one, &*database.two);
    make_reviews_due(one, "t").await;
    let first = claim(one, "t", LONG_S).await.expect("it is due");
    let calls = [failed("p1"), answered("p1", None), answered("p2", Some(30))];
    for call in &calls {
        one.append_review_call(&first, call).await.expect("storing");
    }
    let (revision, settled) = decide_review(one, "t").await;
    record_events(two, &[remark_event("t", "2", new_remark(2, "And another"), time_at(1))]).await;
    let key = pull_request_key("t");
    let late = one.commit_review(&key, revision, Some(&first), Some(&settled)).await.expect("settling");
    assert_eq!(late, CommitResult::AlreadyDone);
    let second = claim(two, "t", LONG_S).await.expect("it is free at once");
    assert_eq!(second.round, 1, "nothing was decided");
    let found = two.list_review_calls(&key).await.expect("listing");
    assert!(found.iter().all(|one| one.round == 1));
    assert_eq!(found.into_iter().map(|one| one.call).collect::<Vec<_>>(), calls);
}

/// Checks that what was spent is summed for a pull request and, with investigations, for the day.
pub async fn spending_on_reviews_is_summed_by_pull_request_and_day(database: &Database) {
    let one = &*database.one;
    for (tenant, cost) in [("t", Some(30)), ("another", None)] {
        make_reviews_due(one, tenant).await;
        let held = claim(one, tenant, LONG_S).await.expect("it is due");
        one.append_review_call(&held, &answered("p1", cost)).await.expect("storing");
    }
    let scenario = Scenario::new(one, "t", "w");
    make_investigation_due(&scenario).await;
    let investigated = scenario.claim_next(LONG_S).await;
    one.append_model_call(&investigated, &answered("p1", Some(4))).await.expect("storing");
    let of = |tokens, micro_usd| Spending { tokens, micro_usd };
    let spent = database.two.load_review_spending(&pull_request_key("t")).await.expect("summing");
    assert_eq!(spent, ReviewSpending { review: of(107, 30), day: of(321, 34) });
    let spent = database.two.load_model_spending(&investigated).await.expect("summing");
    assert_eq!((spent.investigation, spent.day), (of(107, 4), of(321, 34)), "the day is shared");
}

/// Checks that calls are kept until the decision that may need them has been made.
pub async fn calls_about_reviews_are_purged_with_the_journals(database: &Database) {
    let one = &*database.one;
    make_reviews_due(one, "t").await;
    let held = claim(one, "t", LONG_S).await.expect("it is due");
    one.append_review_call(&held, &answered("p1", Some(30))).await.expect("storing");
    assert_eq!(purge_all(database, RetentionStage::Journals, 0).await, 0, "it is due");
    commit_review_now(one, "t").await;
    assert_eq!(purge_all(database, RetentionStage::Journals, 3600).await, 0, "it is new");
    assert_eq!(purge_all(database, RetentionStage::Journals, 0).await, 1);
    assert_eq!(one.list_review_calls(&pull_request_key("t")).await.expect("listing"), []);
}

/// Checks that a version of the review pipeline is there once a review was decided under it, with what it cost and what became of
/// its rules, and that its changes and its report name it.
pub async fn a_review_version_is_stored_with_the_first_review_under_it(database: &Database) {
    let (one, two) = (&*database.one, &*database.two);
    let (tenant, expected) = (test_tenant("t"), review_pipeline());
    let (pipeline, hash) = (PipelineName::Review, &expected.hashes().pipeline);
    make_reviews_due(one, "t").await;
    assert_eq!(one.list_pipelines(&tenant, pipeline, 10).await.expect("listing"), []);
    let held = claim(one, "t", LONG_S).await.expect("it is due");
    one.append_review_call(&held, &answered("p1", Some(500_000))).await.expect("storing");
    let id = commit_review_now(one, "t").await;
    assert_eq!(close_rule_batch(one, "t", id).await, CommitResult::Done);
    let stored = two.load_pipeline(&tenant, pipeline, hash).await.expect("reading");
    assert_eq!(stored.as_ref(), Some(expected.contents()));
    let rows = two.list_pipelines(&tenant, pipeline, 10).await.expect("listing");
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((&row.hash, row.review, row.retrospective), (hash, Some(id), None));
    let quality = row.quality;
    assert_eq!((quality.retrospectives, quality.made, quality.active), (1, 1, 1), "{quality:?}");
    assert!((quality.cost_usd - 0.5).abs() < 1e-9, "{quality:?}");
    let report = one.find_review_report(&tenant, id).await.expect("reading").expect("it is closed");
    assert_eq!(report.pipeline.as_ref(), Some(expected.hashes()));
    assert!(report.changes.iter().all(|change| change.pipeline.as_ref() == Some(hash)));
    assert_eq!(two.find_pipelines(&tenant, "").await.expect("finding"), [(pipeline, hash.clone())]);
    let stranger = test_tenant("stranger");
    assert_eq!(two.load_pipeline(&stranger, pipeline, hash).await.expect("reading"), None);
    assert_eq!(two.find_pipelines(&stranger, "").await.expect("finding"), []);
    assert_eq!(two.list_pipelines(&stranger, pipeline, 10).await.expect("listing"), []);
}
