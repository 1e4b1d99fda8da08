//! Runs `retro ready`, which prints the `/readyz` response of a process on this machine, for images without
//! an HTTP client.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context;
use retro_config::Config;
use retro_http::TlsProbe;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::cli::Output;
use crate::exit::Exit;
use crate::instance::Instance;
use crate::output;

/// Timeout for the response, which the process gives from memory. Shorter than the timeout of any probe.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum size of the response that is read, in bytes. Ours is a few sentences.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// Requests the readiness of a process: at the health listener if one is configured, otherwise at the address
/// that `retro up` recorded in the data folder, otherwise at the configured HTTP address. Exits with
/// [`Exit::ProblemFound`] if anything is missing.
pub(super) async fn run_command(config: &Config, output: Output) -> anyhow::Result<Exit> {
    let instance = Instance::find(&config.data_dir).filter(|_| config.health_listen.is_none());
    let (address, speaks_tls) = match &instance {
        Some(instance) => (instance.http_address()?, instance.speaks_tls()),
        None => (
            to_reachable(config.health_listen.unwrap_or(config.http_listen)),
            config.health_listen.is_none() && config.http_cert_file.is_some(),
        ),
    };
    // Another process may now listen on the address of one that is gone, so check the process id first.
    let gone = instance.and_then(|instance| instance.check_alive(&config.data_dir).err());
    let missing = match gone {
        Some(gone) => Some(gone.to_string()),
        None => find_missing(config, address, speaks_tls).await,
    };
    output::print_data(
        output,
        &json!({"ready": missing.is_none(), "missing": missing}),
        || match &missing {
            None => format!("{} is ready", url_of(address, speaks_tls)),
            Some(missing) => format!("not ready: {missing}"),
        },
    )?;
    Ok(if missing.is_none() { Exit::Done } else { Exit::ProblemFound })
}

/// Describes what the process at this address is missing, or why it does not respond; `None` if it is ready. Over TLS,
/// the certificates of the configuration are trusted.
pub(super) async fn find_missing(config: &Config, address: SocketAddr, speaks_tls: bool) -> Option<String> {
    let url = url_of(address, speaks_tls);
    match tokio::time::timeout(ANSWER_TIMEOUT, request_readiness(config, address, speaks_tls)).await {
        Ok(Ok(answer)) => parse_missing(&answer),
        Ok(Err(problem)) => Some(format!("nothing answers at {url}: {problem:#}")),
        Err(_) => Some(format!("{url} did not answer within {} s", ANSWER_TIMEOUT.as_secs())),
    }
}

fn url_of(address: SocketAddr, speaks_tls: bool) -> String {
    format!("{}://{address}", if speaks_tls { "https" } else { "http" })
}

/// Replaces an unspecified address, which is meant only for listening, with the loopback address.
fn to_reachable(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::from((Ipv4Addr::LOCALHOST, address.port())),
        IpAddr::V6(ip) if ip.is_unspecified() => {
            SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, address.port()))
        }
        _ => address,
    }
}

async fn request_readiness(config: &Config, address: SocketAddr, speaks_tls: bool) -> anyhow::Result<String> {
    let stream = TcpStream::connect(address).await?;
    if !speaks_tls {
        return send_request(address, stream).await;
    }
    let (certificate, authorities) = (config.http_cert_file.as_deref(), config.http_ca_file.as_deref());
    let probe = TlsProbe::new(certificate, authorities)?;
    let stream = probe.connect(address.ip(), stream).await.with_context(|| {
        let own = certificate.map_or_else(
            || "`http_cert_file` is not set here".to_owned(),
            |path| {
                format!("it is not the one in {}, which the process reads again every 10 s", path.display())
            },
        );
        format!(
            "its certificate is not trusted ({own}; no public authority and none in `http_ca_file` has signed it for \
             this address)"
        )
    })?;
    send_request(address, stream).await
}

async fn send_request(
    address: SocketAddr,
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
) -> anyhow::Result<String> {
    // HTTP/1.0 closes the connection after the response, so reading to the end terminates.
    let request = format!("GET /readyz HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    // Another program may listen there and send endlessly.
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer).await.context("the answer cannot be read")?;
    Ok(answer)
}

/// Returns the detail of the problem in the response, or `None` if the status is 200.
fn parse_missing(answer: &str) -> Option<String> {
    let status = answer.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) == Some("200") {
        return None;
    }
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let problem: Option<Value> = serde_json::from_str(body).ok();
    let detail = problem.as_ref().and_then(|problem| problem["detail"].as_str()).map(str::to_owned);
    Some(detail.unwrap_or_else(|| format!("the answer was {status:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_ready_or_names_what_is_missing() {
        assert_eq!(parse_missing("HTTP/1.0 200 OK\r\n\r\nready"), None);
        let problem = r#"{"title":"not ready","detail":"the broker is away"}"#;
        let answer = format!("HTTP/1.0 503 Service Unavailable\r\na: b\r\n\r\n{problem}");
        assert_eq!(parse_missing(&answer).as_deref(), Some("the broker is away"));
        assert!(parse_missing("SSH-2.0").is_some() && parse_missing("").is_some());
    }

    #[test]
    fn an_unspecified_address_is_reached_on_loopback() {
        for (listens, expected) in [
            ("0.0.0.0:7718", "127.0.0.1:7718"),
            ("[::]:7718", "[::1]:7718"),
            ("10.0.0.7:7718", "10.0.0.7:7718"),
        ] {
            assert_eq!(to_reachable(listens.parse().unwrap()).to_string(), expected);
        }
    }
}
