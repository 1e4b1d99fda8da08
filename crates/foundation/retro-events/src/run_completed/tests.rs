use bytes::Bytes;
use proptest::prelude::*;
use retro_core::id::Workflow;
use retro_core::run::{HttpsRef, ObjectRef};
use serde_json::json;

use super::*;
use crate::field;

const ADDRESS: &str = "https://runs.example.com/1.json?right=2";
const HASH: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

fn delivery(headers: &[(&str, &str)], payload: impl Into<Bytes>) -> Delivery {
    Delivery {
        stream: "INTAKE".to_owned(),
        subject: "retro.run.completed.acme.fix-ci".to_owned(),
        sequence: 1,
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        payload: payload.into(),
        delivered: 1,
        stored_at: "2026-11-20T12:00:00Z".parse().unwrap(),
    }
}

/// Parses a delivery, with `runs.example.com` as the only allowed host.
fn read(delivery: &Delivery) -> Result<RunCompleted, Rejection> {
    super::parse_delivery(delivery, &DatarefHosts::parse(&["runs.example.com"]).unwrap())
}

fn structured(event: &Value) -> Delivery {
    delivery(&[("Content-Type", "application/cloudevents+json; charset=UTF-8")], event.to_string())
}

fn event() -> Value {
    json!({
        "specversion": "1.0", "type": TYPE, "source": "/engines/ci", "id": "evt",
        "data": {"workflow": "fix-ci", "run_id": "run", "outcome": "success"},
    })
}

/// Builds an event with a different value at a JSON pointer.
fn with(pointer: &str, value: Value) -> Value {
    let mut event = event();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = event.pointer_mut(parent).unwrap();
    match value {
        Value::Null => drop(parent.as_object_mut().unwrap().remove(key)),
        value => parent[key] = value,
    }
    event
}

fn binary_text(golden: &str) -> Delivery {
    let (headers, payload) = golden.split_once("\n\n").unwrap();
    let headers: Vec<_> = headers.lines().map(|line| line.split_once(": ").unwrap()).collect();
    delivery(&headers, payload.to_owned())
}

#[test]
fn the_minimal_payload_of_version_1_is_read_in_both_modes() {
    let structured = delivery(&[], include_str!("../../golden/v1-minimal.structured.json"));
    let binary = binary_text(include_str!("../../golden/v1-minimal.binary.txt"));
    let run = read(&structured).unwrap();
    assert_eq!(run, read(&binary).unwrap());
    insta::assert_debug_snapshot!(run);
}

#[test]
fn the_full_structured_payload_of_version_1_is_read() {
    let golden = delivery(
        &[("content-type", "application/cloudevents+json")],
        include_str!("../../golden/v1-full.structured.json"),
    );
    insta::assert_debug_snapshot!(read(&golden).unwrap());
}

#[test]
fn the_full_binary_payload_of_version_1_is_read() {
    insta::assert_debug_snapshot!(
        read(&binary_text(include_str!("../../golden/v1-full.binary.txt"))).unwrap()
    );
}

#[track_caller]
fn refused(event: &Value, code: DeadLetterCode, path: &str) -> String {
    let rejection = read(&structured(event)).unwrap_err();
    assert_eq!((rejection.code, rejection.path.as_deref()), (code, Some(path)), "{rejection}");
    rejection.detail
}

