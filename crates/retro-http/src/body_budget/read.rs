//! Reads the body of a request from its connection, within a budget and at a minimum pace.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use retro_core::id::Tenant;
use tokio::time::{Instant, timeout_at};

use super::{BodyBudget, BodyPermit, BudgetExceeded};
use crate::problem::Problem;

/// Number of bytes that are charged at once, so that not every small chunk takes the lock: about the size of a
/// connection's read buffer.
const CHARGE_STEP_BYTES: u64 = 16 * 1024;
/// Longest time for which the rest of a body is read and dropped after a refusal. A client that finds the connection
/// closed while it is sending never reads the answer.
const DISCARD_TIME_MAX: Duration = Duration::from_secs(1);

/// Limits on the size and the pace of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLimits {
    /// Largest body, in bytes.
    pub bytes_max: usize,
    /// Longest time for the complete body.
    pub time_max: Duration,
    /// Length of the intervals over which the pace is measured.
    pub interval: Duration,
    /// Minimum number of bytes that must arrive in each interval, unless the body ends in it.
    pub interval_bytes_min: usize,
}

impl BodyLimits {
    /// Returns limits for a body of at most `bytes_max` bytes that arrives within `whole` and brings at least
    /// 64 KiB in every 5 s until it ends. That is a hundredth of the rate of the slowest usual line, and more
    /// than a client that trickles bytes ever sends.
    pub const fn new(bytes_max: usize, whole: Duration) -> Self {
        Self { bytes_max, time_max: whole, interval: Duration::from_secs(5), interval_bytes_min: 64 * 1024 }
    }
}

/// A completely received body. Dropping it returns its bytes to the budget.
#[derive(Debug)]
pub struct BufferedBody {
    /// Bytes of the body.
    pub bytes: Bytes,
    /// Permit for the bytes that the body takes from the budget.
    pub permit: BodyPermit,
}

/// A reason why a body was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadBodyError {
    /// The budget has no free bytes for the body.
    #[error(transparent)]
    BudgetExceeded(#[from] BudgetExceeded),
    /// The body is larger than the limit, given in bytes.
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    /// The body did not arrive completely within this time.
    #[error("the body did not arrive within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// Fewer than this many bytes arrived within an interval of this length.
    #[error("fewer than {} KiB of the body arrived within {} s", .0 / 1024, .1.as_secs())]
    TooSlow(usize, Duration),
    /// The connection broke before the body was complete.
    #[error("the body is incomplete: {0}")]
    Incomplete(String),
}

impl From<ReadBodyError> for Problem {
    fn from(error: ReadBodyError) -> Self {
        let detail = error.to_string();
        match error {
            ReadBodyError::BudgetExceeded(_) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "too much at once", detail).with_code("busy")
            }
            ReadBodyError::TooLarge(_) => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large", detail)
            }
            ReadBodyError::TimedOut(_) | ReadBodyError::TooSlow(..) => {
                Self::new(StatusCode::REQUEST_TIMEOUT, "the body took too long", detail)
            }
            ReadBodyError::Incomplete(_) => Self::unreadable_request(detail),
        }
    }
}

impl BodyBudget {
    /// Reads the body of a request from `tenant`, or from an unknown sender if it is `None`, and charges the bytes
    /// as they arrive. After a refusal the rest of the body is read and dropped for up to a second, so that a
    /// client that is still sending reads the answer.
    pub async fn read_request(
        &self,
        tenant: Option<&Tenant>,
        request: Request,
        limits: BodyLimits,
    ) -> Result<BufferedBody, ReadBodyError> {
        let mut permit = self.open_permit(tenant);
        let bytes = read_within(request, limits, |bytes| permit.charge_up_to(bytes)).await?;
        Ok(BufferedBody { bytes, permit })
    }
}

/// Reads the body of a request without a budget. It is for bodies so small that the limit on concurrent requests
/// bounds the memory that they take.
pub(crate) async fn read_body(request: Request, limits: BodyLimits) -> Result<Bytes, ReadBodyError> {
    read_within(request, limits, |_| Ok(())).await
}

