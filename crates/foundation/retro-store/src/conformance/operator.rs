//! Conformance cases for the order, filters and limits of operator queries.

use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::Workflow;
use retro_core::memory::MemoryStatus;
use retro_core::run::{BodyRef, HttpsRef, RunOutcome};

use super::Database;
use super::delivery::new_dead_letter;
use super::scenario::{Scenario, empty_result, result_with_finding, run_id, test_step, test_tenant};
use crate::{
    CommitResult, DeadLetterFilter, DeadLetterStatus, IncomingBody, MemoryFilter, NewDeadLetter, RunFilter,
};

/// Checks that runs are listed by storage time, newest first.
pub async fn runs_are_listed_newest_first_and_filtered(database: &Database) {
    let (scenario, other) =
        (Scenario::new(&*database.one, "t", "w"), Scenario::new(&*database.one, "t", "v"));
    let mut without = scenario.new_run("c");
    without.body = IncomingBody::None;
    scenario.count_runs(&["a", "b"]).await;
    scenario.count_batch(&[without], super::scenario::time_at(0)).await;
    other.count_runs(&["a"]).await;
    let list = |filter: RunFilter| async move {
        let rows = database.two.list_runs(&test_tenant("t"), &filter).await.expect("listing");
        rows.into_iter().map(|row| format!("{} {}", row.key.workflow, row.facts.run_id)).collect::<Vec<_>>()
    };
    let of = |workflow: &str| Some(Workflow::new(workflow).expect("a valid name"));
    let filter = RunFilter { workflow: of("w"), limit: 9, ..Default::default() };
    assert_eq!(list(filter.clone()).await, ["w c", "w b", "w a"]);
    assert_eq!(list(RunFilter { limit: 2, ..filter }).await, ["w c", "w b"]);
    let filter = RunFilter { run: Some(run_id("a")), limit: 9, ..Default::default() };
    let mut both = list(filter.clone()).await;
    both.sort_unstable();
    assert_eq!(both, ["v a", "w a"]);
    assert_eq!(list(RunFilter { workflow: of("v"), ..filter }).await, ["v a"]);
    assert_eq!(list(RunFilter { limit: 99, ..Default::default() }).await.len(), 4);
    let only = RunFilter { run: Some(run_id("c")), limit: 1, ..Default::default() };
    let row = database.one.list_runs(&test_tenant("t"), &only).await.expect("listing").remove(0);
    assert_eq!((row.ordinal, row.body), (Some(3), BodyRef::None));
    let mut elsewhere = scenario.new_run("d");
    let (url, sha256) = ("https://runs.example.com/d?right=2".to_owned(), "1".repeat(64));
    elsewhere.body = IncomingBody::Https(HttpsRef { url, sha256 });
    scenario.count_batch(&[elsewhere], super::scenario::time_at(0)).await;
    let only = RunFilter { run: Some(run_id("d")), ..only };
    let row = database.one.list_runs(&test_tenant("t"), &only).await.expect("listing").remove(0);
    let written = serde_json::to_value(&row).expect("plain data");
    assert_eq!(written["body"]["url"], "https://runs.example.com/d", "a query may contain credentials");
}

/// Checks that memories in any status are listed by descending weight.
pub async fn memories_are_listed_heaviest_first_and_filtered(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let heavy = scenario.learn_lesson("Retry at once").await;
    let deleted = scenario.learn_lesson("Wait 5 seconds").await;
    super::write::delete_memory(&scenario, deleted.id, "gone").await.expect("the memory is living");
    let id = scenario
        .settle_window(["a", "b"], &|claim| {
            if claim.number == 1 { result_with_finding("once") } else { empty_result() }
        })
        .await;
    scenario.close_retrospective(id).await;
    Scenario::new(&*database.one, "t", "v").learn_lesson("elsewhere").await;
    let list = |filter: MemoryFilter| async move {
        let all = database.two.list_memories(&test_tenant("t"), &filter).await.expect("listing");
        all.into_iter().map(|memory| memory.lesson.title).collect::<Vec<_>>()
    };
    let filter =
        MemoryFilter { workflow: Some(scenario.key.workflow.clone()), limit: 9, ..Default::default() };
    let all = list(filter.clone()).await;
    assert_eq!((all.len(), all[2].as_str()), (3, "once"), "{all:?}");
    assert_eq!(
        list(MemoryFilter { status: Some(MemoryStatus::Active), ..filter.clone() }).await,
        ["Retry at once"]
    );
    assert_eq!(
        list(MemoryFilter { status: Some(MemoryStatus::Deleted), ..filter.clone() }).await,
        ["Wait 5 seconds"]
    );
    assert_eq!(list(MemoryFilter { limit: 2, ..filter.clone() }).await, all[..2]);
    assert_eq!(list(MemoryFilter { step: Some(test_step()), ..filter.clone() }).await.len(), 3);
    let elsewhere = retro_core::id::Step::new("elsewhere").expect("a valid name");
    assert_eq!(list(MemoryFilter { step: Some(elsewhere), ..filter }).await, Vec::<String>::new());
    assert_eq!(list(MemoryFilter { limit: 9, ..Default::default() }).await.len(), 4);
    let stored = database.two.find_memory(&test_tenant("t"), heavy.id).await.expect("reading");
    assert_eq!(stored, Some(heavy));
}

