//! Derives configuration keys from a schema, so names, bounds and descriptions are written only once.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use toml::Table;

use crate::problem::find_nearest;

/// A configuration key and its description.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// Key name as written in the file.
    pub name: String,
    /// Description of the key, taken from its doc comment.
    pub doc: String,
    /// Type of the value, with its bounds.
    pub kind: KeyKind,
    /// Default value; null if the key has none.
    pub default: Value,
    /// Example shown for a key without a default value, if any.
    pub example: Option<Value>,
    /// `true` if the value is masked in output.
    pub secret: bool,
}

/// Type of a key's value, with its bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyKind {
    /// A whole number within inclusive bounds.
    Number {
        /// Smallest allowed number.
        low: i64,
        /// Largest allowed number.
        high: i64,
    },
    /// `true` or `false`.
    Boolean,
    /// Any string.
    Text,
    /// One of the listed words, each paired with its description.
    Choice(Vec<(String, String)>),
    /// A list of such words.
    List(Vec<(String, String)>),
}

impl Key {
    /// Describes the expected value for users, such as `a whole number, 1 to 64`.
    pub fn describe_expected(&self) -> String {
        match (&self.kind, &self.example) {
            (KeyKind::Number { low, high }, _) => format!("a whole number, {low} to {high}"),
            (KeyKind::Choice(words), _) => quote_words(words).join(" or "),
            (KeyKind::List(words), _) => format!("a list of {}", quote_words(words).join(", ")),
            (KeyKind::Boolean, _) => "true or false".to_owned(),
            (KeyKind::Text, Some(example)) => format!("a text such as {example}"),
            (KeyKind::Text, None) => "a text".to_owned(),
        }
    }
}

/// Returns the keys of a type in field order.
///
/// # Panics
///
/// Panics if a field has no doc comment or is a number without bounds. Tests detect this by calling the
/// function for every such type.
pub fn list_keys<T: JsonSchema + Serialize + Default>() -> Vec<Key> {
    let schema = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = schema.into_generator().into_root_schema_for::<T>().to_value();
    let defaults = serde_json::to_string(&T::default()).expect("defaults are plain data");
    let names: FieldNames = serde_json::from_str(&defaults).expect("a struct is an object");
    let defaults: Value = serde_json::from_str(&defaults).expect("it was serialised above");
    let key = |name: String| Key::from_schema(&schema["properties"][&name], &defaults[&name], name);
    names.0.into_iter().map(key).collect()
}

impl Key {
    /// Explains why a value does not fit this key of `T` and which values do; `None` if it fits. The value of
    /// a secret is never included.
    pub(crate) fn find_mismatch<T: DeserializeOwned>(&self, value: &toml::Value) -> Option<String> {
        let within = match (&self.kind, value) {
            (KeyKind::Number { low, high }, toml::Value::Integer(given)) => (low..=high).contains(&given),
            _ => true,
        };
        // Deserialized alone, so a failure can only come from this value.
        let alone = Table::from_iter([(self.name.clone(), value.clone())]);
        if within && T::deserialize(alone).is_ok() {
            return None;
        }
        let shown = match (self.secret, self.find_unknown_word(value)) {
            (true, _) => "cannot be used".to_owned(),
            (false, Some(unknown)) => unknown,
            (false, None) => format!("is {value}"),
        };
        Some(format!("{shown}; it must be {}", self.describe_expected()))
    }

    /// Names the first entry of a list that is none of its words, with the word that was probably meant; `None` if the key
    /// or the value is no list.
    fn find_unknown_word(&self, value: &toml::Value) -> Option<String> {
        let (KeyKind::List(words), toml::Value::Array(entries)) = (&self.kind, value) else { return None };
        let is_known = |entry: &toml::Value| words.iter().any(|(word, _)| entry.as_str() == Some(word));
        let unknown = entries.iter().find(|entry| !is_known(entry))?;
        let known = words.iter().map(|(word, _)| word.as_str());
        let nearest = unknown.as_str().and_then(|text| find_nearest(text, known));
        let meant = nearest.map_or_else(String::new, |word| format!(" (did you mean \"{word}\"?)"));
        Some(format!("has {unknown}{meant}"))
    }

    fn from_schema(property: &Value, default: &Value, name: String) -> Self {
        let doc = property["description"].as_str().unwrap_or_else(|| panic!("`{name}` has no doc comment"));
        Self {
            doc: doc.split_whitespace().collect::<Vec<_>>().join(" "),
            kind: KeyKind::from_schema(property, &name),
            default: default.clone(),
            example: property["examples"].get(0).cloned(),
            secret: is_secret(property),
            name,
        }
    }
}

/// Returns `true` if the schema marks a property as secret. For an optional secret, the mark is in one of the
/// `anyOf` alternatives.
fn is_secret(property: &Value) -> bool {
    let marked = |schema: &Value| schema["x-secret"] == true;
    marked(property) || property["anyOf"].as_array().is_some_and(|either| either.iter().any(marked))
}

impl KeyKind {
    fn from_schema(property: &Value, name: &str) -> Self {
        if let Some(words) = list_words(property) {
            return Self::Choice(words);
        }
        if let Some(words) = list_words(&property["items"]) {
            return Self::List(words);
        }
        if property["type"] == "boolean" {
            return Self::Boolean;
        }
        if property["type"] != "integer" {
            return Self::Text;
        }
        let bound = |which| property[which].as_i64().unwrap_or_else(|| panic!("`{name}` has no {which}"));
        Self::Number { low: bound("minimum"), high: bound("maximum") }
    }
}

/// Returns the words that a schema allows, each with its description; `None` if it allows others.
fn list_words(schema: &Value) -> Option<Vec<(String, String)>> {
    let text = |word: &Value, key| word[key].as_str().unwrap_or_default().to_owned();
    let words = schema["oneOf"].as_array()?;
    Some(words.iter().map(|word| (text(word, "const"), text(word, "description"))).collect())
}

fn quote_words(words: &[(String, String)]) -> Vec<String> {
    words.iter().map(|(word, _)| format!("\"{word}\"")).collect()
}

/// Field names of an object, in their original order, which deserializing into a `Value` would lose.
struct FieldNames(Vec<String>);

impl<'de> Deserialize<'de> for FieldNames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = FieldNames;
            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("an object")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<FieldNames, M::Error> {
                let mut names = Vec::new();
                while let Some((name, IgnoredAny)) = map.next_entry()? {
                    names.push(name);
                }
                Ok(FieldNames(names))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn the_keys_of_the_configuration_come_in_the_order_of_its_fields_with_their_bounds() {
        let keys = list_keys::<Config>();
        let names: Vec<_> = keys.iter().map(|key| key.name.as_str()).collect();
        assert_eq!((names[0], names[names.len() - 1]), ("data_dir", "log"));
        let key = |name: &str| keys.iter().find(|key| key.name == name).unwrap();
        assert_eq!(key("http_require_tokens").kind, KeyKind::Boolean);
        assert_eq!(key("investigators").kind, KeyKind::Number { low: 1, high: 64 });
        assert_eq!(key("investigators").default, 2);
        assert_eq!(key("nats_url").kind, KeyKind::Text);
        let secrets: Vec<_> = keys.iter().filter(|key| key.secret).map(|key| key.name.as_str()).collect();
        assert_eq!(secrets, crate::config::SECRETS);
        for secret in secrets {
            assert_eq!(
                key(&format!("{secret}_file")).kind,
                KeyKind::Text,
                "each secret can be read from a file"
            );
        }
    }
}
