//! Defines why a request to GitHub has no usable answer.

use jiff::Timestamp;
use reqwest::header::HeaderMap;
use reqwest::{Response, StatusCode};

/// Reason why a request to GitHub has no usable answer. The text says what to do and never contains the token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The token is unknown to GitHub.
    #[error(
        "GitHub refuses the token (401): it is wrong, expired or revoked; replace it in github_token_file"
    )]
    TokenRefused,
    /// The token lacks a permission.
    #[error(
        "the token may not read {0} (403): give it read access to the repository's pull requests, issues and actions"
    )]
    Forbidden(String),
    /// The resource does not exist, or the token may not know of it.
    #[error("GitHub knows no {0} (404): it does not exist, or the token may not see the repository")]
    NotFound(String),
    /// The resource existed once.
    #[error("{0} is no longer kept by GitHub (410)")]
    Expired(String),
    /// Too many requests were made with the token. Contains when to try again, in words.
    #[error("GitHub's rate limit is reached; try again {0}")]
    RateLimited(String),
    /// The resource has another address now, as after a repository was renamed.
    #[error("{0} was moved: use the repository's present name")]
    Moved(String),
    /// GitHub did not answer, or answered with a server error. A retry may help.
    #[error("GitHub's API is not available: {0}")]
    Unavailable(String),
    /// The answer is not what GitHub documents, or exceeds a bound.
    #[error("GitHub's answer for {resource} cannot be used: {problem}")]
    Unusable {
        /// Path of the request.
        resource: String,
        /// What is wrong with the answer.
        problem: String,
    },
}

impl ApiError {
    /// Returns `true` if the same request may succeed later.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::RateLimited(_) | Self::Unavailable(_))
    }

    pub(crate) fn unusable(resource: &str, problem: impl Into<String>) -> Self {
        Self::Unusable { resource: resource.to_owned(), problem: problem.into() }
    }

    /// Returns the error that an answer other than a success or a redirect reports.
    pub(crate) fn from_answer(resource: &str, answer: &Response) -> Self {
        let (status, headers) = (answer.status(), answer.headers());
        // GitHub answers 403 or 429 for both of its rate limits.
        let limited = status == StatusCode::TOO_MANY_REQUESTS
            || (status == StatusCode::FORBIDDEN && describe_retry(headers).is_some());
        if limited {
            return Self::RateLimited(describe_retry(headers).unwrap_or_else(|| "in 60 s".to_owned()));
        }
        match status {
            StatusCode::UNAUTHORIZED => Self::TokenRefused,
            StatusCode::FORBIDDEN => Self::Forbidden(resource.to_owned()),
            StatusCode::NOT_FOUND => Self::NotFound(resource.to_owned()),
            StatusCode::GONE => Self::Expired(resource.to_owned()),
            _ if status.is_redirection() => Self::Moved(resource.to_owned()),
            _ if status.is_server_error() => {
                Self::Unavailable(format!("{resource} is answered with {status}"))
            }
            _ => Self::unusable(resource, format!("it answers {status}")),
        }
    }
}

/// Returns when the rate limit ends, or `None` if the answer is not about a rate limit.
fn describe_retry(headers: &HeaderMap) -> Option<String> {
    let number = |name| headers.get(name)?.to_str().ok()?.trim().parse::<i64>().ok();
    if let Some(seconds) = number("retry-after") {
        return Some(format!("in {seconds} s"));
    }
    let used_up = number("x-ratelimit-remaining") == Some(0);
    let reset = number("x-ratelimit-reset").and_then(|reset| Timestamp::from_second(reset).ok());
    used_up.then(|| reset.map_or_else(|| "in an hour".to_owned(), |reset| format!("after {reset}")))
}
