use async_nats::ConnectOptions;
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::stream::{self, RawMessageErrorKind};
use async_nats::jetstream::{self, Context, ErrorCode};
use futures::{StreamExt as _, TryStreamExt as _};

use crate::state::{Broker, Consumer, StoredMessage, Stream};
use crate::{CheckError, error_at};

/// Documented names of the program's streams, except those of the object store.
const STREAMS: [&str; 4] = ["RETRO_INTAKE", "RETRO_GITHUB", "RETRO_WORK", "RETRO_ANNOUNCEMENTS"];
/// Maximum number of concurrent requests to the broker.
const CONCURRENT_REQUESTS: usize = 32;

/// Reads the program's streams from the broker, the consumers of a stream before its messages, so the
/// messages include every acknowledged one.
pub(super) async fn read_broker(url: &str) -> Result<Broker, CheckError> {
    let client = connect_options(url).connect(url).await.map_err(error_at("the broker"))?;
    let jetstream = jetstream::new(client);
    let mut streams = Vec::new();
    for name in STREAMS {
        streams.extend(read_stream(&jetstream, name).await?);
    }
    Ok(Broker { streams })
}

/// Passes the credentials of the URL as options, because the client ignores credentials in a URL.
fn connect_options(url: &str) -> ConnectOptions {
    let login = url.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@'));
    match login.and_then(|(login, _)| login.split_once(':')) {
        Some((user, password)) => {
            ConnectOptions::with_user_and_password(user.to_owned(), password.to_owned())
        }
        None => ConnectOptions::new(),
    }
}

async fn read_stream(jetstream: &Context, name: &str) -> Result<Option<Stream>, CheckError> {
    let mut stream = match jetstream.get_stream(name).await {
        Ok(stream) => stream,
        Err(error) if is_missing(&error.kind()) => return Ok(None),
        Err(error) => return Err(error_at(name)(error)),
    };
    let consumers: Vec<_> = stream.consumers().try_collect().await.map_err(error_at(name))?;
    let consumers = consumers.into_iter().map(|info| Consumer {
        name: info.name,
        ack_floor: info.ack_floor.stream_sequence,
        ack_pending: info.num_ack_pending as u64,
        pending: info.num_pending,
    });
    let consumers = consumers.collect();
    let state = stream.info().await.map_err(error_at(name))?.state.clone();
    // An empty stream has `first_sequence = last_sequence + 1`, or 0 if it was never used.
    let places = state.first_sequence.max(1)..=state.last_sequence;
    let found = futures::stream::iter(places).map(|sequence| read_message(&stream, name, sequence));
    let messages: Vec<Option<StoredMessage>> = found.buffered(CONCURRENT_REQUESTS).try_collect().await?;
    let messages = messages.into_iter().flatten().collect();
    Ok(Some(Stream { name: name.to_owned(), last_sequence: state.last_sequence, messages, consumers }))
}

/// Reads the message with a sequence number; `None` if it was deleted.
async fn read_message(
    stream: &stream::Stream,
    name: &str,
    sequence: u64,
) -> Result<Option<StoredMessage>, CheckError> {
    let message = match stream.get_raw_message(sequence).await {
        Ok(message) => message,
        Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => return Ok(None),
        Err(error) => return Err(error_at(format!("{name}, sequence {sequence}"))(error)),
    };
    Ok(Some(StoredMessage {
        sequence: message.sequence,
        subject: message.subject.to_string(),
        headers: convert_headers(&message.headers),
        payload: message.payload.to_vec(),
    }))
}

fn is_missing(kind: &GetStreamErrorKind) -> bool {
    matches!(kind, GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND)
}

fn convert_headers(map: &async_nats::HeaderMap) -> Vec<(String, String)> {
    let pairs = map.iter().flat_map(|(name, values)| values.iter().map(move |value| (name, value)));
    pairs.map(|(name, value)| (name.to_string(), value.as_str().to_owned())).collect()
}
