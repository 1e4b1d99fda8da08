//! Conformance cases for feedback: recording it once, weighing it under the lock, and its limits.

use futures::future::{join, join_all};
use retro_core::feedback::{
    FEEDBACK_PER_RUN_MAX, FeedbackAcceptance, FeedbackAuthor, FeedbackVerdict, FeedbackWords, GivenFeedback,
    accept_feedback,
};
use retro_core::finding::MemoryVerdict;
use retro_core::id::{MemoryId, derive_uuid};
use retro_core::learn::{FEEDBACK_PASSES_MAX, FeedbackSelection, apply_rules};
use retro_core::memory::{ChangeCause, ChangeEffect};
use retro_core::similarity::NgramEmbedder;

use super::Database;
use super::review::{a_rule, list_rules, test_repository};
use super::rules::judge_rule;
use super::scenario::{Scenario, empty_result, run_id, test_tenant};
use crate::write::{ClosedRuleBatch, RuleBatchFacts};
use crate::{CommitResult, FeedbackRow, Presentation, Store};

fn agent(scenario: &Scenario<'_>, run: &str) -> FeedbackAuthor {
    FeedbackAuthor::Agent { workflow: scenario.key.workflow.clone(), run: run_id(run), step: None }
}

fn person(by: &str) -> FeedbackAuthor {
    FeedbackAuthor::Person { by: by.to_owned() }
}

/// Gives feedback, as the gateway does. Returns the outcome, or `None` if there is no such memory.
async fn give_feedback(
    store: &dyn Store,
    tenant: &str,
    memory: MemoryId,
    author: FeedbackAuthor,
    verdict: FeedbackVerdict,
) -> Option<FeedbackAcceptance> {
    let tenant = test_tenant(tenant);
    let why = FeedbackWords::judge("because, with a NUL: \0.");
    let given = GivenFeedback { memory, verdict, author, why };
    let decide = |facts: &_| accept_feedback(&tenant, &given, facts);
    store.record_feedback(&tenant, &given, &decide).await.expect("recording")
}

async fn rows(scenario: &Scenario<'_>, memory: MemoryId) -> Vec<FeedbackRow> {
    let listed = scenario.store.list_memory_feedback(&scenario.key.tenant, memory, 100).await;
    let listed = listed.expect("listing");
    let mut sorted = listed.clone();
    sorted.sort_by_key(|row| row.feedback.id);
    assert_eq!(scenario.store.list_scope_feedback(&scenario.key).await.expect("listing"), sorted);
    listed
}

/// Runs a retrospective over two new runs in which nothing is found.
async fn retrospect(scenario: &Scenario<'_>, names: [&str; 2]) {
    let id = scenario.settle_window(names, &|_| empty_result()).await;
    assert_eq!(scenario.close_retrospective(id).await, CommitResult::Done);
}

/// Checks that the same feedback is stored once, also by two processes at once, and comes back as it was given.
pub async fn the_same_feedback_is_stored_once(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let memory = scenario.learn_lesson("a lesson").await.id;
    let once = |store| give_feedback(store, "t", memory, agent(&scenario, "r1"), FeedbackVerdict::Helped);
    let both = join(once(&*database.one), once(&*database.two)).await;
    let new = [&both.0, &both.1].into_iter().filter(|one| matches!(one, Some(FeedbackAcceptance::New(_))));
    assert_eq!(new.count(), 1, "{both:?}");
    assert_eq!(once(&*database.two).await, Some(FeedbackAcceptance::AlreadyRecorded));
    let stored = rows(&scenario, memory).await;
    assert_eq!(stored.len(), 1);
    let FeedbackRow { feedback, outcome, settled_by } = &stored[0];
    assert_eq!((&feedback.author, outcome, settled_by), (&agent(&scenario, "r1"), &None, &None));
    assert_eq!(feedback.why.as_ref().expect("it was explained").text, "because, with a NUL: \\u{0}.");
}

/// Checks that feedback on another tenant's memory is stored no more than on one that nobody has (law 11).
pub async fn feedback_on_a_foreign_memory_is_feedback_on_a_missing_one(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let memory = scenario.learn_lesson("a lesson").await.id;
    let nobody = MemoryId(derive_uuid("nobody", &[]));
    for (tenant, memory) in [("u", memory), ("t", nobody)] {
        assert_eq!(
            give_feedback(&*database.one, tenant, memory, person("ann"), FeedbackVerdict::Hurt).await,
            None
        );
    }
    assert_eq!(rows(&scenario, memory).await, []);
    let foreign = database.one.list_memory_feedback(&test_tenant("u"), memory, 10).await.expect("listing");
    assert_eq!(foreign, []);
    assert!(give_feedback(&*database.one, "t", memory, person("ann"), FeedbackVerdict::Hurt).await.is_some());
}

