//! `retro git`: what names runs in commits. A hook of git's writes the trailers by which the bridge finds them again.
//!
//! The hook is a shell script that needs nothing of ours, so it works wherever the repository is, and goes on working when
//! the program is gone. Whose hook a file is says its second line: the checksum of the lines below. One that somebody
//! wrote or changed is never overwritten and never taken away.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use retro_core::canonical::sha256_hex;
use serde::Serialize;

use super::Exit;
use crate::cli::{Git, InstallHook, Output};
use crate::output;

/// The hook by its name at git.
const HOOK: &str = "prepare-commit-msg";
/// Where a hook goes that was there before, when it is chained; ours looks for it there.
const BEFORE: &str = "prepare-commit-msg.before-retro";
/// What the hook does.
const SCRIPT: &str = include_str!("git/prepare-commit-msg.sh");
/// How its second line begins; the checksum of the lines below follows.
const MARK: &str = "# retro git install-hook: the lines below are untouched while their SHA-256 is ";

/// What was done.
#[derive(Debug, Serialize)]
struct Installed {
    /// The hook's file.
    hook: PathBuf,
    /// What became of it.
    did: Did,
    /// The hook of somebody else that runs before ours.
    chained: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Did {
    Installed,
    Updated,
    WasInstalled,
    Removed,
    WasNotInstalled,
}

/// What stands at the hook's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Nothing,
    /// Ours as this version writes it.
    Ours,
    /// Ours as another version wrote it, untouched since.
    OursOfBefore,
    Foreign,
}

pub(super) fn run(output: Output, command: &Git) -> anyhow::Result<Exit> {
    let Git::InstallHook(args) = command;
    let hooks = hooks_folder(args.repository.as_deref())?;
    let did = if args.uninstall { uninstall(&hooks)? } else { install(&hooks, args)? };
    let before = hooks.join(BEFORE);
    let chained = before.symlink_metadata().is_ok().then_some(before);
    let done = Installed { hook: hooks.join(HOOK), did, chained };
    output::data(output, &done, || sentence(&done))?;
    Ok(Exit::Done)
}

fn sentence(done: &Installed) -> String {
    let hook = done.hook.display();
    let did = match done.did {
        Did::Installed => format!("{hook} is installed"),
        Did::Updated => format!("{hook} is brought to this version"),
        Did::WasInstalled => format!("{hook} had been installed before"),
        Did::Removed => return format!("{hook} is removed"),
        Did::WasNotInstalled => return format!("{hook} is not ours, or not there: nothing was removed"),
    };
    let chained = done.chained.as_ref().map(|before| format!("; {} runs before it", before.display()));
    let chained = chained.unwrap_or_default();
    format!(
        "{did}{chained}\ncommits name the run where RETRO_RUN_ID, RETRO_WORKFLOW and RETRO_PROMPT_VERSION say it"
    )
}

/// Where git looks for hooks: `core.hooksPath`, or the folder that all working trees of the repository share.
fn hooks_folder(repository: Option<&Path>) -> anyhow::Result<PathBuf> {
    let repository = repository.unwrap_or(Path::new("."));
    let asked = Command::new("git")
        .args(["rev-parse", "--git-path", "hooks"])
        .current_dir(repository)
        .output()
        .with_context(|| format!("git cannot be asked about {}; is it installed?", repository.display()))?;
    if !asked.status.success() {
        let told = String::from_utf8_lossy(&asked.stderr);
        bail!("{} has no hooks: {}; name a repository by --repository", repository.display(), told.trim());
    }
    let folder = String::from_utf8(asked.stdout).context("the hooks' folder has a name that is not UTF-8")?;
    // Git answers from where it was asked.
    Ok(repository.join(folder.trim_end_matches('\n')))
}

