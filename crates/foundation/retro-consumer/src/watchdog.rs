//! Ends the process when one piece of work hangs, so that it cannot block all others.
//!
//! A task that is cancelled stops at its next `.await`. A task that computes without end never reaches one and
//! holds a thread of the runtime for good; with as many of them as there are threads, the process no longer
//! responds. Work of bounded time is therefore watched by a system thread, because all threads of the runtime
//! may be stuck. Work that exceeds its time and a grace period ends the process. The supervisor restarts it,
//! and the attempt has been counted already.
//!
//! The watchdog does not stop the work itself (only its owner can), count attempts, or decide how a process
//! ends.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Extra time for overdue work to end. A cancelled task stops at its next `.await`, within milliseconds unless
/// the machine is overloaded.
pub const GRACE: Duration = Duration::from_secs(3);
/// Interval between two checks. Time is counted in ticks, so time in which the process is suspended does not
/// count.
const TICK: Duration = Duration::from_millis(250);

/// Watches work and ends the process if some work hangs. Clones share one thread; the default value watches
/// nothing.
#[derive(Debug, Clone, Default)]
pub struct Watchdog(Option<Arc<WatchdogThread>>);

#[derive(Debug)]
struct WatchdogThread {
    work: Arc<Mutex<WatchTable>>,
    /// Channel to the thread, which ends when this sender is dropped.
    _alive: Sender<()>,
}

#[derive(Debug, Default)]
struct WatchTable {
    now: u64,
    next: u64,
    open: BTreeMap<u64, WatchedWork>,
}

#[derive(Debug)]
struct WatchedWork {
    what: String,
    /// Tick after which the work is overdue.
    deadline: u64,
}

/// Handle for work in progress. The work ends when this handle and all of its clones are dropped.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    _open: Option<Arc<OpenWork>>,
}

#[derive(Debug)]
struct OpenWork {
    number: u64,
    work: Arc<Mutex<WatchTable>>,
}

impl Drop for OpenWork {
    fn drop(&mut self) {
        lock_table(&self.work).open.remove(&self.number);
    }
}

impl Watchdog {
    /// Starts the thread, which calls `end` once, with a sentence, if some work exceeds its time by more than
    /// [`GRACE`]. Fails if the system cannot start a thread.
    pub fn start(end: impl FnOnce(&str) + Send + 'static) -> std::io::Result<Self> {
        let work = Arc::<Mutex<WatchTable>>::default();
        let (alive, gone) = mpsc::channel();
        let watched = Arc::clone(&work);
        let thread = std::thread::Builder::new().name("watchdog".to_owned());
        thread.spawn(move || {
            if let Some(overdue) = wait_for_overdue(&watched, &gone) {
                end(&overdue);
            }
        })?;
        Ok(Self(Some(Arc::new(WatchdogThread { work, _alive: alive }))))
    }

    /// Starts watching the work described by `what`, which must end within the given time.
    pub fn watch(&self, what: impl Into<String>, within: Duration) -> Watch {
        let Some(watched) = &self.0 else { return Watch::default() };
        let mut table = lock_table(&watched.work);
        let (number, deadline) = (table.next, table.now + to_ticks(within));
        table.next += 1;
        table.open.insert(number, WatchedWork { what: what.into(), deadline });
        // Unlock first: the entry locks the table when it is dropped.
        drop(table);
        Watch { _open: Some(Arc::new(OpenWork { number, work: Arc::clone(&watched.work) })) }
    }

    /// Describes work that has exceeded its time; `None` if there is none.
    pub fn overdue(&self) -> Option<String> {
        let table = lock_table(&self.0.as_ref()?.work);
        table.overdue_by(0)
    }
}

impl WatchTable {
    /// Describes work that has exceeded its time by more than this many ticks; `None` if there is none.
    fn overdue_by(&self, ticks: u64) -> Option<String> {
        let over = self.open.values().find(|work| work.deadline + ticks < self.now)?;
        Some(format!("{} does not end", over.what))
    }
}

/// Waits until some work is overdue, and describes it. Returns `None` if the watchdog is dropped.
fn wait_for_overdue(work: &Mutex<WatchTable>, gone: &Receiver<()>) -> Option<String> {
    loop {
        if gone.recv_timeout(TICK) != Err(RecvTimeoutError::Timeout) {
            return None;
        }
        let mut table = lock_table(work);
        table.now += 1;
        if let Some(overdue) = table.overdue_by(to_ticks(GRACE)) {
            return Some(overdue);
        }
    }
}

fn to_ticks(time: Duration) -> u64 {
    // A quarter of the range keeps `now + ticks` from overflowing.
    u64::try_from(time.as_millis() / TICK.as_millis()).unwrap_or(u64::MAX / 4).min(u64::MAX / 4)
}

/// Locks the table, even if the lock is poisoned, because the watchdog must continue.
fn lock_table(work: &Mutex<WatchTable>) -> MutexGuard<'_, WatchTable> {
    work.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Timeout longer than any machine needs, so that a hanging test fails.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn watchdog() -> (Watchdog, Receiver<String>) {
        let (ended, received) = mpsc::channel();
        let watchdog =
            Watchdog::start(move |overdue| ended.send(overdue.to_owned()).expect("the test receives"));
        (watchdog.unwrap(), received)
    }

    #[test]
    fn only_work_that_hangs_is_reported_by_name() {
        let (watchdog, received) = watchdog();
        drop(watchdog.watch("what ends", Duration::ZERO));
        let hangs = watchdog.watch("what hangs", Duration::ZERO);
        let of_a_thread = hangs.clone();
        drop(hangs);
        assert_eq!(received.recv_timeout(PATIENCE).unwrap(), "what hangs does not end");
        assert_eq!(watchdog.overdue().as_deref(), Some("what hangs does not end"));
        drop(of_a_thread);
        assert_eq!(watchdog.overdue(), None);
    }

    #[test]
    fn within_its_time_nothing_is_overdue() {
        // Created without the thread, which would keep counting while this test runs.
        let (alive, _gone) = mpsc::channel();
        let watchdog = Watchdog(Some(Arc::new(WatchdogThread { work: Arc::default(), _alive: alive })));
        let _watch = watchdog.watch("slow work", Duration::from_secs(3600));
        let table = Arc::clone(&watchdog.0.as_ref().unwrap().work);
        lock_table(&table).now += to_ticks(Duration::from_secs(3600));
        assert_eq!(watchdog.overdue(), None);
        lock_table(&table).now += 1;
        assert_eq!(watchdog.overdue().as_deref(), Some("slow work does not end"));
    }

    #[test]
    fn the_thread_ends_with_the_last_handle_and_reports_nothing() {
        let (watchdog, received) = watchdog();
        drop(watchdog);
        assert_eq!(received.recv_timeout(PATIENCE), Err(RecvTimeoutError::Disconnected));
    }

    #[test]
    fn the_default_one_watches_nothing() {
        let watchdog = Watchdog::default();
        let _watch = watchdog.watch("anything", Duration::ZERO);
        assert_eq!(watchdog.overdue(), None);
    }
}
