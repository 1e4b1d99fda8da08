//! Checks licences, bans and sources always, and advisories when their database can be reached.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, bail, ensure};

/// Checks the dependency graph with cargo-deny.
pub(super) fn run(root: &Path) -> Result<()> {
    let Some(deny) = find_cargo_deny(root) else {
        bail!("cargo-deny is missing: `.ci/install-cargo-deny` installs it into .tools");
    };
    run_check(root, &deny, &["bans", "licenses", "sources"])?;
    if database_is_reachable(root, &deny)? {
        run_check(root, &deny, &["--disable-fetch", "advisories"])?;
    } else {
        println!("deny: advisories were not checked because their database cannot be reached");
    }
    Ok(())
}

/// Finds cargo-deny, preferring the project's own copy because its version is pinned.
fn find_cargo_deny(root: &Path) -> Option<PathBuf> {
    let answers = |path: &PathBuf| {
        let asked = Command::new(path).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        asked.is_ok_and(|status| status.success())
    };
    [root.join(".tools/bin/cargo-deny"), PathBuf::from("cargo-deny")].into_iter().find(answers)
}

fn run_check(root: &Path, deny: &Path, what: &[&str]) -> Result<()> {
    let status = Command::new(deny).current_dir(root).args(["--locked", "check"]).args(what).status()?;
    ensure!(status.success(), "`cargo deny check {}` ended with {status}", what.join(" "));
    Ok(())
}

/// Time limit for fetching the advisory database, a shallow clone of a few megabytes. Without it, git waits
/// for minutes behind a firewall that drops packets.
const FETCH_S_MAX: &str = "60";

/// Updates the advisory database and returns whether that succeeded. Hides its output, because the caller
/// prints one line about a failure.
fn database_is_reachable(root: &Path, deny: &Path) -> Result<bool> {
    let fetch = Command::new("timeout")
        .current_dir(root)
        .arg(FETCH_S_MAX)
        .arg(deny)
        .args(["--locked", "fetch", "db"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    Ok(fetch.success())
}
