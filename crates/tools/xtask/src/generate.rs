//! Writes and checks the files that are generated from the code's types. CI checks that they are up to date.

mod commented_toml;
mod config;
mod generated_file;
mod metrics;
mod nats;
mod policy;
mod reference;
mod schema;

use std::fs::{create_dir_all, read_to_string, write as write_file};
use std::path::Path;

use anyhow::{Context, Result, bail};

use generated_file::GeneratedFile;

fn generate_all() -> Result<Vec<GeneratedFile>> {
    let mut files = policy::generate_policy_files()?;
    files.extend(policy::generate_review_files()?);
    files.extend(config::generate_config_files()?);
    files.push(nats::generate_users_file()?);
    files.push(metrics::generate_metrics_page());
    Ok(files)
}

/// Writes every generated file that is out of date.
pub(crate) fn write_generated(root: &Path) -> Result<()> {
    for file in find_stale(root, generate_all()?) {
        let path = root.join(file.path);
        create_dir_all(path.parent().context("a generated file has no parent folder")?)?;
        write_file(&path, file.text).with_context(|| format!("{} cannot be written", file.path))?;
        println!("gen: wrote {}", file.path);
    }
    Ok(())
}

/// Checks that every generated file is up to date. Fails otherwise.
pub(crate) fn check_generated(root: &Path) -> Result<()> {
    let files = generate_all()?;
    let count = files.len();
    let stale: Vec<_> = find_stale(root, files).iter().map(|file| file.path).collect();
    if !stale.is_empty() {
        bail!("out of date: {}; run `cargo xtask gen` and commit the result", stale.join(", "));
    }
    println!("gen: {count} generated files are up to date");
    Ok(())
}

fn find_stale(root: &Path, files: Vec<GeneratedFile>) -> Vec<GeneratedFile> {
    let fresh =
        |file: &GeneratedFile| read_to_string(root.join(file.path)).is_ok_and(|found| found == file.text);
    files.into_iter().filter(|file| !fresh(file)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_differs_by_one_byte_or_is_missing_is_stale() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let file = |path, text: &str| GeneratedFile { path, text: text.to_owned() };
        let manifest = read_to_string(root.join("Cargo.toml")).expect("the crate's own manifest");
        assert!(find_stale(root, vec![file("Cargo.toml", &manifest)]).is_empty());
        assert_eq!(find_stale(root, vec![file("Cargo.toml", &format!("{manifest} "))]).len(), 1);
        assert_eq!(find_stale(root, vec![file("not-there.toml", &manifest)]).len(), 1);
    }
}
