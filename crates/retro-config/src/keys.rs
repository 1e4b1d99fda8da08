//! The keys of a file, from the type that it is read into: names, bounds and descriptions stand there once.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use toml::Table;

/// One key.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// As written in the file.
    pub name: String,
    /// What it means.
    pub doc: String,
    /// What it may be.
    pub kind: Kind,
    /// Null when there is none.
    pub default: Value,
    /// A value to show where there is no default.
    pub example: Option<Value>,
    /// Whether its value must not be shown.
    pub secret: bool,
}

/// What a key may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A whole number within these bounds, both included.
    Number {
        /// The least.
        low: i64,
        /// The greatest.
        high: i64,
    },
    /// A text.
    Text,
    /// One of these words, each with what it means.
    Choice(Vec<(String, String)>),
}

impl Key {
    /// What would be right, for a person: `a whole number, 1 to 64`.
    pub fn wanted(&self) -> String {
        match (&self.kind, &self.example) {
            (Kind::Number { low, high }, _) => format!("a whole number, {low} to {high}"),
            (Kind::Choice(words), _) => {
                let words: Vec<_> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
                words.join(" or ")
            }
            (Kind::Text, Some(example)) => format!("a text such as {example}"),
            (Kind::Text, None) => "a text".to_owned(),
        }
    }
}

/// The keys of a type, in the order of its fields.
///
/// # Panics
/// When a field has no doc comment, or is a number without bounds: tests over each such type find it.
pub fn keys<T: JsonSchema + Serialize + Default>() -> Vec<Key> {
    let schema = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = schema.into_generator().into_root_schema_for::<T>().to_value();
    let defaults = serde_json::to_string(&T::default()).expect("defaults are plain data");
    let names: Names = serde_json::from_str(&defaults).expect("a struct is an object");
    let defaults: Value = serde_json::from_str(&defaults).expect("it was written above");
    let key = |name: String| Key::of(&schema["properties"][&name], &defaults[&name], name);
    names.0.into_iter().map(key).collect()
}

impl Key {
    /// What is wrong with a value for this key of `T`, and what would be right. A secret is not shown.
    pub(crate) fn misfit<T: DeserializeOwned>(&self, value: &toml::Value) -> Option<String> {
        let within = match (&self.kind, value) {
            (Kind::Number { low, high }, toml::Value::Integer(given)) => (low..=high).contains(&given),
            _ => true,
        };
        let alone = Table::from_iter([(self.name.clone(), value.clone())]);
        if within && T::deserialize(alone).is_ok() {
            return None;
        }
        let shown = if self.secret { "cannot be used".to_owned() } else { format!("is {value}") };
        Some(format!("{shown}; it must be {}", self.wanted()))
    }

    fn of(property: &Value, default: &Value, name: String) -> Self {
        let doc = property["description"].as_str().unwrap_or_else(|| panic!("`{name}` has no doc comment"));
        Self {
            doc: doc.split_whitespace().collect::<Vec<_>>().join(" "),
            kind: Kind::of(property, &name),
            default: default.clone(),
            example: property["examples"].get(0).cloned(),
            secret: is_secret(property),
            name,
        }
    }
}

/// Of an optional secret the mark stands in the first of two alternatives.
fn is_secret(property: &Value) -> bool {
    let marked = |schema: &Value| schema["x-secret"] == true;
    marked(property) || property["anyOf"].as_array().is_some_and(|either| either.iter().any(marked))
}

impl Kind {
    fn of(property: &Value, name: &str) -> Self {
        if let Some(words) = property["oneOf"].as_array() {
            let text = |word: &Value, key| word[key].as_str().unwrap_or_default().to_owned();
            return Self::Choice(
                words.iter().map(|word| (text(word, "const"), text(word, "description"))).collect(),
            );
        }
        if property["type"] != "integer" {
            return Self::Text;
        }
        let bound = |which| property[which].as_i64().unwrap_or_else(|| panic!("`{name}` has no {which}"));
        Self::Number { low: bound("minimum"), high: bound("maximum") }
    }
}

/// The names of an object's fields, in the order in which they were written; a `Value` would sort them.
struct Names(Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Names;
            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("an object")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Names, M::Error> {
                let mut names = Vec::new();
                while let Some((name, IgnoredAny)) = map.next_entry()? {
                    names.push(name);
                }
                Ok(Names(names))
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
        let keys = keys::<Config>();
        let names: Vec<_> = keys.iter().map(|key| key.name.as_str()).collect();
        assert_eq!((names[0], names[names.len() - 1]), ("data_dir", "log"));
        let key = |name: &str| keys.iter().find(|key| key.name == name).unwrap();
        assert_eq!(key("investigators").kind, Kind::Number { low: 1, high: 64 });
        assert_eq!(key("investigators").default, 2);
        assert_eq!(key("nats_url").kind, Kind::Text);
        let secrets: Vec<_> = keys.iter().filter(|key| key.secret).map(|key| key.name.as_str()).collect();
        assert_eq!(secrets, crate::config::SECRETS);
        for secret in secrets {
            assert_eq!(key(&format!("{secret}_file")).kind, Kind::Text, "each secret may lie in a file");
        }
    }
}
