//! Defines `run.completed`, the event of a finished run of a workflow.

mod dataref;
mod facts;
mod outgoing;

use jiff::{SignedDuration, Timestamp};
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::{EventKey, Step, Tenant, Workflow, WorkflowKey};
use retro_core::run::{HttpsRef, ObjectRef, RunFacts, RunMemories, SelfFeedback};
use retro_core::trace::TraceContext;
use retro_core::trajectory::Trajectory;
use serde_json::{Map, Value};

use facts::Facts;
pub use outgoing::{INLINE_BYTES_MAX, RunEvent};

use crate::consumer::Delivery;
use crate::envelope::Envelope;
use crate::hosts::DatarefHosts;
use crate::{atif, field, subject};
use retro_core::json::{JsonKind, JsonNode};

/// Type of the event. Its meaning never changes; a new meaning gets a new version.
pub const TYPE: &str = "dev.retrospect.run.completed.v1";
/// Maximum accepted count: the largest integer that every JSON reader represents exactly.
pub const COUNT_MAX: u64 = 1 << 53;
/// Maximum number of memories that one run may name: ten for each of a hundred steps.
pub const MEMORIES_MAX: usize = 1000;
/// Maximum number of remarks of an agent on its own run.
pub const REMARKS_MAX: usize = 64;
/// Maximum length of a remark, in bytes: a page or two of text.
pub const REMARK_BYTES_MAX: usize = 8 * 1024;
/// Maximum time that an emitter's clock may be ahead of the broker's or the gateway's.
const CLOCK_AHEAD_MAX: SignedDuration = SignedDuration::from_hours(24);
/// Earliest accepted time in Unix seconds, 2000-01-01T00:00:00Z. An earlier time comes from a clock that was never
/// set.
const EARLIEST_S: i64 = 946_684_800;

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

/// The trajectory of a run, or a reference to it.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// The event has no trajectory.
    None,
    /// The event contains the trajectory.
    Inline(Trajectory),
    /// The event refers to an object with the tenant's own prefix.
    Object(ObjectRef),
    /// The event refers to an address at an allowed HTTPS host.
    Https(HttpsRef),
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
    Ok((run, body))
}

fn data_object(envelope: &Envelope) -> Result<JsonNode<'_>, Rejection> {
    let data = envelope.data.root();
    field::check_object(DeadLetterCode::FieldInvalid, "data", data)
        .map_err(|_| Rejection::of_field(DeadLetterCode::FieldInvalid, "data", "is to be a JSON object"))?;
    Ok(data)
}

fn check_type(envelope: &Envelope) -> Result<(), Rejection> {
    if envelope.kind == TYPE {
        return Ok(());
    }
    Err(Rejection::of_field(DeadLetterCode::TypeUnknown, "type", format!("only {TYPE} is taken here")))
}

