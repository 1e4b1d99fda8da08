//! Whether an embedder that has failed is asked at all.
//!
//! An address that does not answer costs whoever asks it the whole time of a call, and a decision asks twice. So after some
//! failures in a row it is left alone for a time; then one call finds out, and the time doubles while that fails. A call that is
//! given up in the middle says nothing: since the next time begins with the probe and not with its end, another probe follows.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Failures in a row before it is left alone: one may be chance, and two are one restart seen by two decisions.
pub(crate) const FAILURES_MAX: u32 = 3;
/// How long it is left alone first: what one call may take by default.
pub(crate) const FIRST: Duration = Duration::from_secs(5);
/// How long at most: then a dead address costs a sixtieth of the time, and one that is back is used within five minutes.
pub(crate) const LONGEST: Duration = Duration::from_secs(300);

/// What came of asking so far.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    left_alone: Option<LeftAlone>,
}

#[derive(Debug, Clone, Copy)]
struct LeftAlone {
    until: Instant,
    wait: Duration,
}

/// Whether it may be asked now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Like always.
    Ask,
    /// This once, to find out.
    Probe,
    /// Not for so long.
    Not(Duration),
}

impl Breaker {
    /// Whether it may be asked; of all who come after a wait, one may.
    pub(crate) fn turn(&self, now: Instant) -> Turn {
        let mut state = self.state();
        let Some(left_alone) = &mut state.left_alone else { return Turn::Ask };
        let left = left_alone.until.saturating_duration_since(now);
        if !left.is_zero() {
            return Turn::Not(left);
        }
        left_alone.until = now + left_alone.wait;
        Turn::Probe
    }

    /// It answered. Returns whether it had been left alone.
    pub(crate) fn answered(&self) -> bool {
        std::mem::take(&mut *self.state()).left_alone.is_some()
    }

    /// It failed whoever had this turn. Returns for how long it is left alone because of that; `None`: it is asked on, or another
    /// had said so before.
    pub(crate) fn failed(&self, turn: Turn, now: Instant) -> Option<Duration> {
        let mut state = self.state();
        state.failures = state.failures.saturating_add(1);
        let wait = match (turn, state.left_alone) {
            (Turn::Ask, None) if state.failures >= FAILURES_MAX => FIRST,
            (Turn::Probe, Some(left_alone)) => (left_alone.wait * 2).min(LONGEST),
            _ => return None,
        };
        state.left_alone = Some(LeftAlone { until: now + wait, wait });
        Some(wait)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left_alone(now: Instant) -> Breaker {
        let breaker = Breaker::default();
        let told: Vec<_> = (0..FAILURES_MAX).map(|_| breaker.failed(breaker.turn(now), now)).collect();
        assert_eq!(told, [None, None, Some(FIRST)], "once, when it is enough");
        breaker
    }

    #[test]
    fn only_failures_in_a_row_count() {
        let (breaker, now) = (Breaker::default(), Instant::now());
        for _ in 0..10 {
            for _ in 1..FAILURES_MAX {
                assert_eq!(breaker.failed(breaker.turn(now), now), None);
            }
            assert!(!breaker.answered());
        }
        assert_eq!(breaker.turn(now), Turn::Ask);
    }

    #[test]
    fn the_wait_doubles_up_to_a_bound_and_begins_anew_after_an_answer() {
        let mut now = Instant::now();
        let breaker = left_alone(now);
        let mut wait = FIRST;
        let mut waits = Vec::new();
        for _ in 0..8 {
            assert_eq!(breaker.turn(now), Turn::Not(wait));
            now += wait;
            assert_eq!(breaker.turn(now), Turn::Probe);
            wait = breaker.failed(Turn::Probe, now).unwrap();
            waits.push(wait.as_secs());
        }
        assert_eq!(waits, [10, 20, 40, 80, 160, 300, 300, 300]);
        assert!(breaker.answered());
        assert_eq!(breaker.turn(now), Turn::Ask);
        let told: Vec<_> = (0..FAILURES_MAX).map(|_| breaker.failed(Turn::Ask, now)).collect();
        assert_eq!(told, [None, None, Some(FIRST)]);
    }

    #[test]
    fn of_all_who_come_one_probes_and_one_that_is_given_up_blocks_nobody_for_ever() {
        let now = Instant::now();
        let breaker = left_alone(now);
        let later = now + FIRST;
        assert_eq!(breaker.turn(later), Turn::Probe);
        assert_eq!(breaker.turn(later), Turn::Not(FIRST));
        assert_eq!(breaker.turn(later + FIRST), Turn::Probe, "nobody said what came of the first");
    }

    #[test]
    fn calls_that_were_under_way_when_it_was_left_alone_do_not_make_it_longer() {
        let now = Instant::now();
        let breaker = left_alone(now);
        assert_eq!(breaker.failed(Turn::Ask, now), None);
        assert_eq!(breaker.turn(now + FIRST), Turn::Probe);
    }
}
