//! One layer over the other: defaults, the file, the environment. Each value knows where it came from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::config::{ALIASES, Config, OTHER_VARIABLES, SECRETS};
use crate::document::{self, Entry};
use crate::keys::{Key, Kind, keys};
use crate::problem::{Problems, did_you_mean, nearest, place};
use crate::secret_file;

/// What every variable of ours begins with.
const PREFIX: &str = "RETRO_";

/// The configuration, and where each of its values came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// What is in force.
    pub config: Config,
    /// By key; a key that is not here has its default.
    pub origins: BTreeMap<String, Origin>,
}

impl Loaded {
    /// Says of a value that it cannot be used, with where it came from.
    pub fn refuse(&self, key: &str, problem: &str) -> Problems {
        Problems::one(refusal(&self.origins, key, problem))
    }
}

fn refusal(origins: &BTreeMap<String, Origin>, key: &str, problem: &str) -> String {
    let origin = origins.get(key).map_or(String::new(), |origin| format!("{origin}: "));
    format!("{origin}`{key}` {problem}")
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub enum Origin {
    /// A file and its line.
    File(PathBuf, usize),
    /// A variable of the environment.
    Variable(String),
    /// The command line.
    Option(&'static str),
    /// The file that holds the secret.
    Secret(PathBuf),
}

impl std::fmt::Display for Origin {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path, line) => out.write_str(&place(path, *line)),
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

/// Reads the layers; fails with every mistake in them.
pub(crate) fn load(
    file: Option<&Path>,
    environment: impl IntoIterator<Item = (String, String)>,
) -> Result<Loaded, Problems> {
    let mut layers = Layers { keys: keys::<Config>(), ..Layers::default() };
    if let Some(path) = file {
        for entry in document::entries(path, &document::read(path)?, 1)? {
            layers.add_entry(path, entry);
        }
    }
    layers.add_environment(environment);
    layers.add_secrets();
    layers.finish()
}

#[derive(Default)]
struct Layers {
    keys: Vec<Key>,
    values: Table,
    origins: BTreeMap<String, Origin>,
    problems: Vec<String>,
}

impl Layers {
    fn key(&self, name: &str) -> Option<&Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|key| key.name.as_str())
    }

    fn add_entry(&mut self, path: &Path, entry: Entry) {
        let origin = Origin::File(path.to_owned(), entry.line);
        let name = entry.path.join(".");
        if self.key(&name).is_some() {
            self.add(&name, entry.value, origin);
        } else {
            let meant = did_you_mean(&name, self.names());
            self.problems.push(format!("{origin}: unknown key `{name}`{meant}"));
        }
    }

    /// Aliases first, so that our own name wins. An empty variable is one that was not given.
    fn add_environment(&mut self, environment: impl IntoIterator<Item = (String, String)>) {
        let given: BTreeMap<_, _> = environment.into_iter().filter(|(_, text)| !text.is_empty()).collect();
        for (alias, key) in ALIASES {
            if let Some(text) = given.get(alias) {
                self.add_variable(alias, key, text);
            }
        }
        for (variable, text) in &given {
            let Some(rest) = variable.strip_prefix(PREFIX) else { continue };
            let name = rest.to_ascii_lowercase();
            if self.key(&name).is_some() {
                self.add_variable(variable, &name, text);
            } else if !OTHER_VARIABLES.contains(&variable.as_str()) {
                self.refuse_variable(variable, &name);
            }
        }
    }

    /// Only what is near to a key is a slip of the pen: an orchestrator sets variables of its own, such as
    /// `RETRO_SERVICE_HOST`.
    fn refuse_variable(&mut self, variable: &str, name: &str) {
        if let Some(meant) = nearest(name, self.names()) {
            let meant = format!("{PREFIX}{}", meant.to_ascii_uppercase());
            self.problems.push(format!("{variable}: unknown variable; did you mean `{meant}`?"));
        }
    }

    fn add_variable(&mut self, variable: &str, name: &str, text: &str) {
        let number = matches!(self.key(name).map(|key| &key.kind), Some(Kind::Number { .. }));
        let value = match text.trim().parse() {
            Ok(given) if number => Value::Integer(given),
            _ => Value::String(text.to_owned()),
        };
        self.add(name, value, Origin::Variable(variable.to_owned()));
    }

    /// Takes a value, or says what is wrong with it.
    fn add(&mut self, name: &str, value: Value, origin: Origin) {
        let key = self.key(name).expect("the caller looked it up");
        match key.misfit::<Config>(&value) {
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
            if let Some(other) = self.origins.get(name) {
                let both =
                    format!("{from}: `{file_key}` is given, and `{name}` too ({other}); keep one of them");
                self.problems.push(both);
                continue;
            }
            match secret_file::read(&path) {
                Ok(secret) => {
                    self.values.insert(name.to_owned(), Value::String(secret.expose().to_owned()));
                    self.origins.insert(name.to_owned(), Origin::Secret(path));
                }
                Err(problem) => self.problems.push(format!("{from}: `{file_key}`: {problem}")),
            }
        }
    }

    fn finish(mut self) -> Result<Loaded, Problems> {
        let config = Config::deserialize(self.values).expect("each value was tried by itself");
        for (key, problem) in config.refused() {
            self.problems.push(refusal(&self.origins, key, &problem));
        }
        Problems::none_or(self.problems)?;
        Ok(Loaded { config, origins: self.origins })
    }
}