/// Reads and drops the rest of a body, for at most a second.
async fn discard_rest(body: Body) {
    let mut chunks = body.into_data_stream();
    let discard = async { while let Some(Ok(_)) = chunks.next().await {} };
    let _ = tokio::time::timeout(DISCARD_TIME_MAX, discard).await;
}

async fn read_within(
    request: Request,
    limits: BodyLimits,
    mut charge: impl FnMut(u64) -> Result<(), BudgetExceeded>,
) -> Result<Bytes, ReadBodyError> {
    // An announced size only serves to refuse early; it is never charged.
    let content_length = request.headers().get(header::CONTENT_LENGTH);
    let content_length = content_length.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let mut body = request.into_body();
    let read = if content_length.is_some_and(|bytes| bytes > limits.bytes_max as u64) {
        Err(ReadBodyError::TooLarge(limits.bytes_max))
    } else {
        read_chunks(&mut body, limits, &mut charge).await
    };
    // A slow or broken connection is not read any further: it would only waste the second.
    if let Err(ReadBodyError::TooLarge(_) | ReadBodyError::BudgetExceeded(_)) = &read {
        discard_rest(body).await;
    }
    read
}

async fn read_chunks(
    body: &mut Body,
    limits: BodyLimits,
    charge: &mut impl FnMut(u64) -> Result<(), BudgetExceeded>,
) -> Result<Bytes, ReadBodyError> {
    let mut limiter = PaceLimiter::start(limits);
    let mut body_bytes = BytesMut::new();
    let mut charged = 0;
    let mut chunks = std::mem::take(body).into_data_stream();
    let ended = loop {
        let chunk = match limiter.next_chunk(chunks.next()).await {
            Ok(None) => return Ok(body_bytes.freeze()),
            Ok(Some(Ok(chunk))) => chunk,
            Ok(Some(Err(error))) => break ReadBodyError::Incomplete(error.to_string()),
            Err(late) => break late,
        };
        let bytes = body_bytes.len() + chunk.len();
        if bytes > limits.bytes_max {
            break ReadBodyError::TooLarge(limits.bytes_max);
        }
        if bytes as u64 > charged {
            charged = (bytes as u64).next_multiple_of(CHARGE_STEP_BYTES);
            if let Err(full) = charge(charged) {
                break full.into();
            }
        }
        body_bytes.extend_from_slice(&chunk);
        limiter.add_bytes(chunk.len());
    };
    *body = Body::from_stream(chunks);
    Err(ended)
}

/// Tracks whether a body stays within its time limits.
struct PaceLimiter {
    limits: BodyLimits,
    deadline: Instant,
    interval_end: Instant,
    /// Bytes that arrived in the current interval.
    interval_bytes: usize,
}

impl PaceLimiter {
    fn start(limits: BodyLimits) -> Self {
        let now = Instant::now();
        Self {
            limits,
            deadline: now + limits.time_max,
            interval_end: now + limits.interval,
            interval_bytes: 0,
        }
    }

    const fn add_bytes(&mut self, bytes: usize) {
        self.interval_bytes += bytes;
    }

    /// Waits for the next chunk. Fails once the body has exceeded its total time or brought too few bytes in an
    /// interval.
    async fn next_chunk<T>(&mut self, chunk: impl Future<Output = T>) -> Result<T, ReadBodyError> {
        let mut chunk = std::pin::pin!(chunk);
        loop {
            // A future that is always ready never lets the timer fire, so the clock is checked as well.
            let until = self.interval_end.min(self.deadline);
            if Instant::now() < until
                && let Ok(chunk) = timeout_at(until, chunk.as_mut()).await
            {
                return Ok(chunk);
            }
            if Instant::now() >= self.deadline {
                return Err(ReadBodyError::TimedOut(self.limits.time_max));
            }
            if self.interval_bytes < self.limits.interval_bytes_min {
                return Err(ReadBodyError::TooSlow(self.limits.interval_bytes_min, self.limits.interval));
            }
            self.interval_end += self.limits.interval;
            self.interval_bytes = 0;
        }
    }
}
