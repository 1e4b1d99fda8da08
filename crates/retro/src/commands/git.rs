//! Runs `retro git`, which installs a git hook that adds the id of the agent's run to each commit as a
//! trailer. The bridge learns from the trailer which run made the commit.
//!
//! The hook is a shell script that does not depend on this program, so it works wherever the repository is
//! and even after the program is uninstalled. Its second line contains the checksum of the lines below, so a
//! hook that someone else wrote or changed is recognised and neither overwritten nor removed.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use retro_core::canonical::sha256_hex;
use serde::Serialize;

use crate::cli::{Git, InstallHook, Output};
use crate::exit::Exit;
use crate::output;

/// File name of the hook in git's hooks folder.
const HOOK_NAME: &str = "prepare-commit-msg";
/// File name under which `--chain` keeps an existing hook, which our hook runs first.
const CHAINED_HOOK_NAME: &str = "prepare-commit-msg.before-retro";
/// Content of the hook, without its first two lines.
const HOOK_SCRIPT: &str = include_str!("git/prepare-commit-msg.sh");
/// Beginning of the hook's second line, followed by the checksum of the lines below.
const CHECKSUM_MARK: &str = "# retro git install-hook: the lines below are untouched while their SHA-256 is ";

/// Result of `retro git install-hook`.
#[derive(Debug, Serialize)]
struct HookReport {
    /// Path of the hook.
    hook: PathBuf,
    /// Change made by the command.
    status: HookChange,
    /// Path of the hook that runs before ours; `None` if there is none.
    chained: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum HookChange {
    Installed,
    Updated,
    AlreadyInstalled,
    Removed,
    NotInstalled,
}

/// State of the hook file before the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExistingHook {
    Missing,
    /// The file is our hook, as written by this version.
    Current,
    /// The file is our hook, as written by another version and unmodified.
    Outdated,
    Foreign,
}

pub(super) fn run_command(output: Output, command: &Git) -> anyhow::Result<Exit> {
    let Git::InstallHook(args) = command;
    let hooks = find_hooks_folder(args.repository.as_deref())?;
    let status = if args.uninstall { uninstall_hook(&hooks)? } else { install_hook(&hooks, args)? };
    let before = hooks.join(CHAINED_HOOK_NAME);
    let chained = before.symlink_metadata().is_ok().then_some(before);
    let done = HookReport { hook: hooks.join(HOOK_NAME), status, chained };
    output::print_data(output, &done, || describe_change(&done))?;
    Ok(Exit::Done)
}

fn describe_change(done: &HookReport) -> String {
    let hook = done.hook.display();
    let description = match done.status {
        HookChange::Installed => format!("{hook} is installed"),
        HookChange::Updated => format!("{hook} is updated"),
        HookChange::AlreadyInstalled => format!("{hook} was already installed"),
        HookChange::Removed => return format!("{hook} is removed"),
        HookChange::NotInstalled => {
            return format!("{hook} is not ours or does not exist: nothing was removed");
        }
    };
    let chained = done.chained.as_ref().map(|before| format!("; {} runs before it", before.display()));
    let chained = chained.unwrap_or_default();
    format!(
        "{description}{chained}\ncommits name the run if RETRO_RUN_ID is set, with RETRO_WORKFLOW and RETRO_PROMPT_VERSION"
    )
}

/// Returns the folder where git looks for hooks: `core.hooksPath`, or the folder shared by all working trees
/// of the repository.
fn find_hooks_folder(repository: Option<&Path>) -> anyhow::Result<PathBuf> {
    let repository = repository.unwrap_or(Path::new("."));
    let answer = Command::new("git")
        .args(["rev-parse", "--git-path", "hooks"])
        .current_dir(repository)
        .output()
        .with_context(|| format!("cannot run git in {}; is it installed?", repository.display()))?;
    if !answer.status.success() {
        let message = String::from_utf8_lossy(&answer.stderr);
        bail!(
            "{} is not a repository with hooks: {}; name one with --repository",
            repository.display(),
            message.trim()
        );
    }
    let folder = String::from_utf8(answer.stdout).context("the name of the hooks folder is not UTF-8")?;
    // Git returns a path relative to its current directory.
    Ok(repository.join(folder.trim_end_matches('\n')))
}

