//! Sends requests for context over connections that stay open, one request at a time each, and reads the answers.
//! Written over sockets, because a client that does more would take the processors from the server that it measures.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::memories::Scopes;

/// Timeout for a server to become ready.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval at which a server is asked whether it is ready.
const READY_INTERVAL: Duration = Duration::from_millis(20);
/// Step between the numbers of the steps that are asked for one after the other: a prime, so that all get a turn.
const STRIDE: u64 = 7_919;
/// What an answer says if its presentation may not be recorded, and how many of its last bytes contain it.
const UNRECORDED: &[u8] = br#""recorded":"unknown""#;
const TAIL_BYTES: usize = 200;
/// Number of the next run, so that no two requests of a process are of one run.
static NEXT_RUN: AtomicU64 = AtomicU64::new(0);

/// Route that is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// The program, for a run.
    Context,
    /// The program, without a run, so that nothing is recorded.
    Preview,
    /// The map beside it.
    Map,
    /// The constant answer beside it.
    Constant,
}

impl Route {
    const fn path(self) -> &'static str {
        match self {
            Self::Context | Self::Preview => "/v1/context",
            Self::Map => "/map",
            Self::Constant => "/constant",
        }
    }
}

/// Load of a measurement.
#[derive(Debug, Clone)]
pub(crate) struct ContextLoad {
    pub(crate) scopes: Scopes,
    /// Access tokens of the tenants, in their order.
    pub(crate) tokens: Arc<[String]>,
    pub(crate) clients: usize,
    pub(crate) duration: Duration,
}

/// What a load measured.
#[derive(Debug, Default)]
pub(crate) struct LoadFigures {
    /// Number of answers.
    pub(crate) answers: u64,
    /// Number of answers without a memory.
    empty: u64,
    /// Number of answers that say that their presentation may not be recorded.
    unrecorded: u64,
    elapsed: Duration,
    latencies: Vec<Duration>,
}

impl LoadFigures {
    /// Returns the answers per second.
    pub(crate) fn rate(&self) -> f64 {
        self.answers as f64 / self.elapsed.as_secs_f64()
    }

    /// Prints the figures in a line, with the CPU time of the server and its memory in bytes, if they are known.
    pub(crate) fn print(&self, name: &str, server: Option<(Duration, u64)>) {
        let at = |permille: usize| {
            let place = self.latencies.len().saturating_sub(1) * permille / 1000;
            self.latencies.get(place).copied().unwrap_or_default().as_secs_f64() * 1e3
        };
        let server = server.map(|(cpu, memory)| {
            let micros = cpu.as_secs_f64() * 1e6 / self.answers as f64;
            format!("; CPU {micros:.0} µs an answer, {} MiB", memory / (1024 * 1024))
        });
        println!(
            "    {name:<8} {:>8.0} answers/s, {} empty, {} unrecorded; p50 {:.2} ms, p99 {:.2} ms, max {:.1} ms{}",
            self.rate(),
            self.empty,
            self.unrecorded,
            at(500),
            at(990),
            at(1000),
            server.unwrap_or_default()
        );
    }
}

impl ContextLoad {
    /// Asks until the time is over.
    pub(crate) async fn measure(&self, address: &str, route: Route) -> Result<LoadFigures> {
        let began = Instant::now();
        let address: Arc<str> = address.into();
        let clients: Vec<_> = (0..self.clients)
            .map(|_| tokio::spawn(self.clone().ask_until(address.clone(), route, began + self.duration)))
            .collect();
        let mut figures = LoadFigures::default();
        for client in clients {
            let of_client = client.await??;
            figures.answers += of_client.answers;
            figures.empty += of_client.empty;
            figures.unrecorded += of_client.unrecorded;
            figures.latencies.extend(of_client.latencies);
        }
        figures.elapsed = began.elapsed();
        figures.latencies.sort_unstable();
        Ok(figures)
    }

