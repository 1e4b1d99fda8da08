//! Checks the health of the server with single GET requests over loopback, without an HTTP client library.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Timeout for a response; a healthy server responds within milliseconds.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum size of a response, in bytes. A response is one short JSON object.
const RESPONSE_BYTES_MAX: u64 = 8 * 1024;

/// Text in the server's error if a stream could not be written.
const WRITE_ERROR: &str = "write error";

/// Queries `/healthz` and requires that JetStream is enabled. Fails with the reported problem. Write errors of streams
/// are not checked here.
pub(super) async fn check_health(monitoring_port: u16) -> Result<(), String> {
    query_health(monitoring_port, "/healthz?js-enabled-only=true").await
}

/// Returns the error of a server that has stopped writing, because its disk is full or broken; `None` if it
/// still writes or cannot be queried. A server that has stopped writing still responds to all requests, and
/// does not resume by itself when there is space again.
pub(super) async fn find_write_error(monitoring_port: u16) -> Option<String> {
    let problem = query_health(monitoring_port, "/healthz").await.err()?;
    // The problem is the status line, followed by the JSON of the response.
    let body = problem.find('{').map(|at| &problem[at..])?;
    let health: serde_json::Value = serde_json::from_str(body).ok()?;
    health["error"].as_str().filter(|error| error.contains(WRITE_ERROR)).map(str::to_owned)
}

async fn query_health(monitoring_port: u16, path: &str) -> Result<(), String> {
    let answer = tokio::time::timeout(RESPONSE_TIMEOUT, http_get(monitoring_port, path))
        .await
        .map_err(|_| format!("no answer within {} s", RESPONSE_TIMEOUT.as_secs()))?
        .map_err(|error| error.to_string())?;
    let mut lines = answer.lines();
    let status = lines.next().unwrap_or_default().to_owned();
    if status.split(' ').nth(1) == Some("200") {
        return Ok(());
    }
    let body = lines.last().unwrap_or_default();
    Err(format!("{status} {body}"))
}

async fn http_get(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    // With HTTP/1.0 the server closes the connection after the response, so reading to the end terminates.
    let request = format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.take(RESPONSE_BYTES_MAX).read_to_string(&mut answer).await?;
    Ok(answer)
}
