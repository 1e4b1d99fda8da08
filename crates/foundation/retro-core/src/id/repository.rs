//! Names of repositories, and keys of the pull requests, reviews and remarks in them. Each key has one stable
//! written form, from which ids are derived.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use strum::{EnumString, IntoStaticStr};

use super::name::{NAME_BYTES_MAX, NameError, Tenant, Workflow, WorkflowKey};

/// Prefix of the name of a rule scope, before the repository name.
const RULE_SCOPE_PREFIX: &str = "repo:";
/// Owner of repositories whose emitted names have no known form. GitHub has no such owner: a name begins with a letter or
/// a digit.
const UNKNOWN_OWNER: &str = "_unknown";
/// Host that is omitted from repository names: `owner/name` means a repository on this host.
const DEFAULT_HOST: &str = "github.com";

/// Repository name in lower case: `owner/name`, or `host/owner/name` if the host is not `github.com`. GitHub
/// names are case-insensitive, so lower case gives each repository one key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Repository(String);

impl Repository {
    /// Parses `owner/name` or `host/owner/name`. Fails if the text has another form or is too long for a key.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let problem = |problem: &str| NameError { what: "repo", problem: problem.to_owned() };
        let parts: Vec<_> = text.split('/').collect();
        let plain = |part: &&str| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:".contains(c))
        };
        if !(2..=3).contains(&parts.len()) || !parts.iter().all(plain) {
            return Err(problem("must be `owner/name`, or `host/owner/name` on a host of its own"));
        }
        // The name of the rule scope must fit as well, or `rule_scope` would panic on a name accepted here.
        if RULE_SCOPE_PREFIX.len() + text.len() > NAME_BYTES_MAX {
            return Err(problem("is too long for the name of a repository"));
        }
        // `github.com/owner/name` and `owner/name` are the same repository and must have one key.
        let usual = parts.len() == 3 && parts[0].eq_ignore_ascii_case(DEFAULT_HOST);
        let parts = if usual { &parts[1..] } else { &parts[..] };
        Ok(Self(parts.join("/").to_ascii_lowercase()))
    }

    /// Creates the name of a repository that a run names in any form: `owner/name`, an address for cloning
    /// (`https://host/owner/name.git`, `git@host:owner/name.git`), or another text, which gets a name that
    /// equals only itself. Returns `None` if the text is blank.
    pub fn from_emitted(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.is_empty() {
            return None;
        }
        let address = text.split_once("://").map(|(_, rest)| rest.to_owned());
        // `git@host:owner/name` has a colon where an address has a slash.
        let address = address
            .or_else(|| text.split_once('@').map(|(_, rest)| rest.replacen(':', "/", 1)))
            .unwrap_or_else(|| text.to_owned());
        let path = address.rsplit_once('@').map_or(address.as_str(), |(_, path)| path);
        let path = path.trim_end_matches('/');
        let path = path.strip_suffix(".git").unwrap_or(path);
        Self::new(path).ok().or_else(|| {
            let digest = Sha256::digest(text.to_lowercase().as_bytes());
            let digits: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
            Self::new(&format!("{UNKNOWN_OWNER}/{digits}")).ok()
        })
    }

    /// Creates a repository name from a host and `name` (`owner/name`).
    pub fn at_host(host: &str, name: &str) -> Result<Self, NameError> {
        Self::new(&format!("{host}/{name}"))
    }

    /// Returns the name as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the key of the repository's rule scope. A rule scope is stored like a workflow of the tenant,
    /// with a lock, a change log and tombstones. A real workflow with the same name would share only these,
    /// because its memories have other scopes.
    pub fn rule_scope(&self, tenant: &Tenant) -> WorkflowKey {
        let workflow = Workflow::new(format!("{RULE_SCOPE_PREFIX}{self}"))
            .expect("checked when the repository was named");
        WorkflowKey { tenant: tenant.clone(), workflow }
    }

    /// Returns the repository of a rule scope, or `None` for an ordinary workflow.
    pub fn of_rule_scope(workflow: &Workflow) -> Option<Self> {
        workflow.as_str().strip_prefix(RULE_SCOPE_PREFIX).and_then(|name| Self::new(name).ok())
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

/// A reviewed pull request, written as `owner/name#7`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ReviewedPullRequest {
    /// Repository of the pull request.
    pub repo: Repository,
    /// Number of the pull request in its repository.
    pub number: u64,
}

impl fmt::Display for ReviewedPullRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.repo, self.number)
    }
}

