//! `pipelines/retrospective/`: every key of the policy, as a commented file, a reference and a schema.

use anyhow::Result;
use retro_config::edition::PolicyFile;
use retro_config::keys::keys;
use retro_core::policy::Policy;

use super::{Generated, commented, reference, schema};

const FILE_HEAD: &str = "\
#:schema ./pipeline.schema.json
# The policy of learning. `[policy]` holds for every workflow; a table of a workflow's name overrides single keys:
#
#     [workflow.\"airline-customer-service\"]
#     threshold_runs = 20
#
# A key that is left out takes the default, which is what stands here. An unknown key, or a value that cannot work, is
# refused with its line. An edit is taken up while everything runs; a retrospective keeps the policy it was opened with,
# and its report shows it.
#
# Weights and their changes are whole thousandths: 300 prints as 0.300. Similarities are thousandths of a cosine.
#
# To change something, copy the folder `pipelines` and name the copy by the configuration key `pipelines`; nothing but
# what differs has to stay in it. This file is generated from the type `Policy` (`cargo xtask gen`).

[policy]
";

const REFERENCE_HEAD: &str = "\
# Reference of `pipeline.toml`

Every key of `[policy]` and of a workflow's table, from the type `Policy` (`cargo xtask gen`). What the numbers do stands in the
[manual](../README.md); the same keys as a file to copy are [pipeline.toml](pipeline.toml), as a schema
[pipeline.schema.json](pipeline.schema.json). Beside the bounds here: `inject_newcomers` is at most `inject_memories_max`, and
`archive_weight` ≤ `inject_weight_min` ≤ `confirmed_weight`.

";

/// The three files, from the type.
pub(super) fn generate() -> Result<Vec<Generated>> {
    let keys = keys::<Policy>();
    let file = format!("{FILE_HEAD}{}", commented::keys(&keys)?);
    let reference = format!("{REFERENCE_HEAD}{}", reference::of(&keys));
    let schema = schema::of::<PolicyFile>("pipeline.toml")?;
    Ok(vec![
        Generated { path: "pipelines/retrospective/pipeline.toml", text: file },
        Generated { path: "pipelines/retrospective/reference.md", text: reference },
        Generated { path: "pipelines/retrospective/pipeline.schema.json", text: schema },
    ])
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn fresh() -> Vec<String> {
        generate().unwrap().into_iter().map(|file| file.text).collect()
    }

    #[test]
    fn the_file_reads_back_to_the_default_policy() {
        let file: PolicyFile = toml::from_str(&fresh()[0]).unwrap();
        assert_eq!(file, PolicyFile::default());
    }

    #[test]
    fn every_key_stands_in_the_file_with_a_sentence_before_it() {
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
