//! Checks licences, bans and sources with cargo-deny, and also advisories if their database is reachable.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, bail, ensure};

/// Checks the dependency graph with cargo-deny. Fails if cargo-deny is missing or finds a problem.
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

/// Finds cargo-deny, preferring the project's own copy because its version is pinned. Returns `None` if it is
/// not installed.
fn find_cargo_deny(root: &Path) -> Option<PathBuf> {
    let answers = |path: &PathBuf| {
        let version =
            Command::new(path).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    };
    [root.join(".tools/bin/cargo-deny"), PathBuf::from("cargo-deny")].into_iter().find(answers)
}

fn run_check(root: &Path, deny: &Path, what: &[&str]) -> Result<()> {
    let status = Command::new(deny).current_dir(root).args(["--locked", "check"]).args(what).status()?;
    ensure!(status.success(), "`cargo deny check {}` ended with {status}", what.join(" "));
    Ok(())
}

/// Timeout for fetching the advisory database (a shallow clone of a few megabytes), in seconds. Without a
/// timeout, git waits for minutes behind a firewall that drops packets.
const FETCH_S_MAX: &str = "60";

/// Updates the advisory database and returns `true` on success. Hides the output, because the caller reports
/// a failure in one line.
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
