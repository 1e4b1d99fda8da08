//! Ports for the servers of tests.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

const FIRST: u32 = 10_000;
const PORTS: u32 = 20_000;

/// A port that nobody listens on at this moment, and that is this process's to its end. It lies below those that the system
/// hands out by itself, and no other process of tests is given it: so nobody takes it before it is used, nor while a
/// server is away that starts again on it.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let begin = std::process::id().wrapping_mul(37);
    let ports = std::iter::repeat_with(|| begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % PORTS);
    let mut ports = ports.take(PORTS as usize).map(|port| u16::try_from(FIRST + port).expect("a port"));
    ports.find(|port| is_ours(*port) && is_free(*port)).expect("a free port")
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

/// Whether no other process of tests has it, and from now on none may: a name that the kernel gives once, and takes back when
/// this process is gone.
fn is_ours(port: u16) -> bool {
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
    fn a_port_that_was_given_is_not_given_again_though_nobody_listens_on_it() {
        let ports: Vec<_> = (0..50).map(|_| free_port()).collect();
        assert!(ports.iter().all(|port| !is_ours(*port)), "{ports:?}");
        let different: std::collections::HashSet<_> = ports.iter().collect();
        assert_eq!(different.len(), ports.len());
    }
}