/// Checks that a closing weighs what counts, in one change with the rest, and marks everything that it settled; and that
/// the next closing weighs nothing again.
pub async fn a_closing_weighs_feedback_once(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let memory = scenario.learn_lesson("a lesson").await;
    let give = |author, verdict| give_feedback(scenario.store, "t", memory.id, author, verdict);
    // Nobody applies it before the closing.
    let (key, run) = (scenario.key.clone(), run_id("a"));
    let handed = Presentation { key, run, memories: vec![memory.id], assignments: Vec::new() };
    scenario.store.record_presentations(&[handed]).await.expect("recording");
    // `a` had the memory, `b` did not, nobody knows `ghost`, and `later` belongs to the next window.
    for run in ["a", "b", "ghost", "later"] {
        give(agent(&scenario, run), FeedbackVerdict::Helped).await;
    }
    give(person("ann"), FeedbackVerdict::Hurt).await;
    retrospect(&scenario, ["a", "b"]).await;
    let weight = |memories: Vec<retro_core::memory::Memory>| memories[0].weight.get();
    assert_eq!(weight(scenario.list_memories().await), 300 + 100 - 150);
    let history = database.two.list_memory_changes(&scenario.key.tenant, memory.id).await.expect("history");
    let ChangeEffect::Reweighted { parts, .. } = &history.last().expect("it was weighed").effect else {
        panic!("{history:?}")
    };
    assert_eq!(parts.iter().map(|part| part.by.as_deref()).collect::<Vec<_>>(), [None, Some("ann")]);
    let settled = |rows: &[FeedbackRow]| {
        let mut told: Vec<_> = rows
            .iter()
            .map(|row| {
                let (_, run) = row.feedback.author.run().unzip();
                let by = row.feedback.author.by();
                let name = run.map(|run| run.as_str()).or(by).unwrap_or_default().to_owned();
                (name, row.outcome.as_ref().map(|outcome| outcome.weighed))
            })
            .collect();
        told.sort();
        told
    };
    let waits = |name: &str| (name.to_owned(), None);
    let ends = |name: &str, weighed| (name.to_owned(), Some(weighed));
    assert_eq!(
        settled(&rows(&scenario, memory.id).await),
        [ends("a", true), ends("ann", true), ends("b", false), waits("ghost"), waits("later")]
    );
    // Said again: the run was heard, the person may say it again.
    assert_eq!(
        give(agent(&scenario, "a"), FeedbackVerdict::Helped).await,
        Some(FeedbackAcceptance::AlreadyRecorded)
    );
    give(agent(&scenario, "a"), FeedbackVerdict::Hurt).await;
    assert!(matches!(give(person("ann"), FeedbackVerdict::Hurt).await, Some(FeedbackAcceptance::New(_))));
    scenario.store.record_read(&scenario.key, &run_id("later"), memory.id).await.expect("recording");
    retrospect(&scenario, ["later", "c"]).await;
    assert_eq!(weight(scenario.list_memories().await), 250 + 100 - 150, "later and ann");
    let hurt = rows(&scenario, memory.id).await;
    let hurt = hurt.iter().find(|row| {
        row.feedback.author == agent(&scenario, "a") && row.feedback.verdict == FeedbackVerdict::Hurt
    });
    let outcome = hurt.and_then(|row| row.outcome.clone()).expect("it was settled");
    assert_eq!(outcome.reason, "not weighed: a verdict on the memory in this run was weighed before");
    retrospect(&scenario, ["d", "e"]).await;
    assert_eq!(weight(scenario.list_memories().await), 200, "nothing is weighed twice");
}

/// Checks that feedback whose run never arrives is given up after as many closings as it may wait for.
pub async fn feedback_without_a_run_is_given_up(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let memory = scenario.learn_lesson("a lesson").await.id;
    give_feedback(scenario.store, "t", memory, agent(&scenario, "ghost"), FeedbackVerdict::Wrong).await;
    for round in 0..=FEEDBACK_PASSES_MAX {
        assert_eq!(rows(&scenario, memory).await[0].outcome, None, "after {round} closings");
        retrospect(&scenario, [&format!("{round} a"), &format!("{round} b")]).await;
    }
    let outcome = rows(&scenario, memory).await[0].outcome.clone().expect("it was given up");
    assert_eq!(outcome.reason, "not weighed: its run has never been recorded in this workflow");
    assert_eq!(scenario.list_memories().await[0].weight.get(), 300);
}

