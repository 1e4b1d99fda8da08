//! Traces of OpenTelemetry become runs, whichever convention and encoding they are in.

use std::path::Path;

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status, span::Event};
use proptest::prelude::*;
use prost::Message as _;
use retro_adapters::{
    Format, ImportOptions, ImportedRun, TraceEncoding, assemble_trace, detect_format, import_file,
    import_traces, join_span_documents,
};
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::run::RunOutcome;
use retro_core::trajectory::Trajectory;
use retro_events::atif;
use serde_json::{Value, json};

const TRACE: &str = "5b8aa5a2d2c872e8321cf37308d69df2";

fn read_fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/otel").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn import(bytes: &[u8]) -> Result<Vec<ImportedRun>, Rejection> {
    import_file(bytes, "traces", &ImportOptions::default())
}

fn import_json(document: &Value) -> Vec<ImportedRun> {
    import(document.to_string().as_bytes()).expect("the traces have runs")
}

fn parse_trajectory(run: &ImportedRun) -> Trajectory {
    atif::parse_trajectory(run.event.trajectory().expect("a run of a trace has a trajectory"), "")
        .expect("a fixture is well-formed")
}

/// Describes a run and its turns, one a line.
fn describe_run(run: &ImportedRun) -> String {
    let facts = &run.event.run;
    let mut text = format!(
        "{}{}{} {} {}, task {:?}, tokens {:?}/{:?}\n",
        run.location,
        if run.location.is_empty() { "" } else { ": " },
        run.event.workflow,
        facts.run_id,
        facts.outcome.as_str(),
        facts.task.as_deref().unwrap_or_default(),
        facts.usage.as_ref().and_then(|usage| usage.input_tokens),
        facts.usage.as_ref().and_then(|usage| usage.output_tokens),
    );
    for turn in parse_trajectory(run).turns {
        let said: String = turn.message.chars().take(60).collect();
        text.push_str(&format!("  [{}] {:?} {said:?}\n", turn.step, turn.source));
        for call in turn.calls {
            let answer: String = call.answer.unwrap_or_default().chars().take(60).collect();
            text.push_str(&format!("    {} {:?} failed {:?}\n", call.tool, answer, call.failed));
        }
    }
    text
}

fn span(id: u64, parent: u64, name: &str, attributes: &Value) -> Value {
    let attributes: Vec<Value> = attributes
        .as_object()
        .expect("a fixture is well-formed")
        .iter()
        .map(|(key, value)| json!({"key": key, "value": {"stringValue": value}}))
        .collect();
    json!({
        "traceId": TRACE, "spanId": format!("{id:016x}"), "name": name,
        "parentSpanId": if parent == 0 { String::new() } else { format!("{parent:016x}") },
        "startTimeUnixNano": (id * 1_000_000_000).to_string(),
        "endTimeUnixNano": (id * 1_000_000_000 + 500).to_string(),
        "attributes": attributes,
    })
}

