//! Removes secrets from spans before they are stored.

use bytes::Bytes;
use retro_core::json::{JsonBounds, JsonDocument};
use retro_redact::{RunRedactor, TEXT_BYTES_MAX};
use serde_json::Value;

/// Members of a span that are no text: an id may look like a secret.
const IDS: [&str; 3] = ["traceId", "spanId", "parentSpanId"];

/// Returns the document of a span without the secrets in it. The masks are those of the trace's redactor, so that equal
/// secrets of one request look equal. Attributes often contain JSON as text (messages, arguments); it stays JSON, and the
/// names of its fields count.
pub(super) fn redact_span(redactor: &mut RunRedactor<'_>, document: &str) -> String {
    let mut value: Value = serde_json::from_str(document).expect("the importer writes JSON");
    redact_embedded_json(redactor, &mut value);
    let document = JsonDocument::from_value(&value);
    let (clean, secrets) = redactor.redact_json(document.root());
    if secrets == 0 {
        return clean;
    }
    let mut redacted: Value = serde_json::from_str(&clean).expect("redacted JSON is JSON");
    let place = "/resourceSpans/0/scopeSpans/0/spans/0";
    if let (Some(redacted), Some(span)) = (redacted.pointer_mut(place), value.pointer(place)) {
        for id in IDS {
            if let Some(original) = span.get(id) {
                redacted[id] = original.clone();
            }
        }
    }
    redacted.to_string()
}

/// Redacts texts that are JSON objects or lists. The nesting of values is bounded by that of the document.
fn redact_embedded_json(redactor: &mut RunRedactor<'_>, value: &mut Value) {
    match value {
        Value::String(text) if text.starts_with(['{', '[']) => {
            let bytes = Bytes::copy_from_slice(text.as_bytes());
            if let Ok(inner) = JsonDocument::parse(&bytes, JsonBounds::with_bytes_max(TEXT_BYTES_MAX)) {
                let (clean, secrets) = redactor.redact_json(inner.root());
                // Without secrets, the text stays as it is, byte for byte.
                if secrets > 0 {
                    *text = clean;
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| redact_embedded_json(redactor, item)),
        Value::Object(members) => {
            members.values_mut().for_each(|member| redact_embedded_json(redactor, member));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use retro_redact::Redactor;
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_go_and_embedded_json_and_ids_stay() {
        let messages = json!([{"role": "user", "parts": [{"content": "use it", "password": "swordfish-7"}]}]);
        let span = json!({
            "traceId": "5b8aa5a2d2c872e8321cf37308d69df2", "spanId": "051581bf3cb55c13", "name": "chat",
            "attributes": {
                "gen_ai.input.messages": messages.to_string(),
                "db.password": "hunter-22",
                "gen_ai.tool.call.result": "Authorization: Bearer mF_9.B5f-4.1JqM",
            },
        });
        let document = json!({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).to_string();
        let clean = redact_span(&mut Redactor::shared().begin_run(), &document);
        for secret in ["swordfish-7", "hunter-22", "mF_9"] {
            assert!(!clean.contains(secret), "{clean}");
        }
        let clean: Value = serde_json::from_str(&clean).unwrap();
        let span = &clean["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        assert_eq!(span["traceId"], "5b8aa5a2d2c872e8321cf37308d69df2");
        let messages = span["attributes"]["gen_ai.input.messages"].as_str().unwrap();
        let messages: Value = serde_json::from_str(messages).expect("it is still JSON");
        assert_eq!(messages[0]["parts"][0]["content"], "use it");
    }
}