fn install(hooks: &Path, args: &InstallHook) -> anyhow::Result<Did> {
    fs::create_dir_all(hooks).with_context(|| {
        format!("{} cannot be a folder of hooks; see git config core.hooksPath", hooks.display())
    })?;
    let hook = hooks.join(HOOK);
    let did = match found(&hook)? {
        Found::Ours => return Ok(Did::WasInstalled),
        Found::OursOfBefore => Did::Updated,
        Found::Nothing => Did::Installed,
        Found::Foreign if args.chain => {
            chain(hooks)?;
            Did::Installed
        }
        Found::Foreign => bail!(
            "{} is somebody else's and was left as it is; --chain keeps it as {BEFORE} and runs it before ours",
            hook.display()
        ),
    };
    write(hooks)?;
    Ok(did)
}

/// Keeps the hook that is there under another name. One that was kept before is not given up for it.
fn chain(hooks: &Path) -> anyhow::Result<()> {
    let (hook, before) = (hooks.join(HOOK), hooks.join(BEFORE));
    if before.symlink_metadata().is_ok() {
        bail!(
            "{} cannot be kept as {BEFORE}: another hook is kept there; make one of the two and take the other away",
            hook.display()
        );
    }
    fs::rename(&hook, &before).with_context(|| format!("{} cannot be renamed", hook.display()))
}

/// Takes ours away, and puts back what was there before.
fn uninstall(hooks: &Path) -> anyhow::Result<Did> {
    let (hook, before) = (hooks.join(HOOK), hooks.join(BEFORE));
    if matches!(found(&hook)?, Found::Nothing | Found::Foreign) {
        return Ok(Did::WasNotInstalled);
    }
    if before.symlink_metadata().is_ok() {
        fs::rename(&before, &hook).with_context(|| format!("{} cannot be put back", before.display()))?;
    } else {
        fs::remove_file(&hook).with_context(|| format!("{} cannot be removed", hook.display()))?;
    }
    Ok(Did::Removed)
}

fn found(hook: &Path) -> anyhow::Result<Found> {
    let kind = match hook.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Found::Nothing),
        kind => kind.with_context(|| format!("{} cannot be looked at", hook.display()))?,
    };
    // A link leads to a file of somebody's, whatever is in it.
    if !kind.is_file() {
        return Ok(Found::Foreign);
    }
    let text = fs::read(hook).with_context(|| format!("{} cannot be read", hook.display()))?;
    Ok(String::from_utf8(text).map_or(Found::Foreign, |text| whose(&text)))
}

fn whose(text: &str) -> Found {
    let marked = text.strip_prefix("#!/bin/sh\n").and_then(|rest| rest.strip_prefix(MARK));
    match marked.and_then(|rest| rest.split_once('\n')) {
        _ if text == whole() => Found::Ours,
        Some((sum, script)) if sum == sha256_hex(script.as_bytes()) => Found::OursOfBefore,
        _ => Found::Foreign,
    }
}

/// The hook's file.
fn whole() -> String {
    format!("#!/bin/sh\n{MARK}{}\n{SCRIPT}", sha256_hex(SCRIPT.as_bytes()))
}

/// Writes the hook beside its place and puts it there at once: git never runs half of it.
fn write(hooks: &Path) -> anyhow::Result<()> {
    let (hook, new) = (hooks.join(HOOK), hooks.join(format!("{HOOK}.{}", std::process::id())));
    let put = || -> std::io::Result<()> {
        let mut file = fs::File::create(&new)?;
        file.write_all(whole().as_bytes())?;
        file.set_permissions(Permissions::from_mode(0o755))?;
        file.sync_all()?;
        fs::rename(&new, &hook)
    };
    put()
        .inspect_err(|_| drop(fs::remove_file(&new)))
        .with_context(|| format!("{} cannot be written", hook.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_is_ours_until_somebody_changes_it() {
        assert_eq!(whose(&whole()), Found::Ours);
        let of_before =
            |script: &str| format!("#!/bin/sh\n{MARK}{}\n{script}", sha256_hex(script.as_bytes()));
        assert_eq!(whose(&of_before("exit 0\n")), Found::OursOfBefore);
        for foreign in [
            whole() + "make lint\n",
            whole().replacen("exit 0", "exit 1", 1),
            of_before("exit 0\n").replace("exit 0", "exit 1"),
            SCRIPT.to_owned(),
            String::new(),
        ] {
            assert_eq!(whose(&foreign), Found::Foreign, "{foreign}");
        }
    }
}
