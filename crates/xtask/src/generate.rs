//! What is generated from the types. A file that a person would otherwise have to keep in step with the code is
//! written from it, and CI checks that it was.

mod commented;
mod config;
mod metrics;
mod nats;
mod policy;
mod reference;
mod schema;

use std::fs::{create_dir_all, read_to_string, write as write_file};
use std::path::Path;

use anyhow::{Context, Result, bail};

/// A file that is written from the code.
struct Generated {
    /// From the workspace's root.
    path: &'static str,
    text: String,
}

fn all() -> Result<Vec<Generated>> {
    let mut files = policy::generate()?;
    files.extend(config::generate()?);
    files.push(nats::generate()?);
    files.push(metrics::generate());
    Ok(files)
}

/// Writes every generated file that is not fresh.
pub(crate) fn write(root: &Path) -> Result<()> {
    for file in stale(root, all()?) {
        let path = root.join(file.path);
        create_dir_all(path.parent().context("a generated file lies in a folder")?)?;
        write_file(&path, file.text).with_context(|| format!("{} cannot be written", file.path))?;
        println!("gen: wrote {}", file.path);
    }
    Ok(())
}

/// Fails when a generated file is not what would be written.
pub(crate) fn check(root: &Path) -> Result<()> {
    let files = all()?;
    let count = files.len();
    let stale: Vec<_> = stale(root, files).iter().map(|file| file.path).collect();
    if !stale.is_empty() {
        bail!("stale: {}; run `cargo xtask gen` and commit what it writes", stale.join(", "));
    }
    println!("gen: {count} generated files are fresh");
    Ok(())
}

fn stale(root: &Path, files: Vec<Generated>) -> Vec<Generated> {
    let fresh = |file: &Generated| read_to_string(root.join(file.path)).is_ok_and(|found| found == file.text);
    files.into_iter().filter(|file| !fresh(file)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_differs_by_one_byte_or_is_missing_is_stale() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let file = |path, text: &str| Generated { path, text: text.to_owned() };
        let manifest = read_to_string(root.join("Cargo.toml")).expect("the crate's own manifest");
        assert!(stale(root, vec![file("Cargo.toml", &manifest)]).is_empty());
        assert_eq!(stale(root, vec![file("Cargo.toml", &format!("{manifest} "))]).len(), 1);
        assert_eq!(stale(root, vec![file("not-there.toml", &manifest)]).len(), 1);
    }
}
