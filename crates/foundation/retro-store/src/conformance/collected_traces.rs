//! Conformance cases for traces that are collected span by span.

use futures::future::join;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::Workflow;
use retro_core::trace_collection::{SpanOutline, TraceWaits};

use super::Database;
use super::scenario::{LONG_S, test_tenant, time_at};
use crate::dead_letter::SPANS_SUBJECT;
use crate::{
    AddSpansResult, AddedTrace, ArrivingSpan, ArrivingTrace, ClaimedTrace, CollectionBounds, CollectionRules,
    CompressedDocument, DeadLetterFilter, DeliveryPosition, NewDeadLetter, ReadTrace, Store, TraceClaim,
    TraceEnd,
};

const TRACE: &str = "5b8aa5a2d2c872e8321cf37308d69df2";
const OTHER: &str = "5b8aa5a2d2c872e8321cf37308d69df3";

/// Rules under which nothing is due before a case says so, with room for ten spans.
const RULES: CollectionRules = CollectionRules {
    waits: TraceWaits { quiet_ms: LONG_S * 1000, root_ms: LONG_S * 1000 },
    bounds: CollectionBounds {
        trace_spans_max: 10,
        trace_bytes_max: 10_000,
        tenant_traces_max: 3,
        tenant_bytes_max: 20_000,
    },
    lease_s: LONG_S,
};
/// Rules under which everything is due at once.
const IMPATIENT: CollectionRules =
    CollectionRules { waits: TraceWaits { quiet_ms: 0, root_ms: 0 }, lease_s: 0, ..RULES };

fn document(span_id: &str, bytes: usize) -> Vec<u8> {
    format!("{span_id}{}", "x".repeat(bytes - span_id.len())).into_bytes()
}

/// Returns a call that has ended, of 100 bytes, without a parent if that is empty.
fn span(span_id: &str, parent_id: &str) -> ArrivingSpan {
    sized_span(span_id, parent_id, 100)
}

fn sized_span(span_id: &str, parent_id: &str, bytes: usize) -> ArrivingSpan {
    let outline = SpanOutline {
        span_id: span_id.to_owned(),
        parent_id: parent_id.to_owned(),
        has_ended: true,
        has_remote_parent: false,
        is_call: true,
    };
    let document = CompressedDocument::from_document(&document(span_id, bytes)).expect("memory");
    ArrivingSpan { outline, document, bytes: bytes as u64 }
}

fn part(trace_id: &str, spans: Vec<ArrivingSpan>) -> ArrivingTrace {
    ArrivingTrace { trace_id: trace_id.to_owned(), spans, has_run: false }
}

fn whole(trace_id: &str, spans: Vec<ArrivingSpan>) -> ArrivingTrace {
    ArrivingTrace { has_run: true, ..part(trace_id, spans) }
}

/// Adds the spans of one trace of the tenant `t`.
async fn add(store: &dyn Store, trace: ArrivingTrace, rules: &CollectionRules) -> AddedTrace {
    match store.add_spans(&test_tenant("t"), &[trace], rules).await.expect("writing") {
        AddSpansResult::Added(mut added) => added.remove(0),
        AddSpansResult::TenantFull => panic!("the tenant has space"),
    }
}

async fn claim(store: &dyn Store) -> Vec<ClaimedTrace> {
    store.claim_traces(10, LONG_S).await.expect("writing")
}

async fn claim_one(store: &dyn Store) -> ClaimedTrace {
    let mut claimed = claim(store).await;
    assert_eq!(claimed.len(), 1, "{claimed:?}");
    claimed.remove(0)
}

async fn span_ids(store: &dyn Store, claim: &TraceClaim) -> Vec<String> {
    let spans = store.load_trace_spans(claim).await.expect("reading");
    spans.into_iter().map(|span| span.outline.span_id).collect()
}

/// Checks that a span that comes again is stored once, and that a trace is due when its root is there.
pub async fn a_span_that_comes_again_is_one_and_a_complete_trace_is_due(database: &Database) {
    let waiting = AddedTrace::Stored { is_due: false };
    assert_eq!(add(&*database.one, part(TRACE, vec![span("b", "a"), span("c", "b")]), &RULES).await, waiting);
    assert_eq!(add(&*database.two, part(TRACE, vec![span("c", "b"), span("b", "a")]), &RULES).await, waiting);
    assert_eq!(claim(&*database.two).await, Vec::new());
    let root = part(TRACE, vec![span("a", ""), span("b", "a")]);
    assert_eq!(add(&*database.two, root, &RULES).await, AddedTrace::Stored { is_due: true });
    let claimed = claim_one(&*database.one).await;
    assert_eq!((claimed.claim.attempt, claimed.claim.spans, claimed.read_spans), (1, 3, 0));
    let spans = database.two.load_trace_spans(&claimed.claim).await.expect("reading");
    let stored: Vec<_> =
        spans.iter().map(|span| (&*span.outline.span_id, &*span.outline.parent_id)).collect();
    assert_eq!(stored, [("a", ""), ("b", "a"), ("c", "b")]);
    assert_eq!(spans[0].document, document("a", 100));
    assert_eq!(claim(&*database.two).await, Vec::new(), "it is claimed");
}

