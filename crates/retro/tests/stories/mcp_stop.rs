//! Stops the program while agents that speak the Model Context Protocol are in the middle of a request.

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::world::World;

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Sends a request up to the middle of its body, and returns when the program waits for the rest. Returns the connection
/// and the rest.
async fn begin_request(address: &str) -> (TcpStream, Vec<u8>) {
    let arguments = json!({"workflow": "release", "step": "deploy"});
    let message = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
        "params": {"name": "memory_list", "arguments": arguments}});
    let message = message.to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: 2025-11-25\r\n\
         expect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        message.len()
    );
    let mut stream = TcpStream::connect(address).await.expect("the program listens");
    stream.write_all(head.as_bytes()).await.expect("the connection is open");
    let mut said = [0; CONTINUE.len()];
    stream.read_exact(&mut said).await.expect("the program asks for the body");
    assert_eq!(said, CONTINUE);
    let (begin, rest) = message.split_at(message.len() / 2);
    stream.write_all(begin.as_bytes()).await.expect("the connection is open");
    (stream, rest.as_bytes().to_vec())
}

/// Reads until the program closes the connection.
async fn read_to_end(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    // A connection that is reset is closed, too.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_request_that_is_under_way_when_the_program_stops_is_answered_and_none_is_waited_for_without_end() {
    let mut world = World::start().await;
    let address = world.http_url().trim_start_matches("http://").to_owned();
    let (mut answered, rest) = begin_request(&address).await;
    let (silent, _) = begin_request(&address).await;
    let finish = async {
        // It has noticed the signal once it accepts nobody any more.
        while TcpStream::connect(&address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        answered.write_all(&rest).await.expect("the connection is open");
        read_to_end(answered).await
    };
    // Stopping fails unless the program ends by itself, in order and in time.
    let ((), answer, silent) = tokio::join!(world.stop(), finish, read_to_end(silent));
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"memories\":[]"), "{answer}");
    assert!(!silent.starts_with("HTTP/1.1 200"), "{silent}");
}
