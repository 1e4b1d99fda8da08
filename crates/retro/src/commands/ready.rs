//! `retro ready`: what `/readyz` of a process on this machine says, for an image in which there is nothing else to ask with.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context;
use retro_config::Config;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Exit;
use crate::cli::Output;
use crate::instance::Instance;
use crate::output;

/// Shorter than any probe waits. The process answers from memory.
const ANSWERS_WITHIN: Duration = Duration::from_secs(3);
/// A few sentences; more is no answer of ours.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// Asks the health side where one is configured; else the HTTP side of the `retro up` that the data folder tells of, at
/// whatever address that listens; else the configured HTTP side. Not in order when anything is missing.
pub(super) async fn run(config: &Config, output: Output) -> anyhow::Result<Exit> {
    let instance = Instance::find(&config.data_dir).filter(|_| config.health_listen.is_none());
    let address = match &instance {
        Some(instance) => instance.http_address()?,
        None => reachable(config.health_listen.unwrap_or(config.http_listen)),
    };
    // Another process may have taken the address of one that is gone.
    let gone = instance.and_then(|instance| instance.check_alive(&config.data_dir).err());
    let missing = match gone {
        Some(gone) => Some(gone.to_string()),
        None => missing_at(address).await,
    };
    output::data(output, &json!({"ready": missing.is_none(), "missing": missing}), || match &missing {
        None => format!("http://{address} is ready"),
        Some(missing) => format!("not ready: {missing}"),
    })?;
    Ok(if missing.is_none() { Exit::Done } else { Exit::NotInOrder })
}

/// What the process that listens there says is missing; `None` when it is ready.
pub(super) async fn missing_at(address: SocketAddr) -> Option<String> {
    match tokio::time::timeout(ANSWERS_WITHIN, ask(address)).await {
        Ok(Ok(answer)) => missing(&answer),
        Ok(Err(problem)) => Some(format!("nothing answers at http://{address}: {problem:#}")),
        Err(_) => Some(format!("http://{address} did not answer within {} s", ANSWERS_WITHIN.as_secs())),
    }
}

/// An address that listens everywhere is asked on loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::from((Ipv4Addr::LOCALHOST, address.port())),
        IpAddr::V6(ip) if ip.is_unspecified() => {
            SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, address.port()))
        }
        _ => address,
    }
}

async fn ask(address: SocketAddr) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    // HTTP/1.0 closes after the answer, so that reading to the end ends.
    let request = format!("GET /readyz HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer).await.context("the answer cannot be read")?;
    Ok(answer)
}

/// What an answer says is missing: the detail of its problem document.
fn missing(answer: &str) -> Option<String> {
    let status = answer.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) == Some("200") {
        return None;
    }
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let problem: Option<Value> = serde_json::from_str(body).ok();
    let detail = problem.as_ref().and_then(|problem| problem["detail"].as_str()).map(str::to_owned);
    Some(detail.unwrap_or_else(|| format!("it answered {status:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_ready_or_says_what_is_missing() {
        assert_eq!(missing("HTTP/1.0 200 OK\r\n\r\nready"), None);
        let problem = r#"{"title":"not ready","detail":"the broker is away"}"#;
        let answer = format!("HTTP/1.0 503 Service Unavailable\r\na: b\r\n\r\n{problem}");
        assert_eq!(missing(&answer).as_deref(), Some("the broker is away"));
        assert!(missing("SSH-2.0").is_some() && missing("").is_some());
    }

    #[test]
    fn an_address_that_listens_everywhere_is_asked_on_loopback() {
        for (listens, asked) in [
            ("0.0.0.0:7718", "127.0.0.1:7718"),
            ("[::]:7718", "[::1]:7718"),
            ("10.0.0.7:7718", "10.0.0.7:7718"),
        ] {
            assert_eq!(reachable(listens.parse().unwrap()).to_string(), asked);
        }
    }
}