    /// Asks for every step once, as previews, and returns the time that it took.
    pub(crate) async fn ask_for_every_step(&self, address: &str, clients: u64) -> Result<Duration> {
        let began = Instant::now();
        let ask = async |client: u64| {
            let mut connection = Connection::open(address).await?;
            let mut request = Vec::new();
            for nth in (client..self.scopes.number()).step_by(clients as usize) {
                self.compose_request(&mut request, Route::Context, nth, None);
                connection.ask(&request).await?;
            }
            Ok(())
        };
        futures::future::try_join_all((0..clients).map(ask)).await.map(|_: Vec<()>| began.elapsed())
    }

    /// Returns the answer of the program to a preview.
    pub(crate) async fn fetch_body(&self, address: &str) -> Result<Vec<u8>> {
        let mut request = Vec::new();
        self.compose_request(&mut request, Route::Context, 0, None);
        Ok(Connection::open(address).await?.ask(&request).await?.to_vec())
    }

    async fn ask_until(self, address: Arc<str>, route: Route, end: Instant) -> Result<LoadFigures> {
        let mut connection = Connection::open(&address).await?;
        let mut figures = LoadFigures::default();
        let mut request = Vec::new();
        while Instant::now() < end {
            let run = NEXT_RUN.fetch_add(1, Ordering::Relaxed);
            let step = run * STRIDE % self.scopes.number();
            self.compose_request(&mut request, route, step, (route != Route::Preview).then_some(run));
            let sent = Instant::now();
            let body = connection.ask(&request).await?;
            figures.latencies.push(sent.elapsed());
            figures.answers += 1;
            // Also the first field of the answer, so the rest need not be read.
            figures.empty += u64::from(body.starts_with(br#"{"memories":[]"#));
            let tail = &body[body.len().saturating_sub(TAIL_BYTES)..];
            figures.unrecorded += u64::from(tail.windows(UNRECORDED.len()).any(|bytes| bytes == UNRECORDED));
        }
        Ok(figures)
    }

    fn compose_request(&self, request: &mut Vec<u8>, route: Route, nth_step: u64, run: Option<u64>) {
        let (tenant, workflow, step) = self.scopes.name(nth_step);
        let token = &self.tokens[self.scopes.tenant(nth_step)];
        let run = run.map_or_else(String::new, |run| format!(r#","run_id":"run-{run}""#));
        let body = format!(r#"{{"workflow":"{workflow}","step":"{step}"{run}}}"#);
        request.clear();
        write!(
            request,
            "POST {} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             retro-tenant: {tenant}\r\nauthorization: Bearer {token}\r\ncontent-length: {}\r\n\r\n{body}",
            route.path(),
            body.len()
        )
        .expect("a vector takes every byte");
    }
}

/// Waits until a server says that it is ready.
pub(crate) async fn wait_until_ready(address: &str) -> Result<()> {
    let began = Instant::now();
    let request = b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    while began.elapsed() < READY_TIMEOUT {
        if let Ok(mut connection) = Connection::open(address).await
            && connection.ask(request).await.is_ok()
        {
            return Ok(());
        }
        tokio::time::sleep(READY_INTERVAL).await;
    }
    bail!("{address} did not become ready")
}

/// An open connection and what has arrived on it.
struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Connection {
    async fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, received: Vec::new() })
    }

    /// Sends a request and returns the body of the answer. Fails unless the status is 200.
    async fn ask(&mut self, request: &[u8]) -> Result<&[u8]> {
        self.stream.write_all(request).await?;
        self.received.clear();
        let head = loop {
            if let Some(head) = self.received.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break head + 4;
            }
            self.receive().await?;
        };
        let text = std::str::from_utf8(&self.received[..head])?;
        ensure!(text.starts_with("HTTP/1.1 200"), "answered {text}");
        let length = text.split("\r\n").find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>())
        });
        let length = length.context("an answer without a length")??;
        while self.received.len() < head + length {
            self.receive().await?;
        }
        Ok(&self.received[head..head + length])
    }

    async fn receive(&mut self) -> Result<()> {
        ensure!(self.stream.read_buf(&mut self.received).await? > 0, "the server closed the connection");
        Ok(())
    }
}
