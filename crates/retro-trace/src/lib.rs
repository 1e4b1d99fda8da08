#![doc = include_str!("../README.md")]

mod delivery;

use opentelemetry::trace::{
    FutureExt, Link, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags,
    TraceId, TraceState, Tracer,
};
use opentelemetry::{Context, KeyValue, Value, global};
use retro_core::trace::TraceContext;
use tracing::{Instrument, Span, info_span};

pub use delivery::{answered, process, process_batch, send, send_event};

/// Who measures: the instrumentation scope of every span of ours.
const SCOPE: &str = "retro";
/// Links of one span: enough to look into a window's runs, and a bound for windows and batches of any size.
pub const LINKS_MAX: usize = 32;

/// What a span does, as seen from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Work of our own.
    Internal,
    /// It answers a request.
    Server,
    /// It sends a message.
    Producer,
    /// It handles a message.
    Consumer,
}

/// Why a span is there.
#[derive(Debug, Clone, Copy)]
pub enum Cause<'a> {
    /// Of nothing that is known: it begins a trace.
    Nothing,
    /// Of what is at work here.
    Current,
    /// Of this, for the first time.
    Continues(&'a TraceContext),
    /// Of this, once more: a trace of its own, linked.
    Again(&'a TraceContext),
}

impl<'a> Cause<'a> {
    /// Of `trace`, when there is one: for the first time, or once more.
    pub fn of(trace: Option<&'a TraceContext>, again: bool) -> Self {
        match trace {
            None => Self::Nothing,
            Some(trace) if again => Self::Again(trace),
            Some(trace) => Self::Continues(trace),
        }
    }
}

/// A span at work. It ends when this is dropped.
#[derive(Debug)]
pub struct Work(Context);

impl Work {
    /// Begins one.
    pub fn begin(name: impl Into<std::borrow::Cow<'static, str>>, kind: Kind, cause: Cause<'_>) -> Self {
        let mut builder = SpanBuilder::from_name(name).with_kind(kind.into());
        let parent = match cause {
            Cause::Nothing => Context::new(),
            Cause::Current => Context::current(),
            Cause::Continues(trace) => Context::new().with_remote_span_context(span_context(trace)),
            Cause::Again(trace) => {
                builder = builder.with_links(vec![link(trace, "again")]);
                Context::new()
            }
        };
        let span = global::tracer(SCOPE).build_with_context(builder, &parent);
        Self(Context::new().with_span(span))
    }

    /// Adds an attribute.
    pub fn note(&self, key: &'static str, value: impl Into<Value>) {
        self.0.span().set_attribute(KeyValue::new(key, value));
    }

    /// Links it to something else: `relation` says how the two belong together.
    pub fn link(&self, trace: &TraceContext, relation: &'static str) {
        let Link { span_context, attributes, .. } = link(trace, relation);
        self.0.span().add_link(span_context, attributes);
    }

    /// Says that it failed, and with which kind of error: a word of ours, never what a payload holds.
    pub fn failed(&self, kind: &'static str) {
        self.note("error.type", kind);
        self.0.span().set_status(Status::error(kind));
    }

    /// Where it stands in its trace: what others continue. `None` when there is no trace.
    pub fn trace(&self) -> Option<TraceContext> {
        trace_context(&self.0)
    }

    /// Whether anybody will see it; what is only loaded for its sake need not be loaded otherwise.
    pub fn is_recording(&self) -> bool {
        self.0.span().is_recording()
    }

    /// Does the work within it: [`current`] is this span there, and log lines carry the trace's id.
    pub async fn around<F: Future>(&self, work: F) -> F::Output {
        let log = if self.is_recording() {
            info_span!("traced", trace.id = %self.0.span().span_context().trace_id())
        } else {
            Span::none()
        };
        work.instrument(log).with_context(self.0.clone()).await
    }

    /// The same for work that does not wait.
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        let _attached = self.0.clone().attach();
        work()
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.0.span().end();
    }
}

/// What is at work here: what is stored or sent from here continues it. `None` when there is no trace.
pub fn current() -> Option<TraceContext> {
    Context::map_current(trace_context)
}

impl From<Kind> for SpanKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Internal => Self::Internal,
            Kind::Server => Self::Server,
            Kind::Producer => Self::Producer,
            Kind::Consumer => Self::Consumer,
        }
    }
}

fn link(trace: &TraceContext, relation: &'static str) -> Link {
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
    fn without_anybody_who_collects_a_context_is_passed_on_as_it_came() {
        let given: TraceContext = format!("{PARENT} vendor=a").parse().unwrap();
        let work = Work::begin("count", Kind::Consumer, Cause::Continues(&given));
        assert_eq!(work.trace(), Some(given));
        assert!(!work.is_recording());
        assert_eq!(current(), None, "a span is current within its work only");
        assert_eq!(work.within(current), work.trace());
    }

    #[test]
    fn what_happens_again_does_not_continue_the_trace() {
        let given: TraceContext = PARENT.parse().unwrap();
        assert_eq!(Work::begin("count", Kind::Consumer, Cause::of(Some(&given), true)).trace(), None);
    }
}
