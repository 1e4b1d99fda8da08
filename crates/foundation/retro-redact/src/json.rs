//! Redacts JSON. Strings are redacted like any text, and a field whose name denotes a secret has its whole
//! value redacted.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use retro_core::json::JsonNode;

use crate::marker::{Masks, is_marker};
use crate::{Redactor, replace_secrets};

/// Id of the rule that redacts a field because of its name alone.
const NAMED_FIELD_RULE: &str = "named-field";

/// Ends of the names of fields whose values are secrets unless they are placeholders, in lower case without
/// `_`, `-` and spaces. Words for password in other languages follow those of English.
const SECRET_NAMES: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "clientsecret",
    "secretkey",
    "secretaccesskey",
    "apikey",
    "accesstoken",
    "authtoken",
    "refreshtoken",
    "bearertoken",
    "idtoken",
    "privatekey",
    "encryptionkey",
    "signingkey",
    "masterkey",
    "presharedkey",
    "sessiontoken",
    "authorization",
    "setcookie",
    "seedphrase",
    "recoveryphrase",
    "adgangskode",
    "contrasena",
    "contraseña",
    "hasło",
    "heslo",
    "jelszó",
    "katasandi",
    "kennwort",
    "lösenord",
    "mdp",
    "motdepasse",
    "mậtkhẩu",
    "parolă",
    "parola",
    "passord",
    "passwort",
    "salasana",
    "senha",
    "şifre",
    "wachtwoord",
    "пароль",
    "סיסמה",
    "كلمةالمرور",
    "كلمةالسر",
    "पासवर्ड",
    "รหัสผ่าน",
    "パスワード",
    "暗証番号",
    "密码",
    "密碼",
    "口令",
    "비밀번호",
    "암호",
];

/// Names of the two fields of an entry, as in the headers of a recorded request or the environment of a
/// container: `{"name": "DB_PASSWORD", "value": "swordfish"}`.
const ENTRY_NAMES: [&str; 3] = ["name", "key", "header"];
const ENTRY_VALUE: &str = "value";

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
        self.redact_json_with(value, &mut Masks::default())
    }

    /// Redacts with the masks of the run that the value belongs to.
    pub(crate) fn redact_json_with(&self, value: JsonNode<'_>, masks: &mut Masks) -> (String, usize) {
        masks.reserve_markers(value.raw_text());
        let mut writer =
            JsonWriter { redactor: self, masks, out: String::with_capacity(value.raw_text().len()) };
        let secrets = writer.write_node(value);
        (writer.out, secrets)
    }
}

/// Writes a value without its secrets. Each method returns the number of secrets.
struct JsonWriter<'r> {
    redactor: &'r Redactor,
    masks: &'r mut Masks,
    out: String,
}

impl JsonWriter<'_> {
    fn write_node(&mut self, value: JsonNode<'_>) -> usize {
        if let Some(text) = value.as_str() {
            let clean = self.redactor.redact_with(&text, self.masks);
            push_string(&clean.text, &mut self.out);
            return clean.secrets;
        }
        if let Some(items) = value.items() {
            return self.write_items(items, None);
        }
        if value.members().is_some() {
            return self.write_fields(value);
        }
        match value.as_number() {
            Some(number) => self.out.push_str(&number.to_string()),
            None => self.out.push_str(value.raw_text()),
        }
        0
    }

    /// Writes a list. Each item of a field is a value of that field, such as each cookie of `Set-Cookie`.
    fn write_items<'a>(&mut self, items: impl Iterator<Item = JsonNode<'a>>, field: Option<&str>) -> usize {
        let mut secrets = 0;
        self.out.push('[');
        for (nth, item) in items.enumerate() {
            if nth > 0 {
                self.out.push(',');
            }
            secrets += match field {
                Some(name) => self.write_field(name, item),
                None => self.write_node(item),
            };
        }
        self.out.push(']');
        secrets
    }

    fn write_fields(&mut self, object: JsonNode<'_>) -> usize {
        let mut secrets = 0;
        let entry_name = find_entry_name(object);
        let mut fields: BTreeMap<Cow<'_, str>, (Cow<'_, str>, JsonNode<'_>)> = BTreeMap::new();
        for (name, value) in object.members().into_iter().flatten() {
            let clean = self.redactor.redact_with(&name, self.masks);
            secrets += clean.secrets;
            // A name without secrets is cloned instead of borrowed, because `name` is moved below.
            let clean = if clean.secrets == 0 { name.clone() } else { Cow::Owned(clean.text.into_owned()) };
            fields.insert(clean, (name, value));
        }
        self.out.push('{');
        for (nth, (clean, (name, value))) in fields.into_iter().enumerate() {
            if nth > 0 {
                self.out.push(',');
            }
            push_string(&clean, &mut self.out);
            self.out.push(':');
            let name = if name == ENTRY_VALUE { entry_name.as_ref().unwrap_or(&name) } else { &name };
            secrets += self.write_field(name, value);
        }
        self.out.push('}');
        secrets
    }

    fn write_field(&mut self, name: &str, value: JsonNode<'_>) -> usize {
        let text = value.as_str();
        let secret = match &text {
            // A marker is not a secret: redacting twice must change and count nothing.
            Some(text) => {
                let is_secret = is_secret_name(name) && !is_marker(text) && !PLACEHOLDER.is_match(text);
                is_secret.then(|| text.clone())
            }
            None => value
                .as_number()
                .filter(|_| is_secret_name(name))
                .map(|number| Cow::Owned(number.to_string())),
        };
        if let Some(secret) = secret {
            push_string(self.masks.mask(NAMED_FIELD_RULE, &secret), &mut self.out);
            return 1;
        }
        let Some(text) = text else {
            return match value.items() {
                Some(items) => self.write_items(items, Some(name)),
                None => self.write_node(value),
            };
        };
        let mut text = text.into_owned();
        let secrets = match self.redactor.redact_in_place(&mut text, self.masks) {
            0 => self.redact_assigned(name, &mut text),
            secrets => secrets,
        };
        push_string(&text, &mut self.out);
        secrets
    }

    /// Redacts a field as if it were an assignment in a text, because its name may denote a secret. Returns
    /// the number of secrets.
    fn redact_assigned(&mut self, name: &str, text: &mut String) -> usize {
        let head = format!("{name}=\"");
        let assignment = format!("{head}{text}\"");
        let value = head.len()..head.len() + text.len();
        let mut secrets = self.redactor.find_secrets(&assignment);
        secrets.retain(|secret| secret.range.start >= value.start && secret.range.end <= value.end);
        for secret in &mut secrets {
            secret.range = secret.range.start - head.len()..secret.range.end - head.len();
        }
        let clean = replace_secrets(text, &secrets, self.masks).text.into_owned();
        *text = clean;
        secrets.len()
    }
}

/// Returns the name of an entry if the object is one: it has a name and a value.
fn find_entry_name(object: JsonNode<'_>) -> Option<Cow<'_, str>> {
    let mut fields = object.members().into_iter().flatten();
    fields.find(|(name, _)| ENTRY_NAMES.contains(&name.as_ref())).and_then(|(_, value)| value.as_str())
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