/// Checks that the list of held memories contains those in quarantine that a person can still release, heaviest
/// first, and that the other filters apply to it as well.
pub async fn held_memories_are_listed_until_they_are_released_or_deleted(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let mut ids = Vec::new();
    for title in ["Retry at once", "Wait 5 seconds", "Open the door", "List the tables"] {
        ids.push(scenario.learn_lesson(title).await.id);
    }
    for id in &ids[..3] {
        super::write::hold_memory(&scenario, *id).await;
    }
    super::write::delete_memory(&scenario, ids[2], "gone").await.expect("the memory is living");
    let list = |filter: MemoryFilter| async move {
        let all = database.two.list_memories(&test_tenant("t"), &filter).await.expect("listing");
        all.into_iter().map(|memory| memory.id).collect::<Vec<_>>()
    };
    let held = MemoryFilter { held: true, limit: 9, ..Default::default() };
    let mut both = list(held.clone()).await;
    let first = MemoryFilter { limit: 1, ..held.clone() };
    assert_eq!(list(first).await, both[..1], "the order is that of every list");
    both.sort_unstable();
    let mut expected = vec![ids[0], ids[1]];
    expected.sort_unstable();
    assert_eq!(both, expected, "neither the deleted memory nor the one that was never held");
    let archived = MemoryFilter { status: Some(MemoryStatus::Archived), ..held.clone() };
    assert_eq!(list(archived).await, []);
    assert_eq!(list(MemoryFilter { rules_only: true, ..held.clone() }).await, []);
    let elsewhere = Workflow::new("elsewhere").expect("a valid name");
    assert_eq!(list(MemoryFilter { workflow: Some(elsewhere), ..held.clone() }).await, []);
    assert_eq!(list(MemoryFilter { limit: 9, ..Default::default() }).await.len(), 4, "positive control");
    let released = super::write::release_memory(&*database.one, &test_tenant("t"), ids[0], "one").await;
    assert_eq!(released, Ok(CommitResult::Done));
    assert_eq!(list(held).await, [ids[1]]);
}

/// Checks that a run counts as exposed if either the gateway's records or its event say so, and that runs are
/// listed newest first from any position.
pub async fn runs_are_listed_with_their_exposure_to_a_memory(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let memory = scenario.learn_lesson("Retry at once").await.id;
    let other = scenario.learn_lesson("Wait 5 seconds").await.id;
    let mut runs = ["recorded", "read", "said", "neither", "uncounted"].map(|name| scenario.new_run(name));
    runs[2].arrival.run.memories.presented = vec![memory];
    runs[2].arrival.run.task = Some("größe\0".to_owned());
    runs[2].arrival.run.outcome = RunOutcome::Timeout;
    runs[3].arrival.run.started_at = None;
    runs[4].arrival.run.outcome = RunOutcome::Skip;
    database
        .one
        .record_presented(&scenario.key, &run_id("recorded"), &[memory], &[])
        .await
        .expect("recording");
    database.one.record_read(&scenario.key, &run_id("read"), memory).await.expect("recording");
    database.one.record_presented(&scenario.key, &run_id("neither"), &[other], &[]).await.expect("recording");
    scenario.count_batch(&runs, super::scenario::time_at(0)).await;
    let check = |after, limit| database.two.list_run_exposures(&scenario.key, memory, after, limit);
    let all = check(None, 99).await.expect("reading");
    let result: Vec<_> =
        all.iter().map(|run| (run.ordinal, run.trial.exposed, run.trial.succeeded)).collect();
    let before = (1..=4).rev().map(|ordinal| (ordinal, false, Some(true)));
    let expected =
        [(8, false, Some(true)), (7, true, Some(false)), (6, true, Some(true)), (5, true, Some(true))];
    assert_eq!(result, expected.into_iter().chain(before).collect::<Vec<_>>());
    assert_eq!(all[1].trial.task.as_deref(), Some("größe\0"));
    assert_eq!(all[1].trial.began_at, super::scenario::time_at(-60));
    let neither = RunFilter { run: Some(run_id("neither")), limit: 1, ..Default::default() };
    let rows = database.two.list_runs(&test_tenant("t"), &neither).await.expect("listing");
    assert_eq!(all[0].trial.began_at, rows[0].received_at);
    assert_eq!(check(Some(8), 2).await.expect("reading"), all[1..3]);
    assert_eq!(check(Some(1), 9).await.expect("reading"), []);
}

