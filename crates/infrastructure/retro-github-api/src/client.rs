//! Sends requests to one API with one token, and bounds every answer.

use std::time::Duration;

use reqwest::{Client, Response, header};
use retro_config::Secret;
use retro_events::github::api_url::{is_loopback, parse_api_url};
use retro_outgoing_http::{OutgoingHttp, root_cause};
use serde_json::Value;
use url::Url;

use crate::error::ApiError;

/// Version of the API, which GitHub keeps for years.
const API_VERSION: &str = "2022-11-28";
/// Number of items per page: the most that GitHub gives.
pub(crate) const ITEMS_PER_PAGE: usize = 100;
/// Maximum number of redirects from a log's address to its storage.
const REDIRECTS_MAX: usize = 3;

/// Bounds of the requests. The defaults are for production; tests shorten them.
#[derive(Debug, Clone, Copy)]
pub struct ApiBounds {
    /// Maximum size of one page, in bytes.
    pub page_bytes_max: usize,
    /// Maximum number of pages of one list.
    pub pages_max: usize,
    /// Maximum size of one log, in bytes. Only its end is kept.
    pub log_bytes_max: usize,
    /// Maximum number of bytes that are kept of the end of a log, where the failure is.
    pub log_tail_bytes_max: usize,
    /// Timeout of one request, including its redirects and its whole answer.
    pub request_timeout: Duration,
}

impl Default for ApiBounds {
    fn default() -> Self {
        Self {
            page_bytes_max: 16 * 1024 * 1024,
            pages_max: 10,
            log_bytes_max: 64 * 1024 * 1024,
            log_tail_bytes_max: 4 * 1024 * 1024,
            request_timeout: Duration::from_secs(30),
        }
    }
}

/// Client of GitHub's REST API at one host.
pub struct GithubApi {
    host: String,
    base: Url,
    token: Secret,
    client: Client,
    pub(crate) bounds: ApiBounds,
}

impl GithubApi {
    /// Creates a client. `host` is the host of the repositories, such as `github.com`, and `base` the address of
    /// its API. Sends no request. Fails if the address cannot be used.
    pub fn new(
        host: &str,
        base: &str,
        token: &Secret,
        bounds: ApiBounds,
        http: &OutgoingHttp,
    ) -> Result<Self, String> {
        let base = parse_api_url(base)?;
        let token = Secret::new(token.expose().trim());
        // `get_log_tail` follows redirects itself, because the token must not follow them.
        let client = http.configure_client().build();
        let client = client.expect("the configuration was built from the linked rustls");
        Ok(Self { host: host.to_lowercase(), base, token, client, bounds })
    }

    /// Returns the host of the repositories that the token is for.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Fetches one JSON document.
    pub(crate) async fn get_document(&self, path: &str) -> Result<Value, ApiError> {
        let read = async {
            let answer = self.request(self.address_of(path)?, true).await?;
            if !answer.status().is_success() {
                return Err(ApiError::from_answer(path, &answer));
            }
            let body = self.read_page(path, answer).await?;
            serde_json::from_slice(&body).map_err(|error| ApiError::unusable(path, error.to_string()))
        };
        self.within_timeout(read).await
    }

    /// Fetches a list page by page; `list` is the member that contains it, or `None` if the document is the
    /// list. Also returns `true` if the list goes on after the last page that is read.
    pub(crate) async fn get_list(
        &self,
        path: &str,
        list: Option<&str>,
        pages_max: usize,
    ) -> Result<(Vec<Value>, bool), ApiError> {
        let mut items = Vec::new();
        let separator = if path.contains('?') { '&' } else { '?' };
        for page in 1..=pages_max {
            let at = format!("{path}{separator}per_page={ITEMS_PER_PAGE}&page={page}");
            let mut document = self.get_document(&at).await?;
            let found = match list {
                Some(member) => document.get_mut(member).map(Value::take),
                None => Some(document),
            };
            let Some(Value::Array(found)) = found else {
                return Err(ApiError::unusable(&at, "it contains no list"));
            };
            let is_last = found.len() < ITEMS_PER_PAGE;
            items.extend(found);
            if is_last {
                return Ok((items, false));
            }
        }
        Ok((items, true))
    }