impl FromStr for ReviewedPullRequest {
    type Err = NameError;
    fn from_str(text: &str) -> Result<Self, NameError> {
        let wrong = || NameError { what: "pull_request", problem: "must be `owner/name#number`".to_owned() };
        let (repo, number) = text.split_once('#').ok_or_else(wrong)?;
        Ok(Self { repo: Repository::new(repo)?, number: number.parse().map_err(|_| wrong())? })
    }
}

/// Kind of a remark. GitHub's ids are unique only within one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum RemarkKind {
    /// Text of the review itself.
    ReviewBody,
    /// Comment on lines of the changed files.
    LineComment,
    /// Comment in the conversation of the pull request.
    ConversationComment,
}

impl RemarkKind {
    /// Returns the kind as it appears in a key, such as `line_comment`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Identity of a remark, written and stored as `owner/name#7/line_comment/123`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RemarkKey {
    /// Pull request on which the remark was made.
    pub pull_request: ReviewedPullRequest,
    /// Kind of the remark.
    pub kind: RemarkKind,
    /// GitHub's id of the comment; for a review body, the id of the review.
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
        // Split from the end, because the name of the repository contains slashes as well.
        let mut parts = text.rsplitn(3, '/');
        let id = parts.next().and_then(|id| id.parse().ok()).ok_or_else(wrong)?;
        let kind = parts.next().and_then(|kind| kind.parse().ok()).ok_or_else(wrong)?;
        Ok(Self { pull_request: parts.next().ok_or_else(wrong)?.parse()?, kind, id })
    }
}

/// Key of the remarks that are collected and decided together: all remarks on a pull request, or those of one
/// review. Written as `owner/name#7` or `owner/name#7/review/5`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ReviewKey {
    /// Pull request on which the remarks were made.
    pub pull_request: ReviewedPullRequest,
    /// GitHub's id of the review; `None` for all remarks on the pull request, including those in the
    /// conversation.
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

through_text!(ReviewedPullRequest);
through_text!(RemarkKey);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_one_form_and_round_trip() {
        let repo = Repository::at_host("github.com", "Acme/Shop").unwrap();
        let elsewhere = Repository::at_host("git.acme.example:8443", "acme/shop").unwrap();
        assert_eq!((repo.as_str(), elsewhere.as_str()), ("acme/shop", "git.acme.example:8443/acme/shop"));
        assert_eq!(Repository::new("github.com/acme/shop").unwrap(), repo);
        for repo in [repo, elsewhere] {
            let pull_request = ReviewedPullRequest { repo: repo.clone(), number: 7 };
            let key = RemarkKey { pull_request, kind: RemarkKind::LineComment, id: 123 };
            assert_eq!(key.to_string().parse::<RemarkKey>().unwrap(), key);
            let rule_scope = repo.rule_scope(&Tenant::default_tenant());
            assert_eq!(Repository::of_rule_scope(&rule_scope.workflow), Some(repo));
        }
    }

    #[test]
    fn one_repository_has_one_name_in_whichever_form_a_run_names_it() {
        for text in [
            "Acme/Shop",
            " acme/shop ",
            "github.com/acme/shop",
            "https://github.com/Acme/shop.git",
            "https://token@github.com/acme/shop/",
            "git@github.com:acme/shop.git",
            "ssh://git@github.com/acme/shop.git",
        ] {
            assert_eq!(Repository::from_emitted(text).unwrap().as_str(), "acme/shop", "{text}");
        }
        let elsewhere = Repository::from_emitted("https://git.acme.example/team/shop").unwrap();
        assert_eq!(elsewhere.as_str(), "git.acme.example/team/shop");
        assert_eq!(Repository::from_emitted("  "), None);
    }

    #[test]
    fn a_name_of_no_known_form_equals_only_itself() {
        let [shop, same, blog] =
            ["Shop of Acme", "shop of acme", "blog"].map(|text| Repository::from_emitted(text).unwrap());
        assert_eq!(shop, same);
        assert_ne!(shop, blog);
        assert!(shop.as_str().starts_with("_unknown/"));
    }

    #[test]
    fn invalid_names_are_rejected() {
        for text in ["", "acme", "a/b/c/d", "a//b", "acme/sh op", "acme/shop#7", "a/b\n"] {
            assert!(Repository::new(text).is_err(), "{text:?}");
        }
        for text in ["acme/shop#7", "acme/shop#7/line_comment/x", "acme/shop#7/other/1", "x/line_comment/1"] {
            assert!(text.parse::<RemarkKey>().is_err(), "{text:?}");
        }
    }
}
