//! Runs long computations off the async runtime's threads. The runtime has one thread per core: while each of
//! them parses a large body, nobody reads from the broker, extends a lease or answers a request.

use std::future::pending;
use std::panic::resume_unwind;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// Runs `work` on a blocking thread, so the caller's other futures, such as the lease heartbeat, keep making
/// progress. Propagates a panic of `work`. Dropping the future does not cancel `work`, so `work` must own
/// whatever has to live until it ends.
pub async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
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

/// Runs `work` on this thread, while another one takes over the runtime's other tasks. The caller's own other
/// futures wait, so a watch of the caller also covers `work`. A runtime of a single thread, as in tests, has no
/// other thread and waits for `work` too.
pub fn run_in_place<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => block_in_place(work),
        _ => work(),
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

    #[test]
    fn other_tasks_run_while_work_computes_in_place() {
        // One worker: a computation that kept it would block the sender forever.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (sender, receiver) = mpsc::channel();
        let computing = runtime.spawn(async move { run_in_place(|| receiver.recv()) });
        runtime.spawn(async move { sender.send(7).unwrap() });
        assert_eq!(runtime.block_on(computing).unwrap(), Ok(7));
    }

    #[tokio::test]
    async fn a_runtime_of_one_thread_computes_in_place_too() {
        assert_eq!(run_in_place(|| 7), 7);
    }
}
