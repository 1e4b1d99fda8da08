//! Parses and encodes CloudEvents 1.0 over NATS. Each message is one envelope, in structured or binary mode.
//!
//! The crate has its own type, because the SDK's type brings a second set of types for times, URLs and errors
//! (`chrono`, `url`, `snafu`), keeps only scalar extensions, and reports an invalid field without its path,
//! which a dead letter needs.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use jiff::Timestamp;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::delivery::{Delivery, find_header};
use crate::{atif, encoding, field};
use retro_core::json::{JsonBounds, JsonDocument, JsonNode};

/// Maximum size of a message, in bytes: the broker's default limit. Larger bodies are sent by reference.
pub const MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// Maximum size of an event over HTTP or from a file, in bytes: the largest body, plus space for the rest of
/// the event. If an event exceeds [`MESSAGE_BYTES_MAX`], its body is stored separately before the event is
/// published.
pub const EVENT_BYTES_MAX: usize = atif::BODY_BYTES_MAX + MESSAGE_BYTES_MAX;
/// Maximum length of `id`, `source` or `type`, in bytes. Limited because the identity of an event is kept
/// forever.
pub const ATTRIBUTE_BYTES_MAX: usize = 1024;

/// Maximum number of attributes of an event, in either mode. CloudEvents defines eight attributes and documents a
/// dozen extensions.
pub const ATTRIBUTES_MAX: usize = 256;
/// Maximum number of values in all extensions of an event together. The specification allows scalars only; nested
/// values from emitters are small and are kept as a tree.
pub const EXTENSION_VALUES_MAX: usize = 128;

/// A CloudEvent whose data is JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    /// Attribute `id`, which together with `source` identifies the event within its tenant.
    pub id: String,
    /// Attribute `source`, which names the emitter.
    pub source: String,
    /// Attribute `type`: the kind of event, with its version.
    pub kind: String,
    /// Attribute `time`: the time of the event according to the emitter; `None` if the emitter gives none.
    pub time: Option<Timestamp>,
    /// All other attributes, including extensions, as received.
    pub extensions: Map<String, Value>,
    /// Member `data`; JSON `null` if there is none.
    pub data: JsonDocument,
}

/// Headers and payload of an encoded envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedEvent {
    /// Message headers.
    pub headers: Vec<(String, String)>,
    /// Message payload.
    pub payload: Bytes,
}

impl Envelope {
    /// Parses a delivery of at most [`MESSAGE_BYTES_MAX`] bytes.
    pub fn from_delivery(delivery: &Delivery) -> Result<Self, Rejection> {
        Self::from_parts(&delivery.headers, &delivery.payload, MESSAGE_BYTES_MAX)
    }

    /// Parses headers (ignoring case) and a payload of at most `bytes_max` decompressed bytes. A CloudEvents
    /// content type means structured mode. With any other content type or none, `ce-` headers mean binary mode, and
    /// without them the payload is parsed in structured mode.
    pub fn from_parts(
        headers: &[(String, String)],
        payload: &Bytes,
        bytes_max: usize,
    ) -> Result<Self, Rejection> {
        let payload = encoding::decompress_payload(
            find_header(headers, encoding::CONTENT_ENCODING),
            payload,
            bytes_max,
        )?;
        let bounds = JsonBounds::with_bytes_max(bytes_max);
        let content_type = find_header(headers, "content-type").map(media_type);
        match content_type.as_deref() {
            Some("application/cloudevents+json" | "application/cloudevents") => {
                Self::from_document(&JsonDocument::parse(&payload, bounds)?)
            }
            Some(other) if other.starts_with("application/cloudevents") => Err(Rejection::of_field(
                DeadLetterCode::NotCloudEvent,
                "content-type",
                "only application/cloudevents+json is read; batches are sent as single events",
            )),
            _ if find_header(headers, "ce-specversion").is_some() => from_headers(headers, &payload, bounds),
            _ => Self::from_document(&JsonDocument::parse(&payload, bounds)?),
        }
    }

