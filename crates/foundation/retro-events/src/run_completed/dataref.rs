//! Parses references to bodies. A reference names either an object with the tenant's own prefix in the broker's
//! bucket, with its hash and size, or a URL at an allowed HTTPS host, with its hash.

use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::Tenant;
use retro_core::run::{HttpsRef, ObjectRef};
use serde_json::{Map, Value};

use super::body::Body;
use crate::atif::BODY_BYTES_MAX;
use crate::hosts::DatarefHosts;
use crate::{field, subject};
use retro_core::json::JsonNode;

/// Maximum number of values and keys in a reference: its three fields, and any that an emitter adds.
const REFERENCE_VALUES_MAX: usize = 64;

/// Parses `data.dataref` (`{name, sha256, bytes}` or `{url, sha256}`), or the extension `dataref` (the name
/// or the URL) with its companions `datarefsha256` and `datarefbytes`. A file path and the name of another
/// tenant's object are both rejected as `dataref_refused` with the same text, because different errors would
/// reveal which other tenants exist.
pub(super) fn parse_dataref(
    data: JsonNode<'_>,
    extensions: &Map<String, Value>,
    tenant: &Tenant,
    hosts: &DatarefHosts,
) -> Result<Option<Body>, Rejection> {
    let (path, reference) = match (data.get_non_null("dataref"), extensions.get("dataref")) {
        (None, None) => return Ok(None),
        // Before `to_value`, which would build a tree of any size.
        (Some(reference), _) if reference.descendant_count() > REFERENCE_VALUES_MAX => {
            return Err(dataref_refused("data.dataref"));
        }
        (Some(reference), _) => ("data.dataref", reference.to_value()),
        (None, Some(place)) => ("dataref", from_extensions(place, extensions)),
    };
    // Exactly one of the two: with both, it would be unclear which body belongs to the run.
    match (reference["name"].as_str(), reference["url"].as_str()) {
        (Some(name), None) => parse_object_ref(path, name, &reference, tenant).map(Body::Object),
        (None, Some(url)) => parse_https_ref(path, url, &reference, hosts).map(Body::Https),
        _ => Err(dataref_refused(path)),
    }
    .map(Some)
}

/// Builds a reference from the extensions of an event. In binary mode every attribute is text, including numbers. A
/// `dataref` with a colon is a URL, because the name of an object contains none.
fn from_extensions(place: &Value, extensions: &Map<String, Value>) -> Value {
    let attribute = |name: &str| extensions.get(name).cloned().unwrap_or(Value::Null);
    if place.as_str().is_some_and(|place| place.contains(':')) {
        return serde_json::json!({"url": place, "sha256": attribute("datarefsha256")});
    }
    let bytes = match attribute("datarefbytes") {
        Value::String(text) => text.parse::<u64>().map_or(Value::String(text), Value::from),
        other => other,
    };
    serde_json::json!({"name": place, "sha256": attribute("datarefsha256"), "bytes": bytes})
}

fn parse_object_ref(
    path: &str,
    name: &str,
    reference: &Value,
    tenant: &Tenant,
) -> Result<ObjectRef, Rejection> {
    // Checked before the other fields are parsed, so that another tenant's object gives the same error
    // regardless of the other fields.
    if !name.starts_with(&format!("{}/", subject::encode_token(tenant.as_str()))) {
        return Err(dataref_refused(path));
    }
    let object: ObjectRef = field::deserialize_field(DeadLetterCode::FieldInvalid, path, reference)?;
    if subject::body_owner(&object).as_ref() != Some(tenant) {
        return Err(dataref_refused(path));
    }
    if object.bytes > BODY_BYTES_MAX as u64 {
        let detail = format!("{} bytes; at most {BODY_BYTES_MAX} are taken", object.bytes);
        return Err(Rejection::of_field(DeadLetterCode::Oversized, field::join_path(path, "bytes"), detail));
    }
    Ok(object)
}

fn parse_https_ref(
    path: &str,
    url: &str,
    reference: &Value,
    hosts: &DatarefHosts,
) -> Result<HttpsRef, Rejection> {
    let allowed = hosts
        .check_address(url)
        .map_err(|problem| Rejection::of_field(DeadLetterCode::DatarefRefused, path, problem))?;
    let body: HttpsRef = field::deserialize_field(DeadLetterCode::FieldInvalid, path, reference)?;
    if !subject::is_sha256(&body.sha256) {
        let detail = "is not a SHA-256: 64 digits of lower-case hex";
        return Err(Rejection::of_field(
            DeadLetterCode::FieldInvalid,
            field::join_path(path, "sha256"),
            detail,
        ));
    }
    Ok(HttpsRef { url: allowed.url().to_string(), ..body })
}

fn dataref_refused(path: &str) -> Rejection {
    let detail = "names neither a body of this tenant in the broker's bucket (`<tenant>/<sha256>`) nor an https \
                  address; files are not read";
    Rejection::of_field(DeadLetterCode::DatarefRefused, path, detail)
}
