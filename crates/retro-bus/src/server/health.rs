//! Asking a server whether it is well: one GET over loopback, too small for an HTTP client.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A healthy server answers within milliseconds.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// The answer is one short JSON object.
const ANSWER_BYTES_MAX: u64 = 8 * 1024;

/// What a server says of a stream that it could not write to, in the midst of more.
const WRITE_ERROR: &str = "write error";

/// Asks `/healthz`, JetStream included; `Err` says what is wrong.
pub(super) async fn check(monitoring_port: u16) -> Result<(), String> {
    ask(monitoring_port, "/healthz?js-enabled-only=true").await
}

/// Why a server has stopped writing, if it has: its disk is full, or broken. It answers to all else and does not begin
/// again by itself, also when there is room.
pub(super) async fn cannot_write(monitoring_port: u16) -> Option<String> {
    let problem = ask(monitoring_port, "/healthz").await.err()?;
    let body = problem.find('{').map(|at| &problem[at..])?;
    let told: serde_json::Value = serde_json::from_str(body).ok()?;
    told["error"].as_str().filter(|error| error.contains(WRITE_ERROR)).map(str::to_owned)
}

async fn ask(monitoring_port: u16, path: &str) -> Result<(), String> {
    let answer = tokio::time::timeout(ANSWER_WITHIN, get(monitoring_port, path))
        .await
        .map_err(|_| format!("no answer within {} s", ANSWER_WITHIN.as_secs()))?
        .map_err(|error| error.to_string())?;
    let mut lines = answer.lines();
    let status = lines.next().unwrap_or_default().to_owned();
    if status.split(' ').nth(1) == Some("200") {
        return Ok(());
    }
    let body = lines.last().unwrap_or_default();
    Err(format!("{status} {body}"))
}

async fn get(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    // HTTP/1.0 closes after the answer, so that reading to the end ends.
    let request = format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer).await?;
    Ok(answer)
}
