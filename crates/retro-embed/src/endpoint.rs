//! A model behind an address: `POST …/embeddings`, as OpenAI speaks it and most servers of models do.

use std::time::Duration;

use async_trait::async_trait;
use backon::{ConstantBuilder, Retryable as _};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use retro_config::Secret;
use retro_core::similar::Scale;
use retro_store::{SourceError, VectorSource};
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info, warn};
use url::Url;

use crate::breaker::{Breaker, Turn};
use crate::integers;

/// Texts in one request: what the smallest servers take.
const TEXTS_PER_REQUEST: usize = 64;
/// Characters of a text that are sent: far more than a title has, and less than any model takes.
const TEXT_CHARS_MAX: usize = 4000;
/// The largest answer: 64 vectors of 4,096 components in 24 characters each, twice.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Pause before the second and last try.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Bounds of one call; tests shorten them.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// How long everything may take, a second try included.
    pub whole: Duration,
}

/// Why an address cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// It is no address of HTTP.
    #[error("{0:?} is no http:// or https:// address")]
    NoAddress(String),
    /// Credentials would be logged with it.
    #[error("credentials do not belong into the address: embedder_key is for them")]
    Credentials,
}

/// A model behind an address.
pub struct Endpoint {
    address: Url,
    model: String,
    name: String,
    dimensions: usize,
    scale: Scale,
    key: Option<Secret>,
    tls: TlsConnector,
    bounds: Bounds,
    breaker: Breaker,
}

/// Why there is no answer.
struct Refused {
    problem: String,
    fault: Fault,
}

/// Whose fault it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Of the moment: asking again may help.
    Moment,
    /// Of the address, the key or the model: the same for whatever is asked.
    Setting,
    /// Of what was asked: another text may be answered.
    Texts,
}

impl Refused {
    fn away(problem: impl std::fmt::Display) -> Self {
        Self { problem: problem.to_string(), fault: Fault::Moment }
    }

    fn wrong(problem: impl std::fmt::Display) -> Self {
        Self { problem: problem.to_string(), fault: Fault::Setting }
    }
}

/// What comes back.
#[derive(Deserialize)]
struct Answer {
    data: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    index: usize,
    embedding: Vec<f64>,
}

impl Endpoint {
    /// The model of that name below the base address `url`, such as `https://api.example.com/v1`. Asks nobody yet.
    pub fn new(
        url: &str,
        model: String,
        dimensions: usize,
        scale: Scale,
        key: Option<Secret>,
        bounds: Bounds,
    ) -> Result<Self, EndpointError> {
        let no_address = || EndpointError::NoAddress(url.to_owned());
        let base = Url::parse(url).ok().filter(|base| matches!(base.scheme(), "http" | "https"));
        base.ok_or_else(no_address)?;
        let joined = format!("{}/embeddings", url.trim_end_matches('/'));
        let address = Url::parse(&joined).map_err(|_| no_address())?;
        if !address.username().is_empty() || address.password().is_some() {
            return Err(EndpointError::Credentials);
        }
        let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        let config = ClientConfig::builder_with_provider(std::sync::Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring speaks the versions of TLS that are safe")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = format!("{model}@{dimensions}");
        let tls = TlsConnector::from(std::sync::Arc::new(config));
        let breaker = Breaker::default();
        Ok(Self { address, model, name, dimensions, scale, key, tls, bounds, breaker })
    }

    fn host(&self) -> &str {
        &self.address[url::Position::BeforeHost..url::Position::AfterPort]
    }

    /// Within the time of one call.
    async fn in_time(&self, texts: &[String], turn: Turn) -> Result<Vec<Vec<i32>>, Refused> {
        let whole = tokio::time::timeout(self.bounds.whole, self.all(texts, turn)).await;
        let late = || Refused::away(format!("no whole answer within {} ms", self.bounds.whole.as_millis()));
        whole.unwrap_or_else(|_| Err(late()))
    }

    /// Remembers what came of a call, and tells when that changes whether it is asked.
    fn note(&self, turn: Turn, refused: Option<&Refused>) {
        let (embedder, host) = (&self.name, self.host());
        let Some(refused) = refused.filter(|refused| refused.fault != Fault::Texts) else {
            if self.breaker.answered() {
                info!(embedder, "the embedder at {host} answers again");
            }
            retro_meter::EMBEDDER_LEFT_ALONE.show([], 0.0);
            return;
        };
        let Some(wait) = self.breaker.failed(turn, Instant::now()) else { return };
        retro_meter::EMBEDDER_LEFT_ALONE.show([], wait.as_secs_f64());
        let (wait_s, problem) = (wait.as_secs(), &refused.problem);
        if turn == Turn::Ask {
            warn!(
                embedder,
                "the embedder at {host} is left alone for {wait_s} s, and longer while it fails; texts are compared by the \
                 built-in one until it answers: {problem}"
            );
        } else {
            debug!(embedder, "the embedder at {host} is left alone for another {wait_s} s: {problem}");
        }
    }

    async fn all(&self, texts: &[String], turn: Turn) -> Result<Vec<Vec<i32>>, Refused> {
        let mut vectors = Vec::with_capacity(texts.len());
        // Who only finds out whether it is back asks once.
        let tries_more = usize::from(turn == Turn::Ask);
        for some in texts.chunks(TEXTS_PER_REQUEST) {
            let ask = || self.ask(some);
            let again = ConstantBuilder::default().with_delay(AGAIN_AFTER).with_max_times(tries_more);
            vectors.extend(ask.retry(again).when(|refused| refused.fault == Fault::Moment).await?);
        }
        Ok(vectors)
    }

    async fn ask(&self, texts: &[String]) -> Result<Vec<Vec<i32>>, Refused> {
        let host = self.address.host_str().unwrap_or_default();
        let port = self.address.port_or_known_default().unwrap_or(443);
        let bare = host.trim_matches(['[', ']']).to_owned();
        let stream = TcpStream::connect((bare.as_str(), port)).await.map_err(Refused::away)?;
        if self.address.scheme() == "http" {
            return self.speak(stream, texts).await;
        }
        let name = ServerName::try_from(bare).map_err(|_| Refused::wrong("its host is no name for TLS"))?;
        let stream = self.tls.connect(name, stream).await.map_err(Refused::away)?;
        self.speak(stream, texts).await
    }

    async fn speak<S>(&self, stream: S, texts: &[String]) -> Result<Vec<Vec<i32>>, Refused>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(Refused::away)?;
        // It ends with the request.
        let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
        let answer = sender.send_request(self.request(texts)?).await.map_err(Refused::away)?;
        refused(answer.status())?;
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let bytes = body.map_err(|error| Refused::away(format!("its answer broke off: {error}")))?.to_bytes();
        self.read(&bytes, texts.len())
    }