#[test]
fn invalid_values_are_rejected_with_code_and_path() {
    use DeadLetterCode::{
        DatarefRefused, FieldInvalid, NotCloudEvent, Oversized, SpecVersionUnknown, TenantMismatch,
        TrajectoryInvalid, TypeUnknown, WorkflowMismatch,
    };
    let trajectory = |steps: Value| json!({"schema_version": "ATIF-v1.4", "steps": steps});
    let object = |name: &str| json!({"name": name, "sha256": HASH, "bytes": 70_000});
    let address = |url: &str| json!({"url": url, "sha256": HASH});
    for (pointer, value, code, path) in [
        ("/specversion", json!(null), NotCloudEvent, "specversion"),
        ("/specversion", json!("0.3"), SpecVersionUnknown, "specversion"),
        ("/type", json!("dev.retrospect.run.completed.v2"), TypeUnknown, "type"),
        ("/id", json!(null), FieldInvalid, "id"),
        ("/id", json!(""), FieldInvalid, "id"),
        ("/source", json!(7), FieldInvalid, "source"),
        ("/time", json!("yesterday"), FieldInvalid, "time"),
        ("/datacontenttype", json!("application/xml"), FieldInvalid, "datacontenttype"),
        ("/data_base64", json!("e30="), FieldInvalid, "data_base64"),
        ("/data", json!([]), FieldInvalid, "data.workflow"),
        ("/tenant", json!("other"), TenantMismatch, "tenant"),
        ("/tenant", json!(7), TenantMismatch, "tenant"),
        ("/data/workflow", json!("other"), WorkflowMismatch, "data.workflow"),
        ("/data/workflow", json!(""), FieldInvalid, "data.workflow"),
        ("/data/run_id", json!(null), FieldInvalid, "data.run_id"),
        ("/data/run_id", json!("x".repeat(257)), FieldInvalid, "data.run_id"),
        ("/data/outcome", json!("won"), FieldInvalid, "data.outcome"),
        ("/data/attempt", json!(0), FieldInvalid, "data.attempt"),
        ("/data/attempt", json!(-1), FieldInvalid, "data.attempt"),
        ("/data/kind", json!("odd"), FieldInvalid, "data.kind"),
        ("/data/agent", json!(["name"]), FieldInvalid, "data.agent"),
        ("/data/repo", json!("x".repeat(1025)), FieldInvalid, "data.repo"),
        ("/data/user", json!("a\u{0}b"), FieldInvalid, "data.user"),
        ("/data/usage", json!({"input_tokens": "many"}), FieldInvalid, "data.usage.input_tokens"),
        ("/data/usage", json!({"output_tokens": u64::MAX}), FieldInvalid, "data.usage.output_tokens"),
        ("/data/usage", json!({"cost_usd": -0.5}), FieldInvalid, "data.usage.cost_usd"),
        ("/data/started_at", json!("1999-12-31T23:59:59Z"), FieldInvalid, "data.started_at"),
        ("/data/finished_at", json!("2026-11-21T12:00:01Z"), FieldInvalid, "data.finished_at"),
        ("/data/finished_at", json!("2026-11-20T10:00:00"), FieldInvalid, "data.finished_at"),
        ("/data/memories", json!({"read": ["x"]}), FieldInvalid, "data.memories.read[0]"),
        ("/data/self_feedback", json!(7), FieldInvalid, "data.self_feedback"),
        ("/data/self_feedback", json!(["a", {"step": "fix"}]), FieldInvalid, "data.self_feedback[1].text"),
        (
            "/data/self_feedback",
            json!([{"step": "", "text": "a"}]),
            FieldInvalid,
            "data.self_feedback[0].step",
        ),
        ("/data/self_feedback", json!(vec!["a"; 65]), FieldInvalid, "data.self_feedback"),
        ("/data/dataref", json!("https://files.example/run.json"), DatarefRefused, "data.dataref"),
        ("/data/dataref", json!({"url": "http://169.254.169.254/"}), DatarefRefused, "data.dataref"),
        ("/data/dataref", address("http://runs.example.com/1.json"), DatarefRefused, "data.dataref"),
        ("/data/dataref", address("https://files.example/run.json"), DatarefRefused, "data.dataref"),
        ("/data/dataref", address("https://127.0.0.1/"), DatarefRefused, "data.dataref"),
        ("/data/dataref", address("https://[::1]/"), DatarefRefused, "data.dataref"),
        ("/data/dataref", address("FILE:///etc/passwd"), DatarefRefused, "data.dataref"),
        ("/data/dataref", json!({"url": ADDRESS, "name": "acme/x"}), DatarefRefused, "data.dataref"),
        ("/data/dataref", json!({"url": ADDRESS}), FieldInvalid, "data.dataref.sha256"),
        ("/data/dataref", json!({"url": ADDRESS, "sha256": "0"}), FieldInvalid, "data.dataref.sha256"),
        (
            "/data/dataref",
            json!({"url": ADDRESS, "sha256": HASH.to_uppercase()}),
            FieldInvalid,
            "data.dataref.sha256",
        ),
        ("/data/dataref", object("ACME/x"), DatarefRefused, "data.dataref"),
        ("/data/dataref", object(&format!("acme%2F{HASH}")), DatarefRefused, "data.dataref"),
        ("/data/dataref", object(&format!("acme=2F{HASH}")), DatarefRefused, "data.dataref"),
        ("/data/dataref", object(&format!("=61cme/{HASH}")), DatarefRefused, "data.dataref"),
        ("/data/dataref", object(&format!("/acme/{HASH}")), DatarefRefused, "data.dataref"),
        ("/data/dataref", object(&format!("./acme/{HASH}")), DatarefRefused, "data.dataref"),
        ("/data/dataref", object(&format!("acme//{HASH}")), DatarefRefused, "data.dataref"),
        ("/data/dataref", object(&format!("acme/../other/{HASH}")), DatarefRefused, "data.dataref"),
        ("/data/dataref", object("/etc/passwd"), DatarefRefused, "data.dataref"),
        ("/data/dataref", object("other/x"), DatarefRefused, "data.dataref"),
        ("/data/dataref", object("acme/../other/x"), DatarefRefused, "data.dataref"),
        ("/data/dataref", object("acme/"), DatarefRefused, "data.dataref"),
        ("/data/dataref", object(&format!("other/{HASH}")), DatarefRefused, "data.dataref"),
        ("/data/dataref", object("acme/x"), DatarefRefused, "data.dataref"),
        ("/data/dataref", json!({"name": "acme/x", "bytes": 1}), FieldInvalid, "data.dataref.sha256"),
        (
            "/data/dataref",
            json!({"name": format!("acme/{HASH}"), "sha256": HASH, "bytes": 1_u64 << 40}),
            Oversized,
            "data.dataref.bytes",
        ),
        ("/dataref", json!("file:///etc/passwd"), DatarefRefused, "dataref"),
        ("/dataref", json!("//runs.example.com/1.json"), DatarefRefused, "dataref"),
        ("/dataref", json!("https://169.254.169.254/"), DatarefRefused, "dataref"),
        ("/dataref", json!(7), DatarefRefused, "dataref"),
        ("/dataref", json!(format!("acme/{HASH}")), FieldInvalid, "dataref.bytes"),
        ("/data/trajectory", json!("text"), TrajectoryInvalid, "data.trajectory"),
        ("/data/trajectory", json!({"steps": []}), TrajectoryInvalid, "data.trajectory.schema_version"),
        (
            "/data/trajectory",
            json!({"schema_version": "ATIF-v2.0", "steps": []}),
            TrajectoryInvalid,
            "data.trajectory.schema_version",
        ),
        (
            "/data/trajectory",
            trajectory(json!([
                {"source": "user", "message": "a"},
                {"source": "agent", "message": "b", "tool_calls": [{"function_name": 7}]},
            ])),
            TrajectoryInvalid,
            "data.trajectory.steps[1].tool_calls[0].function_name",
        ),
        (
            "/data/trajectory",
            trajectory(json!([["user", "main"]])),
            TrajectoryInvalid,
            "data.trajectory.steps[0]",
        ),
        (
            "/data/trajectory",
            trajectory(json!([{"source": "agent", "tool_calls": [["id", "bash"]]}])),
            TrajectoryInvalid,
            "data.trajectory.steps[0].tool_calls[0]",
        ),
        (
            "/data/trajectory",
            trajectory(json!([{"source": "robot"}])),
            TrajectoryInvalid,
            "data.trajectory.steps[0].source",
        ),
    ] {
        refused(&with(pointer, value), code, path);
    }
}

