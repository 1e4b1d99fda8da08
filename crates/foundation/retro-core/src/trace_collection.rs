//! Decides when a trace is read whose spans come in several requests.
//!
//! An exporter sends spans when they have ended, in batches: children before their parents, the root last, and those of
//! other processes whenever these send theirs. Nothing says that a trace is over. A root that has ended, with a parent for
//! every other span, is the best sign; the next best is that nothing has come for a while. A run is read from what is there
//! then. What comes later, before the trace is forgotten, makes a newer attempt of the same run.

use std::collections::HashSet;

/// What of a span decides when its trace is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpanOutline {
    /// Id of the span in its trace.
    pub span_id: String,
    /// Id of the span that contains it; empty for a root.
    pub parent_id: String,
    /// `true` if the span says when it ended.
    pub has_ended: bool,
    /// `true` if the span that contains it is of another process, which may send its spans elsewhere.
    pub has_remote_parent: bool,
    /// `true` if the span is the call of an agent, a model or a tool.
    pub is_call: bool,
}

/// Times after which a trace is not waited for any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceWaits {
    /// Milliseconds without a new span after which a trace with a root is taken to be over.
    pub quiet_ms: u64,
    /// Milliseconds without a new span after which a trace without a root is given up.
    pub root_ms: u64,
}

/// What of a trace is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceShape {
    /// The root has ended, and no span refers to one that is missing.
    Complete,
    /// A root, or the first span of this process, has ended, and spans that others refer to are missing.
    Rooted,
    /// No root has ended.
    Rootless,
}

/// What is done with a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceStep {
    /// A run is read from its spans.
    Read,
    /// It waits until nothing has come for this many milliseconds.
    Wait {
        /// Milliseconds since the last span.
        quiet_ms: u64,
    },
    /// Its root has not come: its spans become a dead letter.
    GiveUp,
    /// No agent, model or tool was called in it: its spans are deleted.
    Ignore,
    /// Its run has been read from all of its spans: they are deleted, and spans that come now are too late.
    Forget,
}

/// Returns what of a trace is there.
pub fn trace_shape(spans: &[SpanOutline]) -> TraceShape {
    let present: HashSet<&str> = spans.iter().map(|span| span.span_id.as_str()).collect();
    let is_root = |span: &SpanOutline| span.parent_id.is_empty();
    let lacks_parent = |span: &SpanOutline| !is_root(span) && !present.contains(span.parent_id.as_str());
    if spans.iter().any(|span| is_root(span) && span.has_ended) {
        return if spans.iter().any(lacks_parent) { TraceShape::Rooted } else { TraceShape::Complete };
    }
    let is_entry = |span: &SpanOutline| span.has_ended && span.has_remote_parent && lacks_parent(span);
    if spans.iter().any(is_entry) { TraceShape::Rooted } else { TraceShape::Rootless }
}

