//! Fills texts with values that differ between runs: a value drawn once per run replaces `{order}` in every
//! text.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::closed_loop::seeded_rng::SeededRng;

/// Sources of the values, by placeholder name.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Values(pub(crate) BTreeMap<String, ValueSource>);

/// Source from which a value is drawn.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum ValueSource {
    /// A pattern in which each `#` becomes a digit and each `@` a letter.
    Pattern(String),
    /// A list from which one entry is drawn. An entry that is a string is a pattern. An entry that is a table
    /// holds values that belong together, such as a module and its package.
    List(Vec<Value>),
}

/// Values drawn for one run, by placeholder name.
#[derive(Debug, Clone)]
pub(crate) struct DrawnValues(BTreeMap<String, Value>);

impl Values {
    /// Draws all values for the run that `parts` identify.
    pub(crate) fn draw_values(&self, parts: &[&str]) -> DrawnValues {
        let draw = |(name, source): (&String, &ValueSource)| {
            let mut of = parts.to_vec();
            of.push(name);
            (name.clone(), source.draw_value(&mut SeededRng::from_parts(&of)))
        };
        DrawnValues(self.0.iter().map(draw).collect())
    }
}

impl ValueSource {
    fn draw_value(&self, chance: &mut SeededRng) -> Value {
        match self {
            Self::Pattern(pattern) => Value::String(fill_pattern(pattern, chance)),
            Self::List(list) => match chance.choose(list) {
                Some(Value::String(pattern)) => Value::String(fill_pattern(pattern, chance)),
                Some(Value::Object(fields)) => {
                    let fill = |(key, value): (&String, &Value)| {
                        let filled = value.as_str().map(|pattern| fill_pattern(pattern, chance).into());
                        (key.clone(), filled.unwrap_or_else(|| value.clone()))
                    };
                    Value::Object(fields.iter().map(fill).collect())
                }
                other => other.cloned().unwrap_or(Value::Null),
            },
        }
    }
}

fn fill_pattern(pattern: &str, chance: &mut SeededRng) -> String {
    let drawn = pattern.chars().map(|letter| match letter {
        '#' => char::from(b'0' + chance.random_below(10) as u8),
        '@' => char::from(b'a' + chance.random_below(26) as u8),
        other => other,
    });
    drawn.collect()
}

impl Values {
    /// Returns what is wrong with a placeholder, or `None` if it can be filled. A name with a dot whose first
    /// part is no value is text of the tool and stays as it is.
    pub(super) fn find_problem(&self, name: &str) -> Option<String> {
        let (root, key) = name.split_once('.').map_or((name, None), |(root, key)| (root, Some(key)));
        let Some(source) = self.0.get(root) else {
            return key.is_none().then(|| format!("{{{name}}} is not in [values]"));
        };
        let has_key = |entry: &Value| match key {
            Some(key) => entry.get(key).is_some(),
            None => !entry.is_object(),
        };
        let fits = match source {
            ValueSource::Pattern(_) => key.is_none(),
            ValueSource::List(entries) => entries.iter().all(has_key),
        };
        (!fits).then(|| format!("{{{name}}} does not fit every entry of `{root}` in [values]"))
    }
}

impl DrawnValues {
    fn find_value(&self, name: &str) -> Option<&Value> {
        match name.split_once('.') {
            Some((root, key)) => self.0.get(root)?.get(key),
            None => self.0.get(name),
        }
    }

    /// Replaces the placeholders in a text.
    pub(crate) fn fill_text(&self, text: &str) -> String {
        let mut out = text.to_owned();
        let mut put = |name: &str, value: &Value| {
            let place = format!("{{{name}}}");
            if out.contains(&place) {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                out = out.replace(&place, &text);
            }
        };
        for (name, value) in &self.0 {
            match value {
                Value::Object(fields) => {
                    fields.iter().for_each(|(key, field)| put(&format!("{name}.{key}"), field));
                }
                single => put(name, single),
            }
        }
        out
    }

    /// Replaces the placeholders in arguments. A string that consists of one placeholder becomes the value
    /// with its type.
    pub(crate) fn fill_arguments(&self, arguments: &Value) -> Value {
        match arguments {
            Value::String(text) => match placeholder_names(text).as_slice() {
                [one] if text.len() == one.len() + 2 && self.find_value(one).is_some() => {
                    self.find_value(one).cloned().unwrap_or(Value::Null)
                }
                _ => Value::String(self.fill_text(text)),
            },
            Value::Array(items) => items.iter().map(|item| self.fill_arguments(item)).collect(),
            Value::Object(map) => Value::Object(
                map.iter().map(|(key, item)| (key.clone(), self.fill_arguments(item))).collect(),
            ),
            other => other.clone(),
        }
    }
}

/// Returns the names of the placeholders in a text. Other braces, such as those of JSON, are ignored.
pub(crate) fn placeholder_names(text: &str) -> Vec<&str> {
    let is_name = |name: &&str| {
        !name.is_empty()
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '.')
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
        let drawn = values.draw_values(&["1", "w", "3"]);
        let text = drawn.fill_text("{order} by {who}: {\"id\": \"{order}\"}, {other}");
        let order = text.split(' ').next().unwrap();
        assert!(order.len() == 5 && order[1..].chars().all(|c| c.is_ascii_digit()), "{text}");
        assert_eq!(text, format!("{order} by anna: {{\"id\": \"{order}\"}}, {{other}}"));
        let arguments = drawn.fill_arguments(&json!({"a": "{amount}", "b": ["{who}"], "c": "no {amount}"}));
        assert!(arguments["a"].is_u64() && arguments["c"].is_string());
        assert_eq!(arguments["b"], json!(["anna"]));
        assert_ne!(
            values.draw_values(&["1", "w", "3"]).fill_text("{order}"),
            values.draw_values(&["1", "w", "4"]).fill_text("{order}")
        );
    }

    #[test]
    fn values_that_belong_together_are_drawn_together() {
        let pairs = json!({"lib": [{"module": "cv2", "package": "opencv-python"}, {"module": "yaml", "package": "PyYAML"}]});
        let values: Values = serde_json::from_value(pairs).unwrap();
        for run in 1..20 {
            let text =
                values.draw_values(&["1", &run.to_string()]).fill_text("{lib.module} {lib.package} {x.y}");
            assert!(["cv2 opencv-python {x.y}", "yaml PyYAML {x.y}"].contains(&text.as_str()), "{text}");
        }
        assert_eq!(values.find_problem("lib.module"), None);
        assert_eq!(values.find_problem("x.y"), None, "no value: text of a tool");
        assert!(values.find_problem("lib.version").is_some() && values.find_problem("lib").is_some());
        assert!(values.find_problem("other").unwrap().contains("not in [values]"));
    }

    #[test]
    fn placeholders_are_distinguished_from_json_braces() {
        assert_eq!(placeholder_names("{a} {\"x\": {b_2}} {C} {}"), ["a", "b_2"]);
    }
}
