//! Replays the fuzzing corpus in every test run: `fuzz/corpus` contains inputs that each reached new code in the
//! parser, and the input of every crash once it is fixed.

use std::fs;
use std::path::{Path, PathBuf};

use super::bad::{self, BadInput};
use super::laws;

/// Maximum size of the whole corpus, in bytes, to keep the repository small.
const CORPUS_BYTES_MAX: usize = 200_000;

#[test]
fn every_input_of_the_corpus_keeps_the_laws() {
    let events = read_inputs("event");
    let trajectories = read_inputs("trajectory");
    assert!(events.len() > 20 && trajectories.len() > 10, "{} and {}", events.len(), trajectories.len());
    let bytes: usize = events.iter().chain(&trajectories).map(|(_, input)| input.len()).sum();
    assert!(bytes < CORPUS_BYTES_MAX, "{bytes} bytes: keep fewer, smaller ones");
    for (path, input) in events {
        assert_law(&path, || laws::event(&input));
    }
    for (path, input) in trajectories {
        assert_law(&path, || laws::trajectory(&input));
    }
}

#[test]
fn the_table_of_bad_input_keeps_the_laws() {
    for BadInput { name, sent, .. } in bad::bad_inputs() {
        let text = laws::format_delivery(&sent.headers, &sent.payload);
        assert_law(Path::new(name), || laws::event(&text));
        laws::trajectory(&sent.payload);
    }
}

/// Runs a check and, if it fails, names the input.
fn assert_law(path: &Path, law: impl Fn()) {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(law));
    assert!(outcome.is_ok(), "{} breaks a law; the sentence above says which", path.display());
}

fn read_inputs(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let entries = fs::read_dir(&folder).expect("the corpus is committed");
    let paths = entries.map(|entry| entry.expect("the corpus can be listed").path());
    paths.map(|path| (path.clone(), fs::read(&path).expect("an input can be read"))).collect()
}