fn install_hook(hooks: &Path, args: &InstallHook) -> anyhow::Result<HookChange> {
    fs::create_dir_all(hooks).with_context(|| {
        format!("cannot create the hooks folder {}; see git config core.hooksPath", hooks.display())
    })?;
    let hook = hooks.join(HOOK_NAME);
    let change = match inspect_hook(&hook)? {
        ExistingHook::Current => return Ok(HookChange::AlreadyInstalled),
        ExistingHook::Outdated => HookChange::Updated,
        ExistingHook::Missing => HookChange::Installed,
        ExistingHook::Foreign if args.chain => {
            set_hook_aside(hooks)?;
            HookChange::Installed
        }
        ExistingHook::Foreign => bail!(
            "{} was not installed by retro and was left unchanged; --chain keeps it as {CHAINED_HOOK_NAME} \
             and runs it before ours",
            hook.display()
        ),
    };
    write_hook(hooks)?;
    Ok(change)
}

/// Renames the existing hook, which ours then runs first. Fails if another hook is already kept under that
/// name.
fn set_hook_aside(hooks: &Path) -> anyhow::Result<()> {
    let (hook, before) = (hooks.join(HOOK_NAME), hooks.join(CHAINED_HOOK_NAME));
    if before.symlink_metadata().is_ok() {
        bail!(
            "{} cannot be kept as {CHAINED_HOOK_NAME}: another hook is kept there already; merge the two and \
             remove one",
            hook.display()
        );
    }
    fs::rename(&hook, &before).with_context(|| format!("{} cannot be renamed", hook.display()))
}

/// Removes our hook and restores the one kept by `--chain`. Removes nothing if the hook is not ours.
fn uninstall_hook(hooks: &Path) -> anyhow::Result<HookChange> {
    let (hook, before) = (hooks.join(HOOK_NAME), hooks.join(CHAINED_HOOK_NAME));
    if matches!(inspect_hook(&hook)?, ExistingHook::Missing | ExistingHook::Foreign) {
        return Ok(HookChange::NotInstalled);
    }
    // A single rename replaces our hook, so git always finds one of the two.
    if before.symlink_metadata().is_ok() {
        fs::rename(&before, &hook).with_context(|| format!("{} cannot be restored", before.display()))?;
    } else {
        fs::remove_file(&hook).with_context(|| format!("{} cannot be removed", hook.display()))?;
    }
    Ok(HookChange::Removed)
}

fn inspect_hook(hook: &Path) -> anyhow::Result<ExistingHook> {
    let kind = match hook.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(ExistingHook::Missing),
        kind => kind.with_context(|| format!("{} cannot be inspected", hook.display()))?,
    };
    // A symbolic link leads to someone else's file, whatever its content.
    if !kind.is_file() {
        return Ok(ExistingHook::Foreign);
    }
    let text = fs::read(hook).with_context(|| format!("{} cannot be read", hook.display()))?;
    Ok(String::from_utf8(text).map_or(ExistingHook::Foreign, |text| classify_hook(&text)))
}

fn classify_hook(text: &str) -> ExistingHook {
    let marked = text.strip_prefix("#!/bin/sh\n").and_then(|rest| rest.strip_prefix(CHECKSUM_MARK));
    match marked.and_then(|rest| rest.split_once('\n')) {
        _ if text == render_hook() => ExistingHook::Current,
        Some((sum, script)) if sum == sha256_hex(script.as_bytes()) => ExistingHook::Outdated,
        _ => ExistingHook::Foreign,
    }
}

/// Renders the complete hook, including its checksum.
fn render_hook() -> String {
    format!("#!/bin/sh\n{CHECKSUM_MARK}{}\n{HOOK_SCRIPT}", sha256_hex(HOOK_SCRIPT.as_bytes()))
}

/// Writes the hook to a temporary file and renames it, so git never runs a partial hook.
fn write_hook(hooks: &Path) -> anyhow::Result<()> {
    let (hook, new) = (hooks.join(HOOK_NAME), hooks.join(format!("{HOOK_NAME}.{}", std::process::id())));
    let put = || -> std::io::Result<()> {
        let mut file = fs::File::create(&new)?;
        file.write_all(render_hook().as_bytes())?;
        // Set before the rename, because git ignores a hook that is not executable.
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
    fn a_hook_is_ours_until_it_is_edited() {
        assert_eq!(classify_hook(&render_hook()), ExistingHook::Current);
        let of_before =
            |script: &str| format!("#!/bin/sh\n{CHECKSUM_MARK}{}\n{script}", sha256_hex(script.as_bytes()));
        assert_eq!(classify_hook(&of_before("exit 0\n")), ExistingHook::Outdated);
        for foreign in [
            render_hook() + "make lint\n",
            render_hook().replacen("exit 0", "exit 1", 1),
            of_before("exit 0\n").replace("exit 0", "exit 1"),
            HOOK_SCRIPT.to_owned(),
            String::new(),
        ] {
            assert_eq!(classify_hook(&foreign), ExistingHook::Foreign, "{foreign}");
        }
    }
}
