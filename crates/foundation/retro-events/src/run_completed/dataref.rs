//! Parses references to bodies. A reference names an object with the tenant's own prefix in the broker's
//! bucket, with its hash and size, or a URL at an allowed HTTPS host, with its hash, or a run of a GitHub Actions
//! workflow, whose log cannot be hashed in advance.

use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::Tenant;
use retro_core::run::{GithubLogRef, HttpsRef, ObjectRef};
use serde_json::{Map, Value};

use super::body::Body;
use crate::atif::BODY_BYTES_MAX;
use crate::github::tenants::{is_host, is_name};
use crate::hosts::DatarefHosts;
use crate::{field, subject};
use retro_core::json::JsonNode;

/// Maximum number of values and keys in a reference: its three fields, and any that an emitter adds.
const REFERENCE_VALUES_MAX: usize = 64;

/// Parses `data.dataref` (`{name, sha256, bytes}`, `{url, sha256}` or `{github_log}`), or the extension `dataref` (the name
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
    // Exactly one of them: with two, it would be unclear which body belongs to the run.
    match (reference["name"].as_str(), reference["url"].as_str(), &reference["github_log"]) {
        (Some(name), None, Value::Null) => parse_object_ref(path, name, &reference, tenant).map(Body::Object),
        (None, Some(url), Value::Null) => parse_https_ref(path, url, &reference, hosts).map(Body::Https),
        (None, None, log @ Value::Object(_)) => parse_github_log(path, log).map(Body::GithubLog),
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

/// Parses a reference to the log of a workflow run. Whether the repository is the tenant's is checked when the
/// log is fetched, by whoever has the token.
fn parse_github_log(path: &str, log: &Value) -> Result<GithubLogRef, Rejection> {
    let path = field::join_path(path, "github_log");
    let log: GithubLogRef = field::deserialize_field(DeadLetterCode::FieldInvalid, &path, log)?;
    let invalid = |name, detail| {
        Err(Rejection::of_field(DeadLetterCode::FieldInvalid, field::join_path(&path, name), detail))
    };
    let parts: Vec<&str> = log.repo.split('/').collect();
    if !is_host(&log.host) {
        return invalid("host", "is not the name of a host");
    }
    // GitHub reserves these names, and in a path they would be another address.
    if parts.len() != 2 || !parts.iter().all(|part| is_name(part) && !matches!(*part, "." | "..")) {
        return invalid("repo", "is not a repository as `owner/name`");
    }
    if log.attempt == 0 {
        return invalid("attempt", "is 0; the first attempt is 1");
    }
    Ok(log)
}

fn dataref_refused(path: &str) -> Rejection {
    let detail = "names neither a body of this tenant in the broker's bucket (`<tenant>/<sha256>`) nor an https \
                  address; files are not read";
    Rejection::of_field(DeadLetterCode::DatarefRefused, path, detail)
}

#[cfg(test)]
mod tests {
    use retro_core::json::JsonDocument;
    use serde_json::json;

    use super::*;

    fn parse(reference: &Value) -> Result<Option<Body>, Rejection> {
        let data = JsonDocument::from_value(&json!({"dataref": reference}));
        parse_dataref(data.root(), &Map::new(), &Tenant::default_tenant(), &DatarefHosts::default())
    }

    #[test]
    fn the_log_of_a_workflow_run_is_a_body() {
        let log = json!({"host": "github.com", "repo": "acme/shop", "run": 17, "attempt": 2});
        let Ok(Some(Body::GithubLog(found))) = parse(&json!({"github_log": log})) else {
            panic!("it is one")
        };
        assert_eq!((found.repo.as_str(), found.run, found.attempt), ("acme/shop", 17, 2));
        for (name, value) in [
            ("host", json!("git hub.com")),
            ("repo", json!("acme/shop/../../user")),
            ("repo", json!("acme/..")),
            ("repo", json!("acme")),
            ("attempt", json!(0)),
            ("run", json!("17")),
        ] {
            let mut changed = log.clone();
            changed[name] = value;
            let rejection = parse(&json!({"github_log": changed})).unwrap_err();
            assert_eq!(rejection.code, DeadLetterCode::FieldInvalid, "{name}");
            assert!(rejection.to_string().contains("data.dataref.github_log"), "{rejection}");
        }
        let both = parse(&json!({"github_log": log, "url": "https://runs.example.com/1"})).unwrap_err();
        assert_eq!(both.code, DeadLetterCode::DatarefRefused);
    }
}
