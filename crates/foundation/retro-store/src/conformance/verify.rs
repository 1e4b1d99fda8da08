//! Conformance cases for reading the database page by page and for its id.

use retro_core::id::MemoryId;
use retro_core::retrospective::RetrospectiveState;

use super::Database;
use super::scenario::{Scenario, run_id, time_at};
use crate::{OrdinalSummary, Store};

/// Stores three workflows of two tenants, each with a confirmed lesson, one of which is deleted.
async fn fill_database(database: &Database) {
    for (tenant, workflow) in [("t", "w"), ("t", "v"), ("s", "w")] {
        let scenario = Scenario::new(&*database.one, tenant, workflow);
        let lesson = scenario.learn_lesson(&format!("a lesson of {workflow} in {tenant}")).await;
        scenario.count_runs(&["one more"]).await;
        if workflow == "v" {
            super::write::delete_memory(&scenario, lesson.id, "gone").await.expect("the memory is living");
        }
    }
}

/// Checks that no page of workflows repeats or skips a row, with any page size.
pub async fn workflows_are_listed_once_with_any_page_size(database: &Database) {
    fill_database(database).await;
    let whole = database.two.list_workflow_records(None, 9).await.expect("reading");
    let names: Vec<_> = whole.iter().map(|one| one.key.to_string()).collect();
    assert_eq!(names, ["s/w", "t/v", "t/w"]);
    let mut paged = Vec::new();
    while let Some(next) = database
        .two
        .list_workflow_records(paged.last().map(|one: &crate::WorkflowRecords| &one.key), 1)
        .await
        .expect("reading")
        .pop()
    {
        paged.push(next);
    }
    assert_eq!(paged, whole);
    for one in &whole {
        assert_eq!((one.state.counted, one.recorded), (3, 3), "{}", one.key);
        assert_eq!(one.ordinals, OrdinalSummary { assigned: 3, first_gap: None });
        let windows: Vec<_> =
            one.windows.iter().map(|row| (row.epoch, row.first, row.last, row.state)).collect();
        assert_eq!(windows, [(1, 1, 2, RetrospectiveState::Closed)], "{}", one.key);
    }
}

/// Checks that each retrospective comes with its own report and changes, with any page size.
pub async fn retrospectives_come_with_their_reports_and_changes(database: &Database) {
    fill_database(database).await;
    let whole = database.two.list_retrospective_records(None, 9).await.expect("reading");
    assert_eq!((whole.items.len(), whole.next), (3, None));
    let mut place = None;
    let mut paged = Vec::new();
    loop {
        let page = database.two.list_retrospective_records(place.as_ref(), 1).await.expect("reading");
        paged.extend(page.items);
        match page.next {
            Some(next) => place = Some(next),
            None => break,
        }
    }
    assert_eq!(format!("{paged:?}"), format!("{:?}", whole.items));
    for one in &paged {
        let report = one.report.as_ref().expect("it has closed");
        assert_eq!((report.id, &report.tenant), (one.retrospective.id, &one.retrospective.key.tenant));
        assert_eq!(one.changes, report.changes);
        assert!(!one.changes.is_empty());
    }
}

/// Checks that each memory comes with its rows of all three tables.
pub async fn memories_come_with_their_changes_and_tombstones(database: &Database) {
    fill_database(database).await;
    let whole = database.two.list_memory_records(None, 99).await.expect("reading");
    assert_eq!(whole.len(), 3);
    let mut paged: Vec<crate::MemoryRecords> = Vec::new();
    loop {
        let after = paged.last().map(|one| (one.tenant.clone(), one.id));
        let after: Option<(&_, MemoryId)> = after.as_ref().map(|(tenant, id)| (tenant, *id));
        let page = database.two.list_memory_records(after, 1).await.expect("reading");
        if page.is_empty() {
            break;
        }
        paged.extend(page);
    }
    assert_eq!(format!("{paged:?}"), format!("{whole:?}"));
    for one in &whole {
        let (home, memory) = one.stored.as_ref().expect("it is kept");
        assert_eq!((&home.tenant, memory.id), (&one.tenant, one.id));
        let history = database.two.list_memory_changes(&one.tenant, one.id).await.expect("reading");
        assert_eq!(one.changes.iter().map(|(_, change)| change.clone()).collect::<Vec<_>>(), history);
        assert!(one.changes.iter().all(|(key, _)| key == home));
        assert_eq!(one.tombstone.is_some(), home.workflow.as_str() == "v");
    }
}

/// Checks that stored but uncounted runs and runs of other workflows are reported as uncounted.
pub async fn uncounted_runs_are_found(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let mut skipped = scenario.new_run("skipped");
    skipped.arrival.run.outcome = retro_core::run::RunOutcome::Skip;
    scenario.count_batch(&[scenario.new_run("a"), skipped], time_at(0)).await;
    Scenario::new(&*database.one, "t", "v").count_runs(&["b"]).await;
    let request = ["a", "skipped", "b", "never"].map(run_id);
    let missing = database.two.find_uncounted_runs(&scenario.key, &request).await.expect("reading");
    assert_eq!(missing, ["skipped", "b", "never"].map(run_id));
}

/// Checks that every process reads the same database id.
pub async fn a_database_has_one_id(database: &Database) {
    let identity = async |store: &dyn Store| store.load_database_id().await.expect("reading");
    let one = identity(&*database.one).await;
    assert_eq!(one, identity(&*database.two).await);
    assert!(one.len() == 32 && one.bytes().all(|byte| byte.is_ascii_hexdigit()), "{one}");
}
