//! Contains panics, so that one piece of work does not end the loop that runs it.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;

/// Error of work that panicked. The panic's text may quote processed data, so it stays in the process's own log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Panicked;

impl std::fmt::Display for Panicked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it panicked; the process's log has the place")
    }
}

/// Runs work and turns a panic into an error. Values owned by the work are dropped, so its open transaction is
/// rolled back.
pub async fn catch_panic<T>(work: impl Future<Output = T>) -> Result<T, Panicked> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|_| Panicked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_does_not_reach_the_caller() {
        let panics = async { panic!("meant by the test") };
        assert_eq!(catch_panic::<()>(panics).now_or_never().unwrap(), Err(Panicked));
        assert_eq!(catch_panic(async { 7 }).now_or_never().unwrap(), Ok(7));
    }
}
