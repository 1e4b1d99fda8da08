//! Conformance cases for what gateways cache: the changes that end it, the leases, and presentations of many runs.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::{join, join_all};
use retro_core::audience::{Audience, RepoVisibility};
use retro_core::id::{Repository, WorkflowKey};
use retro_core::memory::MemoryScope;
use retro_core::recall::Assignment;

use super::Database;
use super::decide::write_memory_of_scope;
use super::scenario::{Scenario, run_id, test_step, time_at};
use crate::{ChangeMark, ContextLease, Presentation, Store};

async fn list_changes(store: &dyn Store, after: ChangeMark) -> (BTreeMap<WorkflowKey, i64>, ChangeMark) {
    let changes = store.list_context_changes(after).await.expect("listing");
    (changes.changed.expect("not too many").into_iter().collect(), changes.mark)
}

/// Returns the workflows and rule scopes that something changes.
async fn changed_by(database: &Database, something: impl Future<Output = ()>) -> Vec<WorkflowKey> {
    let mark = database.two.load_change_mark().await.expect("reading");
    something.await;
    let (changed, mark) = list_changes(&*database.two, mark).await;
    assert_eq!(list_changes(&*database.one, mark).await.0, BTreeMap::new(), "nothing has changed since");
    changed.into_keys().collect()
}

/// Checks that whatever changes what agents are handed is listed once, under its workflow or rule scope.
pub async fn a_change_is_listed_under_its_workflow(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let own = vec![scenario.key.clone()];
    let count = async { drop(scenario.count_runs(&["a"]).await) };
    assert_eq!(changed_by(database, count).await, []);
    let memory = scenario.learn_lesson("Retry at once").await.id;
    let learn = async { drop(scenario.learn_lesson("Wait 5 seconds").await) };
    assert_eq!(changed_by(database, learn).await, own);
    let delete = async {
        super::write::delete_memory(&scenario, memory, "gone").await.expect("the memory is living");
    };
    assert_eq!(changed_by(database, delete).await, own);
    let count = async |name, visibility, finished_s| {
        let mut run = scenario.new_run(name);
        run.arrival.run.repo = Some("acme/shop".to_owned());
        run.arrival.run.repo_visibility = Some(visibility);
        run.arrival.run.finished_at = Some(time_at(finished_s));
        scenario.count_batch(&[run], time_at(finished_s)).await;
    };
    let (private, public) = (RepoVisibility::Private, RepoVisibility::Public);
    let scope = Repository::new("acme/shop").expect("a name").rule_scope(&scenario.key.tenant);
    for (name, visibility, finished_s, expected) in [
        ("p", private, 10, vec![scope.clone()]),
        ("q", private, 20, vec![]),
        ("r", public, 30, vec![scope]),
        ("s", private, 5, vec![]),
    ] {
        assert_eq!(changed_by(database, count(name, visibility, finished_s)).await, expected, "{name}");
    }
}

/// Checks that nobody who follows the changes misses one, in whatever order concurrent transactions are committed.
pub async fn no_change_is_missed_though_transactions_overlap(database: &Database) {
    const WORKFLOWS: usize = 24;
    let names: Vec<String> = (0..WORKFLOWS).map(|nth| format!("w{nth}")).collect();
    let scenarios: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(nth, name)| {
            let store = if nth % 2 == 0 { &database.one } else { &database.two };
            Scenario::new(&**store, "t", name)
        })
        .collect();
    let mut mark = database.one.load_change_mark().await.expect("reading");
    let write = async |scenario: &Scenario<'_>| {
        for nth in 0..3 {
            let title = format!("Read the log of step {nth} first.");
            let (workflow, step) = (scenario.key.workflow.clone(), test_step());
            let scope = MemoryScope::Step { workflow, step, audience: Audience::Everyone };
            let added = write_memory_of_scope(scenario.store, &scenario.key, scope, &title, &title).await;
            added.expect("nothing forbids it");
        }
    };
    let is_written = AtomicBool::new(false);
    let writes = async {
        join_all(scenarios.iter().map(write)).await;
        is_written.store(true, Ordering::Relaxed);
    };
    let mut seen: BTreeMap<WorkflowKey, i64> = BTreeMap::new();
    let follow = async {
        while !is_written.load(Ordering::Relaxed) {
            let (changed, next) = list_changes(&*database.two, mark).await;
            seen.extend(changed);
            mark = next;
        }
    };
    join(writes, follow).await;
    seen.extend(list_changes(&*database.two, mark).await.0);
    let all: BTreeMap<WorkflowKey, i64> = list_changes(&*database.one, ChangeMark(0)).await.0;
    let own = |changed: &BTreeMap<WorkflowKey, i64>| {
        let keys = changed.keys().filter(|key| names.iter().any(|name| key.workflow.as_str() == name));
        keys.cloned().collect::<BTreeSet<_>>()
    };
    assert_eq!(own(&all).len(), WORKFLOWS);
    assert_eq!(seen, all, "the last number of each workflow was seen");
}

