//! A model behind an HTTP endpoint, in one of two protocols. One call is one request.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, StatusCode, header};
use retro_config::{ModelProtocol, Secret};
use retro_model::{FailureKind, LanguageModel, ModelError, ModelRequest, ModelResponse};
use retro_outgoing_http::{OutgoingHttp, root_cause};
use url::Url;

use crate::{anthropic, openai};

/// Maximum size of a response, in bytes: many times that of the longest answer that may be asked for.
const RESPONSE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Maximum time that an endpoint may ask to wait, in seconds: an hour. A longer wait counts as this one, and exceeds
/// every bound of a caller.
const RETRY_AFTER_S_MAX: u64 = 3600;

/// Reason why an endpoint cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// The URL is invalid, or its scheme is neither `http` nor `https`.
    #[error("{0:?} is not an http:// or https:// URL")]
    InvalidAddress(String),
    /// The URL contains credentials, which would be logged with it.
    #[error("the address must not hold credentials; use model_key_file")]
    CredentialsInAddress,
    /// The key cannot be sent in a header.
    #[error("the key (model_key) holds characters that a header cannot")]
    Key,
}

/// A model behind an endpoint.
pub struct EndpointModel {
    address: Url,
    protocol: ModelProtocol,
    model: String,
    headers: HeaderMap,
    client: Client,
    timeout: Duration,
}

impl EndpointModel {
    /// Creates the client of a model at a base URL, such as `https://api.openai.com/v1`. One request may take `timeout`.
    /// Sends no request.
    pub fn new(
        url: &str,
        protocol: ModelProtocol,
        model: String,
        key: Option<&Secret>,
        timeout: Duration,
        http: &OutgoingHttp,
    ) -> Result<Self, EndpointError> {
        let invalid = || EndpointError::InvalidAddress(url.to_owned());
        let path = match protocol {
            ModelProtocol::Openai => openai::PATH,
            ModelProtocol::Anthropic => anthropic::PATH,
        };
        let joined = format!("{}/{path}", url.trim_end_matches('/'));
        let address = Url::parse(&joined).ok().filter(|at| matches!(at.scheme(), "http" | "https"));
        let address = address.ok_or_else(invalid)?;
        if !address.username().is_empty() || address.password().is_some() {
            return Err(EndpointError::CredentialsInAddress);
        }
        let headers = build_headers(protocol, key)?;
        // Each request has a connection of its own, since a kept one may be closed just when it is used. `PatientModel`
        // decides which requests are repeated.
        let client = http.configure_client().pool_max_idle_per_host(0).build();
        let client = client.expect("the configuration was built from the linked rustls");
        Ok(Self { address, protocol, model, headers, client, timeout })
    }

    async fn send(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let body = match self.protocol {
            ModelProtocol::Openai => openai::build_body(request, &self.model),
            ModelProtocol::Anthropic => anthropic::build_body(request, &self.model),
        };
        let sent = self
            .client
            .post(self.address.clone())
            .headers(self.headers.clone())
            .body(body.to_string())
            .send();
        let response = sent.await.map_err(|error| unavailable(root_cause(&error)))?;
        check_status(&response)?;
        let bytes = read_bounded(response).await?;
        match self.protocol {
            ModelProtocol::Openai => openai::parse_response(&bytes),
            ModelProtocol::Anthropic => anthropic::parse_response(&bytes),
        }
    }
}

#[async_trait]
impl LanguageModel for EndpointModel {
    fn name(&self) -> &str {
        &self.model
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let late = || unavailable(format!("no complete response within {} s", self.timeout.as_secs_f64()));
        tokio::time::timeout(self.timeout, self.send(request)).await.unwrap_or_else(|_| Err(late()))
    }
}

fn unavailable(problem: impl Into<String>) -> ModelError {
    ModelError::new(FailureKind::Unavailable, problem)
}

