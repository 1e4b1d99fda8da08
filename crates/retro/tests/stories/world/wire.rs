//! What the broker holds, read and written by its own protocol: beside the program, and past the library that it uses.

use std::collections::VecDeque;

use retro_testkit::TEST_TIMEOUT;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

const INBOX: &str = "_INBOX.stories.answer";
const MESSAGES: &str = "_INBOX.stories.messages";

/// A connection to the broker.
pub(crate) struct Wire {
    stream: BufReader<TcpStream>,
    /// Messages of a stream that came before an answer did.
    come: VecDeque<Sent>,
}

/// A message as it went over the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) subject: String,
    /// Names and values in their order.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) payload: Vec<u8>,
}

impl Sent {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Wire {
    pub(crate) async fn to(url: &str) -> Self {
        let stream = BufReader::new(TcpStream::connect(host(url)).await.expect("the broker answers"));
        let mut wire = Self { stream, come: VecDeque::new() };
        assert!(wire.line().await.starts_with("INFO "));
        let hello = hello(url);
        wire.write(format!("CONNECT {hello}\r\nSUB {INBOX} 1\r\nSUB {MESSAGES} 2\r\n").as_bytes()).await;
        wire
    }

    /// Publishes a message; returns what JetStream answers.
    pub(crate) async fn publish(&mut self, message: &Sent) -> Value {
        let mut head = "NATS/1.0\r\n".to_owned();
        for (name, value) in &message.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        let whole = head.len() + message.payload.len();
        let mut bytes =
            format!("HPUB {} {INBOX} {} {whole}\r\n{head}", message.subject, head.len()).into_bytes();
        bytes.extend(&message.payload);
        bytes.extend(b"\r\n");
        self.write(&bytes).await;
        self.answer().await
    }

    /// Every message that a stream holds, in its order.
    pub(crate) async fn all(&mut self, stream: &str) -> Vec<Sent> {
        let count = self.ask(&format!("STREAM.INFO.{stream}"), &Value::Null).await["state"]["messages"]
            .as_u64()
            .expect("a count");
        let reader = json!({"stream_name": stream, "config": {"deliver_subject": MESSAGES, "ack_policy": "none",
            "deliver_policy": "all", "inactive_threshold": 1_000_000_000}});
        let made = self.ask(&format!("CONSUMER.CREATE.{stream}"), &reader).await;
        let name = made["name"].as_str().unwrap_or_else(|| panic!("no reader: {made}")).to_owned();
        let mut all = Vec::new();
        while (all.len() as u64) < count {
            match self.come.pop_front() {
                Some(message) => all.push(message),
                None => {
                    let (_, message) = self.message().await;
                    self.come.push_back(message);
                }
            }
        }
        self.ask(&format!("CONSUMER.DELETE.{stream}.{name}"), &Value::Null).await;
        all
    }

    /// Takes the next message of a consumer and answers for it without handling it, as anybody at the broker may.
    pub(crate) async fn take(&mut self, stream: &str, consumer: &str, answer: &str) {
        let ask = format!("PUB $JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer} {INBOX} 0\r\n\r\n");
        self.write(ask.as_bytes()).await;
        loop {
            let line = self.line().await;
            let words: Vec<&str> = line.split_whitespace().collect();
            let (reply, whole) = match words[..] {
                ["PING"] => {
                    self.write(b"PONG\r\n").await;
                    continue;
                }
                ["MSG", _, _, reply, bytes] | ["HMSG", _, _, reply, _, bytes] => (reply, number(bytes)),
                _ => panic!("no message: {line}"),
            };
            let mut bytes = vec![0; whole + 2];
            self.stream.read_exact(&mut bytes).await.expect("the broker goes on");
            self.write(format!("PUB {reply} {}\r\n{answer}\r\n", answer.len()).as_bytes()).await;
            return;
        }
    }

    /// Asks JetStream something.
    pub(crate) async fn ask(&mut self, what: &str, about: &Value) -> Value {
        let about = if about.is_null() { String::new() } else { about.to_string() };
        self.write(format!("PUB $JS.API.{what} {INBOX} {}\r\n{about}\r\n", about.len()).as_bytes()).await;
        self.answer().await
    }

    async fn answer(&mut self) -> Value {
        loop {
            let (subscription, message) = self.message().await;
            if subscription == "1" {
                return serde_json::from_slice(&message.payload)
                    .unwrap_or_else(|_| panic!("no answer: {message:?}"));
            }
            self.come.push_back(message);
        }
    }

    /// The next message with the subscription that it came by.
    async fn message(&mut self) -> (String, Sent) {
        loop {
            let line = self.line().await;
            let words: Vec<&str> = line.split_whitespace().collect();
            let (head, whole) = match words[..] {
                ["PING"] => {
                    self.write(b"PONG\r\n").await;
                    continue;
                }
                ["MSG", .., bytes] => (0, number(bytes)),
                ["HMSG", .., head, bytes] => (number(head), number(bytes)),
                ["-ERR", ..] => panic!("the broker refuses: {line}"),
                _ => continue,
            };
            let mut bytes = vec![0; whole + 2];
            self.stream.read_exact(&mut bytes).await.expect("the broker goes on");
            let headers = String::from_utf8_lossy(&bytes[..head]).into_owned();
            let headers = headers.lines().filter_map(|line| line.split_once(':'));
            let headers = headers.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
            // A pushed message's reply is what was delivered; its subject is the one it was published under.
            let sent = Sent { subject: words[1].to_owned(), headers, payload: bytes[head..whole].to_vec() };
            return (words[2].to_owned(), sent);
        }
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = tokio::time::timeout(TEST_TIMEOUT, self.stream.read_line(&mut line));
        assert!(read.await.expect("the broker answers").expect("a line") > 0, "the broker hung up");
        line.trim_end().to_owned()
    }

    async fn write(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).await.expect("the broker takes it");
    }
}

/// Host and port of a broker's address.
pub(super) fn host(url: &str) -> &str {
    url.trim_start_matches("nats://").rsplit('@').next().expect("an address")
}

/// What a client says of itself: who it is, as its address has it.
pub(super) fn hello(url: &str) -> Value {
    let mut hello = json!({"verbose": false, "pedantic": false, "headers": true, "no_responders": true});
    let login =
        url.trim_start_matches("nats://").rsplit_once('@').and_then(|(login, _)| login.split_once(':'));
    if let Some((user, password)) = login {
        hello["user"] = json!(user);
        hello["pass"] = json!(password);
    }
    hello
}

fn number(text: &str) -> usize {
    text.parse().expect("a size")
}
