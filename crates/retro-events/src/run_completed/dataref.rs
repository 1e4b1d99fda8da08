//! A body by reference: an object in the tenant's own prefix of the broker's bucket, with its hash and size.

use retro_core::dead_letter::{Code, Rejection};
use retro_core::id::Tenant;
use retro_core::run::ObjectRef;
use serde_json::{Map, Value};

use crate::atif::BODY_BYTES_MAX;
use crate::{field, subject};

/// Finds `data.dataref` (`{name, sha256, bytes}`), or the extension `dataref` (the name) with its companions
/// `datarefsha256` and `datarefbytes`. An address, a path or another tenant's object is `dataref_refused`, and all
/// of them alike: an answer that told them apart would tell who else is there.
pub(super) fn find(
    data: &Map<String, Value>,
    extensions: &Map<String, Value>,
    tenant: &Tenant,
) -> Result<Option<ObjectRef>, Rejection> {
    let reference = data.get("dataref").filter(|reference| !reference.is_null());
    let (path, reference) = match (reference, extensions.get("dataref")) {
        (None, None) => return Ok(None),
        (Some(reference), _) => ("data.dataref", reference.clone()),
        (None, Some(name)) => ("dataref", from_extensions(name, extensions)),
    };
    let own = format!("{}/", subject::encode(tenant.as_str()));
    if !reference["name"].as_str().is_some_and(|name| name.starts_with(&own)) {
        return Err(refused(path));
    }
    let object: ObjectRef = field::read(Code::FieldInvalid, path, &reference)?;
    check(path, &object, tenant)?;
    Ok(Some(object))
}

/// In binary mode an attribute is text, numbers included.
fn from_extensions(name: &Value, extensions: &Map<String, Value>) -> Value {
    let attribute = |name: &str| extensions.get(name).cloned().unwrap_or(Value::Null);
    let bytes = match attribute("datarefbytes") {
        Value::String(text) => text.parse::<u64>().map_or(Value::String(text), Value::from),
        other => other,
    };
    serde_json::json!({"name": name, "sha256": attribute("datarefsha256"), "bytes": bytes})
}

fn check(path: &str, object: &ObjectRef, tenant: &Tenant) -> Result<(), Rejection> {
    if subject::owner_of_body(object).as_ref() != Some(tenant) {
        return Err(refused(path));
    }
    if object.bytes > BODY_BYTES_MAX as u64 {
        let detail = format!("{} bytes; at most {BODY_BYTES_MAX} are taken", object.bytes);
        return Err(Rejection::at(Code::Oversized, field::join(path, "bytes"), detail));
    }
    Ok(())
}

fn refused(path: &str) -> Rejection {
    let detail = "names no body of this tenant in the broker's bucket (`<tenant>/<sha256>`); files and other hosts are \
                  not read";
    Rejection::at(Code::DatarefRefused, path, detail)
}
