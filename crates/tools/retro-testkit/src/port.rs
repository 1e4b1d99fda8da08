//! Reserves free ports for test servers.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

const FIRST: u32 = 10_000;
const PORTS: u32 = 20_000;

/// Returns a port without a listener that stays reserved for this process until it exits.
///
/// The port is below the kernel's ephemeral range and is given to no other test process, so no other process
/// can take it before the server starts or while it restarts.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Processes begin at different ports, so concurrent tests seldom try a port that is already reserved.
    let begin = std::process::id().wrapping_mul(37);
    let ports = std::iter::repeat_with(|| begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % PORTS);
    let mut ports = ports.take(PORTS as usize).map(|port| u16::try_from(FIRST + port).expect("a port"));
    // Reserved before the check, because a port that is only checked could be taken by another test in
    // between.
    ports.find(|port| reserve_port(*port) && is_free(*port)).expect("a free port")
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

/// Reserves the port among all test processes. Returns `false` if another process has reserved it.
///
/// Binds an abstract Unix socket name: the kernel grants a name to one process at a time and releases it when
/// the process exits.
fn reserve_port(port: u16) -> bool {
    static HELD: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());
    let name = SocketAddr::from_abstract_name(format!("retrospect-tests-port-{port}")).expect("a short name");
    let Ok(held) = UnixListener::bind_addr(&name) else { return false };
    HELD.lock().unwrap_or_else(PoisonError::into_inner).push(held);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_returned_port_is_not_returned_again() {
        let ports: Vec<_> = (0..50).map(|_| free_port()).collect();
        assert!(ports.iter().all(|port| !reserve_port(*port)), "{ports:?}");
        let different: std::collections::HashSet<_> = ports.iter().collect();
        assert_eq!(different.len(), ports.len());
    }
}
