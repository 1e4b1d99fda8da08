//! Weights that the tests write.

#![expect(
    clippy::unwrap_used,
    reason = "clippy takes only the tests themselves for tests, not what they share"
)]

use std::path::Path;

use retro_core::similar::{Scale, cosine};
use retro_embed::Directory;
use retro_store::VectorSource as _;
use retro_testkit::{Concepts, write_weights};
use tempfile::TempDir;

const CONCEPTS: Concepts = &[&["list", "show"], &["tables", "relations"], &["payment"]];
const SCALE: Scale = Scale { contradiction: 400, tombstone: 500, merge: 600 };

fn weights() -> TempDir {
    let dir = TempDir::new().unwrap();
    write_weights(dir.path(), CONCEPTS);
    dir
}

fn refused(dir: &Path, scale: Option<Scale>) -> String {
    Directory::load(dir, scale).err().expect("it cannot be used").to_string()
}

#[tokio::test]
async fn texts_that_say_the_same_in_other_words_point_the_same_way() {
    let dir = weights();
    let model = Directory::load(dir.path(), Some(SCALE)).unwrap();
    let texts = ["List tables", "show RELATIONS", "payment", "words that nobody knows"].map(str::to_owned);
    let vectors = model.embed(&texts).await.unwrap();
    assert_eq!(vectors[0], [7071, 7071, 0], "of length 1, times 10,000");
    let near = |a: usize, b: usize| cosine(&vectors[a], &vectors[b]);
    assert_eq!([near(0, 1), near(0, 2), near(0, 3)], [1000, 0, 0]);
    assert_eq!((model.dimensions(), model.scale()), (3, SCALE));
    assert_eq!(model.embed(&[]).await.unwrap(), Vec::<Vec<i32>>::new());
}

#[test]
fn other_weights_are_another_embedder() {
    let (one, same, other) = (weights(), weights(), weights());
    write_weights(other.path(), &[&["list"], &["tables"], &["payment"]]);
    let name = |dir: &TempDir| Directory::load(dir.path(), Some(SCALE)).unwrap().name().to_owned();
    assert_eq!(name(&one), name(&same), "wherever they lie");
    assert_ne!(name(&one), name(&other));
    assert!(name(&one).starts_with("model2vec@"), "{}", name(&one));
}

#[test]
fn the_scale_lies_beside_the_weights_or_is_given() {
    let dir = weights();
    let told = refused(dir.path(), None);
    assert!(told.contains("has no scale") && told.contains("--calibrate"), "{told}");
    Directory::to_calibrate(dir.path()).unwrap();
    let file = dir.path().join("retrospect.json");
    std::fs::write(&file, r#"{"contradiction":1,"tombstone":2,"merge":3}"#).unwrap();
    assert_eq!(Directory::load(dir.path(), None).unwrap().scale().merge, 3);
    assert_eq!(Directory::load(dir.path(), Some(SCALE)).unwrap().scale(), SCALE, "what is given holds");
    for wrong in [r#"{"contradiction":3,"tombstone":2,"merge":3}"#, r#"{"merge":3}"#, "no JSON"] {
        std::fs::write(&file, wrong).unwrap();
        let told = refused(dir.path(), None);
        assert!(told.contains("retrospect.json is no scale"), "{told}");
    }
}

#[test]
fn a_directory_that_cannot_be_used_is_told_with_the_file() {
    let dir = weights();
    let file = |name: &str| dir.path().join(name);
    std::fs::write(file("model.safetensors"), b"no weights").unwrap();
    let told = refused(dir.path(), Some(SCALE));
    assert!(told.contains("holds no Model2Vec weights"), "{told}");
    std::fs::remove_file(file("tokenizer.json")).unwrap();
    let told = refused(dir.path(), Some(SCALE));
    assert!(told.contains("tokenizer.json cannot be read"), "{told}");
    let told = refused(&file("nowhere"), Some(SCALE));
    assert!(told.contains("nowhere/config.json cannot be read"), "{told}");
}