    /// Parses a structured event.
    pub fn from_document(event: &JsonDocument) -> Result<Self, Rejection> {
        let members = event.root().members().ok_or_else(not_cloud_event)?;
        let (mut attributes, mut data, mut data_base64) = (Attributes::default(), None, None);
        // In CloudEvents a `null` attribute is the same as an absent one.
        for (name, value) in members.filter(|(_, value)| !value.is_null()) {
            match &*name {
                "data" => data = Some(value),
                "data_base64" => data_base64 = Some(value),
                _ => attributes.add_attribute(name.into_owned(), value)?,
            }
        }
        let attributes = attributes.trees;
        if !attributes.contains_key("specversion") {
            return Err(not_cloud_event());
        }
        let content_type = attributes.get("datacontenttype").and_then(Value::as_str);
        check_data_is_json(content_type, "datacontenttype")?;
        let data = match (data, data_base64) {
            (Some(_), Some(_)) => {
                let detail = "stands beside data; only one may";
                return Err(Rejection::of_field(DeadLetterCode::FieldInvalid, "data_base64", detail));
            }
            (Some(data), None) => event.subdocument(data),
            // Some SDKs encode JSON this way if they hold it as bytes.
            (None, Some(encoded)) => decode_data(encoded)?,
            (None, None) => JsonDocument::null(),
        };
        Self::from_attributes(attributes, data)
    }

    /// Encodes the envelope in structured mode, in which the payload contains everything.
    pub fn to_structured(&self) -> EncodedEvent {
        EncodedEvent {
            headers: vec![("content-type".to_owned(), "application/cloudevents+json".to_owned())],
            payload: self.structured_json().into(),
        }
    }

    fn structured_json(&self) -> Vec<u8> {
        let data = self.data.root();
        let own: Vec<_> = self.core_attributes().map(|(name, value)| (name, Value::String(value))).collect();
        let mut members: BTreeMap<&str, Member<'_>> =
            self.extensions.iter().map(|(name, value)| (name.as_str(), Member::Attribute(value))).collect();
        // Added last, so that no extension replaces a core attribute.
        members.extend(own.iter().map(|(name, value)| (*name, Member::Attribute(value))));
        let json = Value::String("application/json".to_owned());
        if !data.is_null() {
            members.entry("datacontenttype").or_insert(Member::Attribute(&json));
            members.insert("data", Member::Data(data));
        }
        let mut out = Vec::with_capacity(data.raw_text().len() + 1024);
        serde_json::to_writer(&mut out, &members).expect("an event serializes to JSON");
        out
    }

    /// Encodes the envelope in binary mode, with the attributes in `ce-` headers and the data in the payload. An
    /// extension that is an object or an array is sent as its JSON text.
    pub fn to_binary(&self) -> EncodedEvent {
        let content_type = match self.extensions.get("datacontenttype") {
            Some(Value::String(given)) => given.clone(),
            _ => "application/json".to_owned(),
        };
        let mut headers = vec![("content-type".to_owned(), content_type)];
        for (name, value) in self.core_attributes() {
            headers.push((format!("ce-{name}"), percent_encode(&value)));
        }
        for (name, value) in self.extensions.iter().filter(|(name, _)| *name != "datacontenttype") {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            headers.push((format!("ce-{name}"), percent_encode(&text)));
        }
        EncodedEvent { headers, payload: self.data.root().sorted_json().into() }
    }

    fn from_attributes(mut attributes: Map<String, Value>, data: JsonDocument) -> Result<Self, Rejection> {
        match attributes.remove("specversion") {
            Some(Value::String(version)) if version == "1.0" => {}
            _ => {
                return Err(Rejection::of_field(
                    DeadLetterCode::SpecVersionUnknown,
                    "specversion",
                    "only 1.0 is read",
                ));
            }
        }
        let time = attributes.remove("time").map(|time| parse_time(&time)).transpose()?;
        Ok(Self {
            id: remove_attribute(&mut attributes, "id")?,
            source: remove_attribute(&mut attributes, "source")?,
            kind: remove_attribute(&mut attributes, "type")?,
            time,
            extensions: attributes,
            data,
        })
    }

    fn core_attributes(&self) -> impl Iterator<Item = (&'static str, String)> {
        let time = self.time.map(|time| ("time", time.to_string()));
        [
            ("specversion", "1.0".to_owned()),
            ("id", self.id.clone()),
            ("source", self.source.clone()),
            ("type", self.kind.clone()),
        ]
        .into_iter()
        .chain(time)
    }
}

fn not_cloud_event() -> Rejection {
    Rejection::of_field(
        DeadLetterCode::NotCloudEvent,
        "specversion",
        "neither a structured CloudEvent (a JSON object with specversion) nor a binary one (header ce-specversion)",
    )
}