fn parse_workflow(envelope: &Envelope) -> Result<Workflow, Rejection> {
    check_type(envelope)?;
    match envelope.data.root().get("workflow") {
        Some(workflow) => field::deserialize_field(DeadLetterCode::FieldInvalid, "data.workflow", workflow),
        None => Err(Rejection::of_field(DeadLetterCode::FieldInvalid, "data.workflow", "is missing")),
    }
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

/// Parses the facts in `data`, without the body; `null` counts as missing.
fn parse_facts(data: JsonNode<'_>) -> Result<RunFacts, Rejection> {
    for name in ["agent", "usage", "memories"] {
        if let Some(value) = data.get_non_null(name) {
            field::check_object(DeadLetterCode::FieldInvalid, &format!("data.{name}"), value)?;
        }
    }
    let mut run: RunFacts = field::deserialize_field(DeadLetterCode::FieldInvalid, "data", Facts(data))?;
    run.self_feedback =
        data.get_non_null("self_feedback").map(parse_remarks).transpose()?.unwrap_or_default();
    check_numbers(&run)?;
    check_texts(&run)?;
    deduplicate_memories(&mut run.memories)?;
    Ok(run)
}

fn check_numbers(run: &RunFacts) -> Result<(), Rejection> {
    let usage = run.usage.clone().unwrap_or_default();
    let counts = [
        ("data.pull_request", run.pull_request),
        ("data.usage.input_tokens", usage.input_tokens),
        ("data.usage.output_tokens", usage.output_tokens),
    ];
    if let Some((path, _)) = counts.iter().find(|(_, count)| count.is_some_and(|count| count > COUNT_MAX)) {
        return Err(Rejection::of_field(
            DeadLetterCode::FieldInvalid,
            *path,
            format!("is above {COUNT_MAX}"),
        ));
    }
    if usage.cost_usd.is_some_and(|cost| cost < 0.0) {
        return Err(Rejection::of_field(DeadLetterCode::FieldInvalid, "data.usage.cost_usd", "is negative"));
    }
    if run.attempt == 0 {
        return Err(Rejection::of_field(
            DeadLetterCode::FieldInvalid,
            "data.attempt",
            "is 0; the first attempt is 1",
        ));
    }
    Ok(())
}

fn check_texts(run: &RunFacts) -> Result<(), Rejection> {
    let agent = run.agent.clone().unwrap_or_default();
    for (path, text) in [
        ("data.repo", &run.repo),
        ("data.commit", &run.commit),
        ("data.user", &run.user),
        ("data.prompt_version", &run.prompt_version),
        ("data.task", &run.task),
        ("data.agent.name", &agent.name),
        ("data.agent.version", &agent.version),
        ("data.agent.model", &agent.model),
    ] {
        text.as_deref().map_or(Ok(()), |text| field::check_short_text(path, text))?;
    }
    Ok(())
}

/// Removes repeated mentions of a memory and keeps the first. Fails if more than [`MEMORIES_MAX`] memories are
/// named.
fn deduplicate_memories(memories: &mut RunMemories) -> Result<(), Rejection> {
    let lists =
        [("data.memories.presented", &mut memories.presented), ("data.memories.read", &mut memories.read)];
    for (path, list) in lists {
        // Before duplicates are removed, so that the limit also bounds the work.
        if list.len() > MEMORIES_MAX {
            let detail = format!("names {} memories; at most {MEMORIES_MAX} are taken", list.len());
            return Err(Rejection::of_field(DeadLetterCode::FieldInvalid, path, detail));
        }
        let mut seen = std::collections::HashSet::new();
        list.retain(|memory| seen.insert(*memory));
    }
    Ok(())
}

fn check_times(run: &RunFacts, latest: Option<Timestamp>) -> Result<(), Rejection> {
    let invalid = |path, detail| Err(Rejection::of_field(DeadLetterCode::FieldInvalid, path, detail));
    for (path, time) in [("data.started_at", run.started_at), ("data.finished_at", run.finished_at)] {
        let Some(time) = time else { continue };
        if time.as_second() < EARLIEST_S {
            return invalid(path, "is before the year 2000");
        }
        if latest.is_some_and(|latest| time > latest) {
            return invalid(path, "is more than a day ahead of the clock of the server that took it");
        }
    }
    match (run.started_at, run.finished_at) {
        (Some(started), Some(finished)) if finished < started => {
            invalid("data.finished_at", "is before data.started_at")
        }
        _ => Ok(()),
    }
}

/// Parses remarks: one string, or an array whose items are strings or `{step, text}`. Drops empty remarks.
fn parse_remarks(value: JsonNode<'_>) -> Result<Vec<SelfFeedback>, Rejection> {
    let path = "data.self_feedback";
    let mut remarks = Vec::new();
    match value.items() {
        Some(items) => {
            for (nth, item) in items.enumerate() {
                if nth == REMARKS_MAX {
                    let detail = format!("holds more than {REMARKS_MAX} remarks");
                    return Err(Rejection::of_field(DeadLetterCode::FieldInvalid, path, detail));
                }
                remarks.push(parse_remark(&format!("{path}[{nth}]"), item)?);
            }
        }
        None => remarks.push(parse_remark(path, value)?),
    }
    remarks.retain(|remark| !remark.text.trim().is_empty());
    Ok(remarks)
}

fn parse_remark(path: &str, value: JsonNode<'_>) -> Result<SelfFeedback, Rejection> {
    let (step, text, text_path) = match value.kind() {
        JsonKind::Object => (value.get_non_null("step"), value.get("text"), format!("{path}.text")),
        _ => (None, Some(value), path.to_owned()),
    };
    let step = step
        .map(|step| field::deserialize_field(DeadLetterCode::FieldInvalid, &format!("{path}.step"), step))
        .transpose()?;
    let invalid = |detail: String| Err(Rejection::of_field(DeadLetterCode::FieldInvalid, &text_path, detail));
    let Some(text) = text else { return invalid("is missing".to_owned()) };
    match text.as_str() {
        Some(text) if text.len() > REMARK_BYTES_MAX => {
            invalid(format!("is {} bytes long; at most {REMARK_BYTES_MAX} are taken", text.len()))
        }
        Some(text) => {
            // NUL is legal in JSON, but no text column stores it.
            Ok(SelfFeedback { step: step.unwrap_or_else(Step::main), text: text.replace('\0', "\u{fffd}") })
        }
        None => invalid("is not a string".to_owned()),
    }
}

#[cfg(test)]
mod tests;
