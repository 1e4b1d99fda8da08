//! Redacts JSON. Strings are redacted like any text, and a field whose name denotes a secret has its whole
//! value redacted.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use retro_core::json::JsonNode;

use crate::Redactor;
use crate::marker::{MARKER_PREFIX, format_marker};

/// Id of the rule that redacts a field because of its name alone.
const NAMED_FIELD_RULE: &str = "named-field";

/// Names of fields whose values are secrets unless they are placeholders, in lower case without `_`, `-` and
/// spaces.
const SECRET_NAMES: [&str; 15] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "clientsecret",
    "secretkey",
    "secretaccesskey",
    "apikey",
    "accesstoken",
    "authtoken",
    "refreshtoken",
    "bearertoken",
    "privatekey",
    "sessiontoken",
    "authorization",
];

/// Values that are never secrets, whatever the name of the field: an empty value, a type, a placeholder
/// variable or a mask.
static PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^(?:|true|false|null|none|string|redacted|hidden|x+|\*+|\.+|<[^>]*>|\$\{?\w*\}?|\{\{?[^{}]*\}\}?)$")
        .expect("constant patterns compile")
});

impl Redactor {
    /// Serializes a value without the secrets in its strings and field names. Returns the JSON, with sorted
    /// keys and no white space, and the number of secrets. The value of a field such as `password` or
    /// `client_secret` is a secret unless it is an obvious placeholder. If two field names become equal after
    /// redaction, the last field is kept.
    pub fn redact_json(&self, value: JsonNode<'_>) -> (String, usize) {
        let mut out = String::with_capacity(value.raw_text().len());
        let secrets = self.write_node(value, &mut out);
        (out, secrets)
    }

    fn write_node(&self, value: JsonNode<'_>, out: &mut String) -> usize {
        if let Some(text) = value.as_str() {
            let clean = self.redact(&text);
            push_string(&clean.text, out);
            return clean.secrets;
        }
        if let Some(items) = value.items() {
            return self.write_items(items, out);
        }
        if value.members().is_some() {
            return self.write_fields(value, out);
        }
        match value.as_number() {
            Some(number) => out.push_str(&number.to_string()),
            None => out.push_str(value.raw_text()),
        }
        0
    }

    fn write_items<'a>(&self, items: impl Iterator<Item = JsonNode<'a>>, out: &mut String) -> usize {
        let mut secrets = 0;
        out.push('[');
        for (nth, item) in items.enumerate() {
            if nth > 0 {
                out.push(',');
            }
            secrets += self.write_node(item, out);
        }
        out.push(']');
        secrets
    }

    fn write_fields(&self, object: JsonNode<'_>, out: &mut String) -> usize {
        let mut secrets = 0;
        let mut fields: BTreeMap<Cow<'_, str>, (Cow<'_, str>, JsonNode<'_>)> = BTreeMap::new();
        for (name, value) in object.members().into_iter().flatten() {
            let clean = self.redact(&name);
            secrets += clean.secrets;
            // A name without secrets is cloned instead of borrowed, because `name` is moved below.
            let clean = if clean.secrets == 0 { name.clone() } else { Cow::Owned(clean.text.into_owned()) };
            fields.insert(clean, (name, value));
        }
        out.push('{');
        for (nth, (clean, (name, value))) in fields.into_iter().enumerate() {
            if nth > 0 {
                out.push(',');
            }
            push_string(&clean, out);
            out.push(':');
            secrets += self.write_field(&name, value, out);
        }
        out.push('}');
        secrets
    }

    fn write_field(&self, name: &str, value: JsonNode<'_>, out: &mut String) -> usize {
        let text = value.as_str();
        let is_secret = match &text {
            // A marker is not a secret: redacting twice must change and count nothing.
            Some(text) => {
                !text.starts_with(MARKER_PREFIX) && is_secret_name(name) && !PLACEHOLDER.is_match(text)
            }
            None => value.as_number().is_some() && is_secret_name(name),
        };
        if is_secret {
            push_string(&format_marker(NAMED_FIELD_RULE), out);
            return 1;
        }
        let Some(text) = text else { return self.write_node(value, out) };
        let mut text = text.into_owned();
        let secrets = match self.redact_in_place(&mut text) {
            0 => self.redact_assigned(name, &mut text),
            secrets => secrets,
        };
        push_string(&text, out);
        secrets
    }

    /// Redacts a field as if it were an assignment in a text, because its name may denote a secret. Returns
    /// the number of secrets.
    fn redact_assigned(&self, name: &str, text: &mut String) -> usize {
        let head = format!("{name}=\"");
        let assignment = format!("{head}{text}\"");
        let value = head.len()..head.len() + text.len();
        let mut secrets = self.find_secrets(&assignment);
        secrets.retain(|secret| secret.range.start >= value.start && secret.range.end <= value.end);
        // From the end, so the ranges of earlier secrets stay valid.
        for secret in secrets.iter().rev() {
            let range = secret.range.start - head.len()..secret.range.end - head.len();
            text.replace_range(range, &format_marker(secret.rule));
        }
        secrets.len()
    }
}

fn push_string(text: &str, out: &mut String) {
    out.push_str(&serde_json::to_string(text).expect("a string serialises to JSON"));
}

fn is_secret_name(name: &str) -> bool {
    let plain: String = name
        .chars()
        .filter(|letter| !matches!(letter, '_' | '-' | ' '))
        .flat_map(char::to_lowercase)
        .collect();
    SECRET_NAMES.iter().any(|telling| plain.ends_with(telling))
}