#[test]
fn a_body_at_an_allowed_host_is_taken_in_both_forms_and_by_one_spelling() {
    let taken = Body::Https(HttpsRef { url: ADDRESS.to_owned(), sha256: HASH.to_owned() });
    let spelled = "HTTPS://Runs.Example.com:443/./1.json?right=2#part";
    for url in [ADDRESS, spelled] {
        let within = with("/data/dataref", json!({"url": url, "sha256": HASH}));
        assert_eq!(read(&structured(&within)).unwrap().body, taken);
        let mut beside = with("/dataref", json!(url));
        beside["datarefsha256"] = json!(HASH);
        assert_eq!(read(&structured(&beside)).unwrap().body, taken);
        let none = DatarefHosts::default();
        assert_eq!(
            super::parse_delivery(&structured(&within), &none).unwrap_err().code,
            DeadLetterCode::DatarefRefused
        );
    }
}

#[test]
fn a_packed_event_is_the_same_event_in_both_modes() {
    let plain = read(&structured(&event())).unwrap();
    let mut packed = structured(&event());
    packed.payload = zstd::encode_all(&*packed.payload, 3).unwrap().into();
    packed.headers.push(("Content-Encoding".to_owned(), "zstd".to_owned()));
    assert_eq!(read(&packed).unwrap(), plain);
    let mut binary = binary_text(include_str!("../../golden/v1-minimal.binary.txt"));
    let plain = read(&binary).unwrap();
    binary.payload = zstd::encode_all(&*binary.payload, 3).unwrap().into();
    assert!(read(&binary).is_err(), "packed, and nothing says so");
    binary.headers.push(("content-encoding".to_owned(), "zstd".to_owned()));
    assert_eq!(read(&binary).unwrap(), plain);
}

