//! Tests that [`TestPostgres`](retro_testkit::TestPostgres) runs a real server that ends with the test.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use nix::sys::signal::kill;
use nix::unistd::Pid;
use retro_testkit::TestPostgres;

#[tokio::test]
async fn a_test_server_answers_stops_and_restarts() {
    let mut postgres = TestPostgres::start().await;
    let address: SocketAddr = parse_address(&postgres.url());
    assert_eq!(request_tls(address).expect("the server listens"), b'N');
    let first = postgres.pid().expect("the server is running");
    postgres.stop();
    assert!(request_tls(address).is_err(), "a stopped server accepts no connection");
    postgres.start_again().await;
    assert_eq!(request_tls(address).expect("the server listens on the same port"), b'N');
    let second = postgres.pid().expect("the server is running");
    assert_ne!(first, second);
    drop(postgres);
    let process = Pid::from_raw(i32::try_from(second).unwrap());
    assert!(kill(process, None).is_err(), "the server ends with its test");
}

fn parse_address(url: &str) -> SocketAddr {
    url.split(['@', '/']).nth(3).and_then(|address| address.parse().ok()).expect("user@address")
}

/// Sends an `SSLRequest`, to which a server without TLS responds with the single byte `N`.
fn request_tls(address: SocketAddr) -> std::io::Result<u8> {
    const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(&SSL_REQUEST)?;
    let mut answer = [0];
    stream.read_exact(&mut answer)?;
    Ok(answer[0])
}
