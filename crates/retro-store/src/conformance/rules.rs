//! What runs made of a repository's rules, and what the writer makes of that.

use futures::future::join;
use retro_core::finding::{Checked, MemoryVerdict, Verdict};
use retro_core::id::{MemoryId, ReviewBatchId};
use retro_core::learn::apply_rules;
use retro_core::memory::{Cause, Status};
use retro_core::retrospective::{InvestigationResult, Presented};
use retro_core::similar::NgramEmbedder;

use super::Database;
use super::review::{a_rule, repository, rules};
use super::story::{LONG_S, Story, moment, nothing, run_id, tenant};
use crate::write::{RuleBatchFacts, RulesClosed};
use crate::{Claim, Step, Store};

/// A rule stood before runs, the retrospective that looked into them closes, and the writer applies what that asks of the rule's
/// keeper: once, whoever else does it at the same time. What nobody needs ends.
pub async fn what_runs_made_of_a_rule_is_asked_of_its_keeper_once(database: &Database) {
    let store = &*database.one;
    let rule = a_rule(store, "t").await;
    let mut story = Story::new(store, "t", "w");
    story.policy.rule_presentations_max = 2;
    // Two are ignored, and one did nothing that the rule is about: it is no use, and nothing against the rule either.
    let rounds =
        [(["a", "b"], [Verdict::Ignored, Verdict::CueNotMet], 40), (["c", "d"], [Verdict::Ignored; 2], 50)];
    for (names, verdicts, at) in rounds {
        let batch = judged(&story, rule.id, names, verdicts, at).await;
        assert_eq!(rules(store, "t").await[0].status, Status::Active);
        let (one, two) = join(apply(store, "t", batch), apply(&*database.two, "t", batch)).await;
        let both = [one, two];
        assert_eq!(both.iter().filter(|step| **step == Step::Done).count(), 1, "{both:?}");
        assert_eq!(apply(store, "u", batch).await, Step::Unknown);
    }
    let ended = rules(store, "t").await.remove(0);
    assert_eq!(ended.status, Status::Archived);
    let history = store.history(&tenant("t"), rule.id).await.expect("reading");
    let last = history.last().expect("it was made");
    assert_eq!(last.cause, Cause::Expiry { presentations: 4 });
    assert_eq!(
        store.changes(&story.key).await.expect("changes"),
        [],
        "nothing is asked of the runs' own workflow"
    );
}

/// A run that used it in between has the count begin anew.
pub async fn a_rule_that_some_run_used_is_counted_anew(database: &Database) {
    let store = &*database.one;
    let rule = a_rule(store, "t").await;
    let mut story = Story::new(store, "t", "w");
    story.policy.rule_presentations_max = 2;
    let rounds = [[Verdict::Ignored, Verdict::Applied], [Verdict::Ignored, Verdict::CueNotMet]];
    for (number, verdicts) in (1i64..).zip(rounds) {
        let names = [format!("{number} one"), format!("{number} two")];
        let names = [names[0].as_str(), names[1].as_str()];
        let batch = judged(&story, rule.id, names, verdicts, 40 + number).await;
        assert_eq!(apply(store, "t", batch).await, Step::Done);
    }
    let rule = rules(store, "t").await.remove(0);
    assert_eq!((rule.status, rule.weight.get()), (Status::Active, 300));
}

/// A run of another tenant may name the rule: it is nothing there.
pub async fn a_rule_is_shown_to_nobody_of_another_tenant(database: &Database) {
    let store = &*database.one;
    let rule = a_rule(store, "t").await;
    for (of, shown) in [("t", true), ("u", false)] {
        let story = Story::new(store, of, "w");
        let mut run = story.run("a");
        run.arrival.run.memories.presented = vec![rule.id];
        story.count_batch(&[run, story.run("b")], moment(40)).await;
        story.sample().await;
        for _ in 0..2 {
            let claim = story.claim(LONG_S).await;
            let met = shown && claim.run.run_id == run_id("a");
            let wanted = Presented { memory: rule.id, read: false, repo: Some(repository()) };
            assert_eq!(claim.presented, Vec::from_iter(met.then_some(wanted)), "{of}");
            assert_eq!(claim.memories, Vec::from_iter(met.then(|| rule.clone())), "{of}");
            story.finish(&claim, &nothing()).await.expect("finishing");
        }
    }
}

/// Presents a rule to two runs, has them looked into with these verdicts on it, and closes. Returns the batch that this leaves.
async fn judged(
    story: &Story<'_>,
    rule: MemoryId,
    names: [&str; 2],
    verdicts: [Verdict; 2],
    at: i64,
) -> ReviewBatchId {
    for name in names {
        story.store.record_presented(&story.key, &run_id(name), &[rule]).await.expect("recording");
    }
    story.count_batch(&names.map(|name| story.run(name)), moment(at)).await;
    story.sample().await;
    let verdict = |claim: &Claim| {
        let (first, second) = (verdicts[0], verdicts[1]);
        let verdict = if claim.run.run_id == run_id(names[0]) { first } else { second };
        MemoryVerdict { memory: rule, verdict, reason: "because".to_owned(), quote: None }
    };
    let result = |claim: &Claim| InvestigationResult::Nothing {
        checked: Checked { verdicts: vec![verdict(claim)], ..Checked::default() },
        presented: claim.presented.clone(),
    };
    story.investigate(&result).await;
    let id = story.retrospective().await.id;
    assert_eq!(story.close_at(id, moment(at)).await, Step::Done);
    let waiting = story.store.overdue_rules(0, 10).await.expect("looking");
    let keeper = repository().keeper(&story.key.tenant);
    assert_eq!(waiting, [(story.key.tenant.clone(), ReviewBatchId::of_uses(&keeper, id))]);
    waiting[0].1
}

/// Applies a batch that no review made, as the writer does.
async fn apply(store: &dyn Store, of: &str, id: ReviewBatchId) -> Step {
    let decide = |facts: RuleBatchFacts| {
        assert!(facts.review.is_none());
        let applied = apply_rules(facts.rules, &facts.mutations, &NgramEmbedder);
        RulesClosed { applied, report: None, messages: Vec::new() }
    };
    store.close_rules(&tenant(of), id, &decide).await.expect("closing")
}
