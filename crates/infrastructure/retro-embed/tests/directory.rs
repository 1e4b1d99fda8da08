//! Tests of the directory embedder, with generated weights.

#![expect(clippy::unwrap_used, reason = "clippy does not recognize shared test helpers as tests")]

use std::path::Path;

use retro_core::similarity::{SimilarityScale, cosine_similarity};
use retro_embed::DirectoryEmbedder;
use retro_store::EmbeddingSource as _;
use retro_testkit::{Concepts, write_weights};
use tempfile::TempDir;

const CONCEPTS: Concepts = &[&["list", "show"], &["tables", "relations"], &["payment"]];
const SCALE: SimilarityScale = SimilarityScale { contradiction: 400, tombstone: 500, merge: 600 };

fn weights() -> TempDir {
    let dir = TempDir::new().unwrap();
    write_weights(dir.path(), CONCEPTS);
    dir
}

fn load_error(dir: &Path, scale: Option<SimilarityScale>) -> String {
    DirectoryEmbedder::load(dir, scale).err().expect("the directory is invalid").to_string()
}

#[tokio::test]
async fn paraphrases_have_the_same_direction() {
    let dir = weights();
    let model = DirectoryEmbedder::load(dir.path(), Some(SCALE)).unwrap();
    let texts = ["List tables", "show RELATIONS", "payment", "words that nobody knows"].map(str::to_owned);
    let vectors = model.embed(&texts).await.unwrap();
    assert_eq!(vectors[0], [7071, 7071, 0], "scaled to length 10,000");
    let near = |a: usize, b: usize| cosine_similarity(&vectors[a], &vectors[b]);
    assert_eq!([near(0, 1), near(0, 2), near(0, 3)], [1000, 0, 0]);
    assert_eq!((model.dimensions(), model.scale()), (3, SCALE));
    assert_eq!(model.embed(&[]).await.unwrap(), Vec::<Vec<i32>>::new());
}

#[test]
fn other_weights_have_another_name() {
    let (one, same, other) = (weights(), weights(), weights());
    write_weights(other.path(), &[&["list"], &["tables"], &["payment"]]);
    let name = |dir: &TempDir| DirectoryEmbedder::load(dir.path(), Some(SCALE)).unwrap().name().to_owned();
    assert_eq!(name(&one), name(&same), "the path does not matter");
    assert_ne!(name(&one), name(&other));
    assert!(name(&one).starts_with("model2vec@"), "{}", name(&one));
}

#[test]
fn the_scale_is_read_from_the_directory_or_given() {
    let dir = weights();
    let error = load_error(dir.path(), None);
    assert!(error.contains("has no scale") && error.contains("--calibrate"), "{error}");
    DirectoryEmbedder::load_for_calibration(dir.path()).unwrap();
    let file = dir.path().join("retrospect.json");
    std::fs::write(&file, r#"{"contradiction":1,"tombstone":2,"merge":3}"#).unwrap();
    assert_eq!(DirectoryEmbedder::load(dir.path(), None).unwrap().scale().merge, 3);
    assert_eq!(
        DirectoryEmbedder::load(dir.path(), Some(SCALE)).unwrap().scale(),
        SCALE,
        "a given scale takes precedence"
    );
    for wrong in [r#"{"contradiction":3,"tombstone":2,"merge":3}"#, r#"{"merge":3}"#, "no JSON"] {
        std::fs::write(&file, wrong).unwrap();
        let error = load_error(dir.path(), None);
        assert!(error.contains("retrospect.json is no scale"), "{error}");
    }
}

#[test]
fn an_error_names_the_unusable_file() {
    let dir = weights();
    let file = |name: &str| dir.path().join(name);
    std::fs::write(file("model.safetensors"), b"no weights").unwrap();
    let error = load_error(dir.path(), Some(SCALE));
    assert!(error.contains("holds no Model2Vec weights"), "{error}");
    std::fs::remove_file(file("tokenizer.json")).unwrap();
    let error = load_error(dir.path(), Some(SCALE));
    assert!(error.contains("tokenizer.json cannot be read"), "{error}");
    let error = load_error(&file("nowhere"), Some(SCALE));
    assert!(error.contains("nowhere/config.json cannot be read"), "{error}");
}
