//! What embedders made of memories: kept under their name, found by text, and never a condition for anything.

use retro_core::id::{MemoryId, Tenant};
use retro_core::similar::Unready;

use super::Database;
use super::story::{Story, found, moment, tenant};
use crate::{MemoryText, Step, Store, StoreError};

/// More rows than any case has.
const ALL: u32 = 1000;

async fn lacking(store: &dyn Store, embedder: &str) -> Vec<MemoryText> {
    let page = store.lacking_vectors(embedder, None, ALL).await.expect("listing");
    assert_eq!(page.after, None, "it is the last page");
    let count = store.lacking_vectors_count(embedder).await.expect("counting");
    assert_eq!(count, page.lacking.len() as u64);
    page.lacking
}

async fn keep(store: &dyn Store, embedder: &str, vector: &[i32]) {
    let made: Vec<_> = lacking(store, embedder).await.into_iter().map(|one| (one, vector.to_vec())).collect();
    store.keep_vectors(embedder, &made).await.expect("keeping");
}

/// Page by page, over all tenants, and again by another process.
pub async fn a_memory_lacks_a_vector_until_one_is_kept(database: &Database) {
    let (one, two) = (Story::new(&*database.one, "t", "w"), Story::new(&*database.one, "u", "w"));
    assert_eq!(lacking(&*database.one, "e@1").await, []);
    one.learn("the first lesson").await;
    two.learn("quite another thing to know").await;
    let first = database.one.lacking_vectors("e@1", None, 1).await.expect("listing");
    assert_eq!((first.lacking[0].tenant.as_str(), first.lacking[0].text.as_str()), ("t", "the first lesson"));
    let second = database.two.lacking_vectors("e@1", first.after.as_ref(), 1).await.expect("listing");
    assert_eq!((second.lacking.len(), second.lacking[0].tenant.as_str()), (1, "u"));
    let third = database.two.lacking_vectors("e@1", second.after.as_ref(), 1).await.expect("listing");
    assert_eq!((third.lacking, third.after), (Vec::new(), None));
    keep(&*database.one, "e@1", &[1, -2, 300]).await;
    assert_eq!(lacking(&*database.two, "e@1").await, []);
    assert_eq!(lacking(&*database.two, "e@2").await.len(), 2, "another embedder begins anew");
    let page = database.one.lacking_vectors("e@1", None, 1).await.expect("listing");
    assert!(page.lacking.is_empty() && page.after.is_some(), "a page of nothing is not the last");
}

/// Law 11: a vector is found by who owns a memory of that text.
pub async fn vectors_are_found_by_text_within_their_tenant_and_embedder(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    story.learn("the first lesson").await;
    keep(&*database.one, "e@1", &[i32::MIN, 0, i32::MAX]).await;
    let texts = ["the first lesson".to_owned(), "nobody knows it".to_owned()];
    let ask = async |of: &str, embedder: &str| {
        database.two.vectors(&tenant(of), embedder, &texts).await.expect("reading")
    };
    let found = ask("t", "e@1").await;
    assert_eq!(found.into_iter().collect::<Vec<_>>(), [(texts[0].clone(), vec![i32::MIN, 0, i32::MAX])]);
    assert!(ask("u", "e@1").await.is_empty() && ask("t", "e@2").await.is_empty());
    let one: (Tenant, MemoryId) = (tenant("t"), story.memories().await[0].id);
    let again = MemoryText { tenant: one.0, memory: one.1, text: texts[0].clone() };
    database.one.keep_vectors("e@1", &[(again, vec![7])]).await.expect("keeping");
    assert_eq!(ask("t", "e@1").await[&texts[0]], [7], "the latest holds");
}

/// A tombstone is compared with what comes, so its text is as good as a memory's.
pub async fn what_was_deleted_lacks_a_vector_as_long_as_its_tombstone_stands(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let memory = story.learn("the first lesson").await;
    super::write::delete(&story, memory.id, "gone").await.expect("it lives");
    assert_eq!(lacking(&*database.one, "e@1").await.len(), 1);
    keep(&*database.one, "e@1", &[1]).await;
    assert_eq!(lacking(&*database.one, "e@1").await, []);
}

/// Nothing is stored, the lock is free, and the same call with the vectors goes through.
pub async fn a_decision_that_wants_vectors_stores_nothing(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let id = story.settle(["a", "b"], &|_| found("the first lesson")).await;
    let before = story.state().await;
    let unready = database.one.close(&story.key.tenant, id, moment(10), &|_| Err(Unready)).await;
    assert!(matches!(unready, Err(StoreError::Unready(_))), "{unready:?}");
    assert_eq!((story.memories().await, story.state().await), (Vec::new(), before));
    assert_eq!(story.by(&*database.two).close(id).await, Step::Done);
    assert_eq!(story.memories().await.len(), 1);
}

/// While two embedders are in use side by side, neither takes the other's away.
pub async fn vectors_of_other_embedders_are_forgotten_by_age(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    story.learn("the first lesson").await;
    keep(&*database.one, "e@1", &[1]).await;
    keep(&*database.one, "e@2", &[2]).await;
    assert_eq!(database.one.forget_vectors("e@2", 3600, ALL).await.expect("forgetting"), 0, "it is young");
    assert_eq!(database.one.forget_vectors("e@2", 0, ALL).await.expect("forgetting"), 1);
    assert_eq!(lacking(&*database.one, "e@1").await.len(), 1);
    assert_eq!(lacking(&*database.one, "e@2").await, [], "its own stay");
}
