//! Generates the files in `config/`, which describe every configuration key: a commented file, a reference
//! and a schema.

use anyhow::Result;
use retro_config::Config;
use retro_config::config::ALIAS_VARIABLES;
use retro_config::keys::{Key, list_keys};

use super::generated_file::GeneratedFile;
use super::{commented_toml, reference, schema};

const FILE_HEAD: &str = "\
#:schema ./retro.schema.json
# The program's configuration: addresses, folders, bounds and secrets. Policy lives in `pipelines/`.
#
# `retro` reads `retro.toml` in its working directory, or the file given by `--config`. An omitted key has its default, which
# is the value shown here; an unknown key is rejected with its line. Each key can also be set by an environment variable
# `RETRO_<KEY>` (`RETRO_LEASE_S=120`), which overrides the file; the command line overrides both.
# `retro config print` shows the effective configuration, `retro config check` the problems in it.
#
# This file is generated from the type `Config` (`cargo xtask gen`).
";

const REFERENCE_HEAD: &str = "\
# Reference of `retro.toml`

Every key, generated from the type `Config` by `cargo xtask gen`. The [manual](README.md) describes the precedence of the
sources and how to give secrets. The same keys are in [retro.toml](retro.toml), a file to copy, and in
[retro.schema.json](retro.schema.json).

";

/// Generates the three files from the configuration type.
pub(super) fn generate_config_files() -> Result<Vec<GeneratedFile>> {
    let keys = list_keys::<Config>();
    let file = format!("{FILE_HEAD}{}", commented_toml::render_keys(&keys)?);
    let reference =
        format!("{REFERENCE_HEAD}{}", reference::render_table_with_variables(&keys, environment_variables));
    Ok(vec![
        GeneratedFile { path: "config/retro.toml", text: file },
        GeneratedFile { path: "config/reference.md", text: reference },
        GeneratedFile {
            path: "config/retro.schema.json",
            text: schema::render_schema::<Config>("retro.toml")?,
        },
    ])
}

fn environment_variables(key: &Key) -> Vec<String> {
    let ours = format!("RETRO_{}", key.name.to_ascii_uppercase());
    let aliases =
        ALIAS_VARIABLES.iter().filter(|(_, of)| *of == key.name).map(|(alias, _)| (*alias).to_owned());
    [ours].into_iter().chain(aliases).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> Vec<String> {
        generate_config_files().unwrap().into_iter().map(|file| file.text).collect()
    }

    #[test]
    fn the_file_reads_back_to_the_default_configuration() {
        assert_eq!(toml::from_str::<Config>(&fresh()[0]).unwrap(), Config::default());
    }

    #[test]
    fn the_examples_can_be_uncommented() {
        let mut text = fresh().remove(0);
        let examples: Vec<_> =
            list_keys::<Config>().into_iter().filter(|key| key.default.is_null()).collect();
        assert!(!examples.is_empty());
        for key in &examples {
            assert!(text.contains(&format!("\n# {} = ", key.name)), "{}", key.name);
            text = text.replace(&format!("\n# {} = ", key.name), &format!("\n{} = ", key.name));
        }
        let config = serde_json::to_value(toml::from_str::<Config>(&text).unwrap()).unwrap();
        for key in &examples {
            assert!(config[&key.name].is_string(), "{}", key.name);
        }
    }

    #[test]
    fn the_reference_names_every_key_with_its_variables() {
        let reference = fresh().remove(1);
        assert!(reference.contains("| `lease_s` | `RETRO_LEASE_S` | 1 … 3600 | `60` |"), "{reference}");
        assert!(
            reference.contains(
                "| `database_url` | `RETRO_DATABASE_URL`, `DATABASE_URL` | text, **secret** | none |"
            ),
            "{reference}"
        );
    }
}
