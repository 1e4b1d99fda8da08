//! Finds the keys of a `pipeline.toml` in their sections.

use retro_core::pipeline::Section;
use toml::{Table, Value};

use crate::keys::Key;
use crate::problem::{find_nearest, suggest_name};

/// Keys of a `pipeline.toml`, by section.
#[derive(Debug, Clone, Default)]
pub(crate) struct SectionedKeys {
    keys: Vec<Key>,
    sections: &'static [Section],
}

impl SectionedKeys {
    /// Creates the list. Each key is in one section.
    pub(crate) const fn new(keys: Vec<Key>, sections: &'static [Section]) -> Self {
        Self { keys, sections }
    }

    /// Returns `true` if a section has this name.
    pub(crate) fn has_section(&self, name: &str) -> bool {
        self.sections.iter().any(|section| section.name == name)
    }

    /// Returns the name of the section of a key.
    pub(crate) fn section_of(&self, key: &str) -> Option<&'static str> {
        self.sections.iter().find(|section| section.keys.contains(&key)).map(|section| section.name)
    }

    /// Returns each key with the name of its section, in the order of the file.
    pub(crate) fn by_section(&self) -> impl Iterator<Item = (&'static str, &Key)> {
        let find = |name: &&str| self.keys.iter().find(|key| key.name == **name);
        self.sections
            .iter()
            .flat_map(move |section| section.keys.iter().filter_map(find).map(|key| (section.name, key)))
    }

    /// Finds a key of any section. Fails with a sentence if there is none with this name.
    pub(crate) fn find_key(&self, name: &str) -> Result<&Key, String> {
        let known = self.keys.iter().find(|key| key.name == name);
        let meant = || suggest_name(name, self.keys.iter().map(|key| key.name.as_str()));
        known.ok_or_else(|| format!("unknown key `{name}`{}", meant()))
    }

    /// Finds a key of a section. Fails with a sentence if there is none with this name, or another section has it.
    pub(crate) fn find_key_of_section(&self, section: &str, name: &str) -> Result<&Key, String> {
        match self.keys.iter().find(|key| key.name == name) {
            Some(key) => match self.section_of(name) {
                Some(right) if right != section => {
                    Err(format!("`{name}` belongs to `[{right}]`, not to `[{section}]`"))
                }
                _ => Ok(key),
            },
            None => {
                let nearest = find_nearest(name, self.keys.iter().map(|key| key.name.as_str()));
                let meant = nearest.map_or_else(String::new, |key| match self.section_of(key) {
                    Some(right) if right != section => format!("; did you mean `{key}` of `[{right}]`?"),
                    _ => format!("; did you mean `{key}`?"),
                });
                Err(format!("unknown key `{name}`{meant}"))
            }
        }
    }

    /// Describes a name that stands where only tables do: a key outside its section, or a table that no section is.
    /// `others` are the names of further tables.
    pub(crate) fn describe_stranger(&self, name: &str, value: &Value, others: &[&str]) -> String {
        match self.section_of(name) {
            Some(section) if !value.is_table() => {
                format!("`{name}` stands outside its section; write it below `[{section}]`")
            }
            _ if self.has_section(name) || others.contains(&name) => {
                format!("`{name}` is a table; write `[{name}]`, and its keys below it")
            }
            _ => {
                let known = self.sections.iter().map(|section| section.name).chain(others.iter().copied());
                let meant = suggest_name(name, known.clone());
                let all: Vec<_> = known.map(|name| format!("`{name}`")).collect();
                format!("unknown table `{name}`{meant} (tables: {})", all.join(", "))
            }
        }
    }
}

/// Returns `true` for a table without a key, which is allowed.
pub(crate) fn is_empty_table(value: &Value) -> bool {
    value.as_table().is_some_and(Table::is_empty)
}
