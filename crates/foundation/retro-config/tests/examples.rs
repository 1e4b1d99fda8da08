//! Tests that every configuration and policy shown in the manuals is valid.

use std::fs;
use std::path::{Path, PathBuf};

use retro_config::{Pipeline, PolicySet, load_config};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// Collects all files below a folder, recursively.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the project") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

/// Returns the TOML code blocks of a manual.
fn fenced(text: &str) -> Vec<&str> {
    text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn every_example_in_the_manuals_can_be_used() {
    let mut found = Vec::new();
    for folder in ["config", "deploy", "pipelines"] {
        files(&root().join(folder), &mut found);
    }
    // Cases are texts with labels; the tests of what they are cases of read them.
    found.retain(|path| path.components().all(|part| part.as_os_str() != "cases"));
    let (mut configurations, mut policies) = (0, 0);
    for path in &found {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let text = fs::read_to_string(path).unwrap();
        let fences = if name.ends_with(".md") { fenced(&text) } else { Vec::new() };
        let is_policy = path.starts_with(root().join("pipelines"));
        if name.ends_with(".toml") && !is_policy {
            load_config(Some(path), []).unwrap();
            configurations += 1;
        }
        let whole = Some(text.as_str()).filter(|_| name.ends_with(".toml"));
        // The pipeline of reviews has no policy; both pipelines are read as a whole below.
        let is_of_policy = |text: &&str| is_policy && !text.contains("[review]");
        for policy in fences.into_iter().chain(whole).filter(is_of_policy) {
            PolicySet::parse(path, policy).unwrap();
            policies += 1;
        }
    }
    Pipeline::read_folder(Some(&root().join("pipelines"))).unwrap();
    assert!(configurations >= 1 && policies >= 2, "{configurations} configurations, {policies} policies");
}
