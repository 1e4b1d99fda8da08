//! Replaces the embedder during a workflow's life: deleted lessons stay blocked throughout.

use retro_core::finding::LessonCue;
use retro_core::memory::Lesson;
use retro_core::similarity::{NgramEmbedder, SimilarityScale, lesson_similarity};
use retro_testkit::{Concepts, EmbeddingServer, write_weights};
use serde_json::{Value, json};

use crate::world::{RunBuilder, World, json_items, json_text};

const WORKFLOW: &str = "release";
/// Words that the tests' embedders treat as synonyms.
const CONCEPTS: Concepts = &[
    &["list", "search"],
    &["tables", "relations"],
    &["before", "until"],
    &["query", "statement"],
    &["deploy"],
];
/// Lesson that an operator deletes.
const DELETED: &str = "List all the tables before the first query";
/// The deleted lesson in almost the same words.
const REWORDED: &str = "List all tables before your first query";
/// The deleted lesson in other words.
const PARAPHRASED: &str = "Search for relations until a statement runs";
/// A different lesson, which must be learned throughout.
const OTHER: &str = "Check the region when a deploy is slow";

fn endpoint_variables(server: &EmbeddingServer) -> [(&'static str, String); 4] {
    [
        ("RETRO_EMBEDDER_URL", server.url().to_owned()),
        ("RETRO_EMBEDDER_MODEL", "small".to_owned()),
        ("RETRO_EMBEDDER_DIMENSIONS", CONCEPTS.len().to_string()),
        ("RETRO_EMBEDDER_SCALE", "300, 600, 800".to_owned()),
    ]
}

async fn up_with_variables(world: &mut World, variables: &[(&'static str, String)]) {
    let variables: Vec<_> = variables.iter().map(|(key, value)| (*key, value.as_str())).collect();
    world.up_with_env(&variables).await;
}

/// Returns ten runs whose agent leaves this feedback.
fn build_runs_with_feedback(first: u64, remark: &str) -> Vec<Value> {
    let run = |number: u64| {
        let mut event = RunBuilder::new(WORKFLOW, &format!("release-{number}"))
            .with_message("Deploy please.")
            .with_call("deploy_service", &json!({"service": "checkout"}), "deployed checkout")
            .build_event();
        event["data"]["self_feedback"] = json!([remark]);
        event
    };
    (first..first + 10).map(run).collect()
}

/// Emits ten runs and returns the kinds of changes in the newest report.
async fn learn_and_list_changes(world: &World, first: u64, remark: &str) -> Vec<String> {
    world
        .emit_and_wait("default", &format!("from-{first}.jsonl"), &build_runs_with_feedback(first, remark))
        .await;
    let rows = world.run_json(&["retrospectives", "list"]).await;
    let newest = json_items(&rows).iter().max_by_key(|row| row["retrospective"]["epoch"].as_u64());
    let id = json_text(&newest.expect("a retrospective")["retrospective"], "id").to_owned();
    let report = world.run_json(&["reports", "show", &id]).await;
    let changes = json_items(&report["changes"]).iter();
    changes.map(|change| json_text(&change["effect"], "change").to_owned()).collect()
}

async fn delete_memory(world: &World, title: &str) {
    let memories = world.run_json(&["memories", "list", "--status", "active"]).await;
    let memory = json_items(&memories).iter().find(|memory| memory["lesson"]["title"] == title);
    let id = json_text(memory.expect("the memory is active"), "id").to_owned();
    world.run_json(&["memories", "delete", &id, "--reason", "wrong"]).await;
    world.wait_until_idle().await;
}

fn are_all(kinds: &[String], kind: &str) -> bool {
    !kinds.is_empty() && kinds.iter().all(|one| one == kind)
}

fn similarity_by_words(a: &str, b: &str) -> u16 {
    let lesson = |title: &str| Lesson {
        subject: String::new(),
        title: title.to_owned(),
        content: String::new(),
        cue: LessonCue::default(),
        worded_by: None,
    };
    lesson_similarity(&NgramEmbedder, &lesson(a), &lesson(b))
}

#[tokio::test]
async fn a_tombstone_matches_words_while_the_model_is_away_and_meaning_once_it_is_back() {
    assert!(
        similarity_by_words(DELETED, REWORDED) >= SimilarityScale::TOMBSTONE
            && similarity_by_words(DELETED, PARAPHRASED) < 300
    );
    let mut world = World::start().await;
    assert!(learn_and_list_changes(&world, 0, DELETED).await.contains(&"promoted".to_owned()));
    delete_memory(&world, DELETED).await;
    world.stop().await;

    let server = EmbeddingServer::start(CONCEPTS).await;
    server.set_unavailable(true);
    up_with_variables(&mut world, &endpoint_variables(&server)).await;
    let away = learn_and_list_changes(&world, 10, REWORDED).await;
    assert!(are_all(&away, "suppressed"), "matched by words, since nothing was embedded yet: {away:?}");
    let learnt = learn_and_list_changes(&world, 20, OTHER).await;
    assert!(learnt.contains(&"promoted".to_owned()), "nothing fails: {learnt:?}");
    assert!(server.embedded_texts().is_empty());

    server.set_unavailable(false);
    let all = [DELETED, OTHER].map(str::to_owned);
    let embedded = async || all.iter().all(|text| server.embedded_texts().contains(text)).then_some(());
    world.wait_for("the tombstone's and the memory's text are embedded", embedded).await;
    let there = learn_and_list_changes(&world, 30, PARAPHRASED).await;
    assert!(are_all(&there, "suppressed"), "matched by meaning: {there:?}");
    let report = world.run_json(&["memories", "list", "--status", "active"]).await;
    assert_eq!(json_items(&report).len(), 1, "learned memories stay: {report}");
    assert_eq!(world.verify_store().await["tombstones"], 1);
    world.stop().await;

    // Embeddings are stored, so another process requests only unknown ones.
    let again = EmbeddingServer::start(CONCEPTS).await;
    up_with_variables(&mut world, &endpoint_variables(&again)).await;
    let there = learn_and_list_changes(&world, 40, PARAPHRASED).await;
    assert!(are_all(&there, "suppressed"), "{there:?}");
    assert!(!again.embedded_texts().iter().any(|text| all.contains(text)), "{:?}", again.embedded_texts());
    world.stop().await;
}

#[tokio::test]
async fn lessons_are_compared_by_the_weights_of_a_directory() {
    let mut world = World::start().await;
    assert!(learn_and_list_changes(&world, 0, DELETED).await.contains(&"promoted".to_owned()));
    delete_memory(&world, DELETED).await;
    world.stop().await;
    let dir = world.path("weights");
    std::fs::create_dir(&dir).unwrap();
    write_weights(&dir, CONCEPTS);
    std::fs::write(dir.join("retrospect.json"), r#"{"contradiction":300,"tombstone":600,"merge":800}"#)
        .unwrap();
    let variable = [("RETRO_EMBEDDER_DIR", dir.display().to_string())];
    up_with_variables(&mut world, &variable).await;
    let there = learn_and_list_changes(&world, 10, PARAPHRASED).await;
    assert!(are_all(&there, "suppressed"), "before any vector was stored: {there:?}");
    let learnt = learn_and_list_changes(&world, 20, OTHER).await;
    assert!(learnt.contains(&"promoted".to_owned()), "{learnt:?}");
    world.verify_store().await;
    world.stop().await;
}
