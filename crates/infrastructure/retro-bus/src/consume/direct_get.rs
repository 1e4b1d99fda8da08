//! Reads messages directly from a stream, without a consumer.

use std::time::Duration;

use async_nats::{HeaderMap, Message, StatusCode, Subject};
use futures::StreamExt;
use jiff::Timestamp;
use retro_events::Delivery;

use crate::{Bus, BusError};

/// Timeout for the next message of a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of bytes per request: enough for many small messages, and less than the server buffers for
/// one connection.
const BATCH_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Headers that the server adds to a message read directly.
const SERVER_HEADERS: [&str; 7] = [
    "Nats-Stream",
    "Nats-Subject",
    "Nats-Sequence",
    "Nats-Time-Stamp",
    "Nats-Num-Pending",
    "Nats-Last-Sequence",
    "Nats-UpTo-Sequence",
];

/// Returns the messages between two positions of a stream, inclusive and in order. Positions without a
/// message are skipped. Fails if the stream does not allow direct reads or the broker is unreachable.
pub(crate) async fn read_messages(
    bus: &Bus,
    stream: &str,
    from: u64,
    to: u64,
) -> Result<Vec<Delivery>, BusError> {
    let mut all: Vec<Delivery> = Vec::new();
    let mut next = from;
    while next <= to {
        let some = read_batch(bus, stream, next, to - next + 1).await?;
        let Some(last) = some.last().map(|one| one.sequence) else { break };
        // The broker counts messages, not positions, so with gaps a batch can run past `to`.
        all.extend(some.into_iter().filter(|one| one.sequence <= to));
        next = last + 1;
    }
    Ok(all)
}

async fn read_batch(bus: &Bus, stream: &str, from: u64, messages: u64) -> Result<Vec<Delivery>, BusError> {
    let failed =
        |error: &dyn std::fmt::Display| BusError::unavailable(format!("read the stream {stream}"), error);
    let subject = format!("$JS.API.DIRECT.GET.{stream}");
    // Permissions may have been granted since an earlier violation.
    bus.violations.forget_subject(&subject);
    let inbox = Subject::from(bus.client.new_inbox());
    let mut answers = bus.client.subscribe(inbox.clone()).await.map_err(|error| failed(&error))?;
    let how = serde_json::json!({"seq": from, "next_by_subj": ">", "batch": messages, "max_bytes": BATCH_BYTES_MAX});
    bus.request_messages(subject.clone().into(), inbox, how.to_string().into())
        .await
        .map_err(|error| failed(&error))?;
    let mut read = Vec::new();
    loop {
        let answer =
            bus.unless_refused(&subject, Box::pin(tokio::time::timeout(RESPONSE_TIMEOUT, answers.next())));
        let answer = answer
            .await?
            .map_err(|_| failed(&"no answer"))?
            .ok_or_else(|| failed(&"the connection closed"))?;
        match answer.status.filter(|status| *status != StatusCode::OK) {
            // 204 ends a batch; 404 means no message at or after this position.
            Some(status) if status.as_u16() == 204 || status.as_u16() == 404 => return Ok(read),
            Some(status) => {
                let description = answer.description.as_deref().unwrap_or("it does not allow direct reading");
                return Err(failed(&format!("{status} {description}")));
            }
            None => read.push(
                parse_delivery(stream, answer).ok_or_else(|| failed(&"a message without its position"))?,
            ),
        }
    }
}

fn parse_delivery(stream: &str, message: Message) -> Option<Delivery> {
    let headers = message.headers?;
    let added = |name: &str| headers.get(name).map(|value| value.as_str());
    let subject = added("Nats-Subject")?.to_owned();
    let sequence = added("Nats-Sequence")?.parse().ok()?;
    let stored_at = added("Nats-Time-Stamp").and_then(|moment| moment.parse().ok());
    Some(Delivery {
        stream: stream.to_owned(),
        subject,
        sequence,
        headers: original_headers(&headers),
        payload: message.payload,
        delivered: 1,
        stored_at: stored_at.unwrap_or(Timestamp::UNIX_EPOCH),
    })
}

/// Returns the headers that the message was published with.
fn original_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let all = super::pull::sorted_headers(headers);
    all.into_iter()
        .filter(|(name, _)| SERVER_HEADERS.iter().all(|added| !name.eq_ignore_ascii_case(added)))
        .collect()
}
