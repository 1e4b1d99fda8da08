//! How many messages a stream holds, asked for in the broker's own words: a client would be a dependency for one question.

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// The largest line that is read: an answer about a stream has some hundred bytes.
const LINES_MAX: usize = 100;

/// How many messages a stream of the broker at `url` holds.
pub(super) async fn messages(url: &str, stream: &str) -> Result<u64> {
    let address = url.strip_prefix("nats://").context("the broker's address begins with nats://")?;
    let mut broker = BufReader::new(TcpStream::connect(address).await?);
    let asking = format!(
        "CONNECT {{\"verbose\":false}}\r\nSUB _INBOX.load 1\r\nPUB $JS.API.STREAM.INFO.{stream} _INBOX.load 0\r\n\r\n"
    );
    broker.write_all(asking.as_bytes()).await?;
    let mut line = String::new();
    for _ in 0..LINES_MAX {
        line.clear();
        broker.read_line(&mut line).await?;
        if line.starts_with('{') {
            let answer: Value = serde_json::from_str(&line)?;
            return answer["state"]["messages"]
                .as_u64()
                .with_context(|| format!("{stream} is not known: {line}"));
        }
    }
    anyhow::bail!("the broker did not tell of {stream}; it said last: {line}")
}
