//! `config/`: every key of the program's configuration, as a commented file, a reference and a schema.

use anyhow::Result;
use retro_config::Config;
use retro_config::config::ALIASES;
use retro_config::keys::{Key, keys};

use super::{Generated, commented, reference, schema};

const FILE_HEAD: &str = "\
#:schema ./retro.schema.json
# The program's configuration: addresses, folders, bounds and secrets. Policy lives in `pipelines/`.
#
# `retro` reads `retro.toml` of the folder it is started in, or the file named by `--config`. A key that is left out takes
# the default, which is what stands here; an unknown key is refused with its line. Each key can also be given in the
# environment as `RETRO_<KEY>` (`RETRO_LEASE_S=120`), which wins over the file; the command line wins over both.
# `retro config print` shows what is in force, `retro config check` what is wrong with it.
#
# This file is generated from the type `Config` (`cargo xtask gen`).
";

const REFERENCE_HEAD: &str = "\
# Reference of `retro.toml`

Every key, from the type `Config` (`cargo xtask gen`). What wins over what, and how secrets are given, stands in the
[manual](README.md); the same keys as a file to copy are [retro.toml](retro.toml), as a schema [retro.schema.json](retro.schema.json).

";

/// The three files, from the type.
pub(super) fn generate() -> Result<Vec<Generated>> {
    let keys = keys::<Config>();
    let file = format!("{FILE_HEAD}{}", commented::keys(&keys)?);
    let reference = format!("{REFERENCE_HEAD}{}", reference::with_variables(&keys, variables));
    Ok(vec![
        Generated { path: "config/retro.toml", text: file },
        Generated { path: "config/reference.md", text: reference },
        Generated { path: "config/retro.schema.json", text: schema::of::<Config>("retro.toml")? },
    ])
}

fn variables(key: &Key) -> Vec<String> {
    let ours = format!("RETRO_{}", key.name.to_ascii_uppercase());
    let aliases = ALIASES.iter().filter(|(_, of)| *of == key.name).map(|(alias, _)| (*alias).to_owned());
    [ours].into_iter().chain(aliases).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> Vec<String> {
        generate().unwrap().into_iter().map(|file| file.text).collect()
    }

    #[test]
    fn the_file_reads_back_to_the_default_configuration() {
        assert_eq!(toml::from_str::<Config>(&fresh()[0]).unwrap(), Config::default());
    }

    #[test]
    fn the_examples_can_be_uncommented() {
        let mut text = fresh().remove(0);
        let examples: Vec<_> = keys::<Config>().into_iter().filter(|key| key.default.is_null()).collect();
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
