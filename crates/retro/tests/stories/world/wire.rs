//! A plain NATS client for tests, independent of the program and of the client library that it uses.

use std::collections::VecDeque;

use retro_testkit::TEST_TIMEOUT;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// Prefix of the subjects on which a user without restrictions is answered.
const INBOX_PREFIX: &str = "_INBOX";

/// A connection to the broker.
pub(crate) struct NatsConnection {
    stream: BufReader<TcpStream>,
    /// Messages of a stream that arrived before an awaited response.
    received: VecDeque<RawMessage>,
    /// Subject for responses.
    inbox: String,
    /// Subject for messages of a stream.
    messages: String,
    /// Number of requests with a subject of their own for the answer.
    requests: u64,
}

/// A message as sent over the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawMessage {
    pub(crate) subject: String,
    /// Header names and values in their original order.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) payload: Vec<u8>,
}

impl RawMessage {
    pub(crate) fn find_header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl NatsConnection {
    pub(crate) async fn connect(url: &str) -> Self {
        Self::connect_with_inbox(url, INBOX_PREFIX).await
    }

    /// Connects as a user that is answered below this prefix only.
    pub(crate) async fn connect_with_inbox(url: &str, prefix: &str) -> Self {
        let stream = BufReader::new(TcpStream::connect(parse_host(url)).await.expect("the broker answers"));
        let (inbox, messages) = (format!("{prefix}.stories.answer"), format!("{prefix}.stories.messages"));
        let options = build_connect_options(url);
        let hello = format!("CONNECT {options}\r\nSUB {inbox} 1\r\nSUB {messages} 2\r\nSUB {inbox}.* 3\r\n");
        let mut wire = Self { stream, received: VecDeque::new(), inbox, messages, requests: 0 };
        assert!(wire.read_line().await.starts_with("INFO "));
        wire.write_bytes(hello.as_bytes()).await;
        wire
    }

    /// Sends a request and returns the first answer. If nobody listens, its payload is empty.
    pub(crate) async fn request(&mut self, subject: &str, payload: &str) -> RawMessage {
        // Further answers of several services must not be taken for answers to the next request.
        self.requests += 1;
        let reply = format!("{}.{}", self.inbox, self.requests);
        self.send_request(subject, &reply, payload).await;
        loop {
            let (_, message) = self.receive_message().await;
            if message.subject == reply {
                return message;
            }
        }
    }

    /// Sends a request that the broker refuses and returns the broker's reason.
    pub(crate) async fn request_refused(&mut self, subject: &str, payload: &str) -> String {
        let reply = self.inbox.clone();
        self.send_request(subject, &reply, payload).await;
        loop {
            let line = self.read_line().await;
            if let Some(reason) = line.strip_prefix("-ERR ") {
                return reason.to_owned();
            }
            assert_eq!(line, "PING", "the broker passes the request on");
            self.write_bytes(b"PONG\r\n").await;
        }
    }

    async fn send_request(&mut self, subject: &str, reply: &str, payload: &str) {
        let line = format!("PUB {subject} {reply} {}\r\n{payload}\r\n", payload.len());
        self.write_bytes(line.as_bytes()).await;
    }

    /// Publishes a message and returns JetStream's response.
    pub(crate) async fn publish(&mut self, message: &RawMessage) -> Value {
        let mut head = "NATS/1.0\r\n".to_owned();
        for (name, value) in &message.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        let whole = head.len() + message.payload.len();
        let mut bytes =
            format!("HPUB {} {} {} {whole}\r\n{head}", message.subject, self.inbox, head.len()).into_bytes();
        bytes.extend(&message.payload);
        bytes.extend(b"\r\n");
        self.write_bytes(&bytes).await;
        self.receive_answer().await
    }

    /// Returns all messages of a stream, in order.
    pub(crate) async fn list_messages(&mut self, stream: &str) -> Vec<RawMessage> {
        let count =
            self.request_api(&format!("STREAM.INFO.{stream}"), &Value::Null).await["state"]["messages"]
                .as_u64()
                .expect("a count");
        let reader = json!({"stream_name": stream, "config": {"deliver_subject": self.messages, "ack_policy": "none",
            "deliver_policy": "all", "inactive_threshold": 1_000_000_000}});
        let created = self.request_api(&format!("CONSUMER.CREATE.{stream}"), &reader).await;
        let name = created["name"].as_str().unwrap_or_else(|| panic!("no consumer: {created}")).to_owned();
        let mut all = Vec::new();
        while (all.len() as u64) < count {
            match self.received.pop_front() {
                Some(message) => all.push(message),
                None => {
                    let (_, message) = self.receive_message().await;
                    self.received.push_back(message);
                }
            }
        }
        self.request_api(&format!("CONSUMER.DELETE.{stream}.{name}"), &Value::Null).await;
        all
    }

    /// Fetches the next message of a consumer and answers it without handling it, as any client of the broker
    /// could.
    pub(crate) async fn answer_next_message(&mut self, stream: &str, consumer: &str, answer: &str) {
        let ask = format!("PUB $JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer} {} 0\r\n\r\n", self.inbox);
        self.write_bytes(ask.as_bytes()).await;
        loop {
            let line = self.read_line().await;
            let words: Vec<&str> = line.split_whitespace().collect();
            let (reply, whole) = match words[..] {
                ["PING"] => {
                    self.write_bytes(b"PONG\r\n").await;
                    continue;
                }
                ["MSG", _, _, reply, bytes] | ["HMSG", _, _, reply, _, bytes] => (reply, parse_size(bytes)),
                _ => panic!("no message: {line}"),
            };
            let mut bytes = vec![0; whole + 2];
            self.stream.read_exact(&mut bytes).await.expect("the broker keeps the connection");
            self.write_bytes(format!("PUB {reply} {}\r\n{answer}\r\n", answer.len()).as_bytes()).await;
            return;
        }
    }

    /// Sends a request to the JetStream API and returns the response.
    pub(crate) async fn request_api(&mut self, what: &str, about: &Value) -> Value {
        let about = if about.is_null() { String::new() } else { about.to_string() };
        let reply = self.inbox.clone();
        self.send_request(&format!("$JS.API.{what}"), &reply, &about).await;
        self.receive_answer().await
    }

    async fn receive_answer(&mut self) -> Value {
        loop {
            let (subscription, message) = self.receive_message().await;
            if subscription == "1" {
                return serde_json::from_slice(&message.payload)
                    .unwrap_or_else(|_| panic!("no answer: {message:?}"));
            }
            self.received.push_back(message);
        }
    }

    /// Receives the next message, with the id of its subscription.
    async fn receive_message(&mut self) -> (String, RawMessage) {
        loop {
            let line = self.read_line().await;
            let words: Vec<&str> = line.split_whitespace().collect();
            let (head, whole) = match words[..] {
                ["PING"] => {
                    self.write_bytes(b"PONG\r\n").await;
                    continue;
                }
                ["MSG", .., bytes] => (0, parse_size(bytes)),
                ["HMSG", .., head, bytes] => (parse_size(head), parse_size(bytes)),
                ["-ERR", ..] => panic!("the broker refuses: {line}"),
                _ => continue,
            };
            let mut bytes = vec![0; whole + 2];
            self.stream.read_exact(&mut bytes).await.expect("the broker keeps the connection");
            let headers = String::from_utf8_lossy(&bytes[..head]).into_owned();
            let headers = headers.lines().filter_map(|line| line.split_once(':'));
            let headers = headers.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
            // The subject of a pushed message is the one it was published to, not the inbox.
            let sent =
                RawMessage { subject: words[1].to_owned(), headers, payload: bytes[head..whole].to_vec() };
            return (words[2].to_owned(), sent);
        }
    }

    async fn read_line(&mut self) -> String {
        let mut line = String::new();
        let read = tokio::time::timeout(TEST_TIMEOUT, self.stream.read_line(&mut line));
        assert!(read.await.expect("the broker answers").expect("a line") > 0, "the broker hung up");
        line.trim_end().to_owned()
    }

    async fn write_bytes(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).await.expect("the broker accepts it");
    }
}

/// Returns the host and port of a broker's URL.
pub(super) fn parse_host(url: &str) -> &str {
    url.trim_start_matches("nats://").rsplit('@').next().expect("an address")
}

/// Returns the options for `CONNECT`, with the user and password from the URL.
pub(super) fn build_connect_options(url: &str) -> Value {
    let mut hello = json!({"verbose": false, "pedantic": false, "headers": true, "no_responders": true});
    let login =
        url.trim_start_matches("nats://").rsplit_once('@').and_then(|(login, _)| login.split_once(':'));
    if let Some((user, password)) = login {
        hello["user"] = json!(user);
        hello["pass"] = json!(password);
    }
    hello
}

fn parse_size(text: &str) -> usize {
    text.parse().expect("a size")
}