#[test]
fn an_end_before_its_start_is_refused() {
    let mut event = event();
    event["data"]["started_at"] = json!("2026-11-20T10:00:00Z");
    event["data"]["finished_at"] = json!("2026-11-20T09:59:59Z");
    assert_eq!(
        refused(&event, DeadLetterCode::FieldInvalid, "data.finished_at"),
        "is before data.started_at"
    );
}

#[test]
fn a_task_is_an_optional_short_text() {
    let task = |value: Value| read(&structured(&with("/data/task", value)));
    assert_eq!(task(json!("sql-17")).unwrap().run.task.as_deref(), Some("sql-17"));
    assert_eq!(task(json!(null)).unwrap().run.task, None);
    refused(
        &with("/data/task", json!("x".repeat(field::SHORT_TEXT_BYTES_MAX + 1))),
        DeadLetterCode::FieldInvalid,
        "data.task",
    );
    refused(&with("/data/task", json!(17)), DeadLetterCode::FieldInvalid, "data.task");
}

#[test]
fn a_run_has_one_body() {
    let mut event = with("/data/trajectory", json!({"schema_version": "ATIF-v1.0", "steps": []}));
    event["data"]["dataref"] = json!({"name": format!("acme/{HASH}"), "sha256": HASH, "bytes": 1});
    refused(&event, DeadLetterCode::FieldInvalid, "data.trajectory");
    let mut event = with("/data/trajectory", json!({"schema_version": "ATIF-v1.0", "steps": []}));
    event["data"]["outcome_only"] = json!(true);
    refused(&event, DeadLetterCode::FieldInvalid, "data.outcome_only");
    event["data"]["trajectory"] = json!(null);
    assert!(read(&structured(&event)).unwrap().run.outcome_only);
}

#[test]
fn a_rejection_never_repeats_the_value() {
    for pointer in ["/time", "/data/outcome", "/data/started_at", "/data/usage", "/data/dataref", "/tenant"] {
        let rejection = read(&structured(&with(pointer, json!("s3cret")))).unwrap_err();
        assert!(!rejection.to_string().contains("s3cret"), "{rejection}");
    }
}

