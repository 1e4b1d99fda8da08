//! What a running program's broker holds, asked for in its own words: a client would be a dependency for two questions.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// Messages asked for at once: some megabytes.
const BATCH: usize = 1000;
/// The largest message that is read, bytes: what the broker takes, and headers.
const BYTES_MAX: usize = 2 * 1024 * 1024;
/// Where answers are sent.
const INBOX: &str = "_INBOX.load";

/// The events that a stream of the broker at `url` holds: by their ids, how often each is there.
pub(crate) async fn events(url: &str, stream: &str) -> Result<BTreeMap<String, usize>> {
    let mut broker = Broker::connect(url).await?;
    let (mut events, mut next) = (BTreeMap::new(), 1);
    loop {
        let asked = format!("{{\"seq\":{next},\"next_by_subj\":\">\",\"batch\":{BATCH}}}");
        let bytes = asked.len();
        broker.say(&format!("PUB $JS.API.DIRECT.GET.{stream} {INBOX} {bytes}\r\n{asked}\r\n")).await?;
        let from = next;
        while let Some((sequence, payload)) = broker.message().await? {
            next = sequence + 1;
            let event: Value = serde_json::from_slice(&payload)?;
            let id =
                event["id"].as_str().with_context(|| format!("message {sequence} of {stream} has no id"))?;
            *events.entry(id.to_owned()).or_default() += 1;
        }
        if next == from {
            return Ok(events);
        }
    }
}

/// How many messages of a stream a consumer of the broker at `url` has still to take or to answer for.
pub(crate) async fn waiting(url: &str, stream: &str, consumer: &str) -> Result<u64> {
    let mut broker = Broker::connect(url).await?;
    let info = broker.ask(&format!("$JS.API.CONSUMER.INFO.{stream}.{consumer}")).await?;
    let count = |key: &str| info[key].as_u64().with_context(|| format!("{consumer} is not known: {info}"));
    Ok(count("num_pending")? + count("num_ack_pending")?)
}

struct Broker(BufReader<TcpStream>);

impl Broker {
    async fn connect(url: &str) -> Result<Self> {
        let address = url.strip_prefix("nats://").context("the broker's address begins with nats://")?;
        let (login, host) = address.rsplit_once('@').unwrap_or(("", address));
        let mut broker = Self(BufReader::new(TcpStream::connect(host).await?));
        let (user, password) = login.split_once(':').unwrap_or_default();
        let hello = json!({"verbose": false, "headers": true, "user": user, "pass": password});
        broker.say(&format!("CONNECT {hello}\r\nSUB {INBOX} 1\r\n")).await?;
        Ok(broker)
    }

    async fn say(&mut self, words: &str) -> Result<()> {
        Ok(self.0.write_all(words.as_bytes()).await?)
    }

    /// The answer to a question that says no more than its subject.
    async fn ask(&mut self, subject: &str) -> Result<Value> {
        self.say(&format!("PUB {subject} {INBOX} 0\r\n\r\n")).await?;
        let mut line = String::new();
        loop {
            line.clear();
            ensure_read(self.0.read_line(&mut line).await?)?;
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["PING"] => self.say("PONG\r\n").await?,
                ["-ERR", ..] => bail!("the broker said {line}"),
                ["MSG", .., total] => return Ok(serde_json::from_slice(&self.bytes(total.parse()?).await?)?),
                _ => {}
            }
        }
    }

    /// So many bytes, and the end of their line.
    async fn bytes(&mut self, total: usize) -> Result<Vec<u8>> {
        if total > BYTES_MAX {
            bail!("{total} bytes are no answer");
        }
        let mut bytes = vec![0; total + 2];
        self.0.read_exact(&mut bytes).await?;
        bytes.truncate(total);
        Ok(bytes)
    }

    /// The next message of an answer: its position and its payload; `None` at the answer's end.
    async fn message(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        let mut line = String::new();
        loop {
            line.clear();
            ensure_read(self.0.read_line(&mut line).await?)?;
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["PING"] => self.say("PONG\r\n").await?,
                // With a subject for an answer or without.
                ["HMSG", .., headers, total] => return self.rest(headers.parse()?, total.parse()?).await,
                ["-ERR" | "MSG", ..] => bail!("the broker said {line}"),
                _ => {}
            }
        }
    }

    async fn rest(&mut self, headers: usize, total: usize) -> Result<Option<(u64, Vec<u8>)>> {
        let bytes = self.bytes(total).await?;
        let head = bytes.get(..headers).context("headers are a part of their message")?;
        let head = String::from_utf8_lossy(head).into_owned();
        let (status, head) = head.split_once("\r\n").context("headers begin with a line of their own")?;
        if status != "NATS/1.0" {
            // Nothing from here on, or the end of a batch.
            return if status.contains(" 404") || status.contains(" 204") {
                Ok(None)
            } else {
                bail!("{status}")
            };
        }
        let position = head.lines().find_map(|line| line.strip_prefix("Nats-Sequence:"));
        let position = position.context("a message has a position")?.trim().parse()?;
        Ok(Some((position, bytes[headers..].to_vec())))
    }
}

fn ensure_read(bytes: usize) -> Result<()> {
    if bytes == 0 {
        bail!("the broker closed the connection");
    }
    Ok(())
}
