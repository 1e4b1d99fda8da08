//! Reads request bodies within a budget and at a minimum rate.

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

/// Number of bytes charged at once, so small chunks do not each take the lock. About the size of a
/// connection's read buffer.
const CHARGE_STEP_BYTES: u64 = 16 * 1024;
/// Maximum time for which the rest of a rejected body is read and discarded. A client whose connection is
/// closed while it sends never reads the response.
const DISCARD_TIME_MAX: Duration = Duration::from_secs(1);

/// Limits on the size and rate of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLimits {
    /// Maximum size of the body, in bytes.
    pub bytes_max: usize,
    /// Timeout for the complete body.
    pub time_max: Duration,
    /// Interval over which the rate is measured.
    pub interval: Duration,
    /// Minimum number of bytes that must arrive per interval, unless the body ends in it.
    pub interval_bytes_min: usize,
}

impl BodyLimits {
    /// Returns limits for a body of at most `bytes_max` bytes that arrives within `whole`, at no less than 64
    /// KiB per 5 s. That is a hundredth of the rate of the slowest common line, and more than a trickling
    /// client sends.
    pub const fn new(bytes_max: usize, whole: Duration) -> Self {
        Self { bytes_max, time_max: whole, interval: Duration::from_secs(5), interval_bytes_min: 64 * 1024 }
    }
}

/// A completely received body. Dropping it returns its bytes to the budget.
#[derive(Debug)]
pub struct BufferedBody {
    /// Content of the body.
    pub bytes: Bytes,
    /// Permit for the bytes charged to the budget.
    pub permit: BodyPermit,
}

/// Reason why a body was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadBodyError {
    /// The body does not fit into the budget.
    #[error(transparent)]
    BudgetExceeded(#[from] BudgetExceeded),
    /// The body is larger than this limit, in bytes.
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    /// The body was not complete within this time.
    #[error("the body did not arrive within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// Fewer than this many bytes arrived within an interval of this length.
    #[error("fewer than {} KiB of the body arrived within {} s", .0 / 1024, .1.as_secs())]
    TooSlow(usize, Duration),
    /// The connection ended before the body was complete.
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
    /// Reads a request body and charges its bytes to `tenant` as they arrive; `None` is an unknown sender. If
    /// the body is rejected, the rest is read and discarded for up to a second, so a client that is still
    /// sending reads the response.
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

/// Reads a request body without a budget. For bodies so small that the limit on concurrent requests is enough
/// to bound their memory.
pub(crate) async fn read_body(request: Request, limits: BodyLimits) -> Result<Bytes, ReadBodyError> {
    read_within(request, limits, |_| Ok(())).await
}

/// Reads and discards the rest of a body for up to [`DISCARD_TIME_MAX`].
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
    // The announced size serves only to reject early; it is never charged.
    let content_length = request.headers().get(header::CONTENT_LENGTH);
    let content_length = content_length.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let mut body = request.into_body();
    let read = if content_length.is_some_and(|bytes| bytes > limits.bytes_max as u64) {
        Err(ReadBodyError::TooLarge(limits.bytes_max))
    } else {
        read_chunks(&mut body, limits, &mut charge).await
    };
    // Not after a timeout or a broken connection: waiting for more would only waste the second.
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
    // The unread rest goes back into `body`, so the caller can discard it.
    *body = Body::from_stream(chunks);
    Err(ended)
}

/// Enforces the time limits and the minimum rate of a body.
struct PaceLimiter {
    limits: BodyLimits,
    deadline: Instant,
    interval_end: Instant,
    /// Bytes received in the current interval.
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

    /// Waits for the next chunk. Fails if the body exceeds its total time or delivers too few bytes in an
    /// interval.
    async fn next_chunk<T>(&mut self, chunk: impl Future<Output = T>) -> Result<T, ReadBodyError> {
        let mut chunk = std::pin::pin!(chunk);
        loop {
            // A future that is always ready never lets the timer fire, so compare the clock as well.
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
