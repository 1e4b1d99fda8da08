//! Reads and merges the layers of the configuration (defaults, file, environment) and records the origin of each value.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::config::{ALIAS_VARIABLES, Config, OTHER_VARIABLES, SECRETS};
use crate::document::{self, TomlEntry};
use crate::keys::{Key, KeyKind, list_keys};
use crate::moved_keys::describe_moved_key;
use crate::problem::{Problems, find_nearest, format_place, suggest_name};
use crate::secret_file;

/// Configuration file that is read if the caller names none and it exists.
const DEFAULT_FILE: &str = "retro.toml";

/// Prefix of the program's environment variables.
const PREFIX: &str = "RETRO_";

/// The merged configuration, with the origin of each value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedConfig {
    /// The effective configuration.
    pub config: Config,
    /// Origin of each value, by key. Keys with their default value are absent.
    pub origins: BTreeMap<String, Origin>,
}

impl LoadedConfig {
    /// Returns the problem to report for an unusable value, prefixed with the value's origin.
    pub fn reject_value(&self, key: &str, problem: &str) -> Problems {
        Problems::from_sentence(format_rejection(&self.origins, key, problem))
    }
}

fn format_rejection(origins: &BTreeMap<String, Origin>, key: &str, problem: &str) -> String {
    let origin = origins.get(key).map_or(String::new(), |origin| format!("{origin}: "));
    format!("{origin}`{key}` {problem}")
}

/// Origin of a configuration value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub enum Origin {
    /// A configuration file, with the 1-based line number.
    File(PathBuf, usize),
    /// The environment variable with this name.
    Variable(String),
    /// The command-line option with this name.
    Option(&'static str),
    /// The secret file at this path.
    Secret(PathBuf),
}

impl std::fmt::Display for Origin {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path, line) => out.write_str(&format_place(path, *line)),
            Self::Variable(name) => out.write_str(name),
            Self::Option(name) => out.write_str(name),
            Self::Secret(path) => write!(out, "{}", path.display()),
        }
    }
}

impl From<Origin> for String {
    fn from(origin: Origin) -> Self {
        origin.to_string()
    }
}

/// Reads the configuration: defaults, then the file (the named one, or `retro.toml` if it exists), then the
/// environment, then the secret files. Fails with a list of all mistakes.
pub fn load_config(
    named: Option<&Path>,
    environment: impl IntoIterator<Item = (String, String)>,
) -> Result<LoadedConfig, Problems> {
    let file = named.or_else(|| Some(Path::new(DEFAULT_FILE)).filter(|path| path.exists()));
    load_layers(file, environment)
}

/// Reads and merges the layers. Fails with a list of all mistakes.
fn load_layers(
    file: Option<&Path>,
    environment: impl IntoIterator<Item = (String, String)>,
) -> Result<LoadedConfig, Problems> {
    let mut layers = Layers { keys: list_keys::<Config>(), ..Layers::default() };
    if let Some(path) = file {
        for entry in document::parse_entries(path, &document::read_document(path)?, 1)? {
            layers.add_entry(path, entry);
        }
    }
    layers.add_environment(environment);
    layers.add_secrets();
    layers.build_config()
}

#[derive(Default)]
struct Layers {
    keys: Vec<Key>,
    values: Table,
    origins: BTreeMap<String, Origin>,
    problems: Vec<String>,
}

