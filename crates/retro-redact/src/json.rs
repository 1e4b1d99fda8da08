//! Secrets in JSON: texts as texts, and what stands under a name that tells.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use retro_core::json::Node;

use crate::{MARK, Redactor, marker};

/// The rule's name where the name of a field alone decides.
const BY_NAME: &str = "named-field";

/// Names whose value is a secret whatever it looks like, written without `_`, `-` and capitals.
const TELLING: [&str; 15] = [
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

/// Values that are no secret under any name: nothing, a type, a variable to be filled in, a mask.
static PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^(?:|true|false|null|none|string|redacted|hidden|x+|\*+|\.+|<[^>]*>|\$\{?\w*\}?|\{\{?[^{}]*\}\}?)$")
        .expect("a fixed expression")
});

impl Redactor {
    /// Writes a value without the secrets of its texts, names of fields among them, and returns how many there were; keys
    /// are sorted and white space is gone. What stands under a name like `password` or `client_secret` is a secret, unless
    /// it is an obvious placeholder. Of fields whose names are the same without their secrets the last one is kept.
    pub fn json(&self, value: Node<'_>) -> (String, usize) {
        let mut out = String::with_capacity(value.text().len());
        let secrets = self.write(value, &mut out);
        (out, secrets)
    }

    fn write(&self, value: Node<'_>, out: &mut String) -> usize {
        if let Some(text) = value.as_str() {
            let clean = self.redact(&text);
            push_string(&clean.text, out);
            return clean.secrets;
        }
        if let Some(items) = value.items() {
            return self.items(items, out);
        }
        if value.members().is_some() {
            return self.fields(value, out);
        }
        match value.as_number() {
            Some(number) => out.push_str(&number.to_string()),
            None => out.push_str(value.text()),
        }
        0
    }

    fn items<'a>(&self, items: impl Iterator<Item = Node<'a>>, out: &mut String) -> usize {
        let mut secrets = 0;
        out.push('[');
        for (nth, item) in items.enumerate() {
            if nth > 0 {
                out.push(',');
            }
            secrets += self.write(item, out);
        }
        out.push(']');
        secrets
    }

    fn fields(&self, object: Node<'_>, out: &mut String) -> usize {
        let mut secrets = 0;
        let mut fields: BTreeMap<Cow<'_, str>, (Cow<'_, str>, Node<'_>)> = BTreeMap::new();
        for (name, value) in object.members().into_iter().flatten() {
            let clean = self.redact(&name);
            secrets += clean.secrets;
            // Borrowed from the name, which is moved: a name without secrets is its own clean one.
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
            secrets += self.field(&name, value, out);
        }
        out.push('}');
        secrets
    }

    fn field(&self, name: &str, value: Node<'_>, out: &mut String) -> usize {
        let text = value.as_str();
        let whole = match &text {
            Some(text) => !text.starts_with(MARK) && tells(name) && !PLACEHOLDER.is_match(text),
            None => value.as_number().is_some() && tells(name),
        };
        if whole {
            push_string(&marker(BY_NAME), out);
            return 1;
        }
        let Some(text) = text else { return self.write(value, out) };
        let mut text = text.into_owned();
        let secrets = match self.in_place(&mut text) {
            0 => self.assigned(name, &mut text),
            secrets => secrets,
        };
        push_string(&text, out);
        secrets
    }

    /// Tries a field as the assignment it would be in a text, for names that tell a little.
    fn assigned(&self, name: &str, text: &mut String) -> usize {
        let head = format!("{name}=\"");
        let assignment = format!("{head}{text}\"");
        let value = head.len()..head.len() + text.len();
        let mut secrets = self.find(&assignment);
        secrets.retain(|secret| secret.range.start >= value.start && secret.range.end <= value.end);
        for secret in secrets.iter().rev() {
            let range = secret.range.start - head.len()..secret.range.end - head.len();
            text.replace_range(range, &marker(secret.rule));
        }
        secrets.len()
    }
}

fn push_string(text: &str, out: &mut String) {
    out.push_str(&serde_json::to_string(text).expect("a text is JSON"));
}

fn tells(name: &str) -> bool {
    let plain: String = name
        .chars()
        .filter(|letter| !matches!(letter, '_' | '-' | ' '))
        .flat_map(char::to_lowercase)
        .collect();
    TELLING.iter().any(|telling| plain.ends_with(telling))
}
