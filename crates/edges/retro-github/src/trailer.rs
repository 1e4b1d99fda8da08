//! Parses pushed commits: the trailers that name the runs behind a commit, and what it reverts.

use std::collections::HashSet;

use retro_core::id::RunId;

use retro_events::github::{Commit, RevertedChange};

use crate::payload;
use crate::revert::parse_reverts;

/// Trailer key for the id of a run.
const RUN_TRAILER: &str = "Retro-Run";
/// Trailer key for the version of the run's prompt.
const PROMPT_VERSION_TRAILER: &str = "Retro-Prompt-Version";
/// Maximum number of runs that one commit may name. A squashed commit names several.
const RUNS_MAX: usize = 32;
/// Maximum length of a prompt version, in bytes. A longer one is dropped.
const VERSION_BYTES_MAX: usize = 256;

/// Commits of a push to the default branch of a repository.
pub(crate) struct DefaultBranchPush {
    /// Repository as `owner/name`.
    pub(crate) repo: String,
    /// Hashes of all commits of the push, in lower case. A commit that is reverted in the push that brings it was
    /// never in use on the branch.
    pub(crate) pushed: HashSet<String>,
}

/// Returns the commit if its message names a run or, in a push to the default branch, a revert. Every line is
/// searched, not only the last paragraph, because GitHub concatenates the messages of squashed commits.
pub(crate) fn parse_commit(commit: payload::Commit, push: Option<&DefaultBranchPush>) -> Option<Commit> {
    let message = commit.message.unwrap_or_default();
    let mut runs: Vec<String> = Vec::new();
    for run in trailer_values(&message, RUN_TRAILER).filter_map(|value| RunId::new(value).ok()) {
        if runs.len() < RUNS_MAX && !runs.iter().any(|known| known == run.as_str()) {
            runs.push(run.as_str().to_owned());
        }
    }
    let prompt_version = trailer_values(&message, PROMPT_VERSION_TRAILER).last().map(str::to_owned);
    let prompt_version = crate::text::bounded_text(prompt_version, VERSION_BYTES_MAX);
    let id = crate::text::commit_hash(commit.id)?;
    let was_in_use = |change: &RevertedChange| match change {
        RevertedChange::Commit(hash) => push.is_none_or(|push| !push.pushed.contains(hash)),
        RevertedChange::PullRequest(_) => true,
    };
    let reverts = push.map(|push| parse_reverts(&push.repo, &message)).unwrap_or_default();
    let reverts: Vec<_> = reverts.into_iter().filter(was_in_use).collect();
    let is_used = !runs.is_empty() || !reverts.is_empty();
    is_used.then_some(Commit { id, runs, reverts, prompt_version })
}

/// Returns the values of a trailer. The key is matched case-insensitively.
fn trailer_values<'a>(message: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = message.lines().filter_map(|line| line.split_once(':'));
    lines.filter(move |(found, _)| found.trim_end().eq_ignore_ascii_case(key)).map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(message: &str) -> Option<(Vec<String>, Option<String>)> {
        let id = Some("c9abcadf285659684c0975cead8bf982fa84e123".to_owned());
        parse_commit(payload::Commit { id, message: Some(message.to_owned()) }, None)
            .map(|commit| (commit.runs, commit.prompt_version))
    }

    #[test]
    fn a_commit_names_its_runs_in_trailers() {
        let runs = |runs: &[&str]| runs.iter().map(|run| (*run).to_owned()).collect::<Vec<_>>();
        let one = of("Fix it\n\nRetro-Run: run-17\nRetro-Prompt-Version: 4\nSigned-off-by: A <a@b>\n");
        assert_eq!(one, Some((runs(&["run-17"]), Some("4".to_owned()))));
        let squashed =
            "Fix it (#7)\n\n* First\r\n\r\nretro-run: a\r\n\n* Second\n\nRetro-Run: b\nRetro-Run: a\n";
        assert_eq!(of(squashed), Some((runs(&["a", "b"]), None)));
        assert_eq!(of("Fix it\n\nSee Retro-Run: run-17"), None, "that is a sentence");
        assert_eq!(of("Fix it\n\nRetro-Run:\nRetro-Prompt-Version: 4"), None);
        let many: String = (0..100).map(|run| format!("Retro-Run: {run}\n")).collect();
        assert_eq!(of(&many).unwrap().0.len(), RUNS_MAX);
    }

    #[test]
    fn a_commit_without_a_hash_names_nothing() {
        assert_eq!(
            parse_commit(payload::Commit { id: None, message: Some("x\n\nRetro-Run: a".to_owned()) }, None),
            None
        );
    }

    #[test]
    fn a_revert_counts_on_the_default_branch_unless_its_push_brought_the_commit() {
        let (old, new) = ("a".repeat(40), "b".repeat(40));
        let message = format!("Revert \"Fix it\"\n\nThis reverts commit {old}.");
        let commit = || payload::Commit { id: Some(new.clone()), message: Some(message.clone()) };
        let push = |pushed: &[&String]| DefaultBranchPush {
            repo: "acme/shop".to_owned(),
            pushed: pushed.iter().map(|hash| (*hash).clone()).collect(),
        };
        assert_eq!(parse_commit(commit(), None), None);
        let parsed = parse_commit(commit(), Some(&push(&[&new]))).expect("a revert");
        assert_eq!((parsed.reverts, parsed.runs), (vec![RevertedChange::Commit(old.clone())], vec![]));
        assert_eq!(parse_commit(commit(), Some(&push(&[&old, &new]))), None);
    }
}
