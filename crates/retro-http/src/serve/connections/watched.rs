//! Wrappers around a connection and its bodies that track how far a request is and enforce the times of heads and answers.

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

use super::Bounds;
use super::table::Place;

/// Bytes of a body that count as progress: a body that brings them is not the one that waits longest.
const PROGRESS_BYTES: usize = 64 * 1024;

/// What the wrappers of one connection share.
#[derive(Debug)]
pub(super) struct Progress {
    pub(super) place: Place,
    /// A head has arrived whole, and its answer is not written yet.
    is_in_request: AtomicBool,
    /// The answer is written, or lies in the last buffer before the system's.
    is_answered: AtomicBool,
}

impl Progress {
    pub(super) fn new(place: Place) -> Arc<Self> {
        let (is_in_request, is_answered) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { place, is_in_request, is_answered })
    }

    /// Notes that a head has arrived whole. Returns the body, wrapped so that it notes when the request has.
    pub(super) fn begin_request(self: &Arc<Self>, body: Body) -> Body {
        self.is_in_request.store(true, Ordering::Release);
        self.is_answered.store(false, Ordering::Release);
        if body.is_end_stream() {
            self.place.answer();
            return body;
        }
        self.place.await_request();
        Body::new(WatchedRequest { body, progress: self.clone(), uncounted: 0 })
    }

    /// Wraps the body of an answer, so that its end is noted.
    pub(super) fn watch_answer(self: &Arc<Self>, body: Body) -> Body {
        Body::new(HeldBody { body, held: Answered(self.clone()) })
    }
}

struct Answered(Arc<Progress>);

impl Drop for Answered {
    fn drop(&mut self) {
        self.0.is_answered.store(true, Ordering::Release);
    }
}

/// A body that holds something until it has been sent.
#[expect(dead_code, reason = "what is held is dropped, and that is what it is for")]
pub(crate) struct HeldBody<H> {
    pub(crate) body: Body,
    pub(crate) held: H,
}

impl<H: Unpin> HttpBody for HeldBody<H> {
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

struct WatchedRequest {
    body: Body,
    progress: Arc<Progress>,
    uncounted: usize,
}

impl HttpBody for WatchedRequest {
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
            self.progress.place.answer();
        } else if self.uncounted >= PROGRESS_BYTES {
            self.uncounted = 0;
            self.progress.place.await_request();
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

/// What is answered to a head that does not become whole.
const LATE_HEAD: &[u8] = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// A connection that fails when its client takes too long over a head, or takes nothing of an answer for too long.
pub(super) struct WatchedStream {
    stream: TcpStream,
    progress: Arc<Progress>,
    bounds: Bounds,
    /// Runs from the first byte of a head until it is whole.
    head: Option<Pin<Box<Sleep>>>,
    /// Runs while the client takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl WatchedStream {
    pub(super) const fn new(stream: TcpStream, progress: Arc<Progress>, bounds: Bounds) -> Self {
        Self { stream, progress, bounds, head: None, stalled: None }
    }

    /// Returns whether a head that has begun is late.
    fn is_head_late(&mut self, cx: &mut Context<'_>, has_read: bool) -> bool {
        if self.progress.is_in_request.load(Ordering::Acquire) {
            self.head = None;
            return false;
        }
        let Some(head) = &mut self.head else {
            if has_read {
                self.head = Some(Box::pin(tokio::time::sleep(self.bounds.head)));
            }
            return false;
        };
        // A client that always has a byte more never lets the timer wake anybody.
        head.deadline() <= Instant::now() || (!has_read && head.as_mut().poll(cx).is_ready())
    }

    fn in_time<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            if self.stalled.take().is_some() {
                self.progress.place.answer();
            }
            return written;
        }
        let Self { stalled, progress, bounds, .. } = self;
        let stalled = stalled.get_or_insert_with(|| {
            // Its client keeps it waiting as one does that sends nothing: many such must not hold every place.
            progress.place.await_request();
            Box::pin(tokio::time::sleep(bounds.write))
        });
        ready!(stalled.as_mut().poll(cx));
        let detail = format!("its client took nothing of the answer for {} s", self.bounds.write.as_secs());
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
        // The end of the connection is told as it is.
        if (has_read || read.is_pending()) && self.is_head_late(cx, has_read) {
            let _ = self.stream.try_write(LATE_HEAD);
            let detail = format!("a head was not whole within {} s", self.bounds.head.as_secs());
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, detail)));
        }
        read
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.in_time(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.in_time(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Called once everything is with the system: only then is an answer over, and its place may be another's.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        if self.progress.is_answered.swap(false, Ordering::AcqRel) {
            self.progress.is_in_request.store(false, Ordering::Release);
            self.progress.place.await_request();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
