//! JSON Schemas of the `pipeline.toml` files, for editors: the keys of a type, in the tables of their sections.

use retro_core::pipeline::Section;
use retro_core::policy::{POLICY_SECTIONS, Policy};
use retro_core::review::{REVIEW_SECTIONS, ReviewSettings};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::policy_set::PROMPTS_KEY;

/// Returns the JSON Schema of `retrospective/pipeline.toml`.
pub fn policy_file_schema() -> Value {
    let mut schema = build_schema::<Policy>("Policy", POLICY_SECTIONS);
    let workflows = json!({
        "description": "Values for single workflows, by the name of the workflow. They need no section.",
        "type": "object",
        "additionalProperties": {"$ref": "#/$defs/Workflow"},
    });
    schema["$defs"]["Workflow"] = schema["$defs"]["Policy"].clone();
    schema["$defs"]["Workflow"]["properties"][PROMPTS_KEY] = json!({
        "description": "Folder beside the prompts of all workflows, such as `prompts/nightly`, whose files replace them.",
        "type": "string",
        "pattern": "^prompts/[^./][^/]*$",
    });
    let older = json!({
        "description": "Older form of the sections, which is still read.",
        "deprecated": true,
        "$ref": "#/$defs/Policy",
    });
    schema["properties"]["workflow"] = workflows;
    schema["properties"]["policy"] = older;
    schema
}

/// Returns the JSON Schema of `review/pipeline.toml`.
pub fn review_file_schema() -> Value {
    build_schema::<ReviewSettings>("ReviewSettings", REVIEW_SECTIONS)
}

/// Builds the schema of a file with a table for each section. The keys are those of the definition `name`.
fn build_schema<T: JsonSchema>(name: &str, sections: &[Section]) -> Value {
    let mut keys = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>().to_value();
    let root = keys.as_object_mut().expect("the schema of a struct is an object");
    let dialect = root.remove("$schema").expect("a root schema names its dialect");
    let mut definitions = root.remove("$defs").unwrap_or_else(|| Map::new().into());
    root.remove("title");
    definitions[name] = keys;
    let table = |section: &Section| {
        let property =
            |key: &&str| ((*key).to_owned(), json!({"$ref": format!("#/$defs/{name}/properties/{key}")}));
        let properties: Map<String, Value> = section.keys.iter().map(property).collect();
        let table = json!({
            "description": section.doc,
            "type": "object",
            "additionalProperties": false,
            "properties": properties,
        });
        (section.name.to_owned(), table)
    };
    let tables: Map<String, Value> = sections.iter().map(table).collect();
    json!({
        "$schema": dialect,
        "type": "object",
        "additionalProperties": false,
        "properties": tables,
        "$defs": definitions,
    })
}
