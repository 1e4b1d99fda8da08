//! Lists mistakes that engines make in events, with the outcomes expected over NATS and over HTTP.
//!
//! The table is data: the stories send each case through the whole program over NATS and over HTTP, and the
//! fuzz targets start with it. Over NATS a mistake becomes a dead letter, over HTTP a problem document; both
//! contain a code and a path.

use std::io::Write as _;

use bytes::Bytes;
use retro_core::dead_letter::DeadLetterCode;
use serde_json::{Value, json};

use crate::atif::TURNS_MAX;
use crate::envelope::{EVENT_BYTES_MAX, EncodedEvent, MESSAGE_BYTES_MAX};
use crate::run_completed::TYPE;

/// Workflow in the subjects of most cases.
pub const WORKFLOW: &str = "release";
/// Another workflow of the same tenant.
pub const OTHER_WORKFLOW: &str = "rollback";

/// A message with a mistake, and its expected outcomes.
#[derive(Debug, Clone)]
pub struct BadInput {
    /// Description of the mistake.
    pub name: &'static str,
    /// Part of the subject after `retro.run.completed.<tenant>.`.
    pub subject: &'static str,
    /// Headers and payload of the message.
    pub sent: EncodedEvent,
    /// Expected outcome over NATS.
    pub over_nats: ExpectedOutcome,
    /// Expected outcome over HTTP, where there is no subject.
    pub over_http: ExpectedOutcome,
}

