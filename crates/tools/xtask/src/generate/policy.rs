//! Generates the files in `pipelines/retrospective/`, which describe every policy key: a commented file, a
//! reference and a schema.

use anyhow::Result;
use retro_config::keys::list_keys;
use retro_config::policy_set::PolicyFile;
use retro_core::policy::Policy;
use retro_pipeline::PromptName;

use super::generated_file::GeneratedFile;
use super::{commented_toml, reference, schema};

const FILE_HEAD: &str = "\
#:schema ./pipeline.schema.json
# The learning policy. `[policy]` applies to every workflow; a table with a workflow's name overrides single keys:
#
#     [workflow.\"airline-customer-service\"]
#     threshold_runs = 20
#
# An omitted key has its default, which is the value shown here. An unknown key or an invalid value is rejected with its
# line. An edit takes effect without a restart; a retrospective keeps the policy that it was opened with, and its report
# shows that policy.
#
# Weights and their changes are whole thousandths: 300 prints as 0.300. Similarities are thousandths of a cosine.
#
# To change something, copy the folder `pipelines` and set the configuration key `pipelines` to the copy; it only needs to
# contain what differs. This file is generated from the type `Policy` by `cargo xtask gen`.

[policy]
";

const REFERENCE_HEAD: &str = "\
# Reference of `pipeline.toml`

Every key of `[policy]` and of a workflow's table, generated from the type `Policy` by `cargo xtask gen`. The
[manual](../README.md) explains what the numbers do. The same keys are in [pipeline.toml](pipeline.toml), a file to copy, and
in [pipeline.schema.json](pipeline.schema.json). Besides the bounds below, `inject_newcomers` is at most
`inject_memories_max`, and `archive_weight` ≤ `inject_weight_min` ≤ `confirmed_weight`.

";

const PROMPTS_HEAD: &str = "
## Prompts

Files in `prompts/`, templates of [minijinja](https://docs.rs/minijinja) without filters: `{{ facts }}` places a variable,
`{% if question %} … {% endif %}` keeps what stands around one that is empty. A file has at most 32 KiB.

| file | variable | |
|---|---|---|
";

/// Generates the files from the policy type.
pub(super) fn generate_policy_files() -> Result<Vec<GeneratedFile>> {
    let keys = list_keys::<Policy>();
    let file = format!("{FILE_HEAD}{}", commented_toml::render_keys(&keys)?);
    let reference = format!("{REFERENCE_HEAD}{}{}", reference::render_table(&keys), render_prompts());
    let schema = schema::render_schema::<PolicyFile>("pipeline.toml")?;
    Ok(vec![
        GeneratedFile { path: "pipelines/retrospective/pipeline.toml", text: file },
        GeneratedFile { path: "pipelines/retrospective/reference.md", text: reference },
        GeneratedFile { path: "pipelines/retrospective/pipeline.schema.json", text: schema },
        GeneratedFile {
            path: "pipelines/retrospective/schemas/submit_findings.json",
            text: render_answer_schema()?,
        },
    ])
}

/// Renders the prompts with their variables.
fn render_prompts() -> String {
    let mut text = PROMPTS_HEAD.to_owned();
    for prompt in PromptName::ALL {
        let variables = prompt.variables();
        if variables.is_empty() {
            text.push_str(&format!("| `{}` | none | The same for every run. |\n", prompt.file_name()));
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

fn render_answer_schema() -> Result<String> {
    Ok(format!("{}\n", serde_json::to_string_pretty(&retro_investigator::answer_schema())?))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn fresh() -> Vec<String> {
        generate_policy_files().unwrap().into_iter().map(|file| file.text).collect()
    }

    #[test]
    fn the_file_reads_back_to_the_default_policy() {
        let file: PolicyFile = toml::from_str(&fresh()[0]).unwrap();
        assert_eq!(file, PolicyFile::default());
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
        let threshold = &schema["$defs"]["Policy"]["properties"]["threshold_runs"];
        assert_eq!((&threshold["minimum"], &threshold["maximum"]), (&1.into(), &100_000.into()));
    }
}
