//! Ports for the servers of tests.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// A port that nobody listens on at this moment. It lies below those that the system hands out by itself, and each test
/// process begins elsewhere: so nobody takes it before it is used, nor while a server is away that starts again on it.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    const FIRST: u32 = 10_000;
    const PORTS: u32 = 20_000;
    let begin = std::process::id().wrapping_mul(37);
    let mut ports =
        std::iter::repeat_with(|| begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % PORTS);
    let free =
        |port: &u32| TcpListener::bind(("127.0.0.1", u16::try_from(FIRST + port).expect("a port"))).is_ok();
    let port = ports.by_ref().take(PORTS as usize).find(free).expect("a free port");
    u16::try_from(FIRST + port).expect("a port")
}