fn document(spans: &[Value]) -> Value {
    json!({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
}

fn chat(id: u64, input: &Value, output: &Value) -> Value {
    let attributes = json!({
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": input.to_string(),
        "gen_ai.output.messages": output.to_string(),
    });
    span(id, 1, "chat", &attributes)
}

fn says(role: &str, text: &str) -> Value {
    json!({"role": role, "parts": [{"type": "text", "content": text}]})
}

#[test]
fn every_fixture_reads_like_this() {
    let names = [
        "agent.composed.jsonl",
        "older.composed.json",
        "claude-agent-sdk.printed.json",
        "google-genai.printed.json",
        "openai-agents-mcp.printed.json",
    ];
    let describe = |name: &&str| {
        let runs = import(&read_fixture(name)).unwrap_or_else(|rejection| panic!("{name}: {rejection}"));
        assert_eq!(detect_format(&read_fixture(name), name).unwrap(), Format::OpenTelemetry);
        format!("{name}\n{}", runs.iter().map(describe_run).collect::<String>())
    };
    insta::assert_snapshot!(names.iter().map(describe).collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_trace_is_one_run_in_whatever_order_and_documents_its_spans_come() {
    let text = String::from_utf8(read_fixture("agent.composed.jsonl")).unwrap();
    let whole = import(text.as_bytes()).unwrap();
    assert_eq!(whole.len(), 1);
    let turned: String = text.lines().rev().map(|line| format!("{line}\n")).collect();
    assert_eq!(import(turned.as_bytes()).unwrap(), whole);
    let twice = format!("{text}{text}");
    assert_eq!(import(twice.as_bytes()).unwrap(), whole, "a batch that was sent again adds nothing");
}

#[test]
fn what_a_request_repeats_is_read_once_and_what_is_said_twice_is_read_twice() {
    let (ask, reply) = (says("user", "Go on."), says("assistant", "Done."));
    let first = chat(2, &json!([ask]), &json!([reply]));
    let second = chat(3, &json!([ask, reply, ask]), &json!([reply]));
    let runs = import_json(&document(&[first, second]));
    let said: Vec<_> = parse_trajectory(&runs[0]).turns.into_iter().map(|turn| turn.message).collect();
    assert_eq!(said, ["Go on.", "Done.", "Go on.", "Done."]);
}

#[test]
fn messages_that_were_exported_as_log_records_are_read_in_their_order() {
    let record = |second: u64, name: &str, body: Value| {
        let body: Vec<Value> = body
            .as_object()
            .expect("a body has members")
            .iter()
            .map(|(key, text)| json!({"key": key, "value": {"stringValue": text}}))
            .collect();
        json!({
            "timeUnixNano": (second * 1_000_000_000).to_string(), "eventName": name,
            "traceId": TRACE, "spanId": format!("{:016x}", 2), "body": {"kvlistValue": {"values": body}},
        })
    };
    let records = [
        record(5, "gen_ai.choice", json!({"finish_reason": "stop", "message": "{\"content\": \"Done.\"}"})),
        record(3, "gen_ai.user.message", json!({"content": "Go on."})),
        record(4, "session.started", json!({"content": "no message"})),
    ];
    let logs = json!({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]});
    let spans = document(&[span(2, 0, "chat", &json!({"gen_ai.operation.name": "chat"}))]);
    let lines = format!("{logs}\n{spans}\n");
    let runs = import(lines.as_bytes()).unwrap();
    let said: Vec<_> = parse_trajectory(&runs[0]).turns.into_iter().map(|turn| turn.message).collect();
    assert_eq!(said, ["Go on.", "Done."]);
}

#[test]
fn a_call_is_in_the_run_once_although_the_reply_and_a_span_have_it() {
    let call = |id: Option<&str>| {
        let part = json!({"type": "tool_call", "id": id, "name": "ls", "arguments": {"path": "."}});
        json!([{"role": "assistant", "parts": [part]}])
    };
    let tool = |id: u64, call_id: Option<&str>, result: &str| {
        let mut attributes = json!({
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "ls",
            "gen_ai.tool.call.arguments": "{\"path\": \".\"}", "gen_ai.tool.call.result": result,
        });
        if let Some(id) = call_id {
            attributes["gen_ai.tool.call.id"] = id.into();
        }
        span(id, 1, "execute_tool ls", &attributes)
    };
    for (in_reply, in_span) in [(Some("a"), Some("a")), (Some("a"), None), (None, None)] {
        let spans = [chat(2, &json!([]), &call(in_reply)), tool(3, in_span, "README")];
        let turns = parse_trajectory(&import_json(&document(&spans))[0]).turns;
        let calls: Vec<_> = turns.iter().flat_map(|turn| &turn.calls).collect();
        assert_eq!(calls.len(), 1, "{in_reply:?} {in_span:?}");
        assert_eq!(calls[0].answer.as_deref(), Some("README"));
    }
    let alone = import_json(&document(&[tool(2, None, "one"), tool(3, None, "two")]));
    assert_eq!(parse_trajectory(&alone[0]).turns.len(), 2, "two spans without a reply are two calls");
    let nested = {
        let mut inner = tool(3, Some("a"), "README");
        inner["parentSpanId"] = format!("{:016x}", 2).into();
        import_json(&document(&[tool(2, Some("b"), "README"), inner]))
    };
    assert_eq!(parse_trajectory(&nested[0]).turns.len(), 1, "the request to the server that has the tool");
}

#[test]
fn a_call_failed_if_its_span_says_so_and_an_unset_status_says_nothing() {
    let failed = |status: Value, error_type: Option<&str>| {
        let mut attributes = json!({"gen_ai.tool.name": "ls", "gen_ai.tool.call.result": "README"});
        if let Some(kind) = error_type {
            attributes["error.type"] = kind.into();
        }
        let mut span = span(2, 1, "ls", &attributes);
        span["status"] = status;
        parse_trajectory(&import_json(&document(&[span]))[0]).turns[0].calls[0].failed
    };
    assert_eq!(failed(json!({"code": 2}), None), Some(true));
    assert_eq!(failed(json!({"code": "STATUS_CODE_ERROR"}), None), Some(true));
    assert_eq!(failed(json!({}), Some("timeout")), Some(true));
    assert_eq!(failed(json!({"code": 1}), None), Some(false));
    assert_eq!(failed(json!({}), None), None);
}

#[test]
fn an_outcome_is_stated_or_an_error_and_never_guessed() {
    let outcome = |attributes: Value, status: u8, given: Option<RunOutcome>| {
        let mut root = span(1, 0, "invoke_agent", &attributes);
        root["status"] = json!({"code": status});
        let reply = chat(2, &json!([]), &json!([says("assistant", "Success!")]));
        let options = ImportOptions { outcome: given, ..ImportOptions::default() };
        let text = document(&[root, reply]).to_string();
        import_file(text.as_bytes(), "", &options).unwrap()[0].event.run.outcome
    };
    assert_eq!(outcome(json!({}), 0, None), RunOutcome::Unknown);
    assert_eq!(outcome(json!({}), 1, None), RunOutcome::Unknown, "OK is no judgement of the work");
    assert_eq!(outcome(json!({}), 1, Some(RunOutcome::Success)), RunOutcome::Success);
    assert_eq!(outcome(json!({}), 2, None), RunOutcome::Error);
    assert_eq!(
        outcome(json!({}), 2, Some(RunOutcome::Success)),
        RunOutcome::Error,
        "the trace takes precedence"
    );
    assert_eq!(outcome(json!({"cicd.pipeline.result": "failure"}), 2, None), RunOutcome::Failure);
    assert_eq!(outcome(json!({"retro.outcome": "success"}), 0, None), RunOutcome::Success);
    assert_eq!(outcome(json!({"retro.outcome": "splendid"}), 0, None), RunOutcome::Unknown);
}

#[test]
fn a_long_request_gives_a_task_that_another_request_with_its_beginning_does_not_have() {
    let task = |text: &str| {
        let asked = chat(2, &json!([says("user", text)]), &json!([]));
        import_json(&document(&[asked]))[0].event.run.task.clone().unwrap()
    };
    assert_eq!(task("Fix\n the   build."), "Fix the build.");
    let long = "é".repeat(2_000);
    assert!(task(&long).len() <= retro_adapters::TASK_BYTES_MAX);
    assert_eq!(task(&long), task(&long));
    assert_ne!(task(&long), task(&format!("{long} now")));
}

#[test]
fn traces_without_an_agent_are_left_out_and_a_file_of_only_those_is_refused() {
    let runs = import(&read_fixture("older.composed.json")).unwrap();
    assert_eq!(runs.len(), 2, "the third trace is a web request");
    let rejection = import(&read_fixture("without-agent.otlp.json")).unwrap_err();
    assert_eq!(rejection.code, DeadLetterCode::TrajectoryInvalid);
    assert!(rejection.detail.starts_with("1 spans in 1 traces, none with a message"), "{rejection}");
}

#[test]
fn a_span_that_belongs_to_no_trace_is_refused_with_its_path() {
    let mut zero = span(1, 0, "chat", &json!({}));
    zero["traceId"] = "0".repeat(32).into();
    let rejection =
        import(document(&[span(2, 0, "x", &json!({})), zero]).to_string().as_bytes()).unwrap_err();
    assert_eq!(rejection.path.as_deref(), Some("resourceSpans[0].scopeSpans[0].spans[1].traceId"));
    let rejection = import(br#"{"resourceSpans": {}}"#).unwrap_err();
    assert_eq!(rejection.path.as_deref(), Some("resourceSpans"));
}

#[test]
fn spans_that_contain_each_other_end() {
    let runs = import_json(&document(&[
        span(1, 2, "a", &json!({"gen_ai.tool.name": "ls"})),
        span(2, 1, "b", &json!({"gen_ai.tool.name": "cat"})),
        span(3, 3, "c", &json!({"gen_ai.operation.name": "chat"})),
    ]));
    assert_eq!(parse_trajectory(&runs[0]).turns.len(), 2);
}

#[test]
fn protobuf_gives_the_same_runs_as_json() {
    let text = String::from_utf8(read_fixture("agent.composed.jsonl")).unwrap();
    let requests: Vec<Vec<u8>> =
        text.lines().map(|line| encode_request(&serde_json::from_str(line).unwrap())).collect();
    let expected = import(text.as_bytes()).unwrap();
    // Requests one after another are one request: what repeats in a message is concatenated.
    assert_eq!(import(&requests.concat()).unwrap(), expected);
    let with_length =
        |request: &Vec<u8>| [&u32::try_from(request.len()).unwrap().to_be_bytes(), &request[..]].concat();
    let file = requests.iter().map(with_length).collect::<Vec<_>>().concat();
    assert_eq!(import(&file).unwrap(), expected, "a file of the collector");
    assert_eq!(import(&file[..file.len() - 1]).unwrap_err().code, DeadLetterCode::NotUtf8, "no text either");
}

#[test]
fn a_request_that_would_take_far_more_memory_than_bytes_is_refused() {
    // Spans without any field: two bytes each.
    let spans = [18_u8, 0].repeat(600_000);
    let nest = |part: &[u8], tag: u8| {
        let mut message = vec![tag];
        prost::encoding::encode_varint(part.len() as u64, &mut message);
        [&message[..], part].concat()
    };
    let rejection = import(&nest(&nest(&spans, 0x12), 0x0a)).unwrap_err();
    assert_eq!(rejection.code, DeadLetterCode::TooManyValues);
    // A list in a list and so on, as the value of a span's attribute.
    let deep = (0..5_000).fold(Vec::new(), |value, _| nest(&nest(&value, 0x0a), 0x2a));
    let request = [0x12, 0x4a, 0x12, 0x12, 0x0a].into_iter().fold(deep, |part, tag| nest(&part, tag));
    assert_eq!(import(&request).unwrap_err().code, DeadLetterCode::NotUtf8);
}

fn encode_request(document: &Value) -> Vec<u8> {
    let list = |value: &Value, name: &str| value[name].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let bytes = |value: &Value| {
        let digits = text(value);
        (0..digits.len() / 2)
            .map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).expect("a fixture is well-formed"))
            .collect()
    };
    let attributes = |value: &Value| {
        let attribute = |entry: &Value| {
            let content = match &entry["value"] {
                value if value["stringValue"].is_string() => {
                    any_value::Value::StringValue(text(&value["stringValue"]))
                }
                value => any_value::Value::IntValue(
                    text(&value["intValue"]).parse().expect("a fixture is well-formed"),
                ),
            };
            let value = Some(AnyValue { value: Some(content) });
            KeyValue { key: text(&entry["key"]), value, ..KeyValue::default() }
        };
        list(value, "attributes").iter().map(attribute).collect::<Vec<_>>()
    };
    let event = |event: &Value| Event {
        name: text(&event["name"]),
        attributes: attributes(event),
        ..Event::default()
    };
    let span = |span: &Value| Span {
        trace_id: bytes(&span["traceId"]),
        span_id: bytes(&span["spanId"]),
        parent_span_id: bytes(&span["parentSpanId"]),
        name: text(&span["name"]),
        start_time_unix_nano: text(&span["startTimeUnixNano"]).parse().expect("a fixture is well-formed"),
        end_time_unix_nano: text(&span["endTimeUnixNano"]).parse().expect("a fixture is well-formed"),
        attributes: attributes(span),
        events: list(span, "events").iter().map(event).collect(),
        status: Some(Status {
            message: text(&span["status"]["message"]),
            code: i32::try_from(span["status"]["code"].as_i64().unwrap_or_default())
                .expect("a fixture is well-formed"),
        }),
        ..Span::default()
    };
    let group = |group: &Value| ResourceSpans {
        resource: Some(Resource { attributes: attributes(&group["resource"]), ..Resource::default() }),
        scope_spans: vec![ScopeSpans {
            spans: list(&group["scopeSpans"][0], "spans").iter().map(span).collect(),
            ..ScopeSpans::default()
        }],
        ..ResourceSpans::default()
    };
    let resource_spans = list(document, "resourceSpans").iter().map(group).collect();
    ExportTraceServiceRequest { resource_spans }.encode_to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_altered_or_truncated_trace_panics(
        as_protobuf in any::<bool>(),
        cut in any::<prop::sample::Index>(),
        changed in any::<u8>(),
    ) {
        let text = read_fixture("older.composed.json");
        let whole = if as_protobuf {
            let line = String::from_utf8(read_fixture("agent.composed.jsonl")).expect("a fixture is well-formed");
            encode_request(&serde_json::from_str(line.lines().next().expect("a fixture is well-formed")).expect("a fixture is well-formed"))
        } else {
            text
        };
        let at = cut.index(whole.len());
        let mut bent = whole.clone();
        bent[at] = changed;
        for bytes in [&whole[..at], &bent] {
            let _ = import(bytes);
        }
    }
}

/// Returns the documents of the spans of a fixture, one request a span, by trace.
fn split_fixture(name: &str) -> std::collections::BTreeMap<String, Vec<Vec<u8>>> {
    let text = String::from_utf8(read_fixture(name)).expect("a fixture is well-formed");
    let documents: Vec<Value> = match serde_json::from_str::<Value>(&text) {
        Ok(document) => vec![document],
        Err(_) => {
            text.lines().map(|line| serde_json::from_str(line).expect("a fixture is well-formed")).collect()
        }
    };
    let mut parts: std::collections::BTreeMap<String, Vec<Vec<u8>>> = std::collections::BTreeMap::new();
    let groups = documents.iter().filter_map(|document| document["resourceSpans"].as_array()).flatten();
    for group in groups {
        for span in
            group["scopeSpans"].as_array().into_iter().flatten().filter_map(|scope| scope["spans"].as_array())
        {
            for span in span {
                let request = json!({"resourceSpans": [{
                    "resource": group["resource"], "scopeSpans": [{"spans": [span]}],
                }]});
                let body = Bytes::from(request.to_string());
                let imported = import_traces(&body, TraceEncoding::Json, 1 << 20, &ImportOptions::default());
                for trace in imported.expect("a fixture is well-formed").traces {
                    let spans = trace.spans.into_iter().map(|span| span.document.into_bytes());
                    parts.entry(trace.trace_id).or_default().extend(spans);
                }
            }
        }
    }
    parts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_trace_in_parts_gives_the_run_of_the_whole_in_any_order_and_repeated(
        order in proptest::collection::vec(any::<prop::sample::Index>(), 64),
    ) {
        for name in ["agent.composed.jsonl", "older.composed.json"] {
            let whole = import(&read_fixture(name)).expect("a fixture has runs");
            let mut runs = 0;
            for (_, mut documents) in split_fixture(name) {
                for index in &order {
                    let at = index.index(documents.len());
                    let document = documents[at].clone();
                    documents.swap(0, at);
                    if documents.len() < 64 {
                        documents.push(document);
                    }
                }
                let Some(run) = assemble_trace(&documents, &ImportOptions::default()).unwrap() else { continue };
                prop_assert!(whole.iter().any(|one| one.event == run.event), "{name}");
                let file = join_span_documents(&documents).unwrap();
                let emitted = import_file(&file, "spans.json", &ImportOptions::default()).unwrap();
                prop_assert_eq!(&emitted[0].event, &run.event);
                runs += 1;
            }
            prop_assert_eq!(runs, whole.len());
        }
    }
}

#[test]
fn a_resource_that_is_repeated_with_every_span_has_a_bound() {
    let spans: Vec<Value> =
        (2..400).map(|id| span(id, 1, "call", &json!({"gen_ai.tool.name": "ls"}))).collect();
    let request = json!({"resourceSpans": [{
        "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "x".repeat(50_000)}}]},
        "scopeSpans": [{"spans": spans}],
    }]});
    let body = Bytes::from(request.to_string());
    let refused = import_traces(&body, TraceEncoding::Json, 1 << 20, &ImportOptions::default());
    assert_eq!(refused.unwrap_err().code, DeadLetterCode::Oversized);
}
