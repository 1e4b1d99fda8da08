//! Circuit breaker in front of an endpoint.
//!
//! A call to an endpoint that does not respond takes the whole timeout. After
//! some consecutive failures, the circuit therefore opens, and no calls are made for a time. Then one probe
//! is allowed, and the wait doubles while probes fail. A cancelled probe reports nothing. Another probe still
//! follows, because the next wait starts when a probe is allowed, not when it ends.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Number of consecutive failures that open the circuit. One failure may be a coincidence, and two may come
/// from one restart that affected two decisions.
const FAILURES_MAX: u32 = 3;
/// Wait before the first probe of an open circuit, equal to the default timeout of one call.
const FIRST_WAIT: Duration = Duration::from_secs(5);
/// Maximum wait before a probe. Calls to a dead endpoint then take at most a sixtieth of the time, and an
/// endpoint that recovers is used within five minutes.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// Circuit breaker of one endpoint, shared by all its callers.
#[derive(Debug)]
pub struct CircuitBreaker {
    failures_max: u32,
    state: Mutex<State>,
}

impl Default for CircuitBreaker {
    fn default() -> Self {
        Self::opening_after(FAILURES_MAX)
    }
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    open: Option<OpenCircuit>,
}

#[derive(Debug, Clone, Copy)]
struct OpenCircuit {
    until: Instant,
    wait: Duration,
}

/// Permission to make one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallPermission {
    /// The circuit is closed, so calls are allowed.
    Allowed,
    /// The circuit is half-open, and this one call is allowed as a probe.
    Probe,
    /// The circuit is open, and no call is allowed for the given time.
    Denied(Duration),
}

impl CircuitBreaker {
    /// Creates a circuit breaker that opens after this many consecutive failures.
    pub fn opening_after(failures_max: u32) -> Self {
        Self { failures_max, state: Mutex::default() }
    }

    /// Returns the permission for a call at `now`. When a wait is over, exactly one caller gets a probe.
    pub fn request_permission(&self, now: Instant) -> CallPermission {
        let mut state = self.lock_state();
        let Some(circuit) = &mut state.open else { return CallPermission::Allowed };
        let remaining = circuit.until.saturating_duration_since(now);
        if !remaining.is_zero() {
            return CallPermission::Denied(remaining);
        }
        // Set before the probe reports back, so a cancelled probe cannot keep the circuit open forever.
        circuit.until = now + circuit.wait;
        CallPermission::Probe
    }

    /// Records a successful call and closes the circuit. Returns `true` if the circuit was open.
    pub fn record_success(&self) -> bool {
        std::mem::take(&mut *self.lock_state()).open.is_some()
    }

    /// Records the failure of a call that had this permission. Returns the wait if the failure opened the
    /// circuit or kept it open, and `None` if calls are still allowed or an earlier failure opened the
    /// circuit.
    pub fn record_failure(&self, turn: CallPermission, now: Instant) -> Option<Duration> {
        let mut state = self.lock_state();
        state.failures = state.failures.saturating_add(1);
        let wait = match (turn, state.open) {
            (CallPermission::Allowed, None) if state.failures >= self.failures_max => FIRST_WAIT,
            (CallPermission::Probe, Some(circuit)) => (circuit.wait * 2).min(LONGEST_WAIT),
            // Calls in flight when the circuit opened change nothing, or each of them would extend the wait.
            _ => return None,
        };
        state.open = Some(OpenCircuit { until: now + wait, wait });
        Some(wait)
    }

    /// Keeps an open circuit open for at least `wait` from `now`, because the endpoint asked for it.
    pub fn keep_open(&self, now: Instant, wait: Duration) {
        if let Some(circuit) = &mut self.lock_state().open {
            circuit.until = circuit.until.max(now + wait);
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened_circuit(now: Instant) -> CircuitBreaker {
        let breaker = CircuitBreaker::default();
        let pauses: Vec<_> =
            (0..FAILURES_MAX).map(|_| breaker.record_failure(breaker.request_permission(now), now)).collect();
        assert_eq!(pauses, [None, None, Some(FIRST_WAIT)], "only the last failure opens the circuit");
        breaker
    }

    #[test]
    fn only_failures_in_a_row_count() {
        let (breaker, now) = (CircuitBreaker::default(), Instant::now());
        for _ in 0..10 {
            for _ in 1..FAILURES_MAX {
                assert_eq!(breaker.record_failure(breaker.request_permission(now), now), None);
            }
            assert!(!breaker.record_success());
        }
        assert_eq!(breaker.request_permission(now), CallPermission::Allowed);
    }

    #[test]
    fn the_wait_doubles_up_to_a_bound_and_restarts_after_an_answer() {
        let mut now = Instant::now();
        let breaker = opened_circuit(now);
        let mut wait = FIRST_WAIT;
        let mut waits = Vec::new();
        for _ in 0..8 {
            assert_eq!(breaker.request_permission(now), CallPermission::Denied(wait));
            now += wait;
            assert_eq!(breaker.request_permission(now), CallPermission::Probe);
            wait = breaker.record_failure(CallPermission::Probe, now).unwrap();
            waits.push(wait.as_secs());
        }
        assert_eq!(waits, [10, 20, 40, 80, 160, 300, 300, 300]);
        assert!(breaker.record_success());
        assert_eq!(breaker.request_permission(now), CallPermission::Allowed);
        let pauses: Vec<_> =
            (0..FAILURES_MAX).map(|_| breaker.record_failure(CallPermission::Allowed, now)).collect();
        assert_eq!(pauses, [None, None, Some(FIRST_WAIT)]);
    }

    #[test]
    fn one_caller_probes_and_a_cancelled_probe_is_replaced() {
        let now = Instant::now();
        let breaker = opened_circuit(now);
        let later = now + FIRST_WAIT;
        assert_eq!(breaker.request_permission(later), CallPermission::Probe);
        assert_eq!(breaker.request_permission(later), CallPermission::Denied(FIRST_WAIT));
        assert_eq!(
            breaker.request_permission(later + FIRST_WAIT),
            CallPermission::Probe,
            "the first probe never reported a result"
        );
    }

    #[test]
    fn calls_in_flight_when_the_circuit_opens_do_not_extend_the_wait() {
        let now = Instant::now();
        let breaker = opened_circuit(now);
        assert_eq!(breaker.record_failure(CallPermission::Allowed, now), None);
        assert_eq!(breaker.request_permission(now + FIRST_WAIT), CallPermission::Probe);
    }
}
