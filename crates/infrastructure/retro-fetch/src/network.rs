//! Network operations that fetching needs, as a port that tests replace.

use std::io;
use std::net::SocketAddr;

use async_trait::async_trait;
use tokio::net::TcpStream;

/// Resolves host names and opens connections.
#[async_trait]
pub trait Network: Send + Sync + 'static {
    /// Resolves the addresses of a host, in the order in which to try them.
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;

    /// Connects to exactly this address, without another resolution.
    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream>;
}

/// Network of the operating system.
#[derive(Debug, Clone, Copy)]
pub struct SystemNetwork;

#[async_trait]
impl Network for SystemNetwork {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host((host, port)).await?.collect())
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        TcpStream::connect(address).await
    }
}
