//! Runs blocking computations off the async runtime's threads.

use std::future::pending;
use std::panic::resume_unwind;

/// Runs `work` on a blocking thread, so the caller's other futures, such as the lease heartbeat, keep making
/// progress. Propagates a panic of `work`. Dropping the future does not cancel `work`, so `work` must own
/// whatever has to live until it ends.
pub(crate) async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(stopped) => match stopped.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime is shutting down and never started the task, so it will not poll the caller again
            // either.
            Err(_) => pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn other_futures_run_while_work_computes() {
        let (sender, receiver) = mpsc::channel();
        let computing = run_blocking(move || receiver.recv());
        // The test has one thread: a computation on that thread would block the sender forever.
        let (received, ()) = tokio::join!(computing, async { sender.send(7).unwrap() });
        assert_eq!(received, Ok(7));
    }
}
