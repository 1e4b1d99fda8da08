//! Finds what a commit message or the description of a pull request says that it reverts.
//!
//! Git writes `This reverts commit <hash>.` into the message, and GitHub's button writes `Reverts owner/name#7` into
//! the description. Only whole lines in these forms count: a sentence about a revert is not one. Whoever merges the
//! text vouches for it.

use retro_events::github::{REVERTS_MAX, RevertedChange};

use crate::text;

/// Returns the changes of `repo` that the text says it reverts, at most [`REVERTS_MAX`], each once.
pub(crate) fn parse_reverts(repo: &str, text: &str) -> Vec<RevertedChange> {
    let mut found = Vec::new();
    for change in text.lines().filter_map(|line| parse_line(repo, line.trim())) {
        if found.len() < REVERTS_MAX && !found.contains(&change) {
            found.push(change);
        }
    }
    found
}

fn parse_line(repo: &str, line: &str) -> Option<RevertedChange> {
    if let Some(rest) = line.strip_prefix("This reverts commit ") {
        let digits = rest.len() - rest.trim_start_matches(|letter: char| letter.is_ascii_hexdigit()).len();
        // Git writes whole hashes. A short one may be that of another commit in the future.
        let is_whole = digits == 40 || digits == 64;
        let hash = text::commit_hash(Some(rest[..digits].to_lowercase())).filter(|_| is_whole)?;
        return Some(RevertedChange::Commit(hash));
    }
    let (named, number) = line.strip_prefix("Reverts ")?.split_once('#')?;
    let is_ours = named.is_empty() || named.eq_ignore_ascii_case(repo);
    let number = number.trim_end_matches('.').parse().ok().filter(|_| is_ours)?;
    Some(RevertedChange::PullRequest(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "c9abcadf285659684c0975cead8bf982fa84e123";

    #[test]
    fn what_git_and_github_write_is_a_revert() {
        let of = |text: &str| parse_reverts("acme/shop", text);
        let commit = || RevertedChange::Commit(HASH.to_owned());
        assert_eq!(of(&format!("Revert \"Fix it\"\n\nThis reverts commit {HASH}.\n")), [commit()]);
        let merge = format!("This reverts commit {}, reversing\nchanges made to abc.", HASH.to_uppercase());
        assert_eq!(of(&merge), [commit()]);
        assert_eq!(of("Reverts acme/shop#12"), [RevertedChange::PullRequest(12)]);
        assert_eq!(of("Reverts Acme/Shop#12\r\n\nReverts #12"), [RevertedChange::PullRequest(12)]);
        let many: String = (1..100).map(|number| format!("Reverts #{number}\n")).collect();
        assert_eq!(of(&many).len(), REVERTS_MAX);
    }

    #[test]
    fn a_sentence_about_a_revert_is_none() {
        for text in [
            "This partly reverts commit c9abcadf285659684c0975cead8bf982fa84e123.",
            "This reverts commit c9abcad.",
            "Reverts other/repo#12",
            "> Reverts acme/shop#12",
            "It reverts acme/shop#12 and more",
            "Reverts acme/shop#12 and #13",
            "Reverts the colour",
        ] {
            assert_eq!(parse_reverts("acme/shop", text), [], "{text}");
        }
    }
}