/// Checks that the copy of a span that has ended replaces the one that has not.
pub async fn a_span_that_has_ended_replaces_the_running_one(database: &Database) {
    let mut running = sized_span("a", "", 50);
    running.outline.has_ended = false;
    add(&*database.one, part(TRACE, vec![running.clone()]), &RULES).await;
    let ended = add(&*database.one, part(TRACE, vec![span("a", "")]), &RULES).await;
    assert_eq!(ended, AddedTrace::Stored { is_due: true });
    add(&*database.one, part(TRACE, vec![running]), &RULES).await;
    let claimed = claim_one(&*database.two).await;
    let spans = database.two.load_trace_spans(&claimed.claim).await.expect("reading");
    assert_eq!((spans.len(), &spans[0].document), (1, &document("a", 100)));
}

/// Checks that of two processes that look for due traces at once, one claims each.
pub async fn of_two_that_claim_traces_at_once_one_gets_each(database: &Database) {
    for trace in [TRACE, OTHER] {
        add(&*database.one, part(trace, vec![span("a", "")]), &RULES).await;
    }
    let (one, two) = join(claim(&*database.one), claim(&*database.two)).await;
    let mut ids: Vec<_> = one.iter().chain(&two).map(|claimed| claimed.claim.trace_id.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [TRACE, OTHER]);
}

/// Checks that two requests with parts of one trace at once store both.
pub async fn two_parts_that_come_at_once_are_both_stored(database: &Database) {
    let parts = [part(TRACE, vec![span("a", "")]), part(TRACE, vec![span("b", "a")])];
    let [first, second] = parts;
    join(add(&*database.one, first, &RULES), add(&*database.two, second, &RULES)).await;
    assert_eq!(span_ids(&*database.one, &claim_one(&*database.one).await.claim).await, ["a", "b"]);
}

/// Checks that a whole trace is its sender's until the lease ends, and is read again when more of it comes.
pub async fn a_whole_trace_is_claimed_by_its_sender_and_read_again_with_what_comes_later(
    database: &Database,
) {
    let AddedTrace::HasRun(Some(own)) =
        add(&*database.one, whole(TRACE, vec![span("a", ""), span("b", "a")]), &RULES).await
    else {
        panic!("nothing else of it is stored");
    };
    assert_eq!((own.attempt, own.spans), (1, 2));
    assert_eq!(claim(&*database.two).await, Vec::new());
    let again = add(&*database.two, whole(TRACE, vec![span("a", ""), span("b", "a")]), &RULES).await;
    assert_eq!(again, AddedTrace::Stored { is_due: false }, "it is being published");
    let workflow = Workflow::new("w").expect("a name");
    let read = [ReadTrace { claim: own, workflow: Some(workflow.clone()) }];
    database.one.mark_traces_read(&test_tenant("t"), &read, LONG_S * 1000).await.expect("writing");
    assert_eq!(claim(&*database.two).await, Vec::new(), "it is read");

    let late = add(&*database.two, part(TRACE, vec![span("c", "a")]), &IMPATIENT).await;
    assert_eq!(late, AddedTrace::Stored { is_due: true });
    let claimed = claim_one(&*database.two).await;
    assert_eq!((claimed.claim.attempt, claimed.claim.spans, claimed.read_spans), (2, 3, 2));
    assert_eq!(claimed.workflow, Some(workflow));
    let read = [ReadTrace { claim: claimed.claim, workflow: None }];
    database.two.mark_traces_read(&test_tenant("t"), &read, 0).await.expect("writing");
    let claimed = claim_one(&*database.one).await;
    assert_eq!((claimed.read_spans, claimed.workflow.is_some()), (3, true));
    assert!(database.one.end_trace_claim(&claimed.claim, TraceEnd::Forget).await.expect("writing"));
    assert_eq!(add(&*database.one, part(TRACE, vec![span("d", "a")]), &RULES).await, AddedTrace::TooLate);
    let again = add(&*database.two, whole(TRACE, vec![span("a", ""), span("b", "a")]), &RULES).await;
    assert_eq!(again, AddedTrace::Stored { is_due: false }, "an exporter that did not get the answer");
}

