//! Sends one HTTPS request: resolves the host, checks its addresses, connects, and reads the response.

use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use retro_events::hosts::AllowedUrl;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_util::task::AbortOnDropHandle;

use crate::response::HostResponse;
use crate::{FetchError, Fetcher, is_public};

/// Maximum number of addresses to try per host.
const ADDRESSES_MAX: usize = 4;
/// Maximum size of a response head, in bytes: the size of request head that most servers accept.
const HEAD_BYTES_MAX: usize = 32 * 1024;

impl Fetcher {
    pub(crate) async fn request_once(&self, at: &AllowedUrl) -> Result<HostResponse, FetchError> {
        let stream = self.connect_to_host(at).await?;
        let mut http = http1::Builder::new();
        let (mut sender, connection) = http
            .max_buf_size(HEAD_BYTES_MAX)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(FetchError::unavailable)?;
        // Dropping this handle closes the connection, even if the fetch is cancelled.
        let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
        let answer = sender.send_request(build_request(at)?).await.map_err(FetchError::unavailable)?;
        self.interpret_response(answer).await
    }

    /// Connects to a checked address instead of the host name. Resolving the name again could return another,
    /// unchecked address.
    async fn connect_to_host(&self, at: &AllowedUrl) -> Result<TlsStream<TcpStream>, FetchError> {
        let host = at.url().host_str().unwrap_or_default();
        let port = at.url().port_or_known_default().unwrap_or(443);
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| FetchError::gone("its host is no name for TLS"))?;
        let addresses = self.network.resolve(host, port).await;
        let addresses =
            addresses.map_err(|error| FetchError::Unavailable(format!("its host is not found: {error}")))?;
        // One internal address is enough to refuse the host, because another attempt could connect to it.
        if let Some(internal) = addresses.iter().find(|address| !is_public(address.ip())) {
            return Err(FetchError::gone(format!(
                "its host is at {}, which is not of the open internet",
                internal.ip()
            )));
        }
        let mut problem = FetchError::unavailable("its host has no address");
        for address in addresses.into_iter().take(ADDRESSES_MAX) {
            match tokio::time::timeout(self.bounds.connect_timeout, self.connect_tls(address, name.clone()))
                .await
            {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => {
                    problem = FetchError::Unavailable(format!("no connection to {}: {error}", address.ip()))
                }
                Err(_) => {
                    problem = FetchError::Unavailable(format!("no connection to {} in time", address.ip()))
                }
            }
        }
        Err(problem)
    }

    async fn connect_tls(
        &self,
        address: SocketAddr,
        name: ServerName<'static>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = self.network.connect(address).await?;
        self.tls.connect(name, stream).await
    }

    async fn interpret_response(&self, answer: Response<Incoming>) -> Result<HostResponse, FetchError> {
        let status = answer.status();
        match status {
            StatusCode::OK => self.read_body(answer).await.map(HostResponse::Body),
            StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT => {
                let location =
                    answer.headers().get(header::LOCATION).and_then(|location| location.to_str().ok());
                let location = location.ok_or_else(|| FetchError::gone("it was redirected to nowhere"))?;
                Ok(HostResponse::Redirect(location.to_owned()))
            }
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => {
                Err(FetchError::Unavailable(format!("its host answers {status}")))
            }
            _ if status.is_server_error() => {
                Err(FetchError::Unavailable(format!("its host answers {status}")))
            }
            _ => Err(FetchError::gone(format!("its host answers {status}"))),
        }
    }

    async fn read_body(&self, answer: Response<Incoming>) -> Result<Bytes, FetchError> {
        let bytes_max = self.bounds.body_bytes_max;
        let too_large =
            || FetchError::gone(format!("it is larger than the {bytes_max} bytes that are taken"));
        // Refuses an oversized body before reading it. The announced length may still be wrong.
        let announced = answer
            .headers()
            .get(header::CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if announced.is_some_and(|announced| announced > bytes_max as u64) {
            return Err(too_large());
        }
        // A chunked body has no announced length, so its bytes are counted as they arrive.
        let (mut body, mut bytes) = (answer.into_body(), BytesMut::new());
        while let Some(frame) = body.frame().await {
            let Ok(piece) = frame.map_err(FetchError::unavailable)?.into_data() else { continue };
            if bytes.len() + piece.len() > bytes_max {
                return Err(too_large());
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes.freeze())
    }
}

/// Builds the request, without credentials, cookies or a referrer.
fn build_request(at: &AllowedUrl) -> Result<Request<Empty<Bytes>>, FetchError> {
    let url = at.url();
    let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let host = &url[url::Position::BeforeHost..url::Position::AfterPort];
    Request::get(path)
        .header(header::HOST, host)
        .header(header::ACCEPT, "application/json")
        // The hash in the reference is that of the uncompressed bytes.
        .header(header::ACCEPT_ENCODING, "identity")
        .header(header::USER_AGENT, concat!("retrospect/", env!("CARGO_PKG_VERSION")))
        .body(Empty::new())
        .map_err(|_| FetchError::gone("its address cannot be asked for over HTTP"))
}
