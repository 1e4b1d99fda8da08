//! The two things that fetching asks of the network, so that a test can answer them.

use std::io;
use std::net::SocketAddr;

use async_trait::async_trait;
use tokio::net::TcpStream;

/// Names to addresses, addresses to connections.
#[async_trait]
pub trait Network: Send + Sync + 'static {
    /// The addresses of a host's port, in the order in which they are to be tried.
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;

    /// A connection to exactly this address.
    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream>;
}

/// The network of the machine.
#[derive(Debug, Clone, Copy)]
pub struct MachineNetwork;

#[async_trait]
impl Network for MachineNetwork {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host((host, port)).await?.collect())
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        TcpStream::connect(address).await
    }
}
