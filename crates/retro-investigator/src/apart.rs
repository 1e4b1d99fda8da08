//! Computing beside what waits.

use std::future::pending;
use std::panic::resume_unwind;

/// Computes on a thread of its own, so that whoever waits for it goes on with the rest: a lease is held meanwhile. Panics as
/// `work` does. Goes on when it is dropped; `work` holds what has to outlive that.
pub(crate) async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(stopped) => match stopped.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // It never began, since the runtime ends: so does whoever waits.
            Err(_) => pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn others_go_on_while_something_is_computed() {
        let (tell, told) = mpsc::channel();
        let computing = apart(move || told.recv());
        // On one thread: were it computed there, nobody could tell it anything.
        let (heard, ()) = tokio::join!(computing, async { tell.send(7).unwrap() });
        assert_eq!(heard, Ok(7));
    }
}