/// Checks that a process whose claim was taken over changes nothing.
pub async fn a_claim_that_was_taken_over_decides_nothing(database: &Database) {
    add(&*database.one, part(TRACE, vec![span("a", "")]), &RULES).await;
    let late = database.one.claim_traces(1, 0).await.expect("writing").remove(0).claim;
    let current = claim_one(&*database.two).await.claim;
    assert_eq!((late.attempt, current.attempt), (1, 2));
    assert!(!database.one.end_trace_claim(&late, TraceEnd::Delete).await.expect("writing"));
    let read = [ReadTrace { claim: late, workflow: Some(Workflow::new("late").expect("a name")) }];
    database.one.mark_traces_read(&test_tenant("t"), &read, 0).await.expect("writing");
    assert_eq!(span_ids(&*database.one, &current).await, ["a"]);
    assert!(database.two.end_trace_claim(&current, TraceEnd::Retry(0)).await.expect("writing"));
    let claimed = claim_one(&*database.one).await;
    assert_eq!((claimed.read_spans, claimed.workflow), (0, None));
}

/// Checks that what was decided before a span came is not done.
pub async fn a_span_that_comes_during_a_claim_is_decided_about(database: &Database) {
    add(&*database.one, part(TRACE, vec![span("b", "a")]), &IMPATIENT).await;
    let claimed = claim_one(&*database.one).await.claim;
    let root = add(&*database.two, part(TRACE, vec![span("a", "")]), &RULES).await;
    assert_eq!(root, AddedTrace::Stored { is_due: true });
    let dead_letter = new_dead_letter(&claimed);
    for end in [TraceEnd::DeadLetter(&dead_letter), TraceEnd::Wait(LONG_S * 1000)] {
        assert!(!database.one.end_trace_claim(&claimed, end).await.expect("writing"));
    }
    let next = claim_one(&*database.two).await.claim;
    assert_eq!(span_ids(&*database.two, &next).await, ["a", "b"]);
    let filter = DeadLetterFilter::default();
    assert_eq!(
        database.one.list_dead_letters(&test_tenant("t"), &filter).await.expect("reading"),
        Vec::new()
    );
}

fn new_dead_letter(claim: &TraceClaim) -> NewDeadLetter {
    let position = DeliveryPosition {
        consumer: "gateway".to_owned(),
        stream: "traces".to_owned(),
        sequence: claim.attempt.into(),
    };
    NewDeadLetter {
        position,
        tenant: Some(claim.tenant.clone()),
        workflow: Some(Workflow::new("w").expect("a name")),
        subject: SPANS_SUBJECT.to_owned(),
        headers: Vec::new(),
        payload: b"spans".to_vec(),
        rejection: Rejection::of_message(DeadLetterCode::TraceIncomplete, "no root"),
        attempts: 1,
        stored_at: time_at(0),
    }
}

/// Checks that the spans of a trace go when its dead letter comes, and that other tenants see none of it.
pub async fn a_trace_that_is_given_up_is_a_dead_letter_of_its_tenant(database: &Database) {
    add(&*database.one, part(TRACE, vec![span("b", "a")]), &IMPATIENT).await;
    let claimed = claim_one(&*database.one).await.claim;
    let dead_letter = new_dead_letter(&claimed);
    assert!(
        database.one.end_trace_claim(&claimed, TraceEnd::DeadLetter(&dead_letter)).await.expect("writing")
    );
    assert_eq!(span_ids(&*database.two, &claimed).await, Vec::<String>::new());
    let filter = DeadLetterFilter::default();
    let listed = database.two.list_dead_letters(&test_tenant("t"), &filter).await.expect("reading");
    assert_eq!(listed.len(), 1);
    assert!(listed[0].message.holds_spans());
    let others = database.two.list_dead_letters(&test_tenant("u"), &filter).await.expect("reading");
    assert_eq!(others, Vec::new());
    assert_eq!(add(&*database.one, part(TRACE, vec![span("a", "")]), &RULES).await, AddedTrace::TooLate);
    assert_eq!(database.one.purge_closed_traces(LONG_S, 10).await.expect("writing"), 0);
    assert_eq!(database.one.purge_closed_traces(0, 10).await.expect("writing"), 1);
    let anew = add(&*database.one, part(TRACE, vec![span("a", "")]), &RULES).await;
    assert_eq!(anew, AddedTrace::Stored { is_due: true }, "it is not remembered for ever");
}