/// Returns a media type in lower case and without parameters: `Application/JSON; charset=utf-8` becomes
/// `application/json`.
fn media_type(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn is_json(content_type: &str) -> bool {
    let media_type = media_type(content_type);
    media_type.ends_with("/json") || media_type.ends_with("+json")
}

fn check_data_is_json(content_type: Option<&str>, path: &str) -> Result<(), Rejection> {
    match content_type {
        Some(content_type) if !is_json(content_type) => Err(Rejection::of_field(
            DeadLetterCode::FieldInvalid,
            path,
            "the data is to be JSON: application/json",
        )),
        _ => Ok(()),
    }
}

fn from_headers(
    headers: &[(String, String)],
    payload: &Bytes,
    bounds: JsonBounds,
) -> Result<Envelope, Rejection> {
    check_data_is_json(find_header(headers, "content-type"), "content-type")?;
    let mut attributes = Map::new();
    for (name, value) in headers {
        let name = name.to_ascii_lowercase();
        if let Some(attribute) = name.strip_prefix("ce-") {
            // If a header is repeated, the first one counts, as everywhere else.
            attributes.entry(attribute).or_insert_with(|| percent_decode(value).into());
            check_attribute_count(attributes.len())?;
        }
    }
    let data = if payload.is_empty() { JsonDocument::null() } else { JsonDocument::parse(payload, bounds)? };
    Envelope::from_attributes(attributes, data)
}

/// Collects the attributes of a structured event as JSON trees, with limits on the number of attributes and
/// of their values.
#[derive(Default)]
struct Attributes {
    values: usize,
    trees: Map<String, Value>,
}

impl Attributes {
    fn add_attribute(&mut self, name: String, value: JsonNode<'_>) -> Result<(), Rejection> {
        // Counted before the tree is built, which could take many times the memory of the text.
        self.values += value.descendant_count();
        if self.values > EXTENSION_VALUES_MAX {
            let detail = format!(
                "the extensions hold more than {EXTENSION_VALUES_MAX} values; what is large belongs into data"
            );
            return Err(Rejection::of_message(DeadLetterCode::TooManyValues, detail));
        }
        self.trees.insert(name, value.to_value());
        check_attribute_count(self.trees.len())
    }
}

fn check_attribute_count(number: usize) -> Result<(), Rejection> {
    if number <= ATTRIBUTES_MAX {
        return Ok(());
    }
    let detail = format!("more than {ATTRIBUTES_MAX} attributes; what is large belongs into data");
    Err(Rejection::of_message(DeadLetterCode::TooManyValues, detail))
}

/// A member of a structured event.
#[derive(Serialize)]
#[serde(untagged)]
enum Member<'a> {
    Attribute(&'a Value),
    Data(JsonNode<'a>),
}

fn decode_data(encoded: JsonNode<'_>) -> Result<JsonDocument, Rejection> {
    let at = |code, detail: String| Rejection::of_field(code, "data_base64", detail);
    let text =
        encoded.as_str().ok_or_else(|| at(DeadLetterCode::FieldInvalid, "is not a string".to_owned()))?;
    let bytes = BASE64
        .decode(&*text)
        .map_err(|_| at(DeadLetterCode::FieldInvalid, "is not standard Base64".to_owned()))?;
    // Decoding shrinks the text, which was within its limit, so this limit never rejects.
    JsonDocument::parse(&bytes.into(), JsonBounds::with_bytes_max(EVENT_BYTES_MAX))
        .map_err(|rejection| at(rejection.code, rejection.detail))
}

fn remove_attribute(attributes: &mut Map<String, Value>, name: &str) -> Result<String, Rejection> {
    let invalid = |detail: String| Err(Rejection::of_field(DeadLetterCode::FieldInvalid, name, detail));
    match attributes.remove(name) {
        None => invalid("is missing".to_owned()),
        Some(Value::String(text)) if text.is_empty() => invalid("is empty".to_owned()),
        Some(Value::String(text)) if text.len() > ATTRIBUTE_BYTES_MAX => {
            invalid(format!("is {} bytes long; at most {ATTRIBUTE_BYTES_MAX} are taken", text.len()))
        }
        Some(Value::String(text)) if text.chars().any(char::is_control) => {
            invalid("holds a control character".to_owned())
        }
        Some(Value::String(text)) => Ok(text),
        Some(_) => invalid("is not a string".to_owned()),
    }
}

fn parse_time(time: &Value) -> Result<Timestamp, Rejection> {
    field::deserialize_field(DeadLetterCode::FieldInvalid, "time", time)
}

/// Percent-encodes every character that a header value must not contain: all except printable ASCII, and also
/// space, quote and percent.
fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'!' | b'#' | b'$' | b'&'..=b'~' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// Decodes what [`percent_encode`] writes; other text is returned unchanged.
fn percent_decode(text: &str) -> String {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let pair = after.get(..2).filter(|pair| *byte == b'%' && pair.iter().all(u8::is_ascii_hexdigit));
        let value = pair.and_then(|pair| std::str::from_utf8(pair).ok());
        match value.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(value) => {
                decoded.push(value);
                rest = &after[2..];
            }
            None => {
                decoded.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8(decoded).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests;
