//! Checks properties that parsing has for any input bytes. Each check panics and names the violated property. A
//! fuzz target searches for bytes that make a check panic.
//!
//! 1. Parsing does not panic, and parsing again gives the same result.
//! 2. A rejection has a path that fits a column and a sentence that fits a line, even for a large input.
//! 3. An event that was parsed and encoded again, in either mode, is parsed to the same value.
//! 4. A parsed value is not much larger than its input: nothing expands in memory.
//! 5. Parsing takes at most 64 KiB of memory plus sixteen times the decompressed message, or four times for the
//!    part above 1 MiB.

use bytes::Bytes;
use retro_core::dead_letter::Rejection;
use retro_core::trajectory::Trajectory;

use crate::envelope::{EncodedEvent, Envelope, MESSAGE_BYTES_MAX};
use crate::hosts::DatarefHosts;
use crate::run_completed::{self, Body};
use crate::{Delivery, atif, encoding};

/// Maximum length of a rejection's path, in bytes: that of nested subagents down to the deepest level that is
/// parsed.
const PATH_BYTES_MAX: usize = 2048;
/// Maximum length of a rejection's sentence, in bytes.
const DETAIL_BYTES_MAX: usize = 512;
/// Maximum number of bytes of stored trajectory per byte of input. Storing may lengthen short input: `1e15`
/// in the arguments of a call is stored as a number of 16 digits, and an entry of about thirty bytes takes
/// about sixty. The rest is a margin.
const GROWTH_MAX: usize = 8;

/// Checks the properties of an event. The input is a message as text: header lines, an empty line, the payload.
/// Without an empty line, the whole input is the payload.
pub fn event(input: &[u8]) {
    let delivery = parse_delivery(input);
    let read = || run_completed::parse_delivery(&delivery, &allowed_hosts());
    let first = read();
    assert_eq!(first, read(), "parsing again gives another result");
    let run = match first {
        Ok(run) => run,
        Err(rejection) => return assert_bounded_rejection(&rejection),
    };
    if let Body::Inline(trajectory) = &run.body {
        // A compressed payload may decompress to a whole message.
        let sent = if delivery.header(encoding::CONTENT_ENCODING).is_some() {
            MESSAGE_BYTES_MAX
        } else {
            input.len()
        };
        assert_bounded_trajectory(trajectory, sent);
    }
    let envelope = Envelope::from_delivery(&delivery).expect("the event was parsed before");
    for written in [Some(envelope.to_structured()), legal_binary(&envelope)].into_iter().flatten() {
        let again = Delivery { headers: written.headers, payload: written.payload, ..delivery.clone() };
        assert_eq!(
            run_completed::parse_delivery(&again, &allowed_hosts()).as_ref(),
            Ok(&run),
            "encoded again, it is parsed differently"
        );
    }
}

/// Checks the memory limit for an event in the format of [`event`]. `peak` runs the closure and returns the peak of
/// additional bytes in use, which only the fuzz target's allocator can measure.
pub fn event_memory(input: &[u8], peak: impl FnOnce(&mut dyn FnMut()) -> usize) {
    let delivery = parse_delivery(input);
    let encoding = delivery.header(encoding::CONTENT_ENCODING);
    // A payload that cannot be decompressed is abandoned at the limit at the latest.
    let bytes = encoding::decompressed_size(encoding, &delivery.payload, MESSAGE_BYTES_MAX);
    let bytes = bytes.unwrap_or(MESSAGE_BYTES_MAX).max(input.len());
    let cost = peak(&mut || drop(run_completed::parse_delivery(&delivery, &allowed_hosts())));
    assert!(cost <= memory_max(bytes), "{cost} bytes of memory for {bytes}");
}

/// Checks the memory limit for a body in the format of [`trajectory`]. `peak` is as in [`event_memory`].
pub fn trajectory_memory(input: &[u8], peak: impl FnOnce(&mut dyn FnMut()) -> usize) {
    let body = Bytes::copy_from_slice(input);
    let cost = peak(&mut || drop(atif::from_slice(&body)));
    assert!(cost <= memory_max(input.len()), "{cost} bytes of memory for {}", input.len());
}

