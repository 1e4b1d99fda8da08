//! What differs between runs: `{order}` in a text becomes a value that the run draws once.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::chance::Chance;

/// Names, and what each is drawn from: a text, or one of a list. In texts each `#` becomes a digit and each `@` a letter.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Values(pub(crate) BTreeMap<String, Source>);

/// What a value is drawn from.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Source {
    /// A text.
    Pattern(String),
    /// One of them.
    List(Vec<Value>),
}

/// The values of one run.
#[derive(Debug, Clone)]
pub(crate) struct Drawn(BTreeMap<String, Value>);

impl Values {
    /// Draws every value for what `parts` name.
    pub(crate) fn drawn(&self, parts: &[&str]) -> Drawn {
        let draw = |(name, source): (&String, &Source)| {
            let mut of = parts.to_vec();
            of.push(name);
            (name.clone(), source.one(&mut Chance::of(&of)))
        };
        Drawn(self.0.iter().map(draw).collect())
    }
}

impl Source {
    fn one(&self, chance: &mut Chance) -> Value {
        match self {
            Self::Pattern(pattern) => Value::String(filled(pattern, chance)),
            Self::List(list) => match chance.one_of(list) {
                Some(Value::String(pattern)) => Value::String(filled(pattern, chance)),
                other => other.cloned().unwrap_or(Value::Null),
            },
        }
    }
}

fn filled(pattern: &str, chance: &mut Chance) -> String {
    let drawn = pattern.chars().map(|letter| match letter {
        '#' => char::from(b'0' + chance.below(10) as u8),
        '@' => char::from(b'a' + chance.below(26) as u8),
        other => other,
    });
    drawn.collect()
}

impl Drawn {
    /// A text with its values put in.
    pub(crate) fn text(&self, text: &str) -> String {
        let mut out = text.to_owned();
        for (name, value) in &self.0 {
            let place = format!("{{{name}}}");
            if out.contains(&place) {
                let put = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                out = out.replace(&place, &put);
            }
        }
        out
    }

    /// Arguments with their values put in; a text that is nothing but a value keeps the value's type.
    pub(crate) fn arguments(&self, arguments: &Value) -> Value {
        match arguments {
            Value::String(text) => match names(text).as_slice() {
                [one] if text.len() == one.len() + 2 => self.0.get(*one).cloned().unwrap_or(Value::Null),
                _ => Value::String(self.text(text)),
            },
            Value::Array(items) => items.iter().map(|item| self.arguments(item)).collect(),
            Value::Object(map) => {
                Value::Object(map.iter().map(|(key, item)| (key.clone(), self.arguments(item))).collect())
            }
            other => other.clone(),
        }
    }
}

/// The names in braces that stand in a text; other braces, as of JSON, are left alone.
pub(crate) fn names(text: &str) -> Vec<&str> {
    let is_name = |name: &&str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    let after_brace = text.split('{').skip(1);
    after_brace.filter_map(|rest| rest.split_once('}').map(|(name, _)| name)).filter(is_name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_run_draws_each_value_once_and_keeps_its_type() {
        let values: Values =
            serde_json::from_value(json!({"order": "W####", "amount": [7, 8], "who": ["anna"]})).unwrap();
        let drawn = values.drawn(&["1", "w", "3"]);
        let text = drawn.text("{order} by {who}: {\"id\": \"{order}\"}, {other}");
        let order = text.split(' ').next().unwrap();
        assert!(order.len() == 5 && order[1..].chars().all(|c| c.is_ascii_digit()), "{text}");
        assert_eq!(text, format!("{order} by anna: {{\"id\": \"{order}\"}}, {{other}}"));
        let arguments = drawn.arguments(&json!({"a": "{amount}", "b": ["{who}"], "c": "no {amount}"}));
        assert!(arguments["a"].is_u64() && arguments["c"].is_string());
        assert_eq!(arguments["b"], json!(["anna"]));
        assert_ne!(
            values.drawn(&["1", "w", "3"]).text("{order}"),
            values.drawn(&["1", "w", "4"]).text("{order}")
        );
    }

    #[test]
    fn names_are_told_from_the_braces_of_json() {
        assert_eq!(names("{a} {\"x\": {b_2}} {C} {}"), ["a", "b_2"]);
    }
}
