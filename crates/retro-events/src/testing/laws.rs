//! What holds for any bytes. Each law panics with what it found; a fuzz target looks for bytes that make it.
//!
//! 1. Reading does not panic, and reading again gives the same.
//! 2. A refusal has a path that fits a column and a sentence that fits a line, however large the input.
//! 3. What is read and written again, in either mode, is read the same.
//! 4. What is read is not much larger than what was sent: nothing unpacks in memory.
//! 5. Reading takes at most 64 KiB of memory, and sixteen times what the message holds unpacked; above a MiB four times.

use bytes::Bytes;
use retro_core::dead_letter::Rejection;
use retro_core::trajectory::Trajectory;

use crate::envelope::{Encoded, Envelope, MESSAGE_BYTES_MAX};
use crate::hosts::DatarefHosts;
use crate::run_completed::{self, Body};
use crate::{Delivery, atif, encoding};

/// The longest path of a refusal: a trajectory of subagents' subagents down to the last level that is read.
const PATH_BYTES_MAX: usize = 2048;
/// The longest sentence of a refusal.
const DETAIL_BYTES_MAX: usize = 512;
/// How many bytes of trajectory one byte sent may become: NUL is sent as six bytes and kept as three, an empty entry of
/// thirty bytes is kept as fifty.
const GROWTH_MAX: usize = 8;

/// The laws of an event. The input is a message as text: header lines, an empty line, the payload; without an empty line
/// all of it is the payload.
pub fn event(input: &[u8]) {
    let delivery = delivery(input);
    let read = || run_completed::read(&delivery, &hosts());
    let first = read();
    assert_eq!(first, read(), "reading again gives something else");
    let run = match first {
        Ok(run) => run,
        Err(rejection) => return bounded(&rejection),
    };
    if let Body::Inline(trajectory) = &run.body {
        // What was packed may unpack to a whole message.
        let sent = if delivery.header(encoding::HEADER).is_some() { MESSAGE_BYTES_MAX } else { input.len() };
        kept(trajectory, sent);
    }
    let envelope = Envelope::read(&delivery).expect("it was read");
    for written in [Some(envelope.structured()), binary(&envelope)].into_iter().flatten() {
        let again = Delivery { headers: written.headers, payload: written.payload, ..delivery.clone() };
        assert_eq!(
            run_completed::read(&again, &hosts()).as_ref(),
            Ok(&run),
            "written again, it is read differently"
        );
    }
}

/// The law of memory, for an event as in [`event`]. `peak` does the work that it is given and returns how many bytes more
/// than before were in use at most; only the fuzz target's own allocator knows.
pub fn event_memory(input: &[u8], peak: impl FnOnce(&mut dyn FnMut()) -> usize) {
    let delivery = delivery(input);
    let encoding = delivery.header(encoding::HEADER);
    // What cannot be unpacked is left at the bound at the latest.
    let bytes = encoding::unpacked_bytes(encoding, &delivery.payload, MESSAGE_BYTES_MAX);
    let bytes = bytes.unwrap_or(MESSAGE_BYTES_MAX).max(input.len());
    let cost = peak(&mut || drop(run_completed::read(&delivery, &hosts())));
    assert!(cost <= memory_max(bytes), "{cost} bytes of memory for {bytes}");
}

/// The law of memory, for a body as in [`trajectory`].
pub fn trajectory_memory(input: &[u8], peak: impl FnOnce(&mut dyn FnMut()) -> usize) {
    let body = Bytes::copy_from_slice(input);
    let cost = peak(&mut || drop(atif::from_slice(&body)));
    assert!(cost <= memory_max(input.len()), "{cost} bytes of memory for {}", input.len());
}

/// What reading so many bytes may cost.
fn memory_max(bytes: usize) -> usize {
    const MIB: usize = 1024 * 1024;
    64 * 1024 + 16 * bytes.min(MIB) + 4 * bytes.saturating_sub(MIB)
}

/// The laws of a body that is fetched: an ATIF document.
pub fn trajectory(input: &[u8]) {
    let body = Bytes::copy_from_slice(input);
    let first = atif::from_slice(&body);
    assert_eq!(first, atif::from_slice(&body), "reading again gives something else");
    match first {
        Ok(trajectory) => kept(&trajectory, input.len()),
        Err(rejection) => bounded(&rejection),
    }
}

/// A trajectory comes out of the database as it went in, and is no larger than what was sent allows.
fn kept(trajectory: &Trajectory, sent: usize) {
    assert!(trajectory.turns.len() <= atif::TURNS_MAX);
    let stored = serde_json::to_vec(trajectory).expect("a trajectory is plain data");
    assert!(stored.len() <= 64 + GROWTH_MAX * sent, "{} bytes out of {sent}", stored.len());
    let loaded: Trajectory = serde_json::from_slice(&stored).expect("we wrote it");
    assert_eq!(&loaded, trajectory, "stored, it is another one");
}

fn bounded(rejection: &Rejection) {
    let path = rejection.path.as_deref().unwrap_or("whole");
    assert!(!path.is_empty() && path.len() <= PATH_BYTES_MAX, "a path of {} bytes", path.len());
    let detail = rejection.detail.len();
    assert!(detail > 0 && detail <= DETAIL_BYTES_MAX, "a sentence of {detail} bytes");
    assert!(!rejection.detail.contains(['\n', '\0']), "a sentence is one line");
}

/// Binary mode holds attributes whose names are legal ones; others are kept in structured mode alone.
fn binary(envelope: &Envelope) -> Option<Encoded> {
    let legal = |name: &String| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let legal = envelope.extensions.keys().all(legal);
    // A number written as text is read as text, which only `datarefbytes` may be.
    let texts = envelope.extensions.iter().all(|(name, value)| value.is_string() || name == "datarefbytes");
    (legal && texts).then(|| envelope.binary())
}

/// A message as text, as in `golden/*.binary.txt`.
pub fn delivery(input: &[u8]) -> Delivery {
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
        stored_at: "2026-11-20T12:00:00Z".parse().expect("a moment"),
    }
}

/// A delivery as such a text; the inverse of [`delivery`] for headers of one line.
pub fn as_text(headers: &[(String, String)], payload: &[u8]) -> Vec<u8> {
    let head: String = headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    let head = if head.is_empty() { "x: y\n".to_owned() } else { head };
    [head.as_bytes(), b"\n", payload].concat()
}

fn hosts() -> DatarefHosts {
    DatarefHosts::parse(&["runs.example.com"]).expect("a host")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_as_text_is_read_as_it_was_written() {
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        let read = delivery(&as_text(&headers, b"a\n\nb"));
        assert_eq!((read.headers, &read.payload[..]), (headers, &b"a\n\nb"[..]));
        assert_eq!(&delivery(&as_text(&[], b"a\n\nb")).payload[..], b"a\n\nb");
    }
}
