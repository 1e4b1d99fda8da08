//! `run.completed`: the event by which an engine says that a run of a workflow is over.

mod dataref;
mod facts;
mod outgoing;

use jiff::{SignedDuration, Timestamp};
use retro_core::dead_letter::{Code, Rejection};
use retro_core::id::{EventKey, Step, Tenant, Workflow, WorkflowKey};
use retro_core::run::{Feedback, HttpsRef, MemoryUse, ObjectRef, RunFacts};
use retro_core::trace::TraceContext;
use retro_core::trajectory::Trajectory;
use serde_json::{Map, Value};

use facts::Facts;
pub use outgoing::{INLINE_BYTES_MAX, RunEvent};

use crate::consumer::Delivery;
use crate::envelope::Envelope;
use crate::hosts::DatarefHosts;
use crate::{atif, field, subject};
use retro_core::json::{Kind, Node};

/// The event's type. Its meaning never changes: another meaning gets another version.
pub const TYPE: &str = "dev.retrospect.run.completed.v1";
/// The largest number that is taken for a count: what every JSON reader keeps exactly.
pub const COUNT_MAX: u64 = 1 << 53;
/// The most memories that one run may name: a hundred steps with ten each.
pub const MEMORIES_MAX: usize = 1000;
/// The most remarks of an agent on its own run.
pub const REMARKS_MAX: usize = 64;
/// The longest remark, in bytes: a page or two of text.
pub const REMARK_BYTES_MAX: usize = 8 * 1024;
/// How far an emitter's clock may be ahead of the broker's, or of the gateway's.
const AHEAD_MAX: SignedDuration = SignedDuration::from_hours(24);
/// 2000-01-01T00:00:00Z: before it nobody ran an agent; a clock that says so was never set.
const EARLIEST_S: i64 = 946_684_800;

/// A finished run as its event tells it. Not redacted: the counter does that before anything is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct RunCompleted {
    /// The event's identity.
    pub event: EventKey,
    /// The workflow, by the subject.
    pub key: WorkflowKey,
    /// SHA-256 of the canonical form of `data`: tells another content under the same id.
    pub content_hash: String,
    /// Everything about the run but its body.
    pub run: RunFacts,
    /// The trajectory.
    pub body: Body,
    /// What caused the event: by its extension `traceparent` (CloudEvents' distributed tracing), else by the message's header.
    pub trace: Option<TraceContext>,
}

/// How the trajectory came.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// Not at all.
    None,
    /// In the event.
    Inline(Trajectory),
    /// By reference to an object of the tenant's own.
    Object(ObjectRef),
    /// By reference to a host that is allowed.
    Https(HttpsRef),
}

/// Reads a delivery from the intake stream. The subject says whose it is; `hosts` says where else a body may lie;
/// whatever does not fit is refused with a code and the path of the field.
pub fn read(delivery: &Delivery, hosts: &DatarefHosts) -> Result<RunCompleted, Rejection> {
    let key = subject::parse_run_completed(&delivery.subject)?;
    let envelope = Envelope::read(delivery)?;
    let (run, body) = read_envelope(&envelope, &key, delivery.stored_at, hosts)?;
    let content_hash = envelope.data.root().content_hash();
    let trace = trace_of(&envelope.extensions).or_else(|| delivery.trace());
    let event = EventKey { tenant: key.tenant.clone(), source: envelope.source, id: envelope.id };
    Ok(RunCompleted { event, key, content_hash, run, body, trace })
}

fn trace_of(extensions: &Map<String, Value>) -> Option<TraceContext> {
    let text = |name| extensions.get(name).and_then(Value::as_str);
    TraceContext::of_headers(text("traceparent")?, text("tracestate")).ok()
}

/// What the event in a delivery is called, as far as that can be read: also of one that is refused for something else.
pub fn event(delivery: &Delivery) -> Option<EventKey> {
    let key = subject::parse_run_completed(&delivery.subject).ok()?;
    let Envelope { source, id, .. } = Envelope::read(delivery).ok()?;
    Some(EventKey { tenant: key.tenant, source, id })
}

/// Checks an event that comes by another road, as [`read`] will check the message that it becomes: who sends it is
/// told its mistake at once. It is kept as it came.
pub fn receive(
    envelope: Envelope,
    tenant: &Tenant,
    now: Timestamp,
    hosts: &DatarefHosts,
) -> Result<RunEvent, Rejection> {
    let key = WorkflowKey { tenant: tenant.clone(), workflow: workflow_of(&envelope)? };
    let (run, _) = read_envelope(&envelope, &key, now, hosts)?;
    Ok(RunEvent { envelope, workflow: key.workflow, run })
}

fn read_envelope(
    envelope: &Envelope,
    key: &WorkflowKey,
    now: Timestamp,
    hosts: &DatarefHosts,
) -> Result<(RunFacts, Body), Rejection> {
    check_owner(envelope, key)?;
    let data = data_of(envelope)?;
    let body = read_body(data, &envelope.extensions, &key.tenant, hosts)?;
    let run = read_facts(data)?;
    check_times(&run, Some(now.checked_add(AHEAD_MAX).unwrap_or(Timestamp::MAX)))?;
    Ok((run, body))
}

fn data_of(envelope: &Envelope) -> Result<Node<'_>, Rejection> {
    let data = envelope.data.root();
    field::check_object(Code::FieldInvalid, "data", data)
        .map_err(|_| Rejection::at(Code::FieldInvalid, "data", "is to be a JSON object"))?;
    Ok(data)
}

fn check_type(envelope: &Envelope) -> Result<(), Rejection> {
    if envelope.kind == TYPE {
        return Ok(());
    }
    Err(Rejection::at(Code::TypeUnknown, "type", format!("only {TYPE} is taken here")))
}

