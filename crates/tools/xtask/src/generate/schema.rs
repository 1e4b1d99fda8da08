//! Renders JSON schemas for editors, and for checking a file before it is deployed.

use anyhow::Result;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// Renders the JSON schema of a type that is read from TOML.
pub(super) fn render_schema<T: JsonSchema>(title: &str) -> Result<String> {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>().to_value();
    render_schema_value(schema, title)
}

/// Renders a JSON schema of a TOML file.
pub(super) fn render_schema_value(mut schema: Value, title: &str) -> Result<String> {
    schema["title"] = Value::from(title);
    adapt_to_toml(&mut schema);
    Ok(serde_json::to_string_pretty(&schema)? + "\n")
}

/// Removes null from types and defaults, because TOML has no null and an unset key is left out. Also joins
/// the lines of each description.
fn adapt_to_toml(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.get("default") == Some(&Value::Null) {
                object.remove("default");
            }
            if let Some([kind, Value::String(null)]) =
                object.get("type").and_then(Value::as_array).map(Vec::as_slice)
                && null == "null"
            {
                let kind = kind.clone();
                object.insert("type".to_owned(), kind);
            }
            if let Some(Value::String(text)) = object.get_mut("description") {
                *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            }
            object.values_mut().for_each(adapt_to_toml);
        }
        Value::Array(items) => items.iter_mut().for_each(adapt_to_toml),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_optional_key_is_not_null_in_toml() {
        let mut schema =
            json!({"a": {"type": ["string", "null"], "default": null, "description": "One\ntwo."}});
        adapt_to_toml(&mut schema);
        assert_eq!(schema, json!({"a": {"type": "string", "description": "One two."}}));
    }
}
