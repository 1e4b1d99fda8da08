//! Generates the files in `pipelines/`, which describe every key: for each pipeline a commented file, a reference and a schema.

use anyhow::Result;
use retro_config::file_schema::{policy_file_schema, review_file_schema};
use retro_config::keys::{Key, list_keys};
use retro_core::pipeline::{PipelineName, Section};
use retro_core::policy::{POLICY_SECTIONS, Policy};
use retro_core::review::{REVIEW_SECTIONS, ReviewSettings};
use retro_pipeline::PromptName;
use serde_json::Value;

use super::generated_file::GeneratedFile;
use super::{commented_toml, reference, schema};

const FILE_HEAD: &str = "\
#:schema ./pipeline.schema.json
# The learning policy. The tables below apply to every workflow; a table with a workflow's name overrides single keys, of
# whichever table:
#
#     [workflow.\"airline-customer-service\"]
#     threshold_runs = 20
#     helped_delta = 80
#
# An omitted key has its default, which is the value shown here. An unknown key or an invalid value is rejected with its
# line. An edit takes effect without a restart; a retrospective keeps the policy that it was opened with, and its report
# shows that policy.
#
# Weights and their changes are whole thousandths: 300 prints as 0.300. Similarities are thousandths of a cosine.
#
# To change something, copy the folder `pipelines` and set the configuration key `pipelines` to the copy; it only needs to
# contain what differs. This file is generated from the type `Policy` by `cargo xtask gen`.
";

const REFERENCE_HEAD: &str = "\
# Reference of `pipeline.toml`

Every key, by the table in which it stands, generated from the type `Policy` by `cargo xtask gen`. A workflow's table,
`[workflow.\"name\"]`, may have any of them, without the tables below. The [manual](../README.md) explains what the numbers do. The
same keys are in [pipeline.toml](pipeline.toml), a file to copy, and in [pipeline.schema.json](pipeline.schema.json). Besides the bounds below, `inject_newcomers` is at most
`inject_memories_max`, and `archive_weight` ≤ `inject_weight_min` ≤ `confirmed_weight`.

";

const PROMPTS_HEAD: &str = "
## Prompts

