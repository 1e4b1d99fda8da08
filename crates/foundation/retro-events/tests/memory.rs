//! Tests the memory limit of parsing a message: 64 KiB, plus sixteen times the first MiB of its decompressed
//! size and four times the rest. The inputs are small texts that become large trees of values, in every place
//! where a message may contain them. The memory of the whole process is counted, so this file has only one
//! test.

use std::io::Write as _;

use bytes::Bytes;
use peak_alloc::PeakAlloc;
use retro_core::id::Tenant;
use retro_core::json::split_array;
use retro_events::envelope::{EVENT_BYTES_MAX, Envelope};
use retro_events::hosts::DatarefHosts;
use retro_events::{Delivery, atif, github, run_completed};

#[global_allocator]
static PEAK: PeakAlloc = PeakAlloc;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Returns the memory limit for a message of this decompressed size.
fn budget(bytes: usize) -> usize {
    64 * KIB + 16 * bytes.min(MIB) + 4 * bytes.saturating_sub(MIB)
}

/// Builds a text of about this size: `open`, as many copies of `item` as fit, and `close`. `#` in an item is
/// replaced by the number of the copy.
fn repeated(bytes: usize, open: &str, item: &str, close: &str) -> String {
    let mut text = String::with_capacity(bytes + item.len() + close.len());
    text.push_str(open);
    let mut nth = 0_usize;
    while text.len() + close.len() < bytes {
        if nth > 0 {
            text.push(',');
        }
        text.push_str(&item.replace('#', &nth.to_string()));
        nth += 1;
    }
    text.push_str(close);
    text
}