/// Checks that retrospectives are listed by workflow, and newest first within a workflow.
pub async fn retrospectives_are_listed_with_their_counts(database: &Database) {
    let (scenario, other) =
        (Scenario::new(&*database.one, "t", "w"), Scenario::new(&*database.one, "t", "v"));
    scenario.learn_lesson("Retry at once").await;
    scenario.count_runs(&["a", "b"]).await;
    other.count_runs(&["a", "b"]).await;
    let rows = database.two.list_retrospectives(&test_tenant("t"), None, 9).await.expect("listing");
    let result: Vec<_> = rows
        .iter()
        .map(|row| {
            let one = &row.retrospective;
            (one.key.workflow.as_str(), one.epoch, row.investigated, row.changes)
        })
        .collect();
    assert_eq!(result, [("v", 1, 0, 0), ("w", 2, 0, 0), ("w", 1, 2, 2)]);
    let few = database
        .two
        .list_retrospectives(&test_tenant("t"), Some(&scenario.key.workflow), 1)
        .await
        .expect("listing");
    assert_eq!(few, rows[1..2]);
    let rows = database.two.list_workflows(&test_tenant("t")).await.expect("listing");
    let result: Vec<_> = rows.iter().map(|row| (row.key.workflow.as_str(), row.recorded)).collect();
    assert_eq!(result, [("v", 2), ("w", 4)]);
}

/// Checks that dead letters are filtered by every field and listed newest first, with an inclusive `since`.
pub async fn dead_letters_are_filtered_by_every_field(database: &Database) {
    let too_large = NewDeadLetter {
        rejection: Rejection::of_message(DeadLetterCode::Oversized, "too large"),
        ..new_dead_letter(2)
    };
    let elsewhere =
        NewDeadLetter { workflow: Some(Workflow::new("v").expect("a valid name")), ..new_dead_letter(3) };
    let mut sampler = new_dead_letter(4);
    sampler.position.consumer = "sampler".to_owned();
    for dead_letter in [&new_dead_letter(1), &too_large, &elsewhere, &sampler] {
        database.one.store_dead_letter(dead_letter).await.expect("storing");
    }
    let all = DeadLetterFilter { limit: 9, ..Default::default() };
    assert_eq!(list_sequences(database, all.clone()).await, [4, 3, 2, 1]);
    assert_eq!(list_sequences(database, DeadLetterFilter { limit: 1, ..all.clone() }).await, [4]);
    assert_eq!(
        list_sequences(database, DeadLetterFilter { code: Some(DeadLetterCode::Oversized), ..all.clone() })
            .await,
        [2]
    );
    let workflow = elsewhere.workflow.clone();
    assert_eq!(list_sequences(database, DeadLetterFilter { workflow, ..all.clone() }).await, [3]);
    let consumer = Some("sampler".to_owned());
    assert_eq!(list_sequences(database, DeadLetterFilter { consumer, ..all.clone() }).await, [4]);
    let ids = vec![new_dead_letter(1).id(), elsewhere.id()];
    assert_eq!(list_sequences(database, DeadLetterFilter { ids, ..all.clone() }).await, [3, 1]);
    let status = |status| DeadLetterFilter { status: Some(status), ..all.clone() };
    assert_eq!(list_sequences(database, status(DeadLetterStatus::Open)).await, [4, 3, 2, 1]);
    assert_eq!(list_sequences(database, status(DeadLetterStatus::Discarded)).await, [0; 0]);
    let first =
        database.two.find_dead_letter(&test_tenant("t"), new_dead_letter(1).id()).await.expect("reading");
    let moment = first.expect("the row exists").created_at;
    let since = DeadLetterFilter { since: Some(moment), ..all.clone() };
    assert_eq!(list_sequences(database, since).await, [4, 3, 2, 1]);
    assert_eq!(list_sequences(database, DeadLetterFilter { until: Some(moment), ..all }).await, [0; 0]);
}

/// Checks that dead letters added between two pages do not shift them, and that a page cannot start after
/// another tenant's dead letter.
pub async fn dead_letters_are_listed_in_pages(database: &Database) {
    for sequence in 1..=3 {
        database.one.store_dead_letter(&new_dead_letter(sequence)).await.expect("storing");
    }
    let others = NewDeadLetter { tenant: Some(test_tenant("other")), ..new_dead_letter(9) };
    database.one.store_dead_letter(&others).await.expect("storing");
    let page = |after| DeadLetterFilter { after, limit: 2, ..Default::default() };
    assert_eq!(list_sequences(database, page(None)).await, [3, 2]);
    database.one.store_dead_letter(&new_dead_letter(4)).await.expect("storing");
    assert_eq!(list_sequences(database, page(Some(new_dead_letter(2).id()))).await, [1]);
    assert_eq!(list_sequences(database, page(Some(new_dead_letter(1).id()))).await, [0; 0]);
    assert_eq!(list_sequences(database, page(Some(others.id()))).await, [0; 0]);
}

async fn list_sequences(database: &Database, filter: DeadLetterFilter) -> Vec<u64> {
    let all = database.two.list_dead_letters(&test_tenant("t"), &filter).await.expect("listing");
    all.into_iter().map(|dead_letter| dead_letter.message.position.sequence).collect()
}

/// Checks that a migrated database has no missing migrations.
pub async fn a_migrated_database_lacks_nothing(database: &Database) {
    assert_eq!(database.one.list_missing_migrations().await.expect("reading"), Vec::<String>::new());
}
