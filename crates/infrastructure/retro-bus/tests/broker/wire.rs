//! Implements a minimal client of the NATS protocol. The server reports a permission violation as a line,
//! which this client reads in order; a client library reports it as an event at some later time.

use retro_events::permissions::BrokerUser;
use retro_testkit::{SecuredNats, TEST_TIMEOUT, test_password};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// A connection of one user.
pub(crate) struct Wire {
    stream: BufReader<TcpStream>,
}

/// A line from the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    Pong,
    Refused(String),
    /// Subject and payload of a message, without headers.
    Message(String, String),
}

impl Wire {
    pub(crate) async fn connect(nats: &SecuredNats, user: &BrokerUser) -> Self {
        let stream = BufReader::new(TcpStream::connect(nats.address()).await.unwrap());
        let mut wire = Self { stream };
        assert!(wire.read_line().await.starts_with("INFO "));
        let password = test_password(user);
        let connect = serde_json::json!({
            "verbose": false, "pedantic": false, "headers": true, "no_responders": true, "user": user.to_string(),
            "pass": password,
        });
        wire.write_text(&format!("CONNECT {connect}\r\n")).await;
        assert_eq!(wire.read_until_pong().await, [], "{user} may connect");
        wire
    }

    /// Publishes a message and returns the violation, if any.
    pub(crate) async fn publish(&mut self, subject: &str, payload: &str) -> Option<String> {
        self.send(subject, payload).await;
        self.read_refusal().await
    }

    /// Publishes without waiting. A reply subject may follow the subject.
    pub(crate) async fn send(&mut self, subject: &str, payload: &str) {
        self.write_text(&format!("PUB {subject} {}\r\n{payload}\r\n", payload.len())).await;
    }

    /// Subscribes to a subject and returns the violation, if any.
    pub(crate) async fn subscribe(&mut self, subject: &str) -> Option<String> {
        self.write_text(&format!("SUB {subject} 1\r\n")).await;
        self.read_refusal().await
    }

    /// Publishes with headers and waits for the reply in the inbox of a user.
    pub(crate) async fn request(
        &mut self,
        user: &BrokerUser,
        subject: &str,
        headers: &str,
        payload: &str,
    ) -> String {
        let inbox = format!("_INBOX_{user}.answer");
        self.write_text(&format!("SUB {inbox} 2\r\n")).await;
        let headers = format!("NATS/1.0\r\n{headers}\r\n\r\n");
        let (head, whole) = (headers.len(), headers.len() + payload.len());
        self.write_text(&format!("HPUB {subject} {inbox} {head} {whole}\r\n{headers}{payload}\r\n")).await;
        loop {
            match self.next_line().await {
                Line::Message(to, payload) if to == inbox => return payload,
                Line::Refused(refusal) => return refusal,
                _ => {}
            }
        }
    }

    /// Returns the next message.
    pub(crate) async fn next_message(&mut self) -> (String, String) {
        loop {
            match self.next_line().await {
                Line::Message(subject, payload) => return (subject, payload),
                line => assert_eq!(line, Line::Pong),
            }
        }
    }

    async fn read_refusal(&mut self) -> Option<String> {
        self.read_until_pong().await.into_iter().find_map(|line| match line {
            Line::Refused(text) => Some(text),
            _ => None,
        })
    }

    /// Returns the lines that the server sent before it had processed everything sent to it so far.
    async fn read_until_pong(&mut self) -> Vec<Line> {
        self.write_text("PING\r\n").await;
        let mut lines = Vec::new();
        loop {
            match self.next_line().await {
                Line::Pong => return lines,
                line => lines.push(line),
            }
        }
    }

    async fn next_line(&mut self) -> Line {
        loop {
            let line = self.read_line().await;
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["PONG"] => return Line::Pong,
                ["PING"] => self.write_text("PONG\r\n").await,
                ["-ERR", ..] => return Line::Refused(line.trim_start_matches("-ERR ").to_owned()),
                ["MSG", subject, .., bytes] => {
                    let payload = self.read_payload(bytes.parse().unwrap()).await;
                    return Line::Message(subject.to_owned(), payload);
                }
                ["HMSG", subject, .., head, bytes] => {
                    let whole = self.read_payload(bytes.parse().unwrap()).await;
                    let payload = whole[head.parse::<usize>().unwrap()..].to_owned();
                    return Line::Message(subject.to_owned(), payload);
                }
                _ => {}
            }
        }
    }

    async fn read_payload(&mut self, bytes: usize) -> String {
        let mut payload = vec![0; bytes + 2];
        self.stream.read_exact(&mut payload).await.unwrap();
        String::from_utf8_lossy(&payload[..bytes]).into_owned()
    }

    async fn read_line(&mut self) -> String {
        let mut line = String::new();
        let read = tokio::time::timeout(TEST_TIMEOUT, self.stream.read_line(&mut line));
        assert!(read.await.expect("the server answers").unwrap() > 0, "the server ended the connection");
        line.trim_end().to_owned()
    }

    async fn write_text(&mut self, text: &str) {
        self.stream.get_mut().write_all(text.as_bytes()).await.unwrap();
    }
}
