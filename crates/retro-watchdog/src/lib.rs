#![doc = include_str!("../README.md")]

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;

/// How long work may take to end after its time: what was told to end does so at its next `.await`, which is a matter of
/// milliseconds unless the machine is starved.
pub const GRACE: Duration = Duration::from_secs(3);
/// How often the thread looks. Time is counted in these: a process that was stopped and goes on has lost none of it.
const TICK: Duration = Duration::from_millis(250);

/// Watches work and ends the process over what hangs. Clones are the same; the default one watches nothing.
#[derive(Debug, Clone, Default)]
pub struct Watchdog(Option<Arc<Watched>>);

#[derive(Debug)]
struct Watched {
    work: Arc<Mutex<Works>>,
    /// The thread ends when this is dropped.
    _alive: Sender<()>,
}

#[derive(Debug, Default)]
struct Works {
    now: u64,
    next: u64,
    open: BTreeMap<u64, Work>,
}

#[derive(Debug)]
struct Work {
    what: String,
    /// The tick at which its time is over.
    over: u64,
}

/// Work that is going on, until this and every clone of it are dropped.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    _open: Option<Arc<Open>>,
}

#[derive(Debug)]
struct Open {
    number: u64,
    work: Arc<Mutex<Works>>,
}

impl Drop for Open {
    fn drop(&mut self) {
        locked(&self.work).open.remove(&self.number);
    }
}

impl Watchdog {
    /// Starts the thread. It calls `end` with a sentence, once, when some work is over its time by [`GRACE`]. Fails when
    /// the system gives no thread.
    pub fn start(end: impl FnOnce(&str) + Send + 'static) -> std::io::Result<Self> {
        let work = Arc::<Mutex<Works>>::default();
        let (alive, gone) = mpsc::channel();
        let watched = Arc::clone(&work);
        let thread = std::thread::Builder::new().name("watchdog".to_owned());
        thread.spawn(move || {
            if let Some(overdue) = look(&watched, &gone) {
                end(&overdue);
            }
        })?;
        Ok(Self(Some(Arc::new(Watched { work, _alive: alive }))))
    }

    /// Work begins, which is over within this time.
    pub fn watch(&self, what: impl Into<String>, within: Duration) -> Watch {
        let Some(watched) = &self.0 else { return Watch::default() };
        let mut works = locked(&watched.work);
        let (number, over) = (works.next, works.now + ticks(within));
        works.next += 1;
        works.open.insert(number, Work { what: what.into(), over });
        drop(works);
        Watch { _open: Some(Arc::new(Open { number, work: Arc::clone(&watched.work) })) }
    }

    /// What is over its time at this moment, in a sentence.
    pub fn overdue(&self) -> Option<String> {
        let works = locked(&self.0.as_ref()?.work);
        works.over_by(0)
    }
}

impl Works {
    /// What is over its time by so many ticks.
    fn over_by(&self, ticks: u64) -> Option<String> {
        let over = self.open.values().find(|work| work.over + ticks < self.now)?;
        Some(format!("{} does not end", over.what))
    }
}

/// Looks until something is overdue; `None` when nobody can begin anything any more.
fn look(work: &Mutex<Works>, gone: &Receiver<()>) -> Option<String> {
    loop {
        if gone.recv_timeout(TICK) != Err(RecvTimeoutError::Timeout) {
            return None;
        }
        let mut works = locked(work);
        works.now += 1;
        if let Some(overdue) = works.over_by(ticks(GRACE)) {
            return Some(overdue);
        }
    }
}

fn ticks(time: Duration) -> u64 {
    u64::try_from(time.as_millis() / TICK.as_millis()).unwrap_or(u64::MAX / 4).min(u64::MAX / 4)
}

/// Nothing panics while it holds the lock; and if it did, a watchdog must go on.
fn locked(work: &Mutex<Works>) -> MutexGuard<'_, Works> {
    work.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The work panicked. The panic's text may quote what was worked on, so it stays in the process's own log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Panicked;

impl std::fmt::Display for Panicked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it panicked; the process's log has the place")
    }
}

/// Runs work whose panic does not reach the caller. What it had in hand is dropped, a transaction rolled back.
pub async fn caught<T>(work: impl Future<Output = T>) -> Result<T, Panicked> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|_| Panicked)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longer than any machine needs; a test that hangs fails.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn watchdog() -> (Watchdog, Receiver<String>) {
        let (ended, told) = mpsc::channel();
        let watchdog = Watchdog::start(move |overdue| ended.send(overdue.to_owned()).expect("it listens"));
        (watchdog.unwrap(), told)
    }

    #[test]
    fn work_that_does_not_end_is_told_by_name_and_what_ended_is_not() {
        let (watchdog, told) = watchdog();
        drop(watchdog.watch("what ends", Duration::ZERO));
        let hangs = watchdog.watch("what hangs", Duration::ZERO);
        let of_a_thread = hangs.clone();
        drop(hangs);
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), "what hangs does not end");
        assert_eq!(watchdog.overdue().as_deref(), Some("what hangs does not end"));
        drop(of_a_thread);
        assert_eq!(watchdog.overdue(), None);
    }

    #[test]
    fn within_its_time_nothing_is_overdue() {
        // Without its thread, which would count on while this test looks.
        let (alive, _gone) = mpsc::channel();
        let watchdog = Watchdog(Some(Arc::new(Watched { work: Arc::default(), _alive: alive })));
        let _watch = watchdog.watch("slow work", Duration::from_secs(3600));
        let works = Arc::clone(&watchdog.0.as_ref().unwrap().work);
        locked(&works).now += ticks(Duration::from_secs(3600));
        assert_eq!(watchdog.overdue(), None);
        locked(&works).now += 1;
        assert_eq!(watchdog.overdue().as_deref(), Some("slow work does not end"));
    }

    #[test]
    fn the_thread_ends_with_the_last_handle_and_then_tells_nothing() {
        let (watchdog, told) = watchdog();
        drop(watchdog);
        assert_eq!(told.recv_timeout(PATIENCE), Err(RecvTimeoutError::Disconnected));
    }

    #[test]
    fn the_default_one_watches_nothing() {
        let watchdog = Watchdog::default();
        let _watch = watchdog.watch("anything", Duration::ZERO);
        assert_eq!(watchdog.overdue(), None);
    }

    #[test]
    fn a_panic_does_not_reach_the_caller() {
        let panics = async { panic!("meant by the test") };
        assert_eq!(caught::<()>(panics).now_or_never().unwrap(), Err(Panicked));
        assert_eq!(caught(async { 7 }).now_or_never().unwrap(), Ok(7));
    }
}