fn build_headers(protocol: ModelProtocol, key: Option<&Secret>) -> Result<HeaderMap, EndpointError> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    let agent = HeaderValue::from_static(concat!("retrospect/", env!("CARGO_PKG_VERSION")));
    headers.insert(header::USER_AGENT, agent);
    if protocol == ModelProtocol::Anthropic {
        let version = HeaderName::from_static("anthropic-version");
        headers.insert(version, HeaderValue::from_static(anthropic::VERSION));
    }
    let Some(key) = key else { return Ok(headers) };
    let (name, value) = match protocol {
        ModelProtocol::Openai => (header::AUTHORIZATION, format!("Bearer {}", key.expose())),
        ModelProtocol::Anthropic => (HeaderName::from_static("x-api-key"), key.expose().to_owned()),
    };
    let mut value = HeaderValue::try_from(value).map_err(|_| EndpointError::Key)?;
    // Hides the key in the debug output of headers.
    value.set_sensitive(true);
    headers.insert(name, value);
    Ok(headers)
}

/// Fails if the response is not 200. The error names the status only: a body may quote the prompt or the key.
fn check_status(response: &Response) -> Result<(), ModelError> {
    let status = response.status();
    let (kind, hint) = match status {
        StatusCode::OK => return Ok(()),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            (FailureKind::Misconfigured, "; is the key right (model_key_file)?")
        }
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => {
            (FailureKind::Misconfigured, "; are model_url, model_protocol and model right?")
        }
        StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT | StatusCode::TOO_MANY_REQUESTS => {
            (FailureKind::Unavailable, "")
        }
        _ if status.is_server_error() => (FailureKind::Unavailable, ""),
        _ if status.is_client_error() => (FailureKind::Rejected, ""),
        _ => (FailureKind::Misconfigured, "; redirects are not followed"),
    };
    let retry_after = response.headers().get(header::RETRY_AFTER).and_then(parse_retry_after);
    Err(ModelError { retry_after, ..ModelError::new(kind, format!("it answers {status}{hint}")) })
}

/// Parses `retry-after` in seconds, whole or with a fraction. A date is ignored, because it would need a clock; the
/// caller then waits as it would without the header.
fn parse_retry_after(value: &HeaderValue) -> Option<Duration> {
    let seconds: f64 = value.to_str().ok()?.trim().parse().ok()?;
    let bounded = seconds.clamp(0.0, RETRY_AFTER_S_MAX as f64);
    bounded.is_finite().then(|| Duration::from_secs_f64(bounded))
}

/// Reads the body of a response piece by piece, so that one without an end is left at the maximum size.
async fn read_bounded(mut response: Response) -> Result<Vec<u8>, ModelError> {
    let cut_off = |why: String| unavailable(format!("its response was cut off: {why}"));
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| cut_off(root_cause(&error)))? {
        if body.len() + piece.len() > RESPONSE_BYTES_MAX {
            let problem = format!("its response is longer than {RESPONSE_BYTES_MAX} bytes");
            return Err(ModelError::new(FailureKind::Unreadable, problem));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_read_in_seconds_and_bounded() {
        let parse = |text: &'static str| parse_retry_after(&HeaderValue::from_static(text));
        assert_eq!(parse("2"), Some(Duration::from_secs(2)));
        assert_eq!(parse(" 0.25 "), Some(Duration::from_millis(250)));
        assert_eq!(parse("999999999"), Some(Duration::from_secs(RETRY_AFTER_S_MAX)));
        assert_eq!(parse("-3"), Some(Duration::ZERO));
        assert_eq!(parse("NaN"), None);
        assert_eq!(parse("Wed, 21 Oct 2026 07:28:00 GMT"), None);
    }

    #[test]
    fn an_address_without_http_or_with_a_password_is_refused() {
        let build = |url: &str| {
            let made = EndpointModel::new(
                url,
                ModelProtocol::Openai,
                "m".into(),
                None,
                Duration::ZERO,
                &OutgoingHttp::default(),
            );
            made.map(|model| model.address.to_string())
        };
        assert_eq!(build("http://127.0.0.1:9/v1/").unwrap(), "http://127.0.0.1:9/v1/chat/completions");
        assert_eq!(build("ftp://x"), Err(EndpointError::InvalidAddress("ftp://x".to_owned())));
        assert_eq!(build("https://a:b@x"), Err(EndpointError::CredentialsInAddress));
        let key = Some(Secret::new("a\nb"));
        let http = OutgoingHttp::default();
        let made = EndpointModel::new(
            "http://x",
            ModelProtocol::Anthropic,
            "m".into(),
            key.as_ref(),
            Duration::ZERO,
            &http,
        );
        assert_eq!(made.err(), Some(EndpointError::Key));
    }
}
