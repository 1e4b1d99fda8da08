//! Checks the brief of a workflow: journalled once, found by later investigations, and computed from its own workflow.

use retro_core::calls::SummaryContent;
use serde_json::json;

use super::Database;
use super::investigate::{assert_fenced, make_investigation_due};
use super::scenario::{LONG_S, Scenario, empty_result};
use crate::{JournalEntry, JournalStage, StoredBody, SummaryWrite};

fn entry(text: &str) -> JournalEntry {
    JournalEntry { stage: JournalStage::Briefed, body: json!({ "parts": [text] }) }
}

/// Checks that the first brief of a retrospective is what all its investigations find, by whoever takes over and in the next
/// one, that an old holder stores none, and that another tenant's retrospective has none.
pub async fn a_brief_is_journalled_once_and_found_by_every_later_investigation(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    make_investigation_due(&scenario).await;
    let old = scenario.claim_next(0).await;
    assert_eq!(database.one.load_workflow_brief(&old).await.expect("loading"), None);
    let new = scenario.with_store(&*database.two).claim_next(LONG_S).await;
    assert_fenced(&database.one.append_journal(&old, &entry("late")).await);
    database.two.append_journal(&new, &entry("first")).await.expect("storing");
    database.two.append_journal(&new, &entry("again")).await.expect("a second one is ignored");
    let first = Some(json!({ "parts": ["first"] }));
    assert_eq!(database.one.load_workflow_brief(&old).await.expect("loading"), first);
    assert!(new.journal.is_empty(), "it is no answer of the investigation");
    scenario.finish_claim(&new, &empty_result()).await.expect("finishing");
    let next = scenario.claim_next(LONG_S).await;
    assert_eq!((next.number, next.journal.len()), (2, 0));
    assert_eq!(database.one.load_workflow_brief(&next).await.expect("loading"), first);
    let other = Scenario::new(&*database.one, "another", "w");
    make_investigation_due(&other).await;
    let foreign = other.claim_next(LONG_S).await;
    assert_eq!(database.one.load_workflow_brief(&foreign).await.expect("loading"), None);
}

/// Checks that only summaries of the claimed workflow are listed, newest first.
pub async fn the_newest_summaries_are_those_of_the_claimed_workflow(database: &Database) {
    let own = Scenario::new(&*database.one, "t", "w");
    let others = [Scenario::new(&*database.one, "t", "v"), Scenario::new(&*database.one, "u", "w")];
    make_investigation_due(&own).await;
    let claim = own.claim_next(LONG_S).await;
    let mut expected = Vec::new();
    for run in database.one.begin_summaries(&claim, 100).await.expect("beginning") {
        expected.insert(0, run.run.run_id.clone());
        let content = SummaryContent::Unreadable("it is gone".to_owned());
        let write = SummaryWrite { run: run.run.run_id, attempt: run.run.attempt, content };
        database.one.store_summaries(&claim, &[write]).await.expect("storing");
    }
    assert!(expected.len() > 1, "{expected:?}");
    for other in &others {
        make_investigation_due(other).await;
        let foreign = other.claim_next(LONG_S).await;
        assert_eq!(database.one.list_newest_summaries(&foreign, 100).await.expect("listing"), []);
    }
    let listed = database.two.list_newest_summaries(&claim, 100).await.expect("listing");
    assert_eq!(listed.iter().map(|one| one.run.clone()).collect::<Vec<_>>(), expected);
    let newest = database.two.list_newest_summaries(&claim, 1).await.expect("listing");
    assert_eq!(newest, listed[..1]);
}

/// Checks that an ordinal names a run of the claimed workflow of the claimed tenant alone.
pub async fn a_run_of_the_claimed_workflow_is_found_by_its_ordinal_with_its_body(database: &Database) {
    let own = Scenario::new(&*database.one, "t", "w");
    let other = Scenario::new(&*database.one, "u", "w");
    make_investigation_due(&own).await;
    let claim = own.claim_next(LONG_S).await;
    make_investigation_due(&other).await;
    let foreign = other.claim_next(LONG_S).await;
    let (first, last) = (claim.retrospective.first, claim.retrospective.last);
    let mut found = Vec::new();
    for ordinal in first..=last {
        let (run, body) =
            database.two.find_run_at(&claim, ordinal).await.expect("loading").expect("it is there");
        let foreign =
            database.two.find_run_at(&foreign, ordinal).await.expect("loading").expect("it is there");
        let bodies = [body, foreign.1].map(|body| match body {
            StoredBody::Inline(bytes) => String::from_utf8(bytes).expect("text"),
            other => panic!("{other:?}"),
        });
        assert!(bodies[0].contains(&format!("{}/{}", own.key, run.run_id)), "{bodies:?}");
        assert!(bodies[1].contains(&format!("{}/", other.key)), "{bodies:?}");
        found.push(run.run_id);
    }
    found.dedup();
    assert_eq!(found.len() as u64, last + 1 - first, "{found:?}");
    let beyond = database.one.find_run_at(&claim, last + 1).await.expect("loading");
    assert!(beyond.is_none(), "no run has this ordinal");
}