/// Checks that the renewals of a lease are counted.
pub async fn a_lease_counts_its_renewals(database: &Database) {
    let list = async || database.two.list_context_leases().await.expect("listing");
    let lease = |gateway: &str, renewals| ContextLease { gateway: gateway.to_owned(), renewals };
    assert_eq!(list().await, []);
    for _ in 0..2 {
        database.one.renew_context_lease("a").await.expect("renewing");
    }
    database.two.renew_context_lease("b").await.expect("renewing");
    assert_eq!(list().await, [lease("a", 2), lease("b", 1)]);
}

/// Applies everything that waits, with both handles at once, and returns how many answers that were.
pub(super) async fn apply_all(database: &Database) -> u64 {
    let apply = async |store: &dyn Store| {
        let mut all = 0;
        loop {
            let result = store.apply_presentations(3).await.expect("applying");
            all += result.applied;
            if result.applied == 0 {
                return all;
            }
        }
    };
    let (left, right) = join(apply(&*database.one), apply(&*database.two)).await;
    left + right
}

/// Checks that many presentations in one transaction count like one after the other, however often a run is among them.
pub async fn presentations_of_many_runs_count_like_one_after_the_other(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let other = Scenario::new(&*database.one, "another", "w");
    let one = scenario.learn_lesson("Retry at once").await.id;
    let two = scenario.learn_lesson("Wait 5 seconds").await.id;
    let theirs = other.learn_lesson("Wait 5 seconds").await.id;
    let presentation = |key: &WorkflowKey, run: &str, memories: &[_], withheld: &[(_, bool)]| Presentation {
        key: key.clone(),
        run: run_id(run),
        memories: memories.to_vec(),
        assignments: withheld
            .iter()
            .map(|(memory, withheld)| Assignment { memory: *memory, withheld: *withheld, permille: 100 })
            .collect(),
    };
    let batch = [
        presentation(&scenario.key, "r1", &[two, one], &[(one, false)]),
        presentation(&scenario.key, "r2", &[one, theirs], &[(two, true)]),
        presentation(&other.key, "r1", &[theirs, one], &[]),
        presentation(&scenario.key, "r1", &[one], &[(one, true)]),
        presentation(&scenario.key, "r3", &[], &[]),
    ];
    let (left, right) =
        join(database.one.record_presentations(&batch), database.two.record_presentations(&batch)).await;
    left.and(right).expect("recording");
    assert_eq!(apply_all(database).await, 8, "an answer that says nothing is not stored");
    // The same again, for runs that were applied before.
    database.one.record_presentations(&batch).await.expect("recording");
    assert_eq!(apply_all(database).await, 4);
    let step = test_step();
    let mut counts = Vec::new();
    for key in [&scenario.key, &other.key] {
        let found = database.two.load_candidates(key, &step, None, 0).await.expect("recalling");
        counts.extend(found.iter().map(|one| (one.memory.id, one.presentations)));
    }
    counts.sort_unstable();
    let mut expected = vec![(one, 2), (two, 1), (theirs, 1)];
    expected.sort_unstable();
    assert_eq!(counts, expected);
    for (key, run, memory, expected) in [
        (&scenario.key, "r1", one, true),
        (&scenario.key, "r2", two, false),
        (&scenario.key, "r2", theirs, false),
        (&other.key, "r1", one, false),
        (&other.key, "r1", theirs, true),
    ] {
        let presented = database.two.was_presented(key, &run_id(run), memory).await.expect("reading");
        assert_eq!(presented, expected, "{key} {run}");
    }
}
