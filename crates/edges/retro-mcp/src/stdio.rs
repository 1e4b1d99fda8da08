//! Speaks the protocol over the standard streams of the process.

use retro_http::BODY_BYTES_MAX;
use rmcp::serve_server;
use rmcp::service::ServerInitializeError;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::stdio_pipes;

use crate::server::MemoryServer;

/// Reason why the protocol could not be spoken over the standard streams.
#[derive(Debug, thiserror::Error)]
pub enum ServeStdioError {
    /// The client did not begin as the protocol says, or its streams failed.
    #[error("the client on stdin did not begin as the Model Context Protocol says: {0}")]
    Initialize(#[from] Box<ServerInitializeError>),
    /// The server ended by a panic.
    #[error("serving the Model Context Protocol failed: {0}")]
    Join(#[from] tokio::task::JoinError),
}

/// Serves one client on stdin and stdout until it closes stdin. A line has at most as many bytes as a body over HTTP;
/// longer ones get no answer and are logged.
pub async fn serve_stdio(server: MemoryServer) -> Result<(), ServeStdioError> {
    let (stdin, stdout) = stdio_pipes();
    let transport = AsyncRwTransport::new(stdin, stdout).with_max_line_length(BODY_BYTES_MAX);
    match serve_server(server, transport).await {
        Ok(running) => {
            running.waiting().await?;
            Ok(())
        }
        // A client that looks whether the program starts.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(problem) => Err(ServeStdioError::Initialize(Box::new(problem))),
    }
}
