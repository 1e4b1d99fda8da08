//! Defines `run.completed`, the event of a finished run of a workflow.

mod body;
mod dataref;
mod event_data;
mod facts;
mod outgoing;

use jiff::{SignedDuration, Timestamp};
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::{EventKey, Tenant, WorkflowKey};
use retro_core::run::RunFacts;
use retro_core::trace::TraceContext;
use serde_json::{Map, Value};

pub use body::Body;
pub use event_data::TYPE;
use event_data::{data_object, parse_workflow};
pub use facts::{COUNT_MAX, MEMORIES_MAX, REMARK_BYTES_MAX, REMARKS_MAX};
use facts::{check_times, parse_facts};
pub use outgoing::{INLINE_BYTES_MAX, RunEvent};

use crate::delivery::Delivery;
use crate::envelope::Envelope;
use crate::hosts::DatarefHosts;
use crate::{atif, subject};
use retro_core::json::JsonNode;

/// Maximum time that an emitter's clock may be ahead of the broker's or the gateway's.
const CLOCK_AHEAD_MAX: SignedDuration = SignedDuration::from_hours(24);

/// A finished run as described by its event. It is not redacted; the counter redacts it before anything is
/// stored.
#[derive(Debug, Clone, PartialEq)]
pub struct RunCompleted {
    /// Identity of the event.
    pub event: EventKey,
    /// Tenant and workflow of the run, from the subject.
    pub key: WorkflowKey,
    /// SHA-256 of the canonical form of `data`, which reveals different content under the same id.
    pub content_hash: String,
    /// Facts of the run, without its body.
    pub run: RunFacts,
    /// Trajectory of the run, or a reference to it.
    pub body: Body,
    /// Trace context of whatever caused the event. It comes from the extension `traceparent` (CloudEvents
    /// distributed tracing), or else from the message header; `None` if there is none.
    pub trace: Option<TraceContext>,
}

/// Parses a delivery from the intake stream. The subject determines tenant and workflow, and `hosts` lists
/// the HTTPS hosts at which a body may be stored. Fails with a code and the path of the invalid field.
pub fn parse_delivery(delivery: &Delivery, hosts: &DatarefHosts) -> Result<RunCompleted, Rejection> {
    let key = subject::parse_run_completed(&delivery.subject)?;
    let envelope = Envelope::from_delivery(delivery)?;
    let (run, body) = parse_envelope(&envelope, &key, delivery.stored_at, hosts)?;
    let content_hash = envelope.data.root().content_hash();
    let trace = trace_context(&envelope.extensions).or_else(|| delivery.trace_context());
    let event = EventKey { tenant: key.tenant.clone(), source: envelope.source, id: envelope.id };
    Ok(RunCompleted { event, key, content_hash, run, body, trace })
}

fn trace_context(extensions: &Map<String, Value>) -> Option<TraceContext> {
    let text = |name| extensions.get(name).and_then(Value::as_str);
    TraceContext::from_headers(text("traceparent")?, text("tracestate")).ok()
}

/// Parses the identity of the event in a delivery, if possible, even if the event is rejected for another reason.
pub fn parse_event_key(delivery: &Delivery) -> Option<EventKey> {
    let key = subject::parse_run_completed(&delivery.subject).ok()?;
    let Envelope { source, id, .. } = Envelope::from_delivery(delivery).ok()?;
    Some(EventKey { tenant: key.tenant, source, id })
}

/// Validates an event that does not come from the stream, exactly as [`parse_delivery`] will validate the
/// resulting message, so its sender gets an error immediately. The event itself is not changed.
pub fn validate_envelope(
    envelope: Envelope,
    tenant: &Tenant,
    now: Timestamp,
    hosts: &DatarefHosts,
) -> Result<RunEvent, Rejection> {
    let key = WorkflowKey { tenant: tenant.clone(), workflow: parse_workflow(&envelope)? };
    let (run, _) = parse_envelope(&envelope, &key, now, hosts)?;
    Ok(RunEvent { envelope, workflow: key.workflow, run })
}

fn parse_envelope(
    envelope: &Envelope,
    key: &WorkflowKey,
    now: Timestamp,
    hosts: &DatarefHosts,
) -> Result<(RunFacts, Body), Rejection> {
    check_owner(envelope, key)?;
    let data = data_object(envelope)?;
    let body = parse_body(data, &envelope.extensions, &key.tenant, hosts)?;
    let run = parse_facts(data)?;
    check_times(&run, Some(now.checked_add(CLOCK_AHEAD_MAX).unwrap_or(Timestamp::MAX)))?;
    if run.outcome_only && body != Body::None {
        return Err(Rejection::of_field(
            DeadLetterCode::FieldInvalid,
            "data.outcome_only",
            "is true beside a body; leave out one of them",
        ));
    }
    Ok((run, body))
}

/// Fails if the event contradicts its subject. The broker's permissions protect the subject, so a difference is a
/// mistake or an attack.
fn check_owner(envelope: &Envelope, key: &WorkflowKey) -> Result<(), Rejection> {
    let tenant = envelope.extensions.get("tenant");
    if tenant.is_some_and(|tenant| tenant.as_str() != Some(key.tenant.as_str())) {
        return Err(Rejection::of_field(
            DeadLetterCode::TenantMismatch,
            "tenant",
            "is not the tenant of the subject",
        ));
    }
    if parse_workflow(envelope)? != key.workflow {
        let detail = "is not the workflow of the subject";
        return Err(Rejection::of_field(DeadLetterCode::WorkflowMismatch, "data.workflow", detail));
    }
    Ok(())
}

fn parse_body(
    data: JsonNode<'_>,
    extensions: &Map<String, Value>,
    tenant: &Tenant,
    hosts: &DatarefHosts,
) -> Result<Body, Rejection> {
    let reference = dataref::parse_dataref(data, extensions, tenant, hosts)?;
    match (data.get_non_null("trajectory"), reference) {
        (Some(_), Some(_)) => Err(Rejection::of_field(
            DeadLetterCode::FieldInvalid,
            "data.trajectory",
            "stands beside a dataref; a run has one body",
        )),
        (Some(trajectory), None) => atif::parse_trajectory(trajectory, "data.trajectory").map(Body::Inline),
        (None, Some(body)) => Ok(body),
        (None, None) => Ok(Body::None),
    }
}

#[cfg(test)]
mod tests;
