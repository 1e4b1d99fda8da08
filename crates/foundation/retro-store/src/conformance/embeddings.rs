//! Conformance cases for embeddings.

use retro_core::id::{MemoryId, Tenant};
use retro_core::similarity::ScopeChanged;

use super::Database;
use super::scenario::{Scenario, result_with_finding, test_tenant, time_at};
use crate::{CommitResult, MemoryText, Store};

/// Limit above the number of rows in any case.
const ALL: u32 = 1000;

async fn list_missing(store: &dyn Store, embedder: &str) -> Vec<MemoryText> {
    let page = store.list_missing_embeddings(embedder, None, ALL).await.expect("listing");
    assert_eq!(page.after, None, "it is the last page");
    let count = store.count_missing_embeddings(embedder).await.expect("counting");
    assert_eq!(count, page.missing.len() as u64);
    page.missing
}

async fn store_vector(store: &dyn Store, embedder: &str, vector: &[i32]) {
    let made: Vec<_> =
        list_missing(store, embedder).await.into_iter().map(|one| (one, vector.to_vec())).collect();
    store.store_embeddings(embedder, &made).await.expect("storing");
}

/// Checks that missing embeddings of all tenants are listed page by page until they are stored.
pub async fn a_memory_is_missing_its_embedding_until_one_is_stored(database: &Database) {
    let (one, two) = (Scenario::new(&*database.one, "t", "w"), Scenario::new(&*database.one, "u", "w"));
    assert_eq!(list_missing(&*database.one, "e@1").await, []);
    one.learn_lesson("the first lesson").await;
    two.learn_lesson("quite another thing to know").await;
    let first = database.one.list_missing_embeddings("e@1", None, 1).await.expect("listing");
    assert_eq!((first.missing[0].tenant.as_str(), first.missing[0].text.as_str()), ("t", "the first lesson"));
    let second = database.two.list_missing_embeddings("e@1", first.after.as_ref(), 1).await.expect("listing");
    assert_eq!((second.missing.len(), second.missing[0].tenant.as_str()), (1, "u"));
    let third = database.two.list_missing_embeddings("e@1", second.after.as_ref(), 1).await.expect("listing");
    assert_eq!((third.missing, third.after), (Vec::new(), None));
    store_vector(&*database.one, "e@1", &[1, -2, 300]).await;
    assert_eq!(list_missing(&*database.two, "e@1").await, []);
    assert_eq!(list_missing(&*database.two, "e@2").await.len(), 2, "another embedder begins anew");
    let page = database.one.list_missing_embeddings("e@1", None, 1).await.expect("listing");
    assert!(page.missing.is_empty() && page.after.is_some(), "a page of nothing is not the last");
}

/// Checks that an embedding is found only by a tenant that owns a memory with the text (law 11), and only for
/// its embedder.
pub async fn embeddings_are_found_by_text_within_tenant_and_embedder(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    scenario.learn_lesson("the first lesson").await;
    store_vector(&*database.one, "e@1", &[i32::MIN, 0, i32::MAX]).await;
    let texts = ["the first lesson".to_owned(), "nobody knows it".to_owned()];
    let ask = async |of: &str, embedder: &str| {
        database.two.load_embeddings(&test_tenant(of), embedder, &texts).await.expect("reading")
    };
    let found = ask("t", "e@1").await;
    assert_eq!(found.into_iter().collect::<Vec<_>>(), [(texts[0].clone(), vec![i32::MIN, 0, i32::MAX])]);
    assert!(ask("u", "e@1").await.is_empty() && ask("t", "e@2").await.is_empty());
    let one: (Tenant, MemoryId) = (test_tenant("t"), scenario.list_memories().await[0].id);
    let repeated = MemoryText { tenant: one.0, memory: one.1, text: texts[0].clone() };
    database.one.store_embeddings("e@1", &[(repeated, vec![7])]).await.expect("storing");
    assert_eq!(ask("t", "e@1").await[&texts[0]], [7], "the latest holds");
}

/// Checks that a deleted memory needs an embedding while its tombstone exists, because new lessons are
/// compared with it.
pub async fn a_deleted_memory_needs_an_embedding_while_its_tombstone_stands(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let memory = scenario.learn_lesson("the first lesson").await;
    super::write::delete_memory(&scenario, memory.id, "gone").await.expect("the memory is living");
    assert_eq!(list_missing(&*database.one, "e@1").await.len(), 1);
    store_vector(&*database.one, "e@1", &[1]).await;
    assert_eq!(list_missing(&*database.one, "e@1").await, []);
}

/// Checks that a closing without a decision stores nothing and releases the lock, that its facts can still be
/// collected, and that a later closing succeeds, after which there is nothing to collect.
pub async fn an_undecided_closing_stores_nothing_and_a_later_one_closes(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let id = scenario.settle_window(["a", "b"], &|_| result_with_finding("the first lesson")).await;
    let before = scenario.workflow_state().await;
    let tenant = &scenario.key.tenant;
    let undecided = database.one.close_retrospective(tenant, id, time_at(10), &|_| Err(ScopeChanged)).await;
    assert_eq!(undecided.expect("closing"), Err(ScopeChanged));
    assert_eq!((scenario.list_memories().await, scenario.workflow_state().await), (Vec::new(), before));
    assert!(database.two.list_workflow_changes(&scenario.key).await.expect("changes").is_empty());
    assert!(database.two.load_closing_facts(tenant, id).await.expect("reading").is_some());
    assert_eq!(scenario.with_store(&*database.two).close_retrospective(id).await, CommitResult::Done);
    assert_eq!(scenario.list_memories().await.len(), 1);
    assert!(database.two.load_closing_facts(tenant, id).await.expect("reading").is_none(), "it is closed");
}

/// Checks that embeddings of other embedders are purged by age, so two embedders in use keep each other's
/// recent embeddings.
pub async fn embeddings_of_other_embedders_are_purged_by_age(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    scenario.learn_lesson("the first lesson").await;
    store_vector(&*database.one, "e@1", &[1]).await;
    store_vector(&*database.one, "e@2", &[2]).await;
    assert_eq!(database.one.purge_embeddings("e@2", 3600, ALL).await.expect("deleting"), 0, "it is young");
    assert_eq!(database.one.purge_embeddings("e@2", 0, ALL).await.expect("deleting"), 1);
    assert_eq!(list_missing(&*database.one, "e@1").await.len(), 1);
    assert_eq!(list_missing(&*database.one, "e@2").await, [], "its own stay");
}
