//! Starts spans, and passes their contexts on in messages, rows and requests.

mod messaging;

use opentelemetry::trace::{
    FutureExt, Link, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags,
    TraceId, TraceState, Tracer,
};
use opentelemetry::{Context, KeyValue, Value, global};
use retro_core::trace::TraceContext;
use tracing::{Instrument, info_span};

pub use messaging::{start_batch_span, start_process_span, start_send_event_span, start_send_span};

/// Instrumentation scope of all spans.
const INSTRUMENTATION_SCOPE: &str = "retro";
/// Maximum number of links on one span: enough to inspect the runs of a window, and a bound for larger
/// windows and batches.
pub const LINKS_MAX: usize = 32;

/// Kind of a span, as defined by OpenTelemetry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The span covers work inside this process.
    Internal,
    /// The span covers the handling of a request.
    Server,
    /// The span covers a request to another service.
    Client,
    /// The span covers the sending of a message.
    Producer,
    /// The span covers the handling of a received message.
    Consumer,
}

/// The parent of a new span.
#[derive(Debug, Clone, Copy)]
pub enum SpanParent<'a> {
    /// The span has no parent and starts a new trace.
    Root,
    /// The parent is the current span of this task.
    Current,
    /// The parent is a span of another process or of an earlier stage. For work done for the first time.
    Remote(&'a TraceContext),
    /// The span starts a new trace with a link to this span. For repeated work (a redelivery, a replay, a
    /// takeover).
    Linked(&'a TraceContext),
}

impl<'a> SpanParent<'a> {
    /// Returns the parent for work that continues `trace`: [`Self::Linked`] if the work is repeated
    /// (`is_retry`), [`Self::Remote`] if it is done for the first time, and [`Self::Root`] if there is no
    /// trace.
    pub fn from_trace(trace: Option<&'a TraceContext>, is_retry: bool) -> Self {
        match trace {
            None => Self::Root,
            Some(trace) if is_retry => Self::Linked(trace),
            Some(trace) => Self::Remote(trace),
        }
    }
}

/// A running span, which ends when this value is dropped.
#[derive(Debug)]
pub struct Span(Context);

impl Span {
    /// Starts a span of this name and kind with the given parent.
    pub fn start(name: impl Into<std::borrow::Cow<'static, str>>, kind: Kind, cause: SpanParent<'_>) -> Self {
        let mut builder = SpanBuilder::from_name(name).with_kind(kind.into());
        let parent = match cause {
            // Not the current context: a root span must not become a child of the span that is active here.
            SpanParent::Root => Context::new(),
            SpanParent::Current => Context::current(),
            SpanParent::Remote(trace) => Context::new().with_remote_span_context(span_context(trace)),
            SpanParent::Linked(trace) => {
                builder = builder.with_links(vec![build_link(trace, "retry")]);
                Context::new()
            }
        };
        let span = global::tracer(INSTRUMENTATION_SCOPE).build_with_context(builder, &parent);
        Self(Context::new().with_span(span))
    }

    /// Sets an attribute of the span.
    pub fn set_attribute(&self, key: &'static str, value: impl Into<Value>) {
        self.0.span().set_attribute(KeyValue::new(key, value));
    }

    /// Adds a link to another span. `relation` describes how the spans are related.
    pub fn add_link(&self, trace: &TraceContext, relation: &'static str) {
        let Link { span_context, attributes, .. } = build_link(trace, relation);
        self.0.span().add_link(span_context, attributes);
    }

    /// Marks the span as failed. `kind` is one of our own error kinds and never payload text, because spans leave the
    /// system.
    pub fn set_error(&self, kind: &'static str) {
        self.set_attribute("error.type", kind);
        self.0.span().set_status(Status::error(kind));
    }

    /// Returns the trace context for messages and stored rows, with which later spans continue this one.
    /// Returns `None` if the span has no valid trace.
    pub fn trace_context(&self) -> Option<TraceContext> {
        trace_context(&self.0)
    }

    /// Returns `true` if the span is recorded and exported. If not, callers need not load data that only the
    /// span uses.
    pub fn is_recording(&self) -> bool {
        self.0.span().is_recording()
    }

    /// Runs a future inside the span: within it, [`current_trace_context`] returns this span, and log lines
    /// carry the trace id.
    pub async fn instrument<F: Future>(&self, future: F) -> F::Output {
        // Without a recorded trace the id in the log would lead nowhere.
        let log = if self.is_recording() {
            info_span!("traced", trace.id = %self.0.span().span_context().trace_id())
        } else {
            tracing::Span::none()
        };
        future.instrument(log).with_context(self.0.clone()).await
    }

    /// Runs a closure inside the span. Like [`Self::instrument`], but for synchronous code.
    pub fn in_scope<T>(&self, f: impl FnOnce() -> T) -> T {
        let _attached = self.0.clone().attach();
        f()
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        self.0.span().end();
    }
}

/// Returns the trace context of the current span, to be stored with rows and sent with messages. Returns
/// `None` if there is no valid trace.
pub fn current_trace_context() -> Option<TraceContext> {
    Context::map_current(trace_context)
}

impl From<Kind> for SpanKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Internal => Self::Internal,
            Kind::Server => Self::Server,
            Kind::Client => Self::Client,
            Kind::Producer => Self::Producer,
            Kind::Consumer => Self::Consumer,
        }
    }
}

fn build_link(trace: &TraceContext, relation: &'static str) -> Link {
    Link::new(span_context(trace), vec![KeyValue::new("retro.relation", relation)], 0)
}

fn span_context(trace: &TraceContext) -> SpanContext {
    let state = trace.state.as_deref().and_then(|state| state.parse::<TraceState>().ok()).unwrap_or_default();
    SpanContext::new(
        TraceId::from_bytes(trace.trace_id.to_be_bytes()),
        SpanId::from_bytes(trace.span_id.to_be_bytes()),
        TraceFlags::new(trace.flags),
        true,
        state,
    )
}

fn trace_context(context: &Context) -> Option<TraceContext> {
    let span = context.span();
    let span = span.span_context();
    let state = Some(span.trace_state().header()).filter(|state| !state.is_empty());
    span.is_valid().then(|| TraceContext {
        trace_id: u128::from_be_bytes(span.trace_id().to_bytes()),
        span_id: u64::from_be_bytes(span.span_id().to_bytes()),
        flags: span.trace_flags().to_u8(),
        state,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn without_an_sdk_the_context_is_passed_on_unchanged() {
        let given: TraceContext = format!("{PARENT} vendor=a").parse().unwrap();
        let work = Span::start("count", Kind::Consumer, SpanParent::Remote(&given));
        assert_eq!(work.trace_context(), Some(given));
        assert!(!work.is_recording());
        assert_eq!(current_trace_context(), None, "a span is current within its work only");
        assert_eq!(work.in_scope(current_trace_context), work.trace_context());
    }

    #[test]
    fn repeated_work_starts_a_new_trace() {
        let given: TraceContext = PARENT.parse().unwrap();
        assert_eq!(
            Span::start("count", Kind::Consumer, SpanParent::from_trace(Some(&given), true)).trace_context(),
            None
        );
    }
}