/// Expected outcome of sending a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpectedOutcome {
    /// The broker refuses a payload of this size.
    RefusedByBroker,
    /// The message is accepted, and becomes a dead letter with this code and path.
    DeadLetter(DeadLetterCode, Option<&'static str>),
    /// The response is a problem document with this status, code and path.
    Problem(u16, DeadLetterCode, Option<&'static str>),
    /// The message is valid over this protocol, and its run is counted.
    Counted,
    /// The message repeats a known event, and nothing is counted.
    Duplicate,
    /// The mistake cannot be made over this protocol.
    NotExpressible,
}

/// Returns the valid event that the mistakes are variations of. It is sent first, and its run is counted.
pub fn valid_event() -> Value {
    structured_event("good", &json!({"workflow": WORKFLOW, "run_id": "good", "outcome": "success"}))
}

/// Returns every case.
pub fn bad_inputs() -> Vec<BadInput> {
    [
        byte_cases(),
        envelope_cases(),
        field_cases(),
        time_cases(),
        owner_cases(),
        identity_cases(),
        size_cases(),
        compressed_cases(),
        dataref_cases(),
    ]
    .concat()
}

fn byte_cases() -> Vec<BadInput> {
    let nested = json!({"workflow": WORKFLOW, "run_id": "r", "outcome": "success", "deep": "DEEP"});
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let nested = structured_event("nested", &nested).to_string().replace("\"DEEP\"", &deep);
    let half = valid_event().to_string();
    vec![
        refused_case("not JSON", b"run 7 is over", 400, DeadLetterCode::NotJson, None),
        refused_case(
            "half of an event",
            &half.as_bytes()[..half.len() / 2],
            400,
            DeadLetterCode::NotJson,
            None,
        ),
        refused_case("nothing at all", b"", 400, DeadLetterCode::NotJson, None),
        refused_case("not UTF-8", b"{\"id\": \"\xff\xfe\"}", 400, DeadLetterCode::NotUtf8, None),
        refused_case("nested 10,000 deep", "[".repeat(10_000).as_bytes(), 400, DeadLetterCode::TooDeep, None),
        refused_case("nested 10,000 deep in a field", nested.as_bytes(), 400, DeadLetterCode::TooDeep, None),
    ]
}

fn envelope_cases() -> Vec<BadInput> {
    let typed = |version: &str| with_value("/type", json!(TYPE.replace(".v1", version)));
    vec![
        refused_case(
            "no CloudEvent",
            b"{\"run\": 7}",
            400,
            DeadLetterCode::NotCloudEvent,
            Some("specversion"),
        ),
        refused_case(
            "an unknown spec version",
            &with_value("/specversion", json!("2.0")),
            400,
            DeadLetterCode::SpecVersionUnknown,
            Some("specversion"),
        ),
        refused_case(
            "an unknown event version",
            &typed(".v2"),
            422,
            DeadLetterCode::TypeUnknown,
            Some("type"),
        ),
        refused_case("no id", &with_value("/id", json!(null)), 422, DeadLetterCode::FieldInvalid, Some("id")),
        refused_case(
            "data that is a list",
            &with_value("/data", json!([7])),
            422,
            DeadLetterCode::FieldInvalid,
            Some("data.workflow"),
        ),
    ]
}

fn field_cases() -> Vec<BadInput> {
    let field = |name, pointer, value, path| {
        refused_case(name, &with_value(pointer, value), 422, DeadLetterCode::FieldInvalid, Some(path))
    };
    let call = json!({"schema_version": "ATIF-v1.6", "steps": [
        {"source": "agent", "message": "a"}, {"source": "agent", "tool_calls": [{"arguments": {}}]}]});
    vec![
        field("a missing field", "/data/run_id", json!(null), "data.run_id"),
        field("a mistyped field", "/data/usage", json!({"input_tokens": "many"}), "data.usage.input_tokens"),
        field("an outcome nobody knows", "/data/outcome", json!("won"), "data.outcome"),
        refused_case(
            "a call without a name",
            &with_value("/data/trajectory", call),
            422,
            DeadLetterCode::TrajectoryInvalid,
            Some("data.trajectory.steps[1].tool_calls[0].function_name"),
        ),
    ]
}

fn time_cases() -> Vec<BadInput> {
    let time = |name, data: Value, path| {
        let data = merge_data(&json!({"workflow": WORKFLOW, "run_id": "r", "outcome": "success"}), data);
        refused_case(
            name,
            structured_event(name, &data).to_string().as_bytes(),
            422,
            DeadLetterCode::FieldInvalid,
            Some(path),
        )
    };
    vec![
        time(
            "an end before its start",
            json!({"started_at": "2026-11-20T10:00:00Z", "finished_at": "2026-11-20T09:59:59Z"}),
            "data.finished_at",
        ),
        time("a start in 1970", json!({"started_at": "1970-01-01T00:00:00Z"}), "data.started_at"),
        time("an end in the year 9000", json!({"finished_at": "9000-01-01T00:00:00Z"}), "data.finished_at"),
        time("a thirteenth month", json!({"finished_at": "2026-13-01T00:00:00Z"}), "data.finished_at"),
        time("a time that is a number", json!({"finished_at": 1_763_632_800}), "data.finished_at"),
    ]
}

fn owner_cases() -> Vec<BadInput> {
    let elsewhere = json!({"workflow": OTHER_WORKFLOW, "run_id": "elsewhere", "outcome": "success"});
    let elsewhere = encode_structured(structured_event("elsewhere", &elsewhere).to_string().as_bytes());
    vec![
        refused_case(
            "a tenant unlike the subject's",
            &with_value("/tenant", json!("somebody-else")),
            422,
            DeadLetterCode::TenantMismatch,
            Some("tenant"),
        ),
        BadInput {
            name: "a workflow unlike the subject's",
            subject: WORKFLOW,
            sent: elsewhere,
            over_nats: ExpectedOutcome::DeadLetter(DeadLetterCode::WorkflowMismatch, Some("data.workflow")),
            over_http: ExpectedOutcome::Counted,
        },
        BadInput {
            subject: "a.b",
            over_nats: ExpectedOutcome::DeadLetter(DeadLetterCode::SubjectInvalid, Some("subject")),
            over_http: ExpectedOutcome::NotExpressible,
            ..refused_case("a subject of one token too many", b"{}", 400, DeadLetterCode::NotCloudEvent, None)
        },
    ]
}

/// Returns the cases in which the identity of an event is repeated. They must be sent in this order, after
/// [`valid_event`].
fn identity_cases() -> Vec<BadInput> {
    let mut changed = valid_event();
    changed["data"]["outcome"] = json!("failure");
    let conflict = ExpectedOutcome::DeadLetter(DeadLetterCode::IdentityConflict, Some("id"));
    let both = json!({"workflow": OTHER_WORKFLOW, "run_id": "good", "outcome": "success"});
    let case = |name, subject, event: Value, fate: ExpectedOutcome| BadInput {
        name,
        subject,
        sent: encode_structured(event.to_string().as_bytes()),
        over_nats: fate.clone(),
        over_http: fate,
    };
    vec![
        case("the same id with the same content", WORKFLOW, valid_event(), ExpectedOutcome::Duplicate),
        case("the same id with other content", WORKFLOW, changed, conflict),
        case(
            "a run id in two workflows",
            OTHER_WORKFLOW,
            structured_event("in two workflows", &both),
            ExpectedOutcome::Counted,
        ),
    ]
}

fn size_cases() -> Vec<BadInput> {
    let data = |id: &str, more: Value| {
        let data = json!({"workflow": WORKFLOW, "run_id": id, "outcome": "success"});
        structured_event(id, &merge_data(&data, more)).to_string().into_bytes()
    };
    let turns = |name, id, turns, over_http| {
        let steps = vec![json!({"source": "user", "message": "a"}); turns];
        let data = data(id, json!({"trajectory": {"schema_version": "ATIF-v1.7", "steps": steps}}));
        // Compressed, because no message could carry it otherwise; decompressed, it exceeds the size of a
        // message.
        let over_nats = ExpectedOutcome::DeadLetter(DeadLetterCode::Oversized, None);
        BadInput { name, subject: WORKFLOW, sent: compress_zstd(&data), over_nats, over_http }
    };
    let too_many =
        ExpectedOutcome::Problem(422, DeadLetterCode::TrajectoryInvalid, Some("data.trajectory.steps"));
    vec![
        BadInput {
            over_nats: ExpectedOutcome::RefusedByBroker,
            ..refused_case(
                "a message above 1 MiB without a trajectory",
                &data("large", json!({"note": "x".repeat(MESSAGE_BYTES_MAX)})),
                413,
                DeadLetterCode::Oversized,
                None,
            )
        },
        turns("a trajectory of 100,000 turns", "long", TURNS_MAX, ExpectedOutcome::Counted),
        turns("a trajectory of 100,001 turns", "too long", TURNS_MAX + 1, too_many),
    ]
}

fn compressed_cases() -> Vec<BadInput> {
    let whole = compress_zstd(valid_event().to_string().as_bytes());
    let half = |packed: &EncodedEvent| EncodedEvent {
        headers: packed.headers.clone(),
        payload: packed.payload.slice(..packed.payload.len() / 2),
    };
    let case =
        |name, sent, status, code, path| BadInput { sent, ..refused_case(name, b"", status, code, path) };
    let (invalid, at) = (DeadLetterCode::EncodingInvalid, Some("content-encoding"));
    vec![
        case("half of a zstd body", half(&whole), 400, invalid, at),
        case(
            "half of a gzip body",
            half(&compress_gzip(valid_event().to_string().as_bytes())),
            400,
            invalid,
            at,
        ),
        case("an encoding nobody reads", encode_compressed("br", &whole.payload), 415, invalid, at),
        case(
            "a bomb of 34 MiB in zstd",
            compress_zstd(&vec![b' '; 2 * EVENT_BYTES_MAX]),
            413,
            DeadLetterCode::Oversized,
            None,
        ),
    ]
}

fn dataref_cases() -> Vec<BadInput> {
    let sha256 = "0".repeat(64);
    let refused = |name, reference: Value| {
        let sent = with_value("/data/dataref", reference);
        refused_case(name, &sent, 422, DeadLetterCode::DatarefRefused, Some("data.dataref"))
    };
    let url = |url: &str| json!({"url": url, "sha256": sha256});
    vec![
        refused("a body in a file of the server", url("file:///etc/passwd")),
        refused("a body at a path", json!({"name": "/etc/passwd", "sha256": sha256, "bytes": 1})),
        refused("a body at a loopback address", url("https://127.0.0.1/run.json")),
        refused("a body at a cloud's metadata", url("http://169.254.169.254/latest/meta-data")),
        refused("a body at a host that is not allowed", url("https://files.example.net/run.json")),
        refused(
            "a body of another tenant",
            json!({"name": format!("somebody-else/{sha256}"), "sha256": sha256, "bytes": 1}),
        ),
    ]
}

/// Builds a case with a payload that is rejected over NATS and HTTP for the same reason.
fn refused_case(
    name: &'static str,
    payload: &[u8],
    status: u16,
    code: DeadLetterCode,
    path: Option<&'static str>,
) -> BadInput {
    BadInput {
        name,
        subject: WORKFLOW,
        sent: encode_structured(payload),
        over_nats: ExpectedOutcome::DeadLetter(code, path),
        over_http: ExpectedOutcome::Problem(status, code, path),
    }
}

/// Returns the valid event with another value at a JSON pointer and with a different id.
fn with_value(pointer: &str, value: Value) -> Vec<u8> {
    let mut event = valid_event();
    event["id"] = json!(format!("another {pointer} {value}"));
    let (parent, key) = pointer.rsplit_once('/').expect("the pointer contains a slash");
    event.pointer_mut(parent).expect("the parent exists in the valid event")[key] = value;
    event.to_string().into_bytes()
}

fn structured_event(id: &str, data: &Value) -> Value {
    json!({"specversion": "1.0", "id": id, "source": "/bad-input", "type": TYPE, "data": data})
}

fn merge_data(data: &Value, more: Value) -> Value {
    let mut data = data.clone();
    if let (Value::Object(data), Value::Object(more)) = (&mut data, more) {
        data.extend(more);
    }
    data
}

fn encode_structured(payload: &[u8]) -> EncodedEvent {
    let headers = vec![("content-type".to_owned(), "application/cloudevents+json".to_owned())];
    EncodedEvent { headers, payload: Bytes::copy_from_slice(payload) }
}

fn encode_compressed(encoding: &str, payload: &[u8]) -> EncodedEvent {
    let mut sent = encode_structured(payload);
    sent.headers.push(("content-encoding".to_owned(), encoding.to_owned()));
    sent
}

fn compress_zstd(payload: &[u8]) -> EncodedEvent {
    encode_compressed("zstd", &zstd::encode_all(payload, 3).expect("compression to memory cannot fail"))
}

fn compress_gzip(payload: &[u8]) -> EncodedEvent {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packer.write_all(payload).expect("compression to memory cannot fail");
    encode_compressed("gzip", &packer.finish().expect("compression to memory cannot fail"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::DatarefHosts;
    use crate::testing::laws;
    use crate::{Delivery, run_completed};

    #[test]
    fn every_bad_message_gets_the_code_and_path_of_the_table() {
        for case in bad_inputs() {
            let subject = format!("retro.run.completed.default.{}", case.subject);
            let BadInput { name, sent, over_nats, .. } = case;
            let delivery = Delivery {
                subject,
                headers: sent.headers,
                payload: sent.payload,
                ..laws::parse_delivery(b"")
            };
            let read = run_completed::parse_delivery(&delivery, &DatarefHosts::default());
            let read = read.map(|_| ()).map_err(|rejection| (rejection.code, rejection.path));
            let expected = match over_nats {
                ExpectedOutcome::RefusedByBroker => Err((DeadLetterCode::Oversized, None)),
                // Only the database knows which content this id had before.
                ExpectedOutcome::DeadLetter(DeadLetterCode::IdentityConflict, _)
                | ExpectedOutcome::Counted
                | ExpectedOutcome::Duplicate => Ok(()),
                ExpectedOutcome::DeadLetter(code, path) => Err((code, path.map(str::to_owned))),
                fate @ (ExpectedOutcome::Problem(..) | ExpectedOutcome::NotExpressible) => {
                    unreachable!("{fate:?} over NATS")
                }
            };
            assert_eq!(read, expected, "{name}");
        }
    }
}
