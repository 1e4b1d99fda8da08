//! `config/retro.toml`: every key of the program's configuration with its default and what it means.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use retro_config::Config;
use retro_config::keys::{Key, keys};
use serde_json::Value;

use super::Generated;
use super::documented::comment;

const HEAD: &str = "\
# The program's configuration: addresses, folders, bounds and secrets. Policy lives in `pipelines/`.
#
# `retro` reads `retro.toml` of the folder it is started in, or the file named by `--config`. A key that is left out takes
# the default, which is what stands here; an unknown key is refused with its line. Each key can also be given in the
# environment as `RETRO_<KEY>` (`RETRO_LEASE_S=120`), which wins over the file; the command line wins over both.
# `retro config print` shows what is in force, `retro config check` what is wrong with it.
#
# This file is generated from the type `Config` (`cargo xtask gen`).
";

const WIDTH: usize = 110;

/// The file, from the type.
pub(super) fn generate() -> Result<Generated> {
    Ok(Generated { path: "config/retro.toml", text: render(&keys::<Config>())? })
}

fn render(keys: &[Key]) -> Result<String> {
    let mut text = HEAD.to_owned();
    for key in keys {
        let _ = writeln!(text, "\n{}", comment(&key.doc, WIDTH));
        let _ = match (&key.default, &key.example) {
            (Value::Null, example) => {
                let example = example
                    .as_ref()
                    .with_context(|| format!("`{}` of `Config` wants an example", key.name))?;
                writeln!(text, "# {} = {example}", key.name)
            }
            (default, _) => writeln!(text, "{} = {default}", key.name),
        };
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> String {
        generate().unwrap().text
    }

    #[test]
    fn the_file_reads_back_to_the_default_configuration() {
        assert_eq!(toml::from_str::<Config>(&fresh()).unwrap(), Config::default());
    }

    #[test]
    fn the_examples_can_be_uncommented() {
        let mut text = fresh();
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
    fn a_key_without_a_default_and_without_an_example_is_an_error() {
        let mut key = keys::<Config>().remove(0);
        (key.default, key.example) = (Value::Null, None);
        assert!(render(&[key]).is_err());
    }
}
