//! Embedder behind an HTTP endpoint with `POST …/embeddings`, the protocol of OpenAI and most model servers.

use std::time::Duration;

use async_trait::async_trait;
use backon::{ConstantBuilder, Retryable as _};
use reqwest::{Client, RequestBuilder, Response, StatusCode, header};
use retro_config::Secret;
use retro_consumer::{CallPermission, CircuitBreaker};
use retro_core::similarity::SimilarityScale;
use retro_outgoing_http::{OutgoingHttp, root_cause};
use retro_store::{EmbeddingSource, EmbeddingSourceError};
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;
use tokio_rustls::rustls::pki_types::ServerName;
use tracing::{debug, info, warn};
use url::Url;

use crate::unit_vector::to_integers;

/// Maximum number of texts per request: the limit of the smallest servers.
const TEXTS_PER_REQUEST: usize = 64;
/// Maximum number of characters sent per text: far more than a title has, and fewer than any model accepts.
const TEXT_CHARS_MAX: usize = 4000;
/// Maximum size of a response, in bytes: more than twice that of 64 vectors with 4,096 components of 24
/// characters.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Delay before the second and last attempt.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// Bounds of one call, shortened in tests.
#[derive(Debug, Clone, Copy)]
pub struct EndpointBounds {
    /// Timeout of the whole call, including a second attempt.
    pub total_timeout: Duration,
}

/// Reason why an endpoint URL cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// The URL is invalid, or its scheme is neither `http` nor `https`.
    #[error("{0:?} is not an http:// or https:// URL")]
    InvalidAddress(String),
    /// The URL contains credentials, which would be logged with it.
    #[error("the address must not hold credentials; use embedder_key")]
    CredentialsInAddress,
}

/// Embedder that calls an HTTP endpoint.
pub struct EndpointEmbedder {
    address: Url,
    model: String,
    name: String,
    dimensions: usize,
    scale: SimilarityScale,
    key: Option<Secret>,
    client: Client,
    bounds: EndpointBounds,
    breaker: CircuitBreaker,
}

/// Reason why a call returned no vectors.
struct CallError {
    problem: String,
    fault: FaultKind,
}

/// Kind of a failure, which determines whether the call is retried and whether it counts for the circuit
/// breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FaultKind {
    /// The failure may be temporary, and a retry may succeed.
    Transient,
    /// The URL, the key or the model is wrong, so every call fails.
    Configuration,
    /// The texts were refused, but other texts may be accepted. Does not count for the circuit breaker.
    Input,
}

impl CallError {
    fn transient(problem: impl std::fmt::Display) -> Self {
        Self { problem: problem.to_string(), fault: FaultKind::Transient }
    }

    fn misconfigured(problem: impl std::fmt::Display) -> Self {
        Self { problem: problem.to_string(), fault: FaultKind::Configuration }
    }
}

/// Body of a successful response.
#[derive(Deserialize)]
struct EmbeddingsResponse {
    data: Vec<EmbeddingRow>,
}

#[derive(Deserialize)]
struct EmbeddingRow {
    index: usize,
    embedding: Vec<f64>,
}

impl EndpointEmbedder {
    /// Creates an embedder for a model at the base URL `url`, such as `https://api.example.com/v1`. Sends no
    /// request.
    pub fn new(
        url: &str,
        model: String,
        dimensions: usize,
        scale: SimilarityScale,
        key: Option<Secret>,
        bounds: EndpointBounds,
        http: &OutgoingHttp,
    ) -> Result<Self, EndpointError> {
        let no_address = || EndpointError::InvalidAddress(url.to_owned());
        let base = Url::parse(url).ok().filter(|base| matches!(base.scheme(), "http" | "https"));
        base.ok_or_else(no_address)?;
        let joined = format!("{}/embeddings", url.trim_end_matches('/'));
        let address = Url::parse(&joined).map_err(|_| no_address())?;
        if !address.username().is_empty() || address.password().is_some() {
            return Err(EndpointError::CredentialsInAddress);
        }
        let name = format!("{model}@{dimensions}");
        // Each request has a connection of its own, since a kept one may be closed just when it is used. `embed_batches`
        // decides which requests are repeated.
        let client = http.configure_client().pool_max_idle_per_host(0).build();
        let client = client.expect("the configuration was built from the linked rustls");
        let breaker = CircuitBreaker::default();
        Ok(Self { address, model, name, dimensions, scale, key, client, bounds, breaker })
    }

