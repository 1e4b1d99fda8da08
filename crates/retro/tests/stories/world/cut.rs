//! A line to the broker on which one kind of message is lost, and all else goes through. Nobody is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::wire::host;

/// What is lost while the line is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loses {
    /// What consumers acknowledge, on its way to the broker.
    Acks,
    /// What the broker says of a publication that it has stored, on its way back.
    PubAcks,
}

/// A line that can be cut and mended.
pub(crate) struct Cut {
    url: String,
    state: Arc<State>,
    task: JoinHandle<()>,
}

struct State {
    loses: Loses,
    cut: AtomicBool,
    lost: AtomicU64,
}

impl Cut {
    /// A whole line to a broker.
    pub(crate) async fn to(url: &str, loses: Loses) -> Self {
        let target = host(url).to_owned();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let url = url.replace(&target, &listener.local_addr().expect("a bound port").to_string());
        let state = Arc::new(State { loses, cut: AtomicBool::new(false), lost: AtomicU64::new(0) });
        let shared = state.clone();
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let Ok(far) = TcpStream::connect(&target).await else { continue };
                let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
                tokio::spawn(pass(near_in, far_out, shared.clone()));
                tokio::spawn(pass(far_in, near_out, shared.clone()));
            }
        });
        Self { url, state, task }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn cut(&self) {
        self.state.cut.store(true, Ordering::SeqCst);
    }

    pub(crate) fn mend(&self) {
        self.state.cut.store(false, Ordering::SeqCst);
    }

    /// How many messages were lost.
    pub(crate) fn lost(&self) -> u64 {
        self.state.lost.load(Ordering::SeqCst)
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl State {
    /// Whether a message is lost: its control line, and what it carries.
    fn loses(&self, control: &str, payload: &[u8]) -> bool {
        let matches = match self.loses {
            Loses::Acks => control.starts_with("PUB $JS.ACK.") && payload.starts_with(b"+ACK"),
            // An answer of the API begins with its type.
            Loses::PubAcks => control.starts_with("MSG ") && payload.starts_with(b"{\"stream\":"),
        };
        let lost = matches && self.cut.load(Ordering::SeqCst);
        if lost {
            self.lost.fetch_add(1, Ordering::SeqCst);
        }
        lost
    }
}

/// Passes on one direction, message by message.
async fn pass(from: OwnedReadHalf, mut to: OwnedWriteHalf, state: Arc<State>) {
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
        if state.loses(&line, &payload) {
            continue;
        }
        if to.write_all(&control).await.is_err() || to.write_all(&payload).await.is_err() {
            return;
        }
    }
}
