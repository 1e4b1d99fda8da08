//! Another embedder takes over in the middle of a life: what was forbidden stays forbidden at every moment.

use retro_core::finding::LessonCue;
use retro_core::memory::Lesson;
use retro_core::similarity::{NgramEmbedder, SimilarityScale, lesson_similarity};
use retro_testkit::{Concepts, EmbeddingServer, write_weights};
use serde_json::{Value, json};

use crate::world::{Run, World, items, text};

const WORKFLOW: &str = "release";
/// What the tests' embedders understand.
const CONCEPTS: Concepts = &[
    &["list", "search"],
    &["tables", "relations"],
    &["before", "until"],
    &["query", "statement"],
    &["deploy"],
];
/// Deleted by a person.
const DELETED: &str = "List all the tables before the first query";
/// The same in nearly the same words.
const REWORDED: &str = "List all tables before your first query";
/// The same in other words.
const PARAPHRASED: &str = "Search for relations until a statement runs";
/// Something else, which must be learnt all the time.
const OTHER: &str = "Check the region when a deploy is slow";

fn endpoint(server: &EmbeddingServer) -> [(&'static str, String); 4] {
    [
        ("RETRO_EMBEDDER_URL", server.url().to_owned()),
        ("RETRO_EMBEDDER_MODEL", "small".to_owned()),
        ("RETRO_EMBEDDER_DIMENSIONS", CONCEPTS.len().to_string()),
        ("RETRO_EMBEDDER_SCALE", "300, 600, 800".to_owned()),
    ]
}

async fn up_with(world: &mut World, variables: &[(&'static str, String)]) {
    let variables: Vec<_> = variables.iter().map(|(key, value)| (*key, value.as_str())).collect();
    world.up_with(&variables).await;
}

/// Ten runs whose agent would tell the next one something.
fn telling(first: u64, remark: &str) -> Vec<Value> {
    let run = |number: u64| {
        let mut event = Run::new(WORKFLOW, &format!("release-{number}"))
            .told("Deploy please.")
            .call("deploy_service", &json!({"service": "checkout"}), "deployed checkout")
            .event();
        event["data"]["self_feedback"] = json!([remark]);
        event
    };
    (first..first + 10).map(run).collect()
}

/// What became of the lessons of ten runs, by the newest report.
async fn kinds(world: &World, first: u64, remark: &str) -> Vec<String> {
    world.emit("default", &format!("from-{first}.jsonl"), &telling(first, remark)).await;
    let rows = world.ask(&["retrospectives", "list"]).await;
    let newest = items(&rows).iter().max_by_key(|row| row["retrospective"]["epoch"].as_u64());
    let id = text(&newest.expect("a retrospective")["retrospective"], "id").to_owned();
    let report = world.ask(&["reports", "show", &id]).await;
    let changes = items(&report["changes"]).iter();
    changes.map(|change| text(&change["effect"], "change").to_owned()).collect()
}

async fn delete(world: &World, title: &str) {
    let memories = world.ask(&["memories", "list", "--status", "active"]).await;
    let memory = items(&memories).iter().find(|memory| memory["lesson"]["title"] == title);
    let id = text(memory.expect("it is active"), "id").to_owned();
    world.ask(&["memories", "delete", &id, "--reason", "wrong"]).await;
    world.still().await;
}

fn only(kinds: &[String], kind: &str) -> bool {
    !kinds.is_empty() && kinds.iter().all(|one| one == kind)
}

fn by_words(a: &str, b: &str) -> u16 {
    let lesson = |title: &str| Lesson {
        subject: String::new(),
        title: title.to_owned(),
        content: String::new(),
        cue: LessonCue::default(),
    };
    lesson_similarity(&NgramEmbedder, &lesson(a), &lesson(b))
}

#[tokio::test]
async fn a_tombstone_stands_while_a_model_is_away_and_reaches_further_once_it_is_there() {
    assert!(
        by_words(DELETED, REWORDED) >= SimilarityScale::TOMBSTONE && by_words(DELETED, PARAPHRASED) < 300
    );
    let mut world = World::start().await;
    assert!(kinds(&world, 0, DELETED).await.contains(&"promoted".to_owned()));
    delete(&world, DELETED).await;
    world.stop().await;

    let server = EmbeddingServer::start(CONCEPTS).await;
    server.set_unavailable(true);
    up_with(&mut world, &endpoint(&server)).await;
    let away = kinds(&world, 10, REWORDED).await;
    assert!(only(&away, "suppressed"), "by its words, since nothing was embedded yet: {away:?}");
    let learnt = kinds(&world, 20, OTHER).await;
    assert!(learnt.contains(&"promoted".to_owned()), "nothing fails: {learnt:?}");
    assert!(server.embedded_texts().is_empty());

    server.set_unavailable(false);
    let all = [DELETED, OTHER].map(str::to_owned);
    let embedded = async || all.iter().all(|text| server.embedded_texts().contains(text)).then_some(());
    world.until("the tombstone's and the memory's text are embedded", embedded).await;
    let there = kinds(&world, 30, PARAPHRASED).await;
    assert!(only(&there, "suppressed"), "by what it means: {there:?}");
    let report = world.ask(&["memories", "list", "--status", "active"]).await;
    assert_eq!(items(&report).len(), 1, "what was learnt stays: {report}");
    assert_eq!(world.sound().await["tombstones"], 1);
    world.stop().await;

    // What was made is kept: another process asks for nothing that is known.
    let again = EmbeddingServer::start(CONCEPTS).await;
    up_with(&mut world, &endpoint(&again)).await;
    let there = kinds(&world, 40, PARAPHRASED).await;
    assert!(only(&there, "suppressed"), "{there:?}");
    assert!(!again.embedded_texts().iter().any(|text| all.contains(text)), "{:?}", again.embedded_texts());
    world.stop().await;
}

#[tokio::test]
async fn weights_in_a_directory_are_what_lessons_are_compared_by() {
    let mut world = World::start().await;
    assert!(kinds(&world, 0, DELETED).await.contains(&"promoted".to_owned()));
    delete(&world, DELETED).await;
    world.stop().await;
    let dir = world.path("weights");
    std::fs::create_dir(&dir).unwrap();
    write_weights(&dir, CONCEPTS);
    std::fs::write(dir.join("retrospect.json"), r#"{"contradiction":300,"tombstone":600,"merge":800}"#)
        .unwrap();
    let variable = [("RETRO_EMBEDDER_DIR", dir.display().to_string())];
    up_with(&mut world, &variable).await;
    let there = kinds(&world, 10, PARAPHRASED).await;
    assert!(only(&there, "suppressed"), "before anything was kept: {there:?}");
    let learnt = kinds(&world, 20, OTHER).await;
    assert!(learnt.contains(&"promoted".to_owned()), "{learnt:?}");
    world.sound().await;
    world.stop().await;
}
