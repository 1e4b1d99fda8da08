//! Reading everything page by page, and which database it is.

use retro_core::id::MemoryId;
use retro_core::retrospective::State;

use super::Database;
use super::story::{Story, moment, run_id};
use crate::{OrdinalSummary, Store};

/// Three workflows of two tenants, each with a lesson of its own that two runs confirmed, and one lesson deleted.
async fn fill(database: &Database) {
    for (tenant, workflow) in [("t", "w"), ("t", "v"), ("s", "w")] {
        let story = Story::new(&*database.one, tenant, workflow);
        let lesson = story.learn(&format!("a lesson of {workflow} in {tenant}")).await;
        story.count(&["one more"]).await;
        if workflow == "v" {
            super::write::delete(&story, lesson.id, "gone").await.expect("it lives");
        }
    }
}

/// The order is the database's own, and nothing at the border of a page is met twice or left out.
pub async fn workflows_are_met_once_whatever_the_size_of_a_page(database: &Database) {
    fill(database).await;
    let whole = database.two.workflow_books(None, 9).await.expect("reading");
    let names: Vec<_> = whole.iter().map(|one| one.key.to_string()).collect();
    assert_eq!(names, ["s/w", "t/v", "t/w"]);
    let mut paged = Vec::new();
    while let Some(next) = database
        .two
        .workflow_books(paged.last().map(|one: &crate::WorkflowBooks| &one.key), 1)
        .await
        .expect("reading")
        .pop()
    {
        paged.push(next);
    }
    assert_eq!(paged, whole);
    for one in &whole {
        assert_eq!((one.state.counted, one.recorded), (3, 3), "{}", one.key);
        assert_eq!(one.ordinals, OrdinalSummary { given: 3, first_gap: None });
        let windows: Vec<_> =
            one.windows.iter().map(|row| (row.epoch, row.first, row.last, row.state)).collect();
        assert_eq!(windows, [(1, 1, 2, State::Closed)], "{}", one.key);
    }
}

/// A retrospective comes with its own report and changes, whoever shares its page.
pub async fn retrospectives_come_with_their_reports_and_changes(database: &Database) {
    fill(database).await;
    let whole = database.two.retrospective_books(None, 9).await.expect("reading");
    assert_eq!((whole.items.len(), whole.next), (3, None));
    let mut place = None;
    let mut paged = Vec::new();
    loop {
        let page = database.two.retrospective_books(place.as_ref(), 1).await.expect("reading");
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

/// One memory, one entry: what any of the three tables says of it.
pub async fn memories_come_with_their_changes_and_tombstones(database: &Database) {
    fill(database).await;
    let whole = database.two.memory_books(None, 99).await.expect("reading");
    assert_eq!(whole.len(), 3);
    let mut paged: Vec<crate::MemoryBooks> = Vec::new();
    loop {
        let behind = paged.last().map(|one| (one.tenant.clone(), one.id));
        let behind: Option<(&_, MemoryId)> = behind.as_ref().map(|(tenant, id)| (tenant, *id));
        let page = database.two.memory_books(behind, 1).await.expect("reading");
        if page.is_empty() {
            break;
        }
        paged.extend(page);
    }
    assert_eq!(format!("{paged:?}"), format!("{whole:?}"));
    for one in &whole {
        let (home, memory) = one.stored.as_ref().expect("it is kept");
        assert_eq!((&home.tenant, memory.id), (&one.tenant, one.id));
        let history = database.two.history(&one.tenant, one.id).await.expect("reading");
        assert_eq!(one.changes.iter().map(|(_, change)| change.clone()).collect::<Vec<_>>(), history);
        assert!(one.changes.iter().all(|(key, _)| key == home));
        assert_eq!(one.tombstone.is_some(), home.workflow.as_str() == "v");
    }
}

/// A run that was recorded and does not count is not counted, and neither is another workflow's.
pub async fn runs_that_are_not_counted_are_named(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let mut skipped = story.run("skipped");
    skipped.arrival.run.outcome = retro_core::run::Outcome::Skip;
    story.count_batch(&[story.run("a"), skipped], moment(0)).await;
    Story::new(&*database.one, "t", "v").count(&["b"]).await;
    let asked = ["a", "skipped", "b", "never"].map(run_id);
    let missing = database.two.uncounted(&story.key, &asked).await.expect("reading");
    assert_eq!(missing, ["skipped", "b", "never"].map(run_id));
}

/// Drawn once, so that every process sees the same.
pub async fn a_database_has_one_identity(database: &Database) {
    let identity = async |store: &dyn Store| store.identity().await.expect("reading");
    let one = identity(&*database.one).await;
    assert_eq!(one, identity(&*database.two).await);
    assert!(one.len() == 32 && one.bytes().all(|byte| byte.is_ascii_hexdigit()), "{one}");
}