Files in `prompts/`, templates of [minijinja](https://docs.rs/minijinja) without filters: `{{ name }}` places a variable,
`{% if name %} … {% endif %}` leaves out what stands around one that is empty. A file has at most 32 KiB.

| file | variable | |
|---|---|---|
";

const REVIEW_FILE_HEAD: &str = "\
#:schema ./pipeline.schema.json
# How reviews are read. An omitted key has its default, which is the value shown here. An unknown key or an invalid value is
# rejected with its line. An edit takes effect without a restart; a review that is decided keeps the version of the pipeline
# under which it was read, and its report shows that version.
#
# Who may make a rule, what supports one and how certain it has to be is the policy of retrospective/pipeline.toml. Certainties
# are whole thousandths. This file is generated from the type `ReviewSettings` by `cargo xtask gen`.
";

const REVIEW_REFERENCE_HEAD: &str = "\
# Reference of the review pipeline

Every key, by the table in which it stands, generated from the type `ReviewSettings` by `cargo xtask gen`. The [manual](../README.md) explains what
they do. The same keys are in [pipeline.toml](pipeline.toml), a file to copy, and in
[pipeline.schema.json](pipeline.schema.json).

";

/// Generates the files from the types of policy and settings.
pub(super) fn generate_policy_files() -> Result<Vec<GeneratedFile>> {
    let keys = list_keys::<Policy>();
    let file = format!("{FILE_HEAD}{}", render_sections(&keys, POLICY_SECTIONS)?);
    let reference = format!(
        "{REFERENCE_HEAD}{}{}",
        render_section_tables(&keys, POLICY_SECTIONS),
        render_prompts(PipelineName::Retrospective)
    );
    let schema = schema::render_schema_value(policy_file_schema(), "pipeline.toml")?;
    Ok(vec![
        GeneratedFile { path: "pipelines/retrospective/pipeline.toml", text: file },
        GeneratedFile { path: "pipelines/retrospective/reference.md", text: reference },
        GeneratedFile { path: "pipelines/retrospective/pipeline.schema.json", text: schema },
        GeneratedFile {
            path: "pipelines/retrospective/schemas/submit_findings.json",
            text: render_answer_schema(&retro_investigator::answer_schema())?,
        },
    ])
}

/// Generates the files of the review pipeline.
pub(super) fn generate_review_files() -> Result<Vec<GeneratedFile>> {
    let keys = list_keys::<ReviewSettings>();
    let file = format!("{REVIEW_FILE_HEAD}{}", render_sections(&keys, REVIEW_SECTIONS)?);
    let prompts = render_prompts(PipelineName::Review);
    let tables = render_section_tables(&keys, REVIEW_SECTIONS);
    let reference = format!("{REVIEW_REFERENCE_HEAD}{tables}{prompts}");
    let schema = schema::render_schema_value(review_file_schema(), "pipeline.toml")?;
    let answer = render_answer_schema(&retro_reviewer::readings_schema())?;
    Ok(vec![
        GeneratedFile { path: "pipelines/review/pipeline.toml", text: file },
        GeneratedFile { path: "pipelines/review/reference.md", text: reference },
        GeneratedFile { path: "pipelines/review/pipeline.schema.json", text: schema },
        GeneratedFile { path: "pipelines/review/schemas/submit_readings.json", text: answer },
    ])
}

/// Returns the keys of a section, in its order.
fn keys_of(keys: &[Key], section: &Section) -> Vec<Key> {
    let find = |name: &&str| keys.iter().find(|key| key.name == **name).cloned();
    section.keys.iter().filter_map(find).collect()
}

/// Renders the sections of a file, each with its keys.
fn render_sections(keys: &[Key], sections: &[Section]) -> Result<String> {
    let mut text = String::new();
    for section in sections {
        let keys = commented_toml::render_keys(&keys_of(keys, section))?;
        text.push_str(&format!("\n# {}\n[{}]\n{keys}", section.doc, section.name));
    }
    Ok(text)
}

/// Renders a reference table for each section.
fn render_section_tables(keys: &[Key], sections: &[Section]) -> String {
    let table = |section: &Section| {
        let rows = reference::render_table(&keys_of(keys, section));
        format!("## `[{}]`\n\n{}\n\n{rows}", section.name, section.doc)
    };
    sections.iter().map(table).collect::<Vec<_>>().join("\n")
}

/// Renders the prompts with their variables.
fn render_prompts(pipeline: PipelineName) -> String {
    let mut text = PROMPTS_HEAD.to_owned();
    for prompt in PromptName::of_pipeline(pipeline) {
        let variables = prompt.variables();
        if variables.is_empty() {
            text.push_str(&format!("| `{}` | none | Always the same. |\n", prompt.file_name()));
        }
        for variable in variables {
            text.push_str(&format!(
                "| `{}` | `{}` | {} |\n",
                prompt.file_name(),
                variable.name,
                variable.doc
            ));
        }
    }
    text
}

fn render_answer_schema(schema: &Value) -> Result<String> {
    Ok(format!("{}\n", serde_json::to_string_pretty(schema)?))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use retro_config::pipeline_files::REVIEW_FILE;
    use retro_config::policy_set::POLICY_FILE;
    use retro_config::{Pipeline, PipelineFiles, PolicySet};

    use super::*;

    fn fresh() -> Vec<String> {
        generate_policy_files().unwrap().into_iter().map(|file| file.text).collect()
    }

    #[test]
    fn the_file_reads_back_to_the_default_policy() {
        let files = PolicySet::parse(Path::new("pipeline.toml"), &fresh()[0]).unwrap();
        assert_eq!(files.common_policy(), &Policy::default());
        let given = files.explain_values(None).into_iter().filter(|value| value.from.is_some()).count();
        assert_eq!(given, list_keys::<Policy>().len(), "each key is in the file");
        assert!(files.describe_older_forms().is_empty());
    }

    #[test]
    fn the_file_of_the_review_pipeline_reads_back_to_its_defaults() {
        let files = generate_review_files().unwrap();
        let texts = [(REVIEW_FILE, &files[0].text), (POLICY_FILE, &String::new())];
        let texts = texts.map(|(path, text)| (path.to_owned(), text.clone())).into();
        let pipeline = Pipeline::parse(Path::new("x"), &PipelineFiles::from_texts(texts)).unwrap();
        assert_eq!(pipeline.review().settings(), &ReviewSettings::default());
        assert!(pipeline.review().explain_values().iter().all(|value| value.from.is_some()));
        assert!(files[1].text.contains("| `remarks.md` | `remarks` |"), "{}", files[1].text);
    }

    #[test]
    fn every_key_is_in_the_file_after_its_description() {
        let text = fresh().remove(0);
        let lines: Vec<_> = text.lines().collect();
        let keys = lines.windows(2).filter(|pair| !pair[1].starts_with('#') && pair[1].contains(" = "));
        let mut count = 0;
        for pair in keys {
            assert!(pair[0].starts_with("# ") || pair[0].starts_with("#   "), "{}", pair[1]);
            count += 1;
        }
        let Value::Object(defaults) = serde_json::to_value(Policy::default()).unwrap() else { panic!() };
        assert_eq!(count, defaults.len());
    }

    #[test]
    fn the_reference_and_the_schema_have_the_bounds_of_the_type() {
        let files = fresh();
        assert!(files[1].contains("| `harmed_delta` | -1000 … 0 | `-150` |"), "{}", files[1]);
        let schema: Value = serde_json::from_str(&files[2]).unwrap();
        let at = "#/$defs/Policy/properties/threshold_runs";
        assert_eq!(schema["properties"]["trigger"]["properties"]["threshold_runs"]["$ref"], at);
        let threshold = schema.pointer(&at[1..]).unwrap();
        assert_eq!((&threshold["minimum"], &threshold["maximum"]), (&1.into(), &100_000.into()));
    }
}
