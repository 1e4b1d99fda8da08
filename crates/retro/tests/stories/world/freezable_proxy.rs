//! A TCP proxy to the broker or the database that a test can freeze.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Forwards bytes until it is frozen. While it is frozen, nothing passes and neither side gets an error.
pub(crate) struct FreezableProxy {
    url: String,
    frozen: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl FreezableProxy {
    /// Starts a proxy to the host and port of an address.
    pub(crate) async fn start(url: &str) -> Self {
        let host = url.split_once("://").map_or(url, |(_, rest)| rest);
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        let target = host.split('/').next().expect("a part").to_owned();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let near = listener.local_addr().expect("a bound port");
        let url = url.replace(&target, &near.to_string());
        let (frozen, seen) = watch::channel(false);
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let Ok(far) = TcpStream::connect(&target).await else { continue };
                let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
                tokio::spawn(forward_bytes(near_in, far_out, seen.clone()));
                tokio::spawn(forward_bytes(far_in, near_out, seen.clone()));
            }
        });
        Self { url, frozen, task }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn freeze(&self) {
        self.frozen.send_replace(true);
    }

    /// Resumes forwarding.
    pub(crate) fn thaw(&self) {
        self.frozen.send_replace(false);
    }
}

impl Drop for FreezableProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward_bytes(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut frozen: watch::Receiver<bool>) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut bytes).await {
        let flows = frozen.wait_for(|frozen| !frozen).await.is_ok();
        if !flows || to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}
