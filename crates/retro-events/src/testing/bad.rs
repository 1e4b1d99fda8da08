//! The table of bad input: what engines send by mistake, and what becomes of it on either road.
//!
//! Written once, as data: the stories send each of it through the whole program over NATS and over HTTP, the fuzz
//! targets begin with it. Over NATS a mistake is a dead letter, over HTTP a problem document; both name code and path.

use std::io::Write as _;

use bytes::Bytes;
use retro_core::dead_letter::Code;
use serde_json::{Value, json};

use crate::atif::TURNS_MAX;
use crate::envelope::{EVENT_BYTES_MAX, Encoded, MESSAGE_BYTES_MAX};
use crate::run_completed::TYPE;

/// The workflow that the subjects name.
pub const WORKFLOW: &str = "release";
/// Another workflow of the same tenant.
pub const OTHER: &str = "rollback";

/// A message, and what becomes of it.
#[derive(Debug, Clone)]
pub struct BadInput {
    /// What is wrong with it.
    pub name: &'static str,
    /// What stands after `retro.run.completed.<tenant>.` in its subject.
    pub subject: &'static str,
    /// Headers and payload.
    pub sent: Encoded,
    /// What becomes of it over NATS.
    pub over_nats: Fate,
    /// What becomes of it over HTTP, where there is no subject.
    pub over_http: Fate,
}