/// Returns the maximum memory that parsing this many bytes may use.
fn memory_max(bytes: usize) -> usize {
    const MIB: usize = 1024 * 1024;
    64 * 1024 + 16 * bytes.min(MIB) + 4 * bytes.saturating_sub(MIB)
}

/// Checks the properties of a fetched body, an ATIF document.
pub fn trajectory(input: &[u8]) {
    let body = Bytes::copy_from_slice(input);
    let first = atif::from_slice(&body);
    assert_eq!(first, atif::from_slice(&body), "parsing again gives another result");
    match first {
        Ok(trajectory) => assert_bounded_trajectory(&trajectory, input.len()),
        Err(rejection) => assert_bounded_rejection(&rejection),
    }
}

/// Asserts that a trajectory survives storage unchanged, and is no larger than its input allows.
fn assert_bounded_trajectory(trajectory: &Trajectory, sent: usize) {
    assert!(trajectory.turns.len() <= atif::TURNS_MAX);
    let stored = serde_json::to_vec(trajectory).expect("a trajectory serializes to JSON");
    assert!(stored.len() <= 64 + GROWTH_MAX * sent, "{} bytes out of {sent}", stored.len());
    let loaded: Trajectory = serde_json::from_slice(&stored).expect("it was just serialized");
    assert_eq!(&loaded, trajectory, "the stored trajectory differs");
}

fn assert_bounded_rejection(rejection: &Rejection) {
    let path = rejection.path.as_deref().unwrap_or("whole");
    assert!(!path.is_empty() && path.len() <= PATH_BYTES_MAX, "a path of {} bytes", path.len());
    let detail = rejection.detail.len();
    assert!(detail > 0 && detail <= DETAIL_BYTES_MAX, "a sentence of {detail} bytes");
    assert!(!rejection.detail.contains(['\n', '\0']), "a sentence is one line");
}

/// Encodes an envelope in binary mode; `None` if an attribute is legal only in structured mode.
fn legal_binary(envelope: &Envelope) -> Option<EncodedEvent> {
    let legal = |name: &String| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let legal = envelope.extensions.keys().all(legal);
    // A number written as text is parsed as text, which only `datarefbytes` may be.
    let texts = envelope.extensions.iter().all(|(name, value)| value.is_string() || name == "datarefbytes");
    (legal && texts).then(|| envelope.to_binary())
}

/// Parses a message in the text form of `golden/*.binary.txt`.
pub fn parse_delivery(input: &[u8]) -> Delivery {
    let (head, payload) = match input.windows(2).position(|two| two == b"\n\n") {
        Some(at) => (&input[..at], &input[at + 2..]),
        None => (&input[..0], input),
    };
    let head = String::from_utf8_lossy(head);
    let headers = head.lines().filter_map(|line| line.split_once(": "));
    Delivery {
        stream: "RETRO_INTAKE".to_owned(),
        subject: "retro.run.completed.acme.fix-ci".to_owned(),
        sequence: 1,
        headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        payload: Bytes::copy_from_slice(payload),
        delivered: 1,
        stored_at: "2026-11-20T12:00:00Z".parse().expect("a valid timestamp"),
    }
}

/// Formats a delivery as text; the inverse of [`parse_delivery`] for headers of one line.
pub fn format_delivery(headers: &[(String, String)], payload: &[u8]) -> Vec<u8> {
    let head: String = headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    let head = if head.is_empty() { "x: y\n".to_owned() } else { head };
    [head.as_bytes(), b"\n", payload].concat()
}

fn allowed_hosts() -> DatarefHosts {
    DatarefHosts::parse(&["runs.example.com"]).expect("a valid host")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_as_text_is_read_as_it_was_written() {
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        let read = parse_delivery(&format_delivery(&headers, b"a\n\nb"));
        assert_eq!((read.headers, &read.payload[..]), (headers, &b"a\n\nb"[..]));
        assert_eq!(&parse_delivery(&format_delivery(&[], b"a\n\nb")).payload[..], b"a\n\nb");
    }
}
