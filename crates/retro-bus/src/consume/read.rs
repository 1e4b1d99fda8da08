//! Reading what a stream holds, beside its consumers.

use std::time::Duration;

use async_nats::{HeaderMap, Message, StatusCode, Subject};
use futures::StreamExt;
use jiff::Timestamp;
use retro_events::Delivery;

use crate::{Bus, BusError};

/// How long one answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Bytes asked for at once: many small messages, and never more than the server holds for one connection.
const BYTES_MAX: u64 = 8 * 1024 * 1024;
/// What the server adds to a message that is read so.
const ADDED: [&str; 7] = [
    "Nats-Stream",
    "Nats-Subject",
    "Nats-Sequence",
    "Nats-Time-Stamp",
    "Nats-Num-Pending",
    "Nats-Last-Sequence",
    "Nats-UpTo-Sequence",
];

/// The messages of a stream from one position to another, both included, whole and in order; positions that hold nothing are
/// left out. Fails when the stream cannot be read: it does not allow it, or the broker is away.
pub(crate) async fn messages(bus: &Bus, stream: &str, from: u64, to: u64) -> Result<Vec<Delivery>, BusError> {
    let mut all: Vec<Delivery> = Vec::new();
    let mut next = from;
    while next <= to {
        let some = ask(bus, stream, next, to - next + 1).await?;
        let Some(last) = some.last().map(|one| one.sequence) else { break };
        all.extend(some.into_iter().filter(|one| one.sequence <= to));
        next = last + 1;
    }
    Ok(all)
}

async fn ask(bus: &Bus, stream: &str, from: u64, messages: u64) -> Result<Vec<Delivery>, BusError> {
    let failed =
        |error: &dyn std::fmt::Display| BusError::unavailable(format!("read the stream {stream}"), error);
    let subject = format!("$JS.API.DIRECT.GET.{stream}");
    bus.refusals.forget(&subject);
    let inbox = Subject::from(bus.client.new_inbox());
    let mut answers = bus.client.subscribe(inbox.clone()).await.map_err(|error| failed(&error))?;
    let how =
        serde_json::json!({"seq": from, "next_by_subj": ">", "batch": messages, "max_bytes": BYTES_MAX});
    bus.pull(subject.clone().into(), inbox, how.to_string().into()).await.map_err(|error| failed(&error))?;
    let mut read = Vec::new();
    loop {
        let answer = bus.unless_refused(&subject, Box::pin(tokio::time::timeout(ANSWER_MAX, answers.next())));
        let answer = answer
            .await?
            .map_err(|_| failed(&"no answer"))?
            .ok_or_else(|| failed(&"the connection closed"))?;
        match answer.status.filter(|status| *status != StatusCode::OK) {
            // The end of a batch; and nothing at or behind this position.
            Some(status) if status.as_u16() == 204 || status.as_u16() == 404 => return Ok(read),
            Some(status) => {
                let told = answer.description.as_deref().unwrap_or("it does not allow direct reading");
                return Err(failed(&format!("{status} {told}")));
            }
            None => {
                read.push(delivery(stream, answer).ok_or_else(|| failed(&"a message without its position"))?)
            }
        }
    }
}

fn delivery(stream: &str, message: Message) -> Option<Delivery> {
    let headers = message.headers?;
    let added = |name: &str| headers.get(name).map(|value| value.as_str());
    let subject = added("Nats-Subject")?.to_owned();
    let sequence = added("Nats-Sequence")?.parse().ok()?;
    let stored_at = added("Nats-Time-Stamp").and_then(|moment| moment.parse().ok());
    Some(Delivery {
        stream: stream.to_owned(),
        subject,
        sequence,
        headers: own(&headers),
        payload: message.payload,
        delivered: 1,
        stored_at: stored_at.unwrap_or(Timestamp::UNIX_EPOCH),
    })
}

/// The headers that the message came with.
fn own(headers: &HeaderMap) -> Vec<(String, String)> {
    let all = super::pull::headers(headers);
    all.into_iter().filter(|(name, _)| ADDED.iter().all(|added| !name.eq_ignore_ascii_case(added))).collect()
}