    fn request(&self, texts: &[String]) -> Result<Request<Full<bytes::Bytes>>, Refused> {
        let url = &self.address;
        let input: Vec<String> =
            texts.iter().map(|text| text.chars().take(TEXT_CHARS_MAX).collect()).collect();
        let body = json!({"model": self.model, "input": input, "encoding_format": "float"}).to_string();
        let mut request = Request::post(&url[url::Position::BeforePath..url::Position::AfterQuery])
            .header(header::HOST, &url[url::Position::BeforeHost..url::Position::AfterPort])
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .header(header::USER_AGENT, concat!("retrospect/", env!("CARGO_PKG_VERSION")));
        if let Some(key) = &self.key {
            let mut value = header::HeaderValue::try_from(format!("Bearer {}", key.expose()))
                .map_err(|_| Refused::wrong("embedder_key holds what no header may"))?;
            value.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, value);
        }
        request
            .body(Full::from(body))
            .map_err(|_| Refused::wrong("its address cannot be asked for over HTTP"))
    }

    fn read(&self, bytes: &[u8], asked: usize) -> Result<Vec<Vec<i32>>, Refused> {
        let answer: Answer = serde_json::from_slice(bytes)
            .map_err(|error| Refused::wrong(format!("its answer is not that of /embeddings: {error}")))?;
        let mut rows = answer.data;
        rows.sort_by_key(|row| row.index);
        if !rows.iter().map(|row| row.index).eq(0..asked) {
            return Err(Refused::wrong(format!("it was asked for {asked} vectors and gave others")));
        }
        let vector = |row: Row| {
            let (found, wanted) = (row.embedding.len(), self.dimensions);
            if found != wanted {
                let problem =
                    format!("its vectors have {found} components, embedder_dimensions says {wanted}");
                return Err(Refused::wrong(problem));
            }
            integers(&row.embedding).ok_or_else(|| Refused::wrong("it gave what is no number"))
        };
        rows.into_iter().map(vector).collect()
    }
}

fn refused(status: StatusCode) -> Result<(), Refused> {
    let hint = match status {
        StatusCode::OK => return Ok(()),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "; is embedder_key right?",
        StatusCode::NOT_FOUND => "; are embedder_url and embedder_model right?",
        _ => "",
    };
    let fault = match status {
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => Fault::Moment,
        StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNPROCESSABLE_ENTITY => {
            Fault::Texts
        }
        _ if status.is_server_error() => Fault::Moment,
        _ => Fault::Setting,
    };
    Err(Refused { problem: format!("it answers {status}{hint}"), fault })
}

#[async_trait]
impl VectorSource for Endpoint {
    fn name(&self) -> &str {
        &self.name
    }

    fn scale(&self) -> Scale {
        self.scale
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<i32>>, SourceError> {
        let host = self.host();
        let turn = self.breaker.turn(Instant::now());
        if let Turn::Not(left) = turn {
            let told = format!("the embedder at {host} is left alone for {} s more", left.as_secs().max(1));
            return Err(SourceError::LeftAlone(told));
        }
        let made = self.in_time(texts, turn).await;
        self.note(turn, made.as_ref().err());
        made.map_err(|refused| SourceError::Failed(format!("the embedder at {host}: {}", refused.problem)))
    }
}