#[test]
fn messages_that_are_not_events_get_distinct_codes() {
    for (headers, payload, code) in [
        (vec![], "", DeadLetterCode::NotJson),
        (vec![], "[]", DeadLetterCode::NotCloudEvent),
        (vec![], "{}", DeadLetterCode::NotCloudEvent),
        (vec![("content-type", "application/cloudevents-batch+json")], "[]", DeadLetterCode::NotCloudEvent),
        (vec![("content-type", "application/cloudevents+avro")], "x", DeadLetterCode::NotCloudEvent),
        (vec![("ce-specversion", "1.0"), ("content-type", "text/plain")], "x", DeadLetterCode::FieldInvalid),
    ] {
        assert_eq!(read(&delivery(&headers, payload)).unwrap_err().code, code, "{headers:?} {payload}");
    }
    assert_eq!(read(&delivery(&[], vec![0xff])).unwrap_err().code, DeadLetterCode::NotUtf8);
    assert_eq!(
        read(&delivery(&[], vec![b' '; 1024 * 1024 + 1])).unwrap_err().code,
        DeadLetterCode::Oversized
    );
    assert_eq!(read(&delivery(&[], "[".repeat(200))).unwrap_err().code, DeadLetterCode::TooDeep);
    let mut elsewhere = structured(&event());
    elsewhere.subject = "retro.run.completed.acme".to_owned();
    assert_eq!(read(&elsewhere).unwrap_err().code, DeadLetterCode::SubjectInvalid);
}

#[test]
fn data_in_base64_is_the_same_data() {
    let mut encoded = event();
    let data = encoded.as_object_mut().unwrap().remove("data").unwrap();
    use base64::Engine as _;
    encoded["data_base64"] = json!(base64::engine::general_purpose::STANDARD.encode(data.to_string()));
    assert_eq!(read(&structured(&encoded)).unwrap(), read(&structured(&event())).unwrap());
}

#[test]
fn other_content_under_the_same_id_has_another_hash_and_another_spelling_has_not() {
    let hash = |event: &Value| read(&structured(event)).unwrap().content_hash;
    let spelled = event().to_string().replace(':', " : ");
    let spelled = read(&delivery(&[], spelled)).unwrap().content_hash;
    assert_eq!(hash(&event()), spelled);
    assert_ne!(hash(&event()), hash(&with("/data/outcome", json!("failure"))));
    assert_ne!(hash(&event()), hash(&with("/data/unheard_of", json!(1))));
}

#[test]
fn what_is_written_is_read_in_both_modes_and_unknown_fields_survive() {
    let golden: Value = serde_json::from_str(include_str!("../../golden/v1-full.structured.json")).unwrap();
    let event = RunEvent::from_envelope(Envelope::from_document(&golden.clone().into()).unwrap()).unwrap();
    let original = read(&structured(&golden)).unwrap();
    for encoded in [event.envelope.to_structured(), event.envelope.to_binary()] {
        let headers: Vec<_> = encoded.headers.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let sent = delivery(&headers, encoded.payload.clone());
        assert_eq!(read(&sent).unwrap(), original);
        let back = Envelope::from_delivery(&sent).unwrap();
        assert_eq!(back.data.root().to_value()["queue"]["name"], "nobody here knows this field");
        assert_eq!(back.extensions["traceparent"], golden["traceparent"]);
    }
}

#[test]
fn a_new_event_has_an_id_derived_from_its_content() {
    let golden = delivery(&[], include_str!("../../golden/v1-full.structured.json"));
    let run = read(&golden).unwrap().run;
    let workflow = Workflow::new("fix-ci").unwrap();
    let event = RunEvent::new("retro-emit", workflow.clone(), run.clone(), None);
    let sent = delivery(&[], event.envelope.to_structured().payload);
    assert_eq!(read(&sent).unwrap().run, run);
    assert_eq!(event, RunEvent::new("retro-emit", workflow.clone(), run.clone(), None));
    let later = RunFacts { attempt: run.attempt + 1, ..run };
    assert_ne!(event.envelope.id, RunEvent::new("retro-emit", workflow, later, None).envelope.id);
}