/// Checks that one run cannot fill the table, while other runs and people are still heard.
pub async fn a_flood_of_one_run_is_refused(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let memory = scenario.learn_lesson("a lesson").await.id;
    let judge = |number: u64| FeedbackAuthor::Evaluation {
        workflow: scenario.key.workflow.clone(),
        run: run_id("loud"),
        by: format!("judge {number}"),
    };
    for number in 0..FEEDBACK_PER_RUN_MAX {
        let accepted =
            give_feedback(scenario.store, "t", memory, judge(number), FeedbackVerdict::Helped).await;
        assert!(matches!(accepted, Some(FeedbackAcceptance::New(_))), "{number}: {accepted:?}");
    }
    let flood =
        give_feedback(scenario.store, "t", memory, judge(FEEDBACK_PER_RUN_MAX), FeedbackVerdict::Helped)
            .await;
    assert!(matches!(flood, Some(FeedbackAcceptance::Refused(_))), "{flood:?}");
    for author in [agent(&scenario, "quiet"), person("ann")] {
        let accepted = give_feedback(scenario.store, "t", memory, author, FeedbackVerdict::Hurt).await;
        assert!(matches!(accepted, Some(FeedbackAcceptance::New(_))), "{accepted:?}");
    }
    // All of them together are one voice: that of the run.
    scenario.store.record_presented(&scenario.key, &run_id("loud"), &[memory], &[]).await.expect("recording");
    retrospect(&scenario, ["loud", "b"]).await;
    assert_eq!(scenario.list_memories().await[0].weight.get(), 300 + 100 - 150);
}

/// Checks that concurrent requests of one run, on several memories and in two processes, keep the limit of the run.
pub async fn a_flood_of_one_run_at_once_is_refused(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let first = scenario.learn_lesson("a lesson").await.id;
    let second = scenario.learn_lesson("quite another thing to know").await.id;
    assert_ne!(first, second);
    let judge = |number: u64| FeedbackAuthor::Evaluation {
        workflow: scenario.key.workflow.clone(),
        run: run_id("loud"),
        by: format!("judge {number}"),
    };
    // Room for three more.
    for number in 3..FEEDBACK_PER_RUN_MAX {
        give_feedback(scenario.store, "t", first, judge(number), FeedbackVerdict::Helped).await;
    }
    let flood = (0..20).map(|number| {
        let store = if number % 2 == 0 { &database.one } else { &database.two };
        let memory = if number % 4 < 2 { first } else { second };
        give_feedback(&**store, "t", memory, judge(1000 + number), FeedbackVerdict::Helped)
    });
    let accepted = join_all(flood).await;
    let new = accepted.iter().filter(|one| matches!(one, Some(FeedbackAcceptance::New(_)))).count();
    let refused = accepted.iter().filter(|one| matches!(one, Some(FeedbackAcceptance::Refused(_)))).count();
    assert_eq!((new, refused), (3, 17), "{accepted:?}");
}

/// Checks that feedback on a rule waits for the next batch of its rule scope, and that a run is heard once there.
pub async fn a_batch_of_rules_weighs_feedback_once(database: &Database) {
    let store = &*database.one;
    let scenario = Scenario::new(store, "t", "w");
    let rule = a_rule(store, "t").await;
    let before = rule.weight.get();
    let verdicts = [MemoryVerdict::Helped, MemoryVerdict::Applied];
    give_feedback(store, "t", rule.id, agent(&scenario, "one"), FeedbackVerdict::Hurt).await;
    give_feedback(store, "t", rule.id, person("ann"), FeedbackVerdict::Helped).await;
    let batch = judge_rule(&scenario, rule.id, ["one", "two"], verdicts, 40).await;
    assert_eq!(list_rules(store, "t").await[0].weight.get(), before, "the retrospective weighs no rule");
    assert_eq!(apply_with_feedback(store, batch).await, CommitResult::Done);
    // The harm of run one, in spite of the investigator; nothing for run two, who applied it; and ann.
    assert_eq!(list_rules(store, "t").await[0].weight.get(), before - 150 + 100);
    let rule_scope = test_repository().rule_scope(&scenario.key.tenant);
    let settled = store.list_scope_feedback(&rule_scope).await.expect("listing");
    assert!(
        settled.iter().all(|row| row.outcome.as_ref().is_some_and(|outcome| outcome.weighed)),
        "{settled:?}"
    );
    let history = store.list_memory_changes(&scenario.key.tenant, rule.id).await.expect("history");
    assert!(history.iter().any(|change| matches!(change.cause, ChangeCause::Feedback { .. })));
    // What comes after the verdict of its run was applied changes nothing.
    give_feedback(store, "t", rule.id, agent(&scenario, "two"), FeedbackVerdict::Hurt).await;
    let batch = judge_rule(&scenario, rule.id, ["three", "four"], verdicts, 41).await;
    assert_eq!(apply_with_feedback(store, batch).await, CommitResult::Done);
    assert_eq!(list_rules(store, "t").await[0].weight.get(), before - 50 + 100);
}

async fn apply_with_feedback(store: &dyn Store, id: retro_core::id::ReviewBatchId) -> CommitResult {
    let decide = |facts: RuleBatchFacts| {
        let selection = FeedbackSelection::select(facts.rules.feedback.clone());
        let mutations = selection.add_to_rule_batch(id, facts.mutations);
        let applied = apply_rules(facts.rules, &mutations, &NgramEmbedder);
        let feedback = selection.settle(id.0, &applied);
        Ok(ClosedRuleBatch { applied, report: None, messages: Vec::new(), feedback })
    };
    let closed = store.close_rule_batch(&test_tenant("t"), id, &decide).await.expect("closing");
    closed.expect("every text can be compared")
}