/// What becomes of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It cannot even be sent: the broker takes no payload of this size.
    NotCarried,
    /// It is taken, and becomes a dead letter with this code and path.
    DeadLetter(Code, Option<&'static str>),
    /// It is answered with a problem document of this status, code and path.
    Problem(u16, Code, Option<&'static str>),
    /// It is as it should be on this road, and its run is counted.
    Counted,
    /// It says nothing new, and nothing is counted.
    Known,
    /// It cannot be said on this road.
    Unsaid,
}

/// The event that the table's mistakes are mistakes of: it is sent first, and counted.
pub fn good() -> Value {
    event("good", &json!({"workflow": WORKFLOW, "run_id": "good", "outcome": "success"}))
}

/// Every case.
pub fn table() -> Vec<BadInput> {
    [bytes(), envelopes(), fields(), times(), owners(), identities(), sizes(), packed(), references()]
        .concat()
}

fn bytes() -> Vec<BadInput> {
    let nested = json!({"workflow": WORKFLOW, "run_id": "r", "outcome": "success", "deep": "DEEP"});
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let nested = event("nested", &nested).to_string().replace("\"DEEP\"", &deep);
    let half = good().to_string();
    vec![
        refused("not JSON", b"run 7 is over", 400, Code::NotJson, None),
        refused("half of an event", &half.as_bytes()[..half.len() / 2], 400, Code::NotJson, None),
        refused("nothing at all", b"", 400, Code::NotJson, None),
        refused("not UTF-8", b"{\"id\": \"\xff\xfe\"}", 400, Code::NotUtf8, None),
        refused("nested 10,000 deep", "[".repeat(10_000).as_bytes(), 400, Code::TooDeep, None),
        refused("nested 10,000 deep in a field", nested.as_bytes(), 400, Code::TooDeep, None),
    ]
}

fn envelopes() -> Vec<BadInput> {
    let typed = |version: &str| with("/type", json!(TYPE.replace(".v1", version)));
    vec![
        refused("no CloudEvent", b"{\"run\": 7}", 400, Code::NotCloudEvent, Some("specversion")),
        refused(
            "an unknown spec version",
            &with("/specversion", json!("2.0")),
            400,
            Code::SpecVersionUnknown,
            Some("specversion"),
        ),
        refused("an unknown event version", &typed(".v2"), 422, Code::TypeUnknown, Some("type")),
        refused("no id", &with("/id", json!(null)), 422, Code::FieldInvalid, Some("id")),
        refused(
            "data that is a list",
            &with("/data", json!([7])),
            422,
            Code::FieldInvalid,
            Some("data.workflow"),
        ),
    ]
}

fn fields() -> Vec<BadInput> {
    let field = |name, pointer, value, path| {
        refused(name, &with(pointer, value), 422, Code::FieldInvalid, Some(path))
    };
    let call = json!({"schema_version": "ATIF-v1.6", "steps": [
        {"source": "agent", "message": "a"}, {"source": "agent", "tool_calls": [{"arguments": {}}]}]});
    vec![
        field("a missing field", "/data/run_id", json!(null), "data.run_id"),
        field("a mistyped field", "/data/usage", json!({"input_tokens": "many"}), "data.usage.input_tokens"),
        field("an outcome nobody knows", "/data/outcome", json!("won"), "data.outcome"),
        refused(
            "a call without a name",
            &with("/data/trajectory", call),
            422,
            Code::TrajectoryInvalid,
            Some("data.trajectory.steps[1].tool_calls[0].function_name"),
        ),
    ]
}

fn times() -> Vec<BadInput> {
    let time = |name, data: Value, path| {
        let data = merged(&json!({"workflow": WORKFLOW, "run_id": "r", "outcome": "success"}), data);
        refused(name, event(name, &data).to_string().as_bytes(), 422, Code::FieldInvalid, Some(path))
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

fn owners() -> Vec<BadInput> {
    let elsewhere = json!({"workflow": OTHER, "run_id": "elsewhere", "outcome": "success"});
    let elsewhere = structured(event("elsewhere", &elsewhere).to_string().as_bytes());
    vec![
        refused(
            "a tenant unlike the subject's",
            &with("/tenant", json!("somebody-else")),
            422,
            Code::TenantMismatch,
            Some("tenant"),
        ),
        BadInput {
            name: "a workflow unlike the subject's",
            subject: WORKFLOW,
            sent: elsewhere,
            over_nats: Fate::DeadLetter(Code::WorkflowMismatch, Some("data.workflow")),
            over_http: Fate::Counted,
        },
        BadInput {
            subject: "a.b",
            over_nats: Fate::DeadLetter(Code::SubjectInvalid, Some("subject")),
            over_http: Fate::Unsaid,
            ..refused("a subject of one token too many", b"{}", 400, Code::NotCloudEvent, None)
        },
    ]
}

/// The order matters: they follow [`good`].
fn identities() -> Vec<BadInput> {
    let mut changed = good();
    changed["data"]["outcome"] = json!("failure");
    let conflict = Fate::DeadLetter(Code::IdentityConflict, Some("id"));
    let both = json!({"workflow": OTHER, "run_id": "good", "outcome": "success"});
    let case = |name, subject, event: Value, fate: Fate| BadInput {
        name,
        subject,
        sent: structured(event.to_string().as_bytes()),
        over_nats: fate.clone(),
        over_http: fate,
    };
    vec![
        case("the same id with the same content", WORKFLOW, good(), Fate::Known),
        case("the same id with other content", WORKFLOW, changed, conflict),
        case("a run id in two workflows", OTHER, event("in two workflows", &both), Fate::Counted),
    ]
}

fn sizes() -> Vec<BadInput> {
    let data = |id: &str, more: Value| {
        let data = json!({"workflow": WORKFLOW, "run_id": id, "outcome": "success"});
        event(id, &merged(&data, more)).to_string().into_bytes()
    };
    let turns = |name, id, turns, over_http| {
        let steps = vec![json!({"source": "user", "message": "a"}); turns];
        let data = data(id, json!({"trajectory": {"schema_version": "ATIF-v1.7", "steps": steps}}));
        // Packed, or no message would carry it; unpacked it is more than a message may hold.
        let over_nats = Fate::DeadLetter(Code::Oversized, None);
        BadInput { name, subject: WORKFLOW, sent: zstd(&data), over_nats, over_http }
    };
    let too_many = Fate::Problem(422, Code::TrajectoryInvalid, Some("data.trajectory.steps"));
    vec![
        BadInput {
            over_nats: Fate::NotCarried,
            ..refused(
                "a message above 1 MiB without a trajectory",
                &data("large", json!({"note": "x".repeat(MESSAGE_BYTES_MAX)})),
                413,
                Code::Oversized,
                None,
            )
        },
        turns("a trajectory of 100,000 turns", "long", TURNS_MAX, Fate::Counted),
        turns("a trajectory of 100,001 turns", "too long", TURNS_MAX + 1, too_many),
    ]
}

fn packed() -> Vec<BadInput> {
    let whole = zstd(good().to_string().as_bytes());
    let half = |packed: &Encoded| Encoded {
        headers: packed.headers.clone(),
        payload: packed.payload.slice(..packed.payload.len() / 2),
    };
    let case = |name, sent, status, code, path| BadInput { sent, ..refused(name, b"", status, code, path) };
    let (invalid, at) = (Code::EncodingInvalid, Some("content-encoding"));
    vec![
        case("half of a zstd body", half(&whole), 400, invalid, at),
        case("half of a gzip body", half(&gzip(good().to_string().as_bytes())), 400, invalid, at),
        case("an encoding nobody reads", encoded("br", &whole.payload), 415, invalid, at),
        case("a bomb of 34 MiB in zstd", zstd(&vec![b' '; 2 * EVENT_BYTES_MAX]), 413, Code::Oversized, None),
    ]
}

fn references() -> Vec<BadInput> {
    let sha256 = "0".repeat(64);
    let refused = |name, reference: Value| {
        let sent = with("/data/dataref", reference);
        refused(name, &sent, 422, Code::DatarefRefused, Some("data.dataref"))
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

/// A payload that is refused on both roads for the same reason.
fn refused(
    name: &'static str,
    payload: &[u8],
    status: u16,
    code: Code,
    path: Option<&'static str>,
) -> BadInput {
    BadInput {
        name,
        subject: WORKFLOW,
        sent: structured(payload),
        over_nats: Fate::DeadLetter(code, path),
        over_http: Fate::Problem(status, code, path),
    }
}

/// The good event with another value at a pointer, under an id of its own.
fn with(pointer: &str, value: Value) -> Vec<u8> {
    let mut event = good();
    event["id"] = json!(format!("another {pointer} {value}"));
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    event.pointer_mut(parent).expect("it is there")[key] = value;
    event.to_string().into_bytes()
}

fn event(id: &str, data: &Value) -> Value {
    json!({"specversion": "1.0", "id": id, "source": "/bad-input", "type": TYPE, "data": data})
}

fn merged(data: &Value, more: Value) -> Value {
    let mut data = data.clone();
    if let (Value::Object(data), Value::Object(more)) = (&mut data, more) {
        data.extend(more);
    }
    data
}

fn structured(payload: &[u8]) -> Encoded {
    let headers = vec![("content-type".to_owned(), "application/cloudevents+json".to_owned())];
    Encoded { headers, payload: Bytes::copy_from_slice(payload) }
}

fn encoded(encoding: &str, payload: &[u8]) -> Encoded {
    let mut sent = structured(payload);
    sent.headers.push(("content-encoding".to_owned(), encoding.to_owned()));
    sent
}

fn zstd(payload: &[u8]) -> Encoded {
    encoded("zstd", &zstd::encode_all(payload, 3).expect("memory"))
}

fn gzip(payload: &[u8]) -> Encoded {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packer.write_all(payload).expect("memory");
    encoded("gzip", &packer.finish().expect("memory"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::DatarefHosts;
    use crate::testing::laws;
    use crate::{Delivery, run_completed};

    #[test]
    fn what_one_message_shows_by_itself_is_refused_with_the_code_and_path_of_the_table() {
        for case in table() {
            let subject = format!("retro.run.completed.default.{}", case.subject);
            let BadInput { name, sent, over_nats, .. } = case;
            let delivery =
                Delivery { subject, headers: sent.headers, payload: sent.payload, ..laws::delivery(b"") };
            let read = run_completed::read(&delivery, &DatarefHosts::default());
            let read = read.map(|_| ()).map_err(|rejection| (rejection.code, rejection.path));
            let expected = match over_nats {
                Fate::NotCarried => Err((Code::Oversized, None)),
                // Only the database knows what came under this id before.
                Fate::DeadLetter(Code::IdentityConflict, _) | Fate::Counted | Fate::Known => Ok(()),
                Fate::DeadLetter(code, path) => Err((code, path.map(str::to_owned))),
                fate @ (Fate::Problem(..) | Fate::Unsaid) => unreachable!("{fate:?} over NATS"),
            };
            assert_eq!(read, expected, "{name}");
        }
    }
}