/// Checks that the spans of two tenants do not mix, though their traces have one id.
pub async fn traces_with_one_id_of_two_tenants_do_not_mix(database: &Database) {
    add(&*database.one, part(TRACE, vec![span("b", "a")]), &RULES).await;
    let other = test_tenant("u");
    let added = database.one.add_spans(&other, &[part(TRACE, vec![span("a", "")])], &RULES).await;
    assert_eq!(added.expect("writing"), AddSpansResult::Added(vec![AddedTrace::Stored { is_due: true }]));
    let claimed = claim_one(&*database.two).await.claim;
    assert_eq!((&claimed.tenant, span_ids(&*database.two, &claimed).await), (&other, vec!["a".to_owned()]));
    let ids = [TRACE.to_owned(), OTHER.to_owned()];
    assert_eq!(database.one.list_collected_traces(&other, &ids).await.expect("reading"), [TRACE]);
    assert!(database.one.end_trace_claim(&claimed, TraceEnd::Delete).await.expect("writing"));
    assert_eq!(
        database.one.list_collected_traces(&other, &ids).await.expect("reading"),
        Vec::<String>::new()
    );
    let own = database.one.list_collected_traces(&test_tenant("t"), &ids).await.expect("reading");
    assert_eq!(own, [TRACE]);
}

/// Checks the bounds of a trace and of a tenant, and that space is free again once traces are closed.
pub async fn traces_and_tenants_have_bounds(database: &Database) {
    let spans = |range: std::ops::Range<u32>| range.map(|n| span(&n.to_string(), "root")).collect::<Vec<_>>();
    add(&*database.one, part(TRACE, spans(0..8)), &IMPATIENT).await;
    let many = add(&*database.one, part(TRACE, spans(6..12)), &RULES).await;
    assert_eq!(many, AddedTrace::TooManySpans(12));
    let large = part(TRACE, vec![sized_span("large", "root", 9_500)]);
    assert_eq!(add(&*database.one, large, &RULES).await, AddedTrace::TooManyBytes(10_300));
    let huge = whole(OTHER, vec![sized_span("a", "", 10_500)]);
    assert_eq!(
        add(&*database.one, huge, &RULES).await,
        AddedTrace::HasRun(None),
        "a whole trace needs no space"
    );

    let tight =
        CollectionRules { bounds: CollectionBounds { tenant_bytes_max: 1000, ..RULES.bounds }, ..RULES };
    let tenant = test_tenant("t");
    let parts = [part(OTHER, spans(0..3))];
    assert_eq!(
        database.one.add_spans(&tenant, &parts, &tight).await.expect("writing"),
        AddSpansResult::TenantFull
    );
    let known = add(&*database.one, part(TRACE, spans(0..8)), &tight).await;
    assert_eq!(known, AddedTrace::Stored { is_due: false }, "nothing of it is new");
    let all = [whole(OTHER, vec![sized_span("a", "", 500)])];
    let AddSpansResult::Added(added) = database.one.add_spans(&tenant, &all, &tight).await.expect("writing")
    else {
        panic!("whole traces need no space");
    };
    assert_eq!(added, [AddedTrace::HasRun(None)]);

    let claimed = claim_one(&*database.two).await.claim;
    assert!(database.two.end_trace_claim(&claimed, TraceEnd::Forget).await.expect("writing"));
    let free = add(&*database.one, part(OTHER, spans(0..9)), &tight).await;
    assert_eq!(free, AddedTrace::Stored { is_due: false });
    let names = ["1", "2", "3"].map(|name| part(name, vec![span("b", "a")]));
    let crowd = database.one.add_spans(&tenant, &names, &RULES).await.expect("writing");
    assert_eq!(crowd, AddSpansResult::TenantFull, "four traces");
}

/// Checks that metrics count traces of which no run was read.
pub async fn waiting_traces_are_counted(database: &Database) {
    add(&*database.one, part(TRACE, vec![span("b", "a")]), &RULES).await;
    let AddedTrace::HasRun(Some(own)) = add(&*database.one, whole(OTHER, vec![span("a", "")]), &RULES).await
    else {
        panic!("nothing else of it is stored");
    };
    let count = async || database.two.load_metrics().await.expect("metrics").traces_waiting;
    assert_eq!(count().await, 2);
    let read = [ReadTrace { claim: own, workflow: None }];
    database.one.mark_traces_read(&test_tenant("t"), &read, LONG_S * 1000).await.expect("writing");
    assert_eq!(count().await, 1);
    let age = database.two.load_metrics().await.expect("metrics").traces_waiting_age_ms;
    assert!(age.is_some_and(|age| age < LONG_S * 1000), "{age:?}");
}
