//! Wraps a connection and its bodies to track the progress of a request and enforce the timeouts for heads
//! and responses.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

use super::limits::ConnectionLimits;
use super::table::Slot;

/// Number of received body bytes that count as progress. Progress restarts the time that a connection has
/// gone without a complete request.
const PROGRESS_BYTES: usize = 64 * 1024;

/// State shared by the wrappers of one connection.
#[derive(Debug)]
pub(super) struct RequestProgress {
    pub(super) slot: Slot,
    /// `true` from a complete head until its response is written.
    is_in_request: AtomicBool,
    /// `true` once hyper has taken the whole response; part of it may still be in hyper's write buffer.
    is_answered: AtomicBool,
}

impl RequestProgress {
    pub(super) fn new(place: Slot) -> Arc<Self> {
        let (is_in_request, is_answered) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { slot: place, is_in_request, is_answered })
    }

    /// Records that a complete head has arrived. Returns the body, wrapped to record the end of the request.
    pub(super) fn begin_request(self: &Arc<Self>, body: Body) -> Body {
        self.is_in_request.store(true, Ordering::Release);
        self.is_answered.store(false, Ordering::Release);
        if body.is_end_stream() {
            self.slot.mark_answering();
            return body;
        }
        self.slot.mark_awaiting_request();
        Body::new(WatchedBody { body, progress: self.clone(), uncounted: 0 })
    }

    /// Wraps the body of a response to record its end.
    pub(super) fn watch_answer(self: &Arc<Self>, body: Body) -> Body {
        Body::new(GuardedBody { body, guard: AnswerGuard(self.clone()) })
    }
}

struct AnswerGuard(Arc<RequestProgress>);

impl Drop for AnswerGuard {
    fn drop(&mut self) {
        self.0.is_answered.store(true, Ordering::Release);
    }
}

/// A body that keeps a guard until it has been sent.
#[expect(dead_code, reason = "the guard is held only to be dropped")]
pub(crate) struct GuardedBody<H> {
    pub(crate) body: Body,
    pub(crate) guard: H,
}

impl<H: Unpin> HttpBody for GuardedBody<H> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

struct WatchedBody {
    body: Body,
    progress: Arc<RequestProgress>,
    uncounted: usize,
}

impl HttpBody for WatchedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame {
            self.uncounted += frame.data_ref().map_or(0, Bytes::len);
        }
        if frame.is_none() || self.body.is_end_stream() {
            self.progress.slot.mark_answering();
        } else if self.uncounted >= PROGRESS_BYTES {
            self.uncounted = 0;
            self.progress.slot.mark_awaiting_request();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Response to a client that did not send a complete head in time.
const HEAD_TIMEOUT_RESPONSE: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// Stream of a connection: TCP, or TLS over it.
pub(super) type Transport = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// A connection that fails if its client takes too long to send a head or to read a response.
pub(super) struct WatchedStream {
    stream: Transport,
    progress: Arc<RequestProgress>,
    bounds: ConnectionLimits,
    /// Runs from the first byte of a head until the head is complete.
    head_timer: Option<Pin<Box<Sleep>>>,
    /// Runs while the client reads nothing.
    stall_timer: Option<Pin<Box<Sleep>>>,
}

impl WatchedStream {
    pub(super) const fn new(
        stream: Transport,
        progress: Arc<RequestProgress>,
        bounds: ConnectionLimits,
    ) -> Self {
        Self { stream, progress, bounds, head_timer: None, stall_timer: None }
    }

    /// Returns `true` if the client has started a head and exceeded the timeout for it.
    fn is_head_late(&mut self, cx: &mut Context<'_>, has_read: bool) -> bool {
        if self.progress.is_in_request.load(Ordering::Acquire) {
            self.head_timer = None;
            return false;
        }
        let Some(head) = &mut self.head_timer else {
            if has_read {
                self.head_timer = Some(Box::pin(tokio::time::sleep(self.bounds.head_timeout)));
            }
            return false;
        };
        // A client that always has one more byte never lets the timer fire, so compare the deadline as well.
        head.deadline() <= Instant::now() || (!has_read && head.as_mut().poll(cx).is_ready())
    }

    fn limit_stall<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            if self.stall_timer.take().is_some() {
                self.progress.slot.mark_answering();
            }
            return written;
        }
        let Self { stall_timer: stalled, progress, bounds, .. } = self;
        let stalled = stalled.get_or_insert_with(|| {
            // A client that does not read counts as awaiting a request, so it can be evicted; otherwise a few
            // such clients could keep every slot.
            progress.slot.mark_awaiting_request();
            Box::pin(tokio::time::sleep(bounds.write_timeout))
        });
        ready!(stalled.as_mut().poll(cx));
        let detail =
            format!("the client read nothing of the answer for {} s", self.bounds.write_timeout.as_secs());
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, detail)))
    }
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let has_read = read.is_ready() && buffer.filled().len() > before;
        // The end of the connection is passed on unchanged.
        if (has_read || read.is_pending()) && self.is_head_late(cx, has_read) {
            // A client of TLS sees the connection end.
            if let Transport::Left(stream) = &self.stream {
                let _ = stream.try_write(HEAD_TIMEOUT_RESPONSE);
            }
            let detail = format!("a head was not complete within {} s", self.bounds.head_timeout.as_secs());
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, detail)));
        }
        read
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.limit_stall(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.limit_stall(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Flushes the connection. The response is complete, and its slot may be given away, only after the
    /// operating system has accepted all of it.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        if self.progress.is_answered.swap(false, Ordering::AcqRel) {
            self.progress.is_in_request.store(false, Ordering::Release);
            // The head timer may still run if nothing was read since the head was complete; stop it, or it
            // would expire during the pause between two requests.
            self.head_timer = None;
            self.progress.slot.mark_awaiting_request();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
