//! Checks the calls of models: stored once, found by a takeover, summed, and purged.

use retro_core::model_use::{FailureKind, ModelSpending, Spending, TokenUsage};
use serde_json::json;

use super::Database;
use super::investigate::{assert_fenced, make_investigation_due};
use super::retention::purge_all;
use super::scenario::{LONG_S, Scenario, empty_result};
use crate::retention::RetentionStage;
use crate::{CommitResult, ModelCall, ModelCallResult};

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
    let (kind, problem) = (FailureKind::Unreadable, "its response is not JSON".to_owned());
    ModelCall { result: ModelCallResult::Failed { kind, problem }, ..answered(prompt, Some(5)) }
}

/// Checks that a takeover finds every call in order, failed ones included, and that the timing has their sums.
pub async fn a_call_is_found_by_whoever_takes_over(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    make_investigation_due(&scenario).await;
    let first = scenario.claim_next(0).await;
    assert_eq!(database.one.list_model_calls(&first).await.expect("listing"), []);
    let calls = [failed("p1"), answered("p1", None), answered("p2", Some(30))];
    for call in &calls {
        database.one.append_model_call(&first, call).await.expect("storing");
    }
    let second = scenario.with_store(&*database.two).claim_next(LONG_S).await;
    assert_eq!(database.two.list_model_calls(&second).await.expect("listing"), calls);
    scenario.finish_claim(&second, &empty_result()).await.expect("finishing");
    scenario.investigate_all(&|_| empty_result()).await;
    let (tenant, id) = (&scenario.key.tenant, second.retrospective.id);
    assert_eq!(scenario.close_retrospective(id).await, CommitResult::Done);
    let report = database.one.find_report(tenant, id).await.expect("reading").expect("it is closed");
    let timing = report.investigations[0].timing;
    assert_eq!((timing.model_calls, timing.unpriced_calls), (3, 1));
    assert_eq!(timing.tokens, TokenUsage { input_tokens: 300, cached_tokens: 120, output_tokens: 21 });
    // What the caller passes is kept, and the calls are added.
    assert!((timing.cost_usd - 0.250_035).abs() < 1e-9, "{}", timing.cost_usd);
}

/// Checks that a worker whose claim was taken over stores no call.
pub async fn an_old_holder_stores_no_call(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    make_investigation_due(&scenario).await;
    let old = scenario.claim_next(0).await;
    let new = scenario.with_store(&*database.two).claim_next(LONG_S).await;
    assert_fenced(&database.one.append_model_call(&old, &answered("p", None)).await);
    assert_eq!(database.two.list_model_calls(&new).await.expect("listing"), []);
    database.two.append_model_call(&new, &answered("p", None)).await.expect("storing");
    assert_eq!(database.one.list_model_calls(&new).await.expect("listing").len(), 1);
}

/// Checks that what was spent is summed for each of the three bounds of a budget, and apart for each tenant but the day.
pub async fn spending_is_summed_by_investigation_retrospective_and_day(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    make_investigation_due(&scenario).await;
    let first = scenario.claim_next(LONG_S).await;
    database.one.append_model_call(&first, &answered("p1", Some(30))).await.expect("storing");
    scenario.finish_claim(&first, &empty_result()).await.expect("finishing");
    let second = scenario.claim_next(LONG_S).await;
    assert_eq!(second.number, 2);
    for call in [answered("p2", None), failed("p3")] {
        database.one.append_model_call(&second, &call).await.expect("storing");
    }
    let other = Scenario::new(&*database.one, "another", "w");
    make_investigation_due(&other).await;
    let third = other.claim_next(LONG_S).await;
    database.one.append_model_call(&third, &answered("p1", Some(1))).await.expect("storing");
    let of = |tokens, micro_usd| Spending { tokens, micro_usd };
    let spent = database.two.load_model_spending(&second).await.expect("summing");
    let expected = ModelSpending { investigation: of(214, 5), retrospective: of(321, 35), day: of(428, 36) };
    assert_eq!(spent, expected);
    let spent = database.two.load_model_spending(&third).await.expect("summing");
    assert_eq!((spent.investigation, spent.retrospective, spent.day), (of(107, 1), of(107, 1), of(428, 36)));
}

/// Checks that calls are kept as long as the journal: until their retrospective has ended.
pub async fn calls_are_purged_with_the_journals(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    make_investigation_due(&scenario).await;
    let claim = scenario.claim_next(LONG_S).await;
    database.one.append_model_call(&claim, &answered("p1", Some(30))).await.expect("storing");
    assert_eq!(purge_all(database, RetentionStage::Journals, 0).await, 0, "it is open");
    scenario.finish_claim(&claim, &empty_result()).await.expect("finishing");
    scenario.investigate_all(&|_| empty_result()).await;
    let id = scenario.latest_retrospective().await.id;
    assert_eq!(scenario.close_retrospective(id).await, CommitResult::Done);
    assert_eq!(purge_all(database, RetentionStage::Journals, 3600).await, 0, "it has only just ended");
    assert_eq!(purge_all(database, RetentionStage::Journals, 0).await, 2, "one call and one batch");
    assert_eq!(database.two.list_model_calls(&claim).await.expect("listing"), []);
}