    fn host(&self) -> &str {
        &self.address[url::Position::BeforeHost..url::Position::AfterPort]
    }

    /// Embeds the texts within the timeout of one call.
    async fn embed_in_time(
        &self,
        texts: &[String],
        turn: CallPermission,
    ) -> Result<Vec<Vec<i32>>, CallError> {
        let result = tokio::time::timeout(self.bounds.total_timeout, self.embed_batches(texts, turn)).await;
        let late = || {
            CallError::transient(format!(
                "no complete response within {} ms",
                self.bounds.total_timeout.as_millis()
            ))
        };
        result.unwrap_or_else(|_| Err(late()))
    }

    /// Reports the result of a call to the circuit breaker, and logs if that opens or closes the circuit.
    fn record_outcome(&self, turn: CallPermission, error: Option<&CallError>) {
        let (embedder, host) = (&self.name, self.host());
        let Some(error) = error.filter(|error| error.fault != FaultKind::Input) else {
            if self.breaker.record_success() {
                info!(embedder, "the embedder at {host} is available again");
            }
            retro_telemetry::metrics::EMBEDDER_CIRCUIT_OPEN.set([], 0.0);
            return;
        };
        let Some(wait) = self.breaker.record_failure(turn, Instant::now()) else { return };
        retro_telemetry::metrics::EMBEDDER_CIRCUIT_OPEN.set([], wait.as_secs_f64());
        let (wait_s, problem) = (wait.as_secs(), &error.problem);
        if turn == CallPermission::Allowed {
            warn!(
                embedder,
                "the embedder at {host} failed repeatedly and is not called for {wait_s} s, longer while it keeps failing; \
                 texts are compared by the built-in embedder until it answers: {problem}"
            );
        } else {
            debug!(embedder, "the embedder at {host} is not called for another {wait_s} s: {problem}");
        }
    }

    async fn embed_batches(
        &self,
        texts: &[String],
        turn: CallPermission,
    ) -> Result<Vec<Vec<i32>>, CallError> {
        let mut vectors = Vec::with_capacity(texts.len());
        // A probe is not retried: it only checks that the server responds again.
        let tries_more = usize::from(turn == CallPermission::Allowed);
        for some in texts.chunks(TEXTS_PER_REQUEST) {
            let ask = || self.request_once(some);
            let again = ConstantBuilder::default().with_delay(RETRY_DELAY).with_max_times(tries_more);
            vectors.extend(ask.retry(again).when(|refused| refused.fault == FaultKind::Transient).await?);
        }
        Ok(vectors)
    }

    async fn request_once(&self, texts: &[String]) -> Result<Vec<Vec<i32>>, CallError> {
        self.check_server_name()?;
        let answer = self.build_request(texts)?.send().await.map_err(|error| {
            if error.is_builder() {
                CallError::misconfigured("its URL cannot be used in an HTTP request")
            } else {
                CallError::transient(root_cause(&error))
            }
        })?;
        check_status(answer.status())?;
        let bytes = read_bounded(answer).await?;
        self.parse_response(&bytes, texts.len())
    }

    /// Fails if no certificate can be valid for the host. The client would report that like a connection that
    /// failed, and it would be retried.
    fn check_server_name(&self) -> Result<(), CallError> {
        let host = self.address.host_str().unwrap_or_default().trim_matches(['[', ']']);
        if self.address.scheme() == "https" && ServerName::try_from(host).is_err() {
            return Err(CallError::misconfigured("its host is not a valid TLS server name"));
        }
        Ok(())
    }