impl Layers {
    fn find_key(&self, name: &str) -> Option<&Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    fn key_names(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|key| key.name.as_str())
    }

    fn add_entry(&mut self, path: &Path, entry: TomlEntry) {
        let origin = Origin::File(path.to_owned(), entry.line);
        let name = entry.path.join(".");
        if self.find_key(&name).is_some() {
            self.add_value(&name, entry.value, origin);
        } else if let Some(moved) = describe_moved_key(&name) {
            self.problems.push(format!("{origin}: {moved}"));
        } else {
            let meant = suggest_name(&name, self.key_names());
            self.problems.push(format!("{origin}: unknown key `{name}`{meant}"));
        }
    }

    /// Adds the values of environment variables. Aliases are added first, so variables with the program's
    /// prefix take precedence. An empty variable counts as unset.
    fn add_environment(&mut self, environment: impl IntoIterator<Item = (String, String)>) {
        // Sorted, so problems are reported in the same order at every start.
        let given: BTreeMap<_, _> = environment.into_iter().filter(|(_, text)| !text.is_empty()).collect();
        for (alias, key) in ALIAS_VARIABLES {
            if let Some(text) = given.get(alias) {
                self.add_variable(alias, key, text);
            }
        }
        for (variable, text) in &given {
            let Some(rest) = variable.strip_prefix(PREFIX) else { continue };
            let name = rest.to_ascii_lowercase();
            if self.find_key(&name).is_some() {
                self.add_variable(variable, &name, text);
            } else if let Some(moved) = describe_moved_key(&name) {
                // Ignoring it would lift a bound that somebody relies on.
                self.problems.push(format!("{variable}: {moved}"));
            } else if !OTHER_VARIABLES.contains(&variable.as_str()) {
                self.reject_misspelled_variable(variable, &name);
            }
        }
    }

    /// Rejects an unknown variable if its name is close to a key. Other unknown variables are ignored,
    /// because an orchestrator sets variables such as `RETRO_SERVICE_HOST`.
    fn reject_misspelled_variable(&mut self, variable: &str, name: &str) {
        if let Some(meant) = find_nearest(name, self.key_names()) {
            let meant = format!("{PREFIX}{}", meant.to_ascii_uppercase());
            self.problems.push(format!("{variable}: unknown variable; did you mean `{meant}`?"));
        }
    }

    fn add_variable(&mut self, variable: &str, name: &str, text: &str) {
        // Parsed by the kind of the key, because a string such as a password may consist of digits.
        let value = match self.find_key(name).map(|key| &key.kind) {
            Some(KeyKind::Number { .. }) => text.trim().parse().ok().map(Value::Integer),
            Some(KeyKind::Boolean) => text.trim().parse().ok().map(Value::Boolean),
            _ => None,
        };
        let value = value.unwrap_or_else(|| Value::String(text.to_owned()));
        self.add_value(name, value, Origin::Variable(variable.to_owned()));
    }

    /// Adds a value if it fits its key; otherwise records the problem.
    fn add_value(&mut self, name: &str, value: Value, origin: Origin) {
        let key = self.find_key(name).expect("the caller has looked the key up");
        match key.find_mismatch::<Config>(&value) {
            Some(problem) => self.problems.push(format!("{origin}: `{name}` {problem}")),
            None => {
                self.values.insert(name.to_owned(), value);
                self.origins.insert(name.to_owned(), origin);
            }
        }
    }

    fn add_secrets(&mut self) {
        for name in SECRETS {
            let file_key = format!("{name}_file");
            let Some(path) = self.values.get(&file_key).and_then(Value::as_str).map(PathBuf::from) else {
                continue;
            };
            let from = self.origins[&file_key].clone();
            // Setting both is an error: silently preferring one would hide a stale secret.
            if let Some(other) = self.origins.get(name) {
                let both =
                    format!("{from}: `{file_key}` is given, and `{name}` too ({other}); keep one of them");
                self.problems.push(both);
                continue;
            }
            match secret_file::read_secret(&path) {
                Ok(secret) => {
                    self.values.insert(name.to_owned(), Value::String(secret.expose().to_owned()));
                    self.origins.insert(name.to_owned(), Origin::Secret(path));
                }
                Err(problem) => self.problems.push(format!("{from}: `{file_key}`: {problem}")),
            }
        }
    }

    fn build_config(mut self) -> Result<LoadedConfig, Problems> {
        let config = Config::deserialize(self.values).expect("each value was validated on its own");
        for (key, problem) in config.find_problems() {
            self.problems.push(format_rejection(&self.origins, key, &problem));
        }
        Problems::fail_if_any(self.problems)?;
        Ok(LoadedConfig { config, origins: self.origins })
    }
}
