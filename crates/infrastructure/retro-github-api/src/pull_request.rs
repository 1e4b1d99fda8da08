//! Fetches everything about one pull request.

use serde_json::Value;

use crate::client::GithubApi;
use crate::error::ApiError;

/// A list of GitHub's objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FetchedList {
    /// Objects as GitHub sent them, oldest first.
    pub items: Vec<Value>,
    /// `true` if the list is longer than what is read of it.
    pub truncated: bool,
}

/// A pull request with everything that people and workflows said about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedPullRequest {
    /// The pull request itself.
    pub pull_request: Value,
    /// Its reviews.
    pub reviews: FetchedList,
    /// Comments on its lines.
    pub review_comments: FetchedList,
    /// Comments in its conversation.
    pub issue_comments: FetchedList,
    /// Its commits.
    pub commits: FetchedList,
    /// Finished workflow runs of its present head commit.
    pub workflow_runs: FetchedList,
}

impl GithubApi {
    /// Fetches a pull request of a repository (`owner/name`), within the bounds of each list.
    pub async fn fetch_pull_request(&self, repo: &str, number: u64) -> Result<FetchedPullRequest, ApiError> {
        let at = format!("/repos/{repo}/pulls/{number}");
        let pull_request = self.get_document(&at).await?;
        let head = pull_request["head"]["sha"].as_str().filter(|sha| is_hash(sha)).map(str::to_owned);
        let runs = |head| format!("/repos/{repo}/actions/runs?head_sha={head}&status=completed");
        Ok(FetchedPullRequest {
            pull_request,
            reviews: self.fetch_list(&format!("{at}/reviews"), None).await?,
            review_comments: self.fetch_list(&format!("{at}/comments"), None).await?,
            issue_comments: self.fetch_list(&format!("/repos/{repo}/issues/{number}/comments"), None).await?,
            commits: self.fetch_list(&format!("{at}/commits"), None).await?,
            workflow_runs: match head {
                Some(head) => self.fetch_list(&runs(head), Some("workflow_runs")).await?,
                None => FetchedList::default(),
            },
        })
    }

    async fn fetch_list(&self, path: &str, list: Option<&str>) -> Result<FetchedList, ApiError> {
        let (items, truncated) = self.get_list(path, list, self.bounds.pages_max).await?;
        Ok(FetchedList { items, truncated })
    }
}

fn is_hash(text: &str) -> bool {
    !text.is_empty() && text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