    fn build_request(&self, texts: &[String]) -> Result<RequestBuilder, CallError> {
        let input: Vec<String> =
            texts.iter().map(|text| text.chars().take(TEXT_CHARS_MAX).collect()).collect();
        let body = json!({"model": self.model, "input": input, "encoding_format": "float"}).to_string();
        let request = self
            .client
            .post(self.address.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .header(header::USER_AGENT, concat!("retrospect/", env!("CARGO_PKG_VERSION")))
            .body(body);
        let Some(key) = &self.key else { return Ok(request) };
        let mut value = header::HeaderValue::try_from(format!("Bearer {}", key.expose()))
            .map_err(|_| CallError::misconfigured("embedder_key holds characters that a header cannot"))?;
        // Hides the key in the debug output of headers.
        value.set_sensitive(true);
        Ok(request.header(header::AUTHORIZATION, value))
    }

    fn parse_response(&self, bytes: &[u8], requested: usize) -> Result<Vec<Vec<i32>>, CallError> {
        let answer: EmbeddingsResponse = serde_json::from_slice(bytes).map_err(|error| {
            CallError::misconfigured(format!("its response is not one of /embeddings: {error}"))
        })?;
        let mut rows = answer.data;
        // The protocol allows any order. With a missing or duplicate row, texts would get the wrong vectors.
        rows.sort_by_key(|row| row.index);
        if !rows.iter().map(|row| row.index).eq(0..requested) {
            return Err(CallError::misconfigured(format!(
                "it returned other vectors than the {requested} that were requested"
            )));
        }
        let vector = |row: EmbeddingRow| {
            let (found, wanted) = (row.embedding.len(), self.dimensions);
            if found != wanted {
                let problem =
                    format!("its vectors have {found} components, embedder_dimensions says {wanted}");
                return Err(CallError::misconfigured(problem));
            }
            to_integers(&row.embedding)
                .ok_or_else(|| CallError::misconfigured("a component of its vectors is not finite"))
        };
        rows.into_iter().map(vector).collect()
    }
}

/// Reads the body of a response piece by piece, so that one without an end is left at the maximum size.
async fn read_bounded(mut response: Response) -> Result<Vec<u8>, CallError> {
    let cut_off = |why: String| CallError::transient(format!("its response was cut off: {why}"));
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| cut_off(root_cause(&error)))? {
        if body.len() + piece.len() > ANSWER_BYTES_MAX {
            return Err(cut_off("length limit exceeded".to_owned()));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

fn check_status(status: StatusCode) -> Result<(), CallError> {
    let hint = match status {
        StatusCode::OK => return Ok(()),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "; is embedder_key right?",
        StatusCode::NOT_FOUND => "; are embedder_url and embedder_model right?",
        _ => "",
    };
    let fault = match status {
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => FaultKind::Transient,
        StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNPROCESSABLE_ENTITY => {
            FaultKind::Input
        }
        _ if status.is_server_error() => FaultKind::Transient,
        _ => FaultKind::Configuration,
    };
    Err(CallError { problem: format!("it answers {status}{hint}"), fault })
}

#[async_trait]
impl EmbeddingSource for EndpointEmbedder {
    fn name(&self) -> &str {
        &self.name
    }

    fn scale(&self) -> SimilarityScale {
        self.scale
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<i32>>, EmbeddingSourceError> {
        let host = self.host();
        let turn = self.breaker.request_permission(Instant::now());
        if let CallPermission::Denied(remaining) = turn {
            let message = format!(
                "the embedder at {host} failed repeatedly and is not called for another {} s",
                remaining.as_secs().max(1)
            );
            return Err(EmbeddingSourceError::CircuitOpen(message));
        }
        let made = self.embed_in_time(texts, turn).await;
        self.record_outcome(turn, made.as_ref().err());
        made.map_err(|refused| {
            EmbeddingSourceError::Failed(format!("the embedder at {host}: {}", refused.problem))
        })
    }
}