/// Returns values of about this size whose trees are large compared to their text.
fn bombs(bytes: usize) -> Vec<(&'static str, String)> {
    vec![
        ("empty objects", repeated(bytes, "[", "{}", "]")),
        ("empty arrays", repeated(bytes, "[", "[]", "]")),
        ("objects of one member", repeated(bytes, "[", r#"{"a":0}"#, "]")),
        ("objects in objects", repeated(bytes, "[", r#"{"a":{"a":{"a":{}}}}"#, "]")),
        ("keys", repeated(bytes, "{", r##""#":0"##, "}")),
        ("keys with escapes", repeated(bytes, "{", r##""\u0061#":0"##, "}")),
        ("numbers", repeated(bytes, "[", "0", "]")),
        ("strings", repeated(bytes, "[", r#""""#, "]")),
        ("nulls", repeated(bytes, "[", "null", "]")),
        ("one long string", format!("\"{}\"", "x".repeat(bytes))),
        ("one string of escapes", format!("\"{}\"", "\\n".repeat(bytes / 2))),
        ("one string of NUL", format!("\"{}\"", "\\u0000".repeat(bytes / 6))),
        ("one long number", "1".repeat(bytes)),
        ("deep", "[".repeat(bytes / 2) + &"]".repeat(bytes / 2)),
        (
            "JSON in a string",
            serde_json::to_string(&repeated(bytes, "{\"a\":[", "{}", "]}")).expect("it is well-formed"),
        ),
        ("parts", repeated(bytes, "[", r#"{"text":"a"}"#, "]")),
    ]
}

/// Builds an event with a value at `place`.
fn event(place: &str, value: &str) -> String {
    let atif = |steps: &str| format!(r#""trajectory":{{"schema_version":"ATIF-v1.4","steps":{steps}}}"#);
    let agent = |rest: &str| atif(&format!(r#"[{{"source":"agent","message":"m",{rest}}}]"#));
    let call = |rest: &str| agent(&format!(r#""tool_calls":[{{"function_name":"f",{rest}}}]"#));
    let (beside, data) = match place {
        "extension" => (format!(r#""extra":{value},"#), String::new()),
        "data" => (String::new(), format!(r#","extra":{value}"#)),
        "agent" => (String::new(), format!(r#","agent":{value}"#)),
        "memories" => (String::new(), format!(r#","memories":{{"presented":{value}}}"#)),
        "dataref" => (String::new(), format!(r#","dataref":{value}"#)),
        "self_feedback" => (String::new(), format!(r#","self_feedback":{value}"#)),
        "steps" => (String::new(), format!(",{}", atif(value))),
        "message" => {
            (String::new(), format!(",{}", atif(&format!(r#"[{{"source":"user","message":{value}}}]"#))))
        }
        "unknown" => (String::new(), format!(",{}", agent(&format!(r#""metrics":{value}"#)))),
        "calls" => (String::new(), format!(",{}", agent(&format!(r#""tool_calls":{value}"#)))),
        "arguments" => (String::new(), format!(",{}", call(&format!(r#""arguments":{value}"#)))),
        "results" => {
            (String::new(), format!(",{}", agent(&format!(r#""observation":{{"results":{value}}}"#))))
        }
        "content" => (
            String::new(),
            format!(",{}", agent(&format!(r#""observation":{{"results":[{{"content":{value}}}]}}"#))),
        ),
        other => panic!("no place {other}"),
    };
    format!(
        r#"{{"specversion":"1.0","type":"{}","source":"s","id":"i",{beside}"data":{{"workflow":"w","run_id":"r","outcome":"success"{data}}}}}"#,
        run_completed::TYPE
    )
}

const PLACES: [&str; 13] = [
    "extension",
    "data",
    "agent",
    "memories",
    "dataref",
    "self_feedback",
    "steps",
    "message",
    "unknown",
    "calls",
    "arguments",
    "results",
    "content",
];

/// Places in an event that use the most memory.
const DENSE: [&str; 4] = ["steps", "calls", "arguments", "results"];

/// A turn with little text and many fields: 165 bytes and 17 values and keys.
const CROWDED_TURN: &str = r#"{"source":"agent","message":"a","tool_calls":[{"tool_call_id":"c#","function_name":"f","arguments":{"a":"b"}}],"observation":{"results":[{"source_call_id":"c#","content":"c"}]}}"#;

/// Returns values of about this size that are within the limits, or exceed them only at the end.
fn large_bombs(bytes: usize) -> Vec<(&'static str, String, &'static str)> {
    // Three values and keys in 48 bytes: 16 MiB of them contain exactly as many as are allowed.
    let sparse = format!(r#"{{"a":"{}"}}"#, "x".repeat(40));
    vec![
        ("as many values as are taken", repeated(bytes, "[", &sparse, "]"), "arguments"),
        ("as many values as are taken", repeated(bytes, "[", &sparse, "]"), "content"),
        ("as many values as are taken", repeated(bytes, "[", &sparse, "]"), "data"),
        ("crowded turns", repeated(bytes, "[", CROWDED_TURN, "]"), "steps"),
        ("one string of escapes", format!("\"{}\"", "\\n".repeat(bytes / 2)), "message"),
        (
            "JSON in a string",
            serde_json::to_string(&repeated(bytes * 3 / 4, "{\"a\":[", &sparse, "]}"))
                .expect("it is well-formed"),
            "arguments",
        ),
        ("empty objects", repeated(bytes, "[", "{}", "]"), "steps"),
    ]
}

fn delivery(subject: &str, headers: &[(&str, &str)], payload: Bytes) -> Delivery {
    Delivery {
        stream: "RETRO_INTAKE".to_owned(),
        subject: subject.to_owned(),
        sequence: 1,
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        payload,
        delivered: 1,
        stored_at: "2026-11-20T12:00:00Z".parse().expect("it is well-formed"),
    }
}

/// Runs a closure and returns the peak of additional bytes in use.
fn cost<T>(work: impl FnOnce() -> T) -> usize {
    let before = PEAK.current_usage();
    PEAK.reset_peak_usage();
    let result = work();
    let peak = PEAK.peak_usage().saturating_sub(before);
    drop(result);
    peak
}

#[derive(Default)]
struct Table {
    worst: Vec<(f64, String)>,
    over: Vec<String>,
}

impl Table {
    fn add(&mut self, what: &str, bytes: usize, cost: usize) {
        let share = cost as f64 / budget(bytes) as f64;
        if cost > budget(bytes) {
            self.over.push(format!("{what}: {cost} bytes for {bytes}, {share:.2} of what it may"));
        }
        self.worst.push((share, format!("{what}, {bytes} bytes")));
    }
}

fn zstd(text: &str) -> Bytes {
    zstd::encode_all(text.as_bytes(), 3).expect("it is well-formed").into()
}

fn gzip(text: &str) -> Bytes {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(text.as_bytes()).expect("it is well-formed");
    packer.finish().expect("it is well-formed").into()
}

/// Parses an event as a message of the broker.
fn play_message(table: &mut Table, what: &str, headers: &[(&str, &str)], payload: Bytes, bytes: usize) {
    let hosts = DatarefHosts::default();
    let delivery = delivery("retro.run.completed.acme.w", headers, payload);
    let cost = cost(|| run_completed::parse_delivery(&delivery, &hosts));
    table.add(what, bytes, cost);
}

/// Validates an event as received over HTTP. The memory counted includes what would be published.
fn play_request(table: &mut Table, what: &str, payload: &Bytes, headers: &[(String, String)], bytes: usize) {
    let tenant = Tenant::new("acme").expect("it is well-formed");
    let now = "2026-11-20T12:00:00Z".parse().expect("it is well-formed");
    let cost = cost(|| {
        let envelope = Envelope::from_parts(headers, payload, EVENT_BYTES_MAX)?;
        let event = run_completed::validate_envelope(envelope, &tenant, now, &DatarefHosts::default())?;
        let body = event.body_to_upload();
        Ok::<_, retro_core::dead_letter::Rejection>((body, event.envelope.to_structured()))
    });
    table.add(what, bytes, cost);
}

#[test]
fn no_message_costs_more_than_its_bytes_allow() {
    // Warm-up, so that everything built at first use exists already.
    play_message(&mut Table::default(), "", &[], event("data", "1").into(), 0);
    let mut table = Table::default();
    for (bytes, places) in [(KIB, &PLACES[..]), (32 * KIB, &PLACES), (MIB - 2 * KIB, &DENSE)] {
        for (name, bomb) in bombs(bytes) {
            for place in places {
                let text = Bytes::from(event(place, &bomb));
                play_message(&mut table, &format!("{name} in {place}"), &[], text.clone(), text.len());
            }
            let text = event("content", &bomb);
            let packed =
                if bytes < MIB / 2 { vec![("gzip", gzip(&text)), ("zstd", zstd(&text))] } else { vec![] };
            for (encoding, packed) in packed {
                let headers = [("content-encoding", encoding)];
                play_message(&mut table, &format!("{name}, {encoding}"), &headers, packed, text.len());
            }
            let of_github =
                event("data", &bomb).replace(run_completed::TYPE, "dev.retrospect.github.push.v1");
            let message = delivery("retro.github.acme.push", &[], of_github.into());
            let cost = cost(|| github::parse_event(&message));
            table.add(&format!("{name} in an event of GitHub"), message.payload.len(), cost);
        }
    }
    let large = 3 * MIB;
    for (name, bomb, place) in large_bombs(large) {
        let text = Bytes::from(event(place, &bomb));
        play_request(&mut table, &format!("{name} in {place} over HTTP"), &text, &[], text.len());
    }
    // The largest body with the most values that are allowed.
    let sparse = repeated(16 * MIB - 4 * KIB, "[", &format!(r#"{{"a":"{}"}}"#, "x".repeat(40)), "]");
    let text = Bytes::from(event("content", &sparse));
    play_request(&mut table, "the largest body over HTTP", &text, &[], text.len());
    let body = repeated(large, r#"{"schema_version":"ATIF-v1.4","steps":["#, CROWDED_TURN, "]}");
    let body = Bytes::from(body);
    table.add("crowded turns as a body", body.len(), cost(|| atif::from_slice(&body)));
    let batch = Bytes::from(repeated(large, "[", "{}", "]"));
    table.add("empty objects as a batch", batch.len(), cost(|| split_array(&batch, EVENT_BYTES_MAX, 1000)));
    table.worst.sort_by(|one, other| other.0.total_cmp(&one.0));
    for (share, what) in table.worst.iter().take(12) {
        println!("{share:.2} of the budget: {what}");
    }
    assert!(table.over.is_empty(), "{} over the budget:\n{}", table.over.len(), table.over.join("\n"));
}