fn workflow_of(envelope: &Envelope) -> Result<Workflow, Rejection> {
    check_type(envelope)?;
    match envelope.data.root().get("workflow") {
        Some(workflow) => field::read(Code::FieldInvalid, "data.workflow", workflow),
        None => Err(Rejection::at(Code::FieldInvalid, "data.workflow", "is missing")),
    }
}

/// The subject is what the broker's permissions guard; an event that says otherwise is a mistake or an attack.
fn check_owner(envelope: &Envelope, key: &WorkflowKey) -> Result<(), Rejection> {
    let tenant = envelope.extensions.get("tenant");
    if tenant.is_some_and(|tenant| tenant.as_str() != Some(key.tenant.as_str())) {
        return Err(Rejection::at(Code::TenantMismatch, "tenant", "is not the tenant of the subject"));
    }
    if workflow_of(envelope)? != key.workflow {
        let detail = "is not the workflow of the subject";
        return Err(Rejection::at(Code::WorkflowMismatch, "data.workflow", detail));
    }
    Ok(())
}

fn read_body(
    data: Node<'_>,
    extensions: &Map<String, Value>,
    tenant: &Tenant,
    hosts: &DatarefHosts,
) -> Result<Body, Rejection> {
    let reference = dataref::find(data, extensions, tenant, hosts)?;
    match (data.get_present("trajectory"), reference) {
        (Some(_), Some(_)) => Err(Rejection::at(
            Code::FieldInvalid,
            "data.trajectory",
            "stands beside a dataref; a run has one body",
        )),
        (Some(trajectory), None) => atif::read(trajectory, "data.trajectory").map(Body::Inline),
        (None, Some(body)) => Ok(body),
        (None, None) => Ok(Body::None),
    }
}

/// What `data` says beside the body; a fact that is `null` is not said.
fn read_facts(data: Node<'_>) -> Result<RunFacts, Rejection> {
    for name in ["agent", "usage", "memories"] {
        if let Some(value) = data.get_present(name) {
            field::check_object(Code::FieldInvalid, &format!("data.{name}"), value)?;
        }
    }
    let mut run: RunFacts = field::read(Code::FieldInvalid, "data", Facts(data))?;
    run.self_feedback = data.get_present("self_feedback").map(read_remarks).transpose()?.unwrap_or_default();
    check_numbers(&run)?;
    check_texts(&run)?;
    bound_memories(&mut run.memories)?;
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
        return Err(Rejection::at(Code::FieldInvalid, *path, format!("is above {COUNT_MAX}")));
    }
    if usage.cost_usd.is_some_and(|cost| cost < 0.0) {
        return Err(Rejection::at(Code::FieldInvalid, "data.usage.cost_usd", "is negative"));
    }
    if run.attempt == 0 {
        return Err(Rejection::at(Code::FieldInvalid, "data.attempt", "is 0; the first attempt is 1"));
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

/// Keeps the first mention of each memory.
fn bound_memories(memories: &mut MemoryUse) -> Result<(), Rejection> {
    let lists =
        [("data.memories.presented", &mut memories.presented), ("data.memories.read", &mut memories.read)];
    for (path, list) in lists {
        if list.len() > MEMORIES_MAX {
            let detail = format!("names {} memories; at most {MEMORIES_MAX} are taken", list.len());
            return Err(Rejection::at(Code::FieldInvalid, path, detail));
        }
        let mut seen = std::collections::HashSet::new();
        list.retain(|memory| seen.insert(*memory));
    }
    Ok(())
}

fn check_times(run: &RunFacts, latest: Option<Timestamp>) -> Result<(), Rejection> {
    let invalid = |path, detail| Err(Rejection::at(Code::FieldInvalid, path, detail));
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

/// One string, or an array of strings and of `{step, text}`; an empty remark says nothing and is left out.
fn read_remarks(value: Node<'_>) -> Result<Vec<Feedback>, Rejection> {
    let path = "data.self_feedback";
    let mut remarks = Vec::new();
    match value.items() {
        Some(items) => {
            for (nth, item) in items.enumerate() {
                if nth == REMARKS_MAX {
                    let detail = format!("holds more than {REMARKS_MAX} remarks");
                    return Err(Rejection::at(Code::FieldInvalid, path, detail));
                }
                remarks.push(read_remark(&format!("{path}[{nth}]"), item)?);
            }
        }
        None => remarks.push(read_remark(path, value)?),
    }
    remarks.retain(|remark| !remark.text.trim().is_empty());
    Ok(remarks)
}

fn read_remark(path: &str, value: Node<'_>) -> Result<Feedback, Rejection> {
    let (step, text, text_path) = match value.kind() {
        Kind::Object => (value.get_present("step"), value.get("text"), format!("{path}.text")),
        _ => (None, Some(value), path.to_owned()),
    };
    let step = step.map(|step| field::read(Code::FieldInvalid, &format!("{path}.step"), step)).transpose()?;
    let invalid = |detail: String| Err(Rejection::at(Code::FieldInvalid, &text_path, detail));
    let Some(text) = text else { return invalid("is missing".to_owned()) };
    match text.as_str() {
        Some(text) if text.len() > REMARK_BYTES_MAX => {
            invalid(format!("is {} bytes long; at most {REMARK_BYTES_MAX} are taken", text.len()))
        }
        Some(text) => {
            Ok(Feedback { step: step.unwrap_or_else(Step::main), text: text.replace('\0', "\u{fffd}") })
        }
        None => invalid("is not a string".to_owned()),
    }
}

#[cfg(test)]
mod tests;
