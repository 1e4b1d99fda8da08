//! One request: resolve, look, connect, ask.

use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use retro_events::hosts::Allowed;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_util::task::AbortOnDropHandle;

use crate::{Fetcher, Problem, is_public};

/// Addresses of a host that are tried before it is called away.
const ADDRESSES_MAX: usize = 4;
/// The longest head of an answer, in bytes: what most servers allow a request.
const HEAD_BYTES_MAX: usize = 32 * 1024;

/// What a host says.
pub(crate) enum Answer {
    /// Here it is.
    Body(Bytes),
    /// It is there.
    Elsewhere(String),
}

impl Fetcher {
    pub(crate) async fn ask(&self, at: &Allowed) -> Result<Answer, Problem> {
        let stream = self.connect(at).await?;
        let mut http = http1::Builder::new();
        let (mut sender, connection) =
            http.max_buf_size(HEAD_BYTES_MAX).handshake(TokioIo::new(stream)).await.map_err(Problem::away)?;
        // It ends with the request: nothing of it runs on when the fetch is given up.
        let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
        let answer = sender.send_request(request(at)?).await.map_err(Problem::away)?;
        self.read(answer).await
    }

    /// A connection to an address that was looked at, not to a name: another answer to a second question about the
    /// name would go unseen.
    async fn connect(&self, at: &Allowed) -> Result<TlsStream<TcpStream>, Problem> {
        let host = at.url().host_str().unwrap_or_default();
        let port = at.url().port_or_known_default().unwrap_or(443);
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| Problem::gone("its host is no name for TLS"))?;
        let addresses = self.network.resolve(host, port).await;
        let addresses =
            addresses.map_err(|error| Problem::Away(format!("its host is not found: {error}")))?;
        if let Some(inner) = addresses.iter().find(|address| !is_public(address.ip())) {
            return Err(Problem::gone(format!(
                "its host is at {}, which is not of the open internet",
                inner.ip()
            )));
        }
        let mut problem = Problem::away("its host has no address");
        for address in addresses.into_iter().take(ADDRESSES_MAX) {
            match tokio::time::timeout(self.bounds.connect, self.connect_to(address, name.clone())).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => {
                    problem = Problem::Away(format!("no connection to {}: {error}", address.ip()))
                }
                Err(_) => problem = Problem::Away(format!("no connection to {} in time", address.ip())),
            }
        }
        Err(problem)
    }

    async fn connect_to(
        &self,
        address: SocketAddr,
        name: ServerName<'static>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = self.network.connect(address).await?;
        self.tls.connect(name, stream).await
    }

    async fn read(&self, answer: Response<Incoming>) -> Result<Answer, Problem> {
        let status = answer.status();
        match status {
            StatusCode::OK => self.read_body(answer).await.map(Answer::Body),
            StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT => {
                let location =
                    answer.headers().get(header::LOCATION).and_then(|location| location.to_str().ok());
                let location = location.ok_or_else(|| Problem::gone("it was redirected to nowhere"))?;
                Ok(Answer::Elsewhere(location.to_owned()))
            }
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => {
                Err(Problem::Away(format!("its host answers {status}")))
            }
            _ if status.is_server_error() => Err(Problem::Away(format!("its host answers {status}"))),
            _ => Err(Problem::gone(format!("its host answers {status}"))),
        }
    }

    async fn read_body(&self, answer: Response<Incoming>) -> Result<Bytes, Problem> {
        let bytes_max = self.bounds.body_bytes_max;
        let too_large = || Problem::gone(format!("it is larger than the {bytes_max} bytes that are taken"));
        let said = answer
            .headers()
            .get(header::CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if said.is_some_and(|said| said > bytes_max as u64) {
            return Err(too_large());
        }
        let (mut body, mut bytes) = (answer.into_body(), BytesMut::new());
        while let Some(frame) = body.frame().await {
            let Ok(piece) = frame.map_err(Problem::away)?.into_data() else { continue };
            if bytes.len() + piece.len() > bytes_max {
                return Err(too_large());
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes.freeze())
    }
}

/// Nothing but the question: no credentials, no cookies, no hint of who asked before.
fn request(at: &Allowed) -> Result<Request<Empty<Bytes>>, Problem> {
    let url = at.url();
    let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let host = &url[url::Position::BeforeHost..url::Position::AfterPort];
    Request::get(path)
        .header(header::HOST, host)
        .header(header::ACCEPT, "application/json")
        // The hash is of the bytes as they are kept.
        .header(header::ACCEPT_ENCODING, "identity")
        .header(header::USER_AGENT, concat!("retrospect/", env!("CARGO_PKG_VERSION")))
        .body(Empty::new())
        .map_err(|_| Problem::gone("its address cannot be asked for over HTTP"))
}
