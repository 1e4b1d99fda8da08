//! What fuzzing began with and what it found, read again by every run of the tests: `fuzz/corpus` holds inputs that each
//! took the reader somewhere new, and the input of every crash, once it is mended.

use std::fs;
use std::path::{Path, PathBuf};

use super::bad::{self, BadInput};
use super::laws;

/// Small enough to live in the repository.
const CORPUS_BYTES_MAX: usize = 200_000;

#[test]
fn every_input_of_the_corpus_keeps_the_laws() {
    let events = inputs("event");
    let trajectories = inputs("trajectory");
    assert!(events.len() > 20 && trajectories.len() > 10, "{} and {}", events.len(), trajectories.len());
    let bytes: usize = events.iter().chain(&trajectories).map(|(_, input)| input.len()).sum();
    assert!(bytes < CORPUS_BYTES_MAX, "{bytes} bytes: keep fewer, smaller ones");
    for (path, input) in events {
        kept(&path, || laws::event(&input));
    }
    for (path, input) in trajectories {
        kept(&path, || laws::trajectory(&input));
    }
}

#[test]
fn the_table_of_bad_input_keeps_the_laws() {
    for BadInput { name, sent, .. } in bad::table() {
        let text = laws::as_text(&sent.headers, &sent.payload);
        kept(Path::new(name), || laws::event(&text));
        laws::trajectory(&sent.payload);
    }
}

/// Says which input it was.
fn kept(path: &Path, law: impl Fn()) {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(law));
    assert!(outcome.is_ok(), "{} breaks a law; the sentence above says which", path.display());
}

fn inputs(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let entries = fs::read_dir(&folder).expect("the corpus is committed");
    let paths = entries.map(|entry| entry.expect("the corpus can be listed").path());
    paths.map(|path| (path.clone(), fs::read(&path).expect("an input can be read"))).collect()
}
