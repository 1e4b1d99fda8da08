//! Reads messages from a broker with a minimal NATS client, because so few requests are not worth a
//! dependency.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// Maximum number of messages per request. A thousand events are a few megabytes.
const BATCH: usize = 1000;
/// Maximum size of a message, in bytes: the broker's limit plus headers.
const BYTES_MAX: usize = 2 * 1024 * 1024;
/// Subject on which the broker's replies arrive.
const INBOX: &str = "_INBOX.load";

/// Returns the number of messages per event ID in a stream of the broker at `url`.
pub async fn count_events_by_id(url: &str, stream: &str) -> Result<BTreeMap<String, usize>> {
    let mut broker = BrokerConnection::connect(url).await?;
    let (mut events, mut next) = (BTreeMap::new(), 1);
    loop {
        let request = format!("{{\"seq\":{next},\"next_by_subj\":\">\",\"batch\":{BATCH}}}");
        let bytes = request.len();
        broker
            .write_command(&format!("PUB $JS.API.DIRECT.GET.{stream} {INBOX} {bytes}\r\n{request}\r\n"))
            .await?;
        let from = next;
        while let Some((sequence, payload)) = broker.read_message().await? {
            next = sequence + 1;
            let event: Value = serde_json::from_slice(&payload)?;
            let id =
                event["id"].as_str().with_context(|| format!("message {sequence} of {stream} has no id"))?;
            *events.entry(id.to_owned()).or_default() += 1;
        }
        // An empty batch means the end of the stream.
        if next == from {
            return Ok(events);
        }
    }
}

/// Counts the messages of a consumer that are not yet delivered or not yet acknowledged.
pub async fn count_pending(url: &str, stream: &str, consumer: &str) -> Result<u64> {
    let mut broker = BrokerConnection::connect(url).await?;
    let info = broker.request_json(&format!("$JS.API.CONSUMER.INFO.{stream}.{consumer}")).await?;
    let count = |key: &str| {
        info[key].as_u64().with_context(|| format!("the broker does not know {consumer}: {info}"))
    };
    Ok(count("num_pending")? + count("num_ack_pending")?)
}

struct BrokerConnection(BufReader<TcpStream>);

impl BrokerConnection {
    async fn connect(url: &str) -> Result<Self> {
        let address =
            url.strip_prefix("nats://").context("the broker's address does not begin with nats://")?;
        let (login, host) = address.rsplit_once('@').unwrap_or(("", address));
        let mut broker = Self(BufReader::new(TcpStream::connect(host).await?));
        let (user, password) = login.split_once(':').unwrap_or_default();
        let hello = json!({"verbose": false, "headers": true, "user": user, "pass": password});
        // Subscribed before any request: NATS drops a reply that has no subscriber.
        broker.write_command(&format!("CONNECT {hello}\r\nSUB {INBOX} 1\r\n")).await?;
        Ok(broker)
    }

    async fn write_command(&mut self, words: &str) -> Result<()> {
        Ok(self.0.write_all(words.as_bytes()).await?)
    }

    /// Sends a request with an empty body and returns the JSON reply.
    async fn request_json(&mut self, subject: &str) -> Result<Value> {
        self.write_command(&format!("PUB {subject} {INBOX} 0\r\n\r\n")).await?;
        let mut line = String::new();
        loop {
            line.clear();
            ensure_open(self.0.read_line(&mut line).await?)?;
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["PING"] => self.write_command("PONG\r\n").await?,
                ["-ERR", ..] => bail!("the broker said {line}"),
                ["MSG", .., total] => {
                    return Ok(serde_json::from_slice(&self.read_payload(total.parse()?).await?)?);
                }
                _ => {}
            }
        }
    }

    /// Reads a payload of `total` bytes and discards the line end after it.
    async fn read_payload(&mut self, total: usize) -> Result<Vec<u8>> {
        if total > BYTES_MAX {
            bail!("an answer of {total} bytes is too large");
        }
        let mut bytes = vec![0; total + 2];
        self.0.read_exact(&mut bytes).await?;
        bytes.truncate(total);
        Ok(bytes)
    }

    /// Reads the next message of a batch and returns its stream sequence and payload, or `None` at the end of
    /// the batch.
    async fn read_message(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        let mut line = String::new();
        loop {
            line.clear();
            ensure_open(self.0.read_line(&mut line).await?)?;
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["PING"] => self.write_command("PONG\r\n").await?,
                // The reply subject is optional here, so only the last two words have fixed positions.
                ["HMSG", .., headers, total] => {
                    return self.read_message_body(headers.parse()?, total.parse()?).await;
                }
                // A direct get replies with headers, so a reply without them is an error.
                ["-ERR" | "MSG", ..] => bail!("the broker said {line}"),
                _ => {}
            }
        }
    }

    async fn read_message_body(&mut self, headers: usize, total: usize) -> Result<Option<(u64, Vec<u8>)>> {
        let bytes = self.read_payload(total).await?;
        let head = bytes.get(..headers).context("the headers are longer than the message")?;
        let head = String::from_utf8_lossy(head).into_owned();
        let (status, head) = head.split_once("\r\n").context("the headers have no status line")?;
        if status != "NATS/1.0" {
            // 404: no message from this sequence on. 204: end of the batch.
            return if status.contains(" 404") || status.contains(" 204") {
                Ok(None)
            } else {
                bail!("{status}")
            };
        }
        let position = head.lines().find_map(|line| line.strip_prefix("Nats-Sequence:"));
        let position = position.context("the message has no Nats-Sequence header")?.trim().parse()?;
        Ok(Some((position, bytes[headers..].to_vec())))
    }
}

fn ensure_open(bytes: usize) -> Result<()> {
    if bytes == 0 {
        bail!("the broker closed the connection");
    }
    Ok(())
}
