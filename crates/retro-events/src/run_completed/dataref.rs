//! A body by reference: an object in the tenant's own prefix of the broker's bucket, with its hash and size; or an
//! address at an allowed https host, with its hash.

use retro_core::dead_letter::{Code, Rejection};
use retro_core::id::Tenant;
use retro_core::run::{HttpsRef, ObjectRef};
use serde_json::{Map, Value};

use super::Body;
use crate::atif::BODY_BYTES_MAX;
use crate::hosts::DatarefHosts;
use crate::{field, subject};
use retro_core::json::Node;

/// The most values and keys of a reference: its three fields, and what an emitter adds.
const REFERENCE_VALUES_MAX: usize = 64;

/// Finds `data.dataref` (`{name, sha256, bytes}` or `{url, sha256}`), or the extension `dataref` (the name or the
/// address) with its companions `datarefsha256` and `datarefbytes`. A path or another tenant's object is
/// `dataref_refused`, and all of them alike: an answer that told them apart would tell who else is there.
pub(super) fn find(
    data: Node<'_>,
    extensions: &Map<String, Value>,
    tenant: &Tenant,
    hosts: &DatarefHosts,
) -> Result<Option<Body>, Rejection> {
    let (path, reference) = match (data.get_present("dataref"), extensions.get("dataref")) {
        (None, None) => return Ok(None),
        (Some(reference), _) if reference.size() > REFERENCE_VALUES_MAX => {
            return Err(refused("data.dataref"));
        }
        (Some(reference), _) => ("data.dataref", reference.to_value()),
        (None, Some(place)) => ("dataref", from_extensions(place, extensions)),
    };
    match (reference["name"].as_str(), reference["url"].as_str()) {
        (Some(name), None) => object(path, name, &reference, tenant).map(Body::Object),
        (None, Some(url)) => https(path, url, &reference, hosts).map(Body::Https),
        _ => Err(refused(path)),
    }
    .map(Some)
}

/// In binary mode an attribute is text, numbers included. An object's name holds no colon, an address does.
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

fn object(path: &str, name: &str, reference: &Value, tenant: &Tenant) -> Result<ObjectRef, Rejection> {
    if !name.starts_with(&format!("{}/", subject::encode(tenant.as_str()))) {
        return Err(refused(path));
    }
    let object: ObjectRef = field::read(Code::FieldInvalid, path, reference)?;
    if subject::owner_of_body(&object).as_ref() != Some(tenant) {
        return Err(refused(path));
    }
    if object.bytes > BODY_BYTES_MAX as u64 {
        let detail = format!("{} bytes; at most {BODY_BYTES_MAX} are taken", object.bytes);
        return Err(Rejection::at(Code::Oversized, field::join(path, "bytes"), detail));
    }
    Ok(object)
}

fn https(path: &str, url: &str, reference: &Value, hosts: &DatarefHosts) -> Result<HttpsRef, Rejection> {
    let allowed = hosts.check(url).map_err(|problem| Rejection::at(Code::DatarefRefused, path, problem))?;
    let body: HttpsRef = field::read(Code::FieldInvalid, path, reference)?;
    if !subject::is_sha256(&body.sha256) {
        let detail = "is not a SHA-256: 64 digits of lower-case hex";
        return Err(Rejection::at(Code::FieldInvalid, field::join(path, "sha256"), detail));
    }
    Ok(HttpsRef { url: allowed.url().to_string(), ..body })
}

fn refused(path: &str) -> Rejection {
    let detail = "names neither a body of this tenant in the broker's bucket (`<tenant>/<sha256>`) nor an https \
                  address; files are not read";
    Rejection::at(Code::DatarefRefused, path, detail)
}
