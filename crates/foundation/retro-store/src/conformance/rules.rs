//! Conformance cases for verdicts of runs on rules, and for the expiry of unused rules.

use futures::future::join;
use retro_core::finding::{CheckedAnswer, MemoryVerdict, VerdictRecord};
use retro_core::id::{MemoryId, ReviewBatchId};
use retro_core::learn::apply_rules;
use retro_core::memory::{ChangeCause, MemoryStatus};
use retro_core::retrospective::{InvestigationResult, PresentedMemory};
use retro_core::similarity::NgramEmbedder;

use super::Database;
use super::review::{a_rule, list_rules, test_repository};
use super::scenario::{LONG_S, Scenario, empty_result, run_id, test_tenant, time_at};
use crate::write::{ClosedRuleBatch, RuleBatchFacts};
use crate::{Claim, CommitResult, Store};

/// Checks that a retrospective's verdicts on rules are applied to the rule scope once, even by concurrent
/// writers, and that a rule that stays unused is archived.
pub async fn verdicts_of_runs_on_a_rule_are_applied_to_its_scope_once(database: &Database) {
    let store = &*database.one;
    let rule = a_rule(store, "t").await;
    let mut scenario = Scenario::new(store, "t", "w");
    scenario.policy.rule_presentations_max = 2;
    // Three runs ignored the rule, and in one its cue was not met: four presentations without use, none of
    // which lowers its weight.
    let rounds = [
        (["a", "b"], [MemoryVerdict::Ignored, MemoryVerdict::CueNotMet], 40),
        (["c", "d"], [MemoryVerdict::Ignored; 2], 50),
    ];
    for (names, verdicts, at) in rounds {
        let batch = judge_rule(&scenario, rule.id, names, verdicts, at).await;
        assert_eq!(list_rules(store, "t").await[0].status, MemoryStatus::Active);
        let (one, two) = join(apply_batch(store, "t", batch), apply_batch(&*database.two, "t", batch)).await;
        let both = [one, two];
        assert_eq!(both.iter().filter(|step| **step == CommitResult::Done).count(), 1, "{both:?}");
        assert_eq!(apply_batch(store, "u", batch).await, CommitResult::NotFound);
    }
    let ended = list_rules(store, "t").await.remove(0);
    assert_eq!(ended.status, MemoryStatus::Archived);
    let history = store.list_memory_changes(&test_tenant("t"), rule.id).await.expect("reading");
    let last = history.last().expect("it was made");
    assert_eq!(last.cause, ChangeCause::Expiry { presentations: 4 });
    assert_eq!(
        store.list_workflow_changes(&scenario.key).await.expect("changes"),
        [],
        "nothing is asked of the runs' own workflow"
    );
}

/// Checks that a run that uses the rule resets the count of unused presentations.
pub async fn a_used_rule_restarts_its_count_of_unused_presentations(database: &Database) {
    let store = &*database.one;
    let rule = a_rule(store, "t").await;
    let mut scenario = Scenario::new(store, "t", "w");
    scenario.policy.rule_presentations_max = 2;
    let rounds = [
        [MemoryVerdict::Ignored, MemoryVerdict::Applied],
        [MemoryVerdict::Ignored, MemoryVerdict::CueNotMet],
    ];
    for (number, verdicts) in (1i64..).zip(rounds) {
        let names = [format!("{number} one"), format!("{number} two")];
        let names = [names[0].as_str(), names[1].as_str()];
        let batch = judge_rule(&scenario, rule.id, names, verdicts, 40 + number).await;
        assert_eq!(apply_batch(store, "t", batch).await, CommitResult::Done);
    }
    let rule = list_rules(store, "t").await.remove(0);
    assert_eq!((rule.status, rule.weight.get()), (MemoryStatus::Active, 300));
}

/// Checks that the claim of another tenant's run does not contain the rule, even if the run's event names it
/// (law 11).
pub async fn a_rule_is_never_presented_to_another_tenant(database: &Database) {
    let store = &*database.one;
    let rule = a_rule(store, "t").await;
    for (of, shown) in [("t", true), ("u", false)] {
        let scenario = Scenario::new(store, of, "w");
        let mut run = scenario.new_run("a");
        run.arrival.run.memories.presented = vec![rule.id];
        scenario.count_batch(&[run, scenario.new_run("b")], time_at(40)).await;
        scenario.draw_sample().await;
        for _ in 0..2 {
            let claim = scenario.claim_next(LONG_S).await;
            let met = shown && claim.run.run_id == run_id("a");
            let wanted = PresentedMemory { memory: rule.id, read: false, repo: Some(test_repository()) };
            assert_eq!(claim.presented, Vec::from_iter(met.then_some(wanted)), "{of}");
            assert_eq!(claim.memories, Vec::from_iter(met.then(|| rule.clone())), "{of}");
            scenario.finish_claim(&claim, &empty_result()).await.expect("finishing");
        }
    }
}

/// Presents a rule to two runs, investigates them with the given verdicts on the rule, and closes the
/// retrospective. Returns the resulting rule batch.
pub(super) async fn judge_rule(
    scenario: &Scenario<'_>,
    rule: MemoryId,
    names: [&str; 2],
    verdicts: [MemoryVerdict; 2],
    at: i64,
) -> ReviewBatchId {
    for name in names {
        scenario.store.record_presented(&scenario.key, &run_id(name), &[rule], &[]).await.expect("recording");
    }
    scenario.count_batch(&names.map(|name| scenario.new_run(name)), time_at(at)).await;
    scenario.draw_sample().await;
    let verdict = |claim: &Claim| {
        let (first, second) = (verdicts[0], verdicts[1]);
        let verdict = if claim.run.run_id == run_id(names[0]) { first } else { second };
        VerdictRecord { memory: rule, verdict, reason: "because".to_owned(), quote: None }
    };
    let result = |claim: &Claim| InvestigationResult::Nothing {
        checked: CheckedAnswer { verdicts: vec![verdict(claim)], ..CheckedAnswer::default() },
        presented: claim.presented.clone(),
    };
    scenario.investigate_all(&result).await;
    let id = scenario.latest_retrospective().await.id;
    assert_eq!(scenario.close_at(id, time_at(at)).await, CommitResult::Done);
    let waiting = scenario.store.list_overdue_rule_batches(0, 10).await.expect("checking");
    let rule_scope = test_repository().rule_scope(&scenario.key.tenant);
    assert_eq!(waiting, [(scenario.key.tenant.clone(), ReviewBatchId::of_rule_uses(&rule_scope, id))]);
    waiting[0].1
}

/// Applies a batch that was not caused by a review, as the writer does.
async fn apply_batch(store: &dyn Store, of: &str, id: ReviewBatchId) -> CommitResult {
    let decide = |facts: RuleBatchFacts| {
        assert!(facts.review.is_none());
        let applied = apply_rules(facts.rules, &facts.mutations, &NgramEmbedder);
        Ok(ClosedRuleBatch { applied, report: None, messages: Vec::new(), feedback: Default::default() })
    };
    let closed = store.close_rule_batch(&test_tenant(of), id, &decide).await.expect("closing");
    closed.expect("every text can be compared")
}