#[test]
fn a_large_body_is_uploaded_and_named() {
    let message = "x".repeat(INLINE_BYTES_MAX);
    let steps = json!([{"source": "user", "message": message}]);
    let trajectory = json!({"schema_version": "ATIF-v1.7", "steps": steps});
    let run = read(&structured(&event())).unwrap().run;
    let event = RunEvent::new("retro-emit", Workflow::new("fix-ci").unwrap(), run, Some(trajectory));
    let body = event.body_to_upload().expect("it is too large for its event");
    assert_eq!(atif::from_slice(&body).unwrap().turns.len(), 1);
    let object = ObjectRef {
        name: subject::body_name(&Tenant::new("acme").unwrap(), HASH),
        sha256: HASH.to_owned(),
        bytes: body.len() as u64,
    };
    let event = event.with_object(&object);
    assert_eq!(event.body_to_upload(), None);
    assert_eq!(
        read(&delivery(&[], event.envelope.to_structured().payload)).unwrap().body,
        Body::Object(object)
    );
}

/// Collects the JSON pointers of a value and of everything in it.
fn pointers(value: &Value, at: &str, into: &mut Vec<String>) {
    into.push(at.to_owned());
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| pointers(value, &format!("{at}/{key}"), into))
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(nth, value)| pointers(value, &format!("{at}/{nth}"), into));
        }
        _ => {}
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,20}".prop_map(Value::from),
        Just(json!("\u{0}")),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z_]{1,8}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn arbitrary_bytes_and_headers_never_panic(
        payload in prop::collection::vec(any::<u8>(), 0..200),
        headers in prop::collection::vec(("(ce-[a-z]{1,12}|content-type|ce-specversion)", "\\PC{0,30}"), 0..6),
        subject in "(retro\\.run\\.completed\\.)?[a-z=%.0-9]{0,20}",
    ) {
        let headers: Vec<_> = headers.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let mut delivery = delivery(&headers, payload);
        let _ = read(&delivery);
        delivery.subject = subject;
        let _ = read(&delivery);
    }

    #[test]
    fn an_event_with_any_value_anywhere_is_read_or_refused_with_a_path(
        place in any::<prop::sample::Index>(),
        value in any_json(),
    ) {
        let mut event: Value =
            serde_json::from_str(include_str!("../../golden/v1-full.structured.json")).unwrap();
        let mut places = Vec::new();
        pointers(&event, "", &mut places);
        let place: &String = place.get(&places);
        *event.pointer_mut(place).unwrap() = value;
        if let Err(rejection) = read(&structured(&event)) {
            prop_assert!(rejection.path.is_some(), "{rejection}");
            prop_assert!(!rejection.detail.is_empty());
        }
    }

    #[test]
    fn a_truncated_event_is_refused(length in 1..2000usize) {
        let golden = include_str!("../../golden/v1-full.structured.json").trim_end();
        let cut: String = golden.chars().take(length.min(golden.len() - 1)).collect();
        prop_assert!(read(&delivery(&[], cut)).is_err());
    }
}

#[test]
fn the_trace_is_read_from_the_event_or_the_message_headers() {
    let of = |span: &str| format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{span}-01");
    let (inside, beside) = (of("00f067aa0ba902b7"), of("00f067aa0ba902b8"));
    let mut event: Value =
        serde_json::from_str(include_str!("../../golden/v1-full.structured.json")).unwrap();
    let mut check = |extension: Value, header: &str, wanted: Option<&str>| {
        event["traceparent"] = extension;
        let mut delivery = structured(&event);
        delivery.headers.push(("traceparent".to_owned(), header.to_owned()));
        let read = super::parse_delivery(&delivery, &DatarefHosts::default()).unwrap();
        assert_eq!(read.trace.map(|trace| trace.traceparent()).as_deref(), wanted);
    };
    check(json!(inside), &beside, Some(&inside));
    check(json!("nonsense"), &beside, Some(&beside));
    check(json!(7), "nonsense", None);
}

#[test]
fn a_message_that_was_delivered_before_or_is_replayed_is_repeated() {
    let first = delivery(&[], "");
    assert!(!first.is_repeated());
    assert!(Delivery { delivered: 2, ..first }.is_repeated());
    assert!(delivery(&[("retro-replay", "1")], "").is_repeated(), "in whichever case it was written");
}