/// Decides what is done with a trace now. `read_spans` is the number of spans from which its run was read, 0 if none was;
/// `quiet_ms` is the time since its last span came.
pub fn decide_trace_step(
    spans: &[SpanOutline],
    read_spans: usize,
    quiet_ms: u64,
    waits: &TraceWaits,
) -> TraceStep {
    let after = |wait: u64, step: TraceStep| match quiet_ms >= wait {
        true => step,
        false => TraceStep::Wait { quiet_ms: wait },
    };
    if spans.len() <= read_spans {
        return after(waits.quiet_ms, TraceStep::Forget);
    }
    // Others may follow the first late span, and a run that is read twice costs as much as two.
    if read_spans > 0 {
        return after(waits.quiet_ms, TraceStep::Read);
    }
    let calls_anything = spans.iter().any(|span| span.is_call);
    match (trace_shape(spans), calls_anything) {
        (TraceShape::Complete, true) => TraceStep::Read,
        (TraceShape::Rooted, true) => after(waits.quiet_ms, TraceStep::Read),
        (TraceShape::Rootless, true) => after(waits.root_ms, TraceStep::GiveUp),
        (TraceShape::Complete | TraceShape::Rooted, false) => after(waits.quiet_ms, TraceStep::Ignore),
        (TraceShape::Rootless, false) => after(waits.root_ms, TraceStep::Ignore),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAITS: TraceWaits = TraceWaits { quiet_ms: 30, root_ms: 3600 };

    /// Returns a call that has ended, without a parent if that is empty.
    fn call(span_id: &str, parent_id: &str) -> SpanOutline {
        SpanOutline {
            span_id: span_id.to_owned(),
            parent_id: parent_id.to_owned(),
            has_ended: true,
            has_remote_parent: false,
            is_call: true,
        }
    }

    fn step(spans: &[SpanOutline], read_spans: usize, quiet_ms: u64) -> TraceStep {
        decide_trace_step(spans, read_spans, quiet_ms, &WAITS)
    }

    #[test]
    fn a_complete_trace_is_read_at_once_in_any_order() {
        let spans = [call("c", "b"), call("b", "a"), call("a", "")];
        assert_eq!(step(&spans, 0, 0), TraceStep::Read);
        let turned: Vec<_> = spans.iter().rev().cloned().collect();
        assert_eq!(step(&turned, 0, 0), TraceStep::Read);
    }

    #[test]
    fn a_trace_with_a_root_waits_for_missing_parents_until_it_is_quiet() {
        let spans = [call("a", ""), call("c", "b")];
        assert_eq!(step(&spans, 0, 29), TraceStep::Wait { quiet_ms: 30 });
        assert_eq!(step(&spans, 0, 30), TraceStep::Read);
        let running = [SpanOutline { has_ended: false, ..call("a", "") }, call("b", "a")];
        assert_eq!(step(&running, 0, 30), TraceStep::Wait { quiet_ms: 3600 }, "its root has not ended");
    }

    #[test]
    fn the_first_span_of_this_process_is_a_root_once_it_is_quiet() {
        let entry = SpanOutline { has_remote_parent: true, ..call("a", "elsewhere") };
        let spans = [entry.clone(), call("b", "a")];
        assert_eq!(step(&spans, 0, 0), TraceStep::Wait { quiet_ms: 30 });
        assert_eq!(step(&spans, 0, 30), TraceStep::Read);
        let inner = [call("b", "a"), SpanOutline { parent_id: "b".to_owned(), ..entry }];
        assert_eq!(
            step(&inner, 0, 30),
            TraceStep::Wait { quiet_ms: 3600 },
            "a request within the trace is no root, since its parent is there"
        );
    }

    #[test]
    fn a_trace_without_a_root_is_given_up_and_one_without_a_call_ignored() {
        let spans = [call("b", "a")];
        assert_eq!(step(&spans, 0, 3599), TraceStep::Wait { quiet_ms: 3600 });
        assert_eq!(step(&spans, 0, 3600), TraceStep::GiveUp);
        let web = |span: SpanOutline| SpanOutline { is_call: false, ..span };
        assert_eq!(step(&[web(call("b", "a"))], 0, 3600), TraceStep::Ignore);
        assert_eq!(step(&[web(call("a", ""))], 0, 0), TraceStep::Wait { quiet_ms: 30 }, "a call may follow");
        assert_eq!(step(&[web(call("a", ""))], 0, 30), TraceStep::Ignore);
    }

    #[test]
    fn late_spans_are_read_together_and_then_the_trace_is_forgotten() {
        let spans = [call("a", ""), call("b", "a")];
        assert_eq!(step(&spans, 1, 29), TraceStep::Wait { quiet_ms: 30 });
        assert_eq!(step(&spans, 1, 30), TraceStep::Read);
        assert_eq!(step(&spans, 2, 29), TraceStep::Wait { quiet_ms: 30 });
        assert_eq!(step(&spans, 2, 30), TraceStep::Forget);
    }
}
