//! Which repository, which pull request, which remark: names with one stable form, from which ids are derived.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::{NAME_BYTES_MAX, NameError, Tenant, Workflow, WorkflowKey};

/// What stands before a repository's name in the name of the keeper of its rules.
const KEEPER: &str = "repo:";
/// The host that need not be named: what everybody means by `owner/name`.
const USUAL_HOST: &str = "github.com";

/// A repository as its rules go by it: `owner/name`, or `host/owner/name` for one that lies elsewhere than at `github.com`.
/// In lower case, since names of repositories do not differ by case alone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Repository(String);

impl Repository {
    /// Takes `owner/name` or `host/owner/name`. Fails for anything else, and for a name that is too long for a key.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let problem = |problem: &str| NameError { what: "repo", problem: problem.to_owned() };
        let parts: Vec<_> = text.split('/').collect();
        let plain = |part: &&str| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:".contains(c))
        };
        if !(2..=3).contains(&parts.len()) || !parts.iter().all(plain) {
            return Err(problem("must be `owner/name`, or `host/owner/name` on a host of its own"));
        }
        if KEEPER.len() + text.len() > NAME_BYTES_MAX {
            return Err(problem("is too long for the name of a repository"));
        }
        let usual = parts.len() == 3 && parts[0].eq_ignore_ascii_case(USUAL_HOST);
        let parts = if usual { &parts[1..] } else { &parts[..] };
        Ok(Self(parts.join("/").to_ascii_lowercase()))
    }

    /// The repository `name` (`owner/name`) at `host`.
    pub fn at(host: &str, name: &str) -> Result<Self, NameError> {
        Self::new(&format!("{host}/{name}"))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Who keeps the repository's rules: a name among the tenant's workflows, with the lock, the change log and the
    /// tombstones of one. An engine that gives a workflow this name shares them and nothing else: scopes differ.
    pub fn keeper(&self, tenant: &Tenant) -> WorkflowKey {
        let workflow =
            Workflow::new(format!("{KEEPER}{self}")).expect("checked when the repository was named");
        WorkflowKey { tenant: tenant.clone(), workflow }
    }

    /// The repository whose rules such a key keeps; `None` for a workflow.
    pub fn kept_by(workflow: &Workflow) -> Option<Self> {
        workflow.as_str().strip_prefix(KEEPER).and_then(|name| Self::new(name).ok())
    }
}

impl TryFrom<String> for Repository {
    type Error = NameError;
    fn try_from(text: String) -> Result<Self, NameError> {
        Self::new(&text)
    }
}

impl From<Repository> for String {
    fn from(repository: Repository) -> Self {
        repository.0
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A pull request; prints as `owner/name#7`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PullRequestRef {
    /// Its repository.
    pub repo: Repository,
    /// Its number there.
    pub number: u64,
}

impl fmt::Display for PullRequestRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.repo, self.number)
    }
}

impl FromStr for PullRequestRef {
    type Err = NameError;
    fn from_str(text: &str) -> Result<Self, NameError> {
        let wrong = || NameError { what: "pull_request", problem: "must be `owner/name#number`".to_owned() };
        let (repo, number) = text.split_once('#').ok_or_else(wrong)?;
        Ok(Self { repo: Repository::new(repo)?, number: number.parse().map_err(|_| wrong())? })
    }
}

/// The kinds of remark. GitHub's ids are unique within one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemarkKind {
    /// The text of a review itself.
    ReviewBody,
    /// A comment on lines.
    LineComment,
    /// A comment in the conversation.
    ConversationComment,
}

impl RemarkKind {
    /// The word as it stands in a key.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReviewBody => "review_body",
            Self::LineComment => "line_comment",
            Self::ConversationComment => "conversation_comment",
        }
    }
}

/// The identity of a remark; prints, and is stored, as `owner/name#7/line_comment/123`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RemarkKey {
    /// The pull request that it was made on.
    pub pull_request: PullRequestRef,
    /// What kind of remark.
    pub kind: RemarkKind,
    /// GitHub's id; a review body has that of its review.
    pub id: u64,
}

impl fmt::Display for RemarkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.pull_request, self.kind.as_str(), self.id)
    }
}

impl FromStr for RemarkKey {
    type Err = NameError;
    fn from_str(text: &str) -> Result<Self, NameError> {
        let problem = "must be `owner/name#number/kind/id`".to_owned();
        let wrong = || NameError { what: "remark", problem: problem.clone() };
        let mut parts = text.rsplitn(3, '/');
        let id = parts.next().and_then(|id| id.parse().ok()).ok_or_else(wrong)?;
        let kind = match parts.next() {
            Some("review_body") => RemarkKind::ReviewBody,
            Some("line_comment") => RemarkKind::LineComment,
            Some("conversation_comment") => RemarkKind::ConversationComment,
            _ => return Err(wrong()),
        };
        Ok(Self { pull_request: parts.next().ok_or_else(wrong)?.parse()?, kind, id })
    }
}

/// What is collected and decided together: everything said on a pull request, or one review of it. Prints as
/// `owner/name#7` or `owner/name#7/review/5`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ReviewKey {
    /// The pull request.
    pub pull_request: PullRequestRef,
    /// GitHub's id of the review; `None`: all of them, and the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<u64>,
}

impl fmt::Display for ReviewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.review {
            Some(review) => write!(f, "{}/review/{review}", self.pull_request),
            None => self.pull_request.fmt(f),
        }
    }
}

macro_rules! through_text {
    ($name:ident) => {
        impl TryFrom<String> for $name {
            type Error = NameError;
            fn try_from(text: String) -> Result<Self, NameError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.to_string()
            }
        }
    };
}

through_text!(PullRequestRef);
through_text!(RemarkKey);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_one_form_and_are_read_back() {
        let repo = Repository::at("github.com", "Acme/Shop").unwrap();
        let elsewhere = Repository::at("git.acme.example:8443", "acme/shop").unwrap();
        assert_eq!((repo.as_str(), elsewhere.as_str()), ("acme/shop", "git.acme.example:8443/acme/shop"));
        assert_eq!(Repository::new("github.com/acme/shop").unwrap(), repo);
        for repo in [repo, elsewhere] {
            let pull_request = PullRequestRef { repo: repo.clone(), number: 7 };
            let key = RemarkKey { pull_request, kind: RemarkKind::LineComment, id: 123 };
            assert_eq!(key.to_string().parse::<RemarkKey>().unwrap(), key);
            let keeper = repo.keeper(&Tenant::default_tenant());
            assert_eq!(Repository::kept_by(&keeper.workflow), Some(repo));
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in ["", "acme", "a/b/c/d", "a//b", "acme/sh op", "acme/shop#7", "a/b\n"] {
            assert!(Repository::new(text).is_err(), "{text:?}");
        }
        for text in ["acme/shop#7", "acme/shop#7/line_comment/x", "acme/shop#7/other/1", "x/line_comment/1"] {
            assert!(text.parse::<RemarkKey>().is_err(), "{text:?}");
        }
    }
}