    /// Fetches the end of a log. GitHub redirects to its storage, which is another host and never gets the
    /// token.
    pub(crate) async fn get_log_tail(&self, path: &str) -> Result<Vec<u8>, ApiError> {
        let read = async {
            let mut at = self.address_of(path)?;
            for _ in 0..=REDIRECTS_MAX {
                let is_api = at.origin() == self.base.origin();
                let answer = self.request(at.clone(), is_api).await?;
                if answer.status().is_redirection() {
                    at = self.redirect_target(path, &at, &answer)?;
                } else if answer.status().is_success() {
                    return self.read_tail(path, answer).await;
                } else if !is_api {
                    // A storage refuses an address that has expired with a status of its own.
                    let status = answer.status();
                    return Err(match status.is_server_error() {
                        true => ApiError::Unavailable(format!("the storage of {path} answers {status}")),
                        false => ApiError::Expired(format!("{path} (its storage answers {status})")),
                    });
                } else {
                    return Err(ApiError::from_answer(path, &answer));
                }
            }
            Err(ApiError::unusable(path, format!("it redirects more than {REDIRECTS_MAX} times")))
        };
        self.within_timeout(read).await
    }

    async fn within_timeout<T>(
        &self,
        request: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, ApiError> {
        let limit = self.bounds.request_timeout;
        let late = || ApiError::Unavailable(format!("no whole answer within {} ms", limit.as_millis()));
        tokio::time::timeout(limit, request).await.unwrap_or_else(|_| Err(late()))
    }

    fn address_of(&self, path: &str) -> Result<Url, ApiError> {
        let whole = format!("{}{path}", self.base.as_str().trim_end_matches('/'));
        Url::parse(&whole).map_err(|error| ApiError::unusable(path, error.to_string()))
    }

    /// Returns the address that an answer redirects to. It must be https, or a loopback address if the API
    /// itself is at one.
    fn redirect_target(&self, path: &str, at: &Url, answer: &Response) -> Result<Url, ApiError> {
        let location = answer.headers().get(header::LOCATION).and_then(|location| location.to_str().ok());
        let target = location.and_then(|location| at.join(location).ok());
        let target = target.ok_or_else(|| ApiError::unusable(path, "it redirects to nowhere"))?;
        let is_safe = target.scheme() == "https"
            || (target.scheme() == "http" && is_loopback(&target) && is_loopback(&self.base));
        if is_safe {
            return Ok(target);
        }
        Err(ApiError::unusable(path, "it redirects to an address without https"))
    }

    async fn request(&self, at: Url, with_token: bool) -> Result<Response, ApiError> {
        let mut request =
            self.client.get(at).header(header::USER_AGENT, concat!("retrospect/", env!("CARGO_PKG_VERSION")));
        if with_token {
            let mut value = header::HeaderValue::try_from(format!("Bearer {}", self.token.expose()))
                .map_err(|_| ApiError::unusable("the token", "it holds characters that a header cannot"))?;
            // Hides the token in the debug output of headers.
            value.set_sensitive(true);
            request = request
                .header(header::AUTHORIZATION, value)
                .header(header::ACCEPT, "application/vnd.github+json")
                .header("x-github-api-version", API_VERSION);
        }
        request.send().await.map_err(|error| ApiError::Unavailable(root_cause(&error)))
    }

    async fn read_page(&self, path: &str, mut answer: Response) -> Result<Vec<u8>, ApiError> {
        let bytes_max = self.bounds.page_bytes_max;
        let mut body = Vec::new();
        while let Some(piece) = next_piece(&mut answer).await? {
            if body.len() + piece.len() > bytes_max {
                return Err(ApiError::unusable(path, format!("it is larger than {bytes_max} bytes")));
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }

    /// Reads a log to its end and keeps only its last bytes.
    async fn read_tail(&self, path: &str, mut answer: Response) -> Result<Vec<u8>, ApiError> {
        let ApiBounds { log_bytes_max, log_tail_bytes_max: kept, .. } = self.bounds;
        let (mut tail, mut read) = (Vec::new(), 0);
        while let Some(piece) = next_piece(&mut answer).await? {
            read += piece.len();
            if read > log_bytes_max {
                return Err(ApiError::unusable(path, format!("it is larger than {log_bytes_max} bytes")));
            }
            tail.extend_from_slice(&piece);
            // Cut only at twice the size, so that each byte is moved at most once.
            if tail.len() > 2 * kept {
                tail.drain(..tail.len() - kept);
            }
        }
        tail.drain(..tail.len().saturating_sub(kept));
        Ok(tail)
    }
}

async fn next_piece(answer: &mut Response) -> Result<Option<bytes::Bytes>, ApiError> {
    let cut_off = |error| ApiError::Unavailable(format!("an answer was cut off: {}", root_cause(&error)));
    answer.chunk().await.map_err(cut_off)
}
