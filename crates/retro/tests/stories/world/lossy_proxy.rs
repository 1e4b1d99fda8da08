//! A TCP proxy to the broker that drops one kind of message and forwards all others. Neither side gets an
//! error.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::wire::parse_host;

/// Kind of message that the proxy drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DropKind {
    /// Acknowledgements of consumers, on their way to the broker.
    Acks,
    /// The broker's confirmations of stored messages, on their way to the publisher.
    PubAcks,
}

/// A proxy that can drop messages on demand.
pub(crate) struct LossyProxy {
    url: String,
    state: Arc<LossState>,
    task: JoinHandle<()>,
}

struct LossState {
    loses: DropKind,
    cut: AtomicBool,
    lost: AtomicU64,
}

impl LossyProxy {
    /// Starts a proxy to a broker, which drops nothing yet.
    pub(crate) async fn start(url: &str, loses: DropKind) -> Self {
        let target = parse_host(url).to_owned();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let url = url.replace(&target, &listener.local_addr().expect("a bound port").to_string());
        let state = Arc::new(LossState { loses, cut: AtomicBool::new(false), lost: AtomicU64::new(0) });
        let shared = state.clone();
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let Ok(far) = TcpStream::connect(&target).await else { continue };
                let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
                tokio::spawn(forward_messages(near_in, far_out, shared.clone()));
                tokio::spawn(forward_messages(far_in, near_out, shared.clone()));
            }
        });
        Self { url, state, task }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn start_dropping(&self) {
        self.state.cut.store(true, Ordering::SeqCst);
    }

    pub(crate) fn stop_dropping(&self) {
        self.state.cut.store(false, Ordering::SeqCst);
    }

    /// Returns the number of dropped messages.
    pub(crate) fn dropped_messages(&self) -> u64 {
        self.state.lost.load(Ordering::SeqCst)
    }
}

impl Drop for LossyProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl LossState {
    /// Returns `true` if a message must be dropped, judging by its control line and payload, and counts it.
    fn should_drop(&self, control: &str, payload: &[u8]) -> bool {
        let matches = match self.loses {
            DropKind::Acks => control.starts_with("PUB $JS.ACK.") && payload.starts_with(b"+ACK"),
            // A confirmation begins with the stream; other responses of the API begin with their type.
            DropKind::PubAcks => control.starts_with("MSG ") && payload.starts_with(b"{\"stream\":"),
        };
        let lost = matches && self.cut.load(Ordering::SeqCst);
        if lost {
            self.lost.fetch_add(1, Ordering::SeqCst);
        }
        lost
    }
}

/// Forwards one direction, message by message.
async fn forward_messages(from: OwnedReadHalf, mut to: OwnedWriteHalf, state: Arc<LossState>) {
    let mut from = BufReader::new(from);
    loop {
        let mut control = Vec::new();
        if !matches!(from.read_until(b'\n', &mut control).await, Ok(1..)) {
            return;
        }
        let line = String::from_utf8_lossy(&control).into_owned();
        let mut words = line.split_whitespace();
        let carries = matches!(words.next(), Some("PUB" | "HPUB" | "MSG" | "HMSG"));
        let size = words.last().filter(|_| carries).and_then(|word| word.parse::<usize>().ok());
        let mut payload = vec![0; size.map_or(0, |size| size + 2)];
        if from.read_exact(&mut payload).await.is_err() {
            return;
        }
        if state.should_drop(&line, &payload) {
            continue;
        }
        if to.write_all(&control).await.is_err() || to.write_all(&payload).await.is_err() {
            return;
        }
    }
}
