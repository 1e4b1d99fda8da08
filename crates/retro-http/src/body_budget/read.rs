//! Reading a body off its connection, within a budget and a pace.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use retro_core::id::Tenant;
use tokio::time::{Instant, timeout_at};

use super::{BodyBudget, BudgetExceeded, Permit};
use crate::problem::Problem;

/// Bytes that are charged at a time, so that small pieces do not take the lock each: about a connection's own read buffer.
const CHARGED_AT_ONCE: u64 = 16 * 1024;
/// How long what is still being sent is read and dropped after a refusal: a client that meets a closed connection while it sends never
/// reads why.
const DISCARDED_FOR: Duration = Duration::from_secs(1);

/// How large and how slow a body may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLimits {
    /// The largest, in bytes.
    pub bytes_max: usize,
    /// How long it may take as a whole.
    pub whole: Duration,
    /// The stretches into which that is cut …
    pub stretch: Duration,
    /// … in each of which at least so many bytes have to arrive, unless it ends.
    pub stretch_bytes_min: usize,
}

impl BodyLimits {
    /// Limits of a body that has so long as a whole, and brings 64 KiB in every 5 s until it ends: a hundredth of what the slowest
    /// usual line carries, and what a byte now and then never reaches.
    pub const fn new(bytes_max: usize, whole: Duration) -> Self {
        Self { bytes_max, whole, stretch: Duration::from_secs(5), stretch_bytes_min: 64 * 1024 }
    }
}

/// A body that has arrived whole. What it holds of the budget is free once this is dropped.
#[derive(Debug)]
pub struct BufferedBody {
    /// Its bytes.
    pub bytes: Bytes,
    /// What it holds.
    pub permit: Permit,
}

/// Why a body was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadBodyError {
    /// There is no room now.
    #[error(transparent)]
    NoRoom(#[from] BudgetExceeded),
    /// It is larger than any that is taken.
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    /// It did not arrive in its time.
    #[error("the body did not arrive within {} s", .0.as_secs())]
    Late(Duration),
    /// It came too slowly.
    #[error("fewer than {} KiB of the body arrived within {} s", .0 / 1024, .1.as_secs())]
    Slow(usize, Duration),
    /// It did not arrive whole.
    #[error("the body did not arrive whole: {0}")]
    Broken(String),
}

impl From<ReadBodyError> for Problem {
    fn from(error: ReadBodyError) -> Self {
        let detail = error.to_string();
        match error {
            ReadBodyError::NoRoom(_) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "too much at once", detail).with_code("busy")
            }
            ReadBodyError::TooLarge(_) => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large", detail)
            }
            ReadBodyError::Late(_) | ReadBodyError::Slow(..) => {
                Self::new(StatusCode::REQUEST_TIMEOUT, "the body took too long", detail)
            }
            ReadBodyError::Broken(_) => Self::unreadable(detail),
        }
    }
}

impl BodyBudget {
    /// Reads the body of a request of this tenant, or of an unknown sender, and charges what arrives. After a refusal the rest is
    /// read and dropped for up to a second, so that a client that is still sending reads the answer.
    pub async fn read(
        &self,
        tenant: Option<&Tenant>,
        request: Request,
        limits: BodyLimits,
    ) -> Result<BufferedBody, ReadBodyError> {
        let mut permit = self.permit(tenant);
        let bytes = read_within(request, limits, |bytes| permit.charge_up_to(bytes)).await?;
        Ok(BufferedBody { bytes, permit })
    }
}

/// Reads the body of a request without a budget, for bodies so small that the bound on requests under way bounds them.
pub(crate) async fn read_body(request: Request, limits: BodyLimits) -> Result<Bytes, ReadBodyError> {
    read_within(request, limits, |_| Ok(())).await
}

/// Reads and drops what is left of a body, for at most a second.
async fn discard_rest(body: Body) {
    let mut chunks = body.into_data_stream();
    let dropping = async { while let Some(Ok(_)) = chunks.next().await {} };
    let _ = tokio::time::timeout(DISCARDED_FOR, dropping).await;
}

async fn read_within(
    request: Request,
    limits: BodyLimits,
    mut charge: impl FnMut(u64) -> Result<(), BudgetExceeded>,
) -> Result<Bytes, ReadBodyError> {
    let announced = request.headers().get(header::CONTENT_LENGTH);
    let announced = announced.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let mut body = request.into_body();
    let read = if announced.is_some_and(|bytes| bytes > limits.bytes_max as u64) {
        Err(ReadBodyError::TooLarge(limits.bytes_max))
    } else {
        read_chunks(&mut body, limits, &mut charge).await
    };
    if let Err(ReadBodyError::TooLarge(_) | ReadBodyError::NoRoom(_)) = &read {
        discard_rest(body).await;
    }
    read
}

async fn read_chunks(
    body: &mut Body,
    limits: BodyLimits,
    charge: &mut impl FnMut(u64) -> Result<(), BudgetExceeded>,
) -> Result<Bytes, ReadBodyError> {
    let mut pace = Pace::begin(limits);
    let mut whole = BytesMut::new();
    let mut charged = 0;
    let mut chunks = std::mem::take(body).into_data_stream();
    let ended = loop {
        let chunk = match pace.next(chunks.next()).await {
            Ok(None) => return Ok(whole.freeze()),
            Ok(Some(Ok(chunk))) => chunk,
            Ok(Some(Err(error))) => break ReadBodyError::Broken(error.to_string()),
            Err(late) => break late,
        };
        let bytes = whole.len() + chunk.len();
        if bytes > limits.bytes_max {
            break ReadBodyError::TooLarge(limits.bytes_max);
        }
        if bytes as u64 > charged {
            charged = (bytes as u64).next_multiple_of(CHARGED_AT_ONCE);
            if let Err(full) = charge(charged) {
                break full.into();
            }
        }
        whole.extend_from_slice(&chunk);
        pace.arrived(chunk.len());
    };
    *body = Body::from_stream(chunks);
    Err(ended)
}

/// How far a body is within its limits of time.
struct Pace {
    limits: BodyLimits,
    whole_until: Instant,
    stretch_until: Instant,
    /// Bytes of this stretch.
    arrived: usize,
}

impl Pace {
    fn begin(limits: BodyLimits) -> Self {
        let now = Instant::now();
        Self { limits, whole_until: now + limits.whole, stretch_until: now + limits.stretch, arrived: 0 }
    }

    const fn arrived(&mut self, bytes: usize) {
        self.arrived += bytes;
    }

    /// Waits for the next piece. Fails once the body is late, or brought too little in a stretch.
    async fn next<T>(&mut self, piece: impl Future<Output = T>) -> Result<T, ReadBodyError> {
        let mut piece = std::pin::pin!(piece);
        loop {
            // Pieces that are always there never let a timer fire: the clock is looked at as well.
            let until = self.stretch_until.min(self.whole_until);
            if Instant::now() < until
                && let Ok(piece) = timeout_at(until, piece.as_mut()).await
            {
                return Ok(piece);
            }
            if Instant::now() >= self.whole_until {
                return Err(ReadBodyError::Late(self.limits.whole));
            }
            if self.arrived < self.limits.stretch_bytes_min {
                return Err(ReadBodyError::Slow(self.limits.stretch_bytes_min, self.limits.stretch));
            }
            self.stretch_until += self.limits.stretch;
            self.arrived = 0;
        }
    }
}
