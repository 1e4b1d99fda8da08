//! Collects configuration problems, each with its location.

use std::path::Path;

/// One or more sentences, each starting with the location of a problem (`retro.toml:7`, `RETRO_LEASE_S`).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct Problems(Vec<String>);

impl Problems {
    /// Creates a list that contains one problem.
    pub fn from_sentence(sentence: impl Into<String>) -> Self {
        Self(vec![sentence.into()])
    }

    /// Fails with the given problems if there are any.
    pub fn fail_if_any(found: Vec<String>) -> Result<(), Self> {
        if found.is_empty() { Ok(()) } else { Err(Self(found)) }
    }

    /// Returns the sentences: problems in the file first, then those in the environment.
    pub fn sentences(&self) -> &[String] {
        &self.0
    }

    /// Returns the sentences as a vector.
    pub fn into_sentences(self) -> Vec<String> {
        self.0
    }
}

/// Formats a location in a file as `path:line`.
pub(crate) fn format_place(path: &Path, line: usize) -> String {
    format!("{}:{line}", path.display())
}

/// Maximum edit distance at which a name counts as a misspelling of another.
const TYPOS_MAX: usize = 3;

/// Returns the known name that was probably meant, or `None` if no name is close. Up to a third of the
/// letters may be wrong, at most [`TYPOS_MAX`], or a trailing unit such as `_s` may be missing.
pub(crate) fn find_nearest<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let without_unit = |name: &str| name.strip_prefix(found).is_some_and(|rest| rest.starts_with('_'));
    let slips = |name: &str| if without_unit(name) { 1 } else { strsim::damerau_levenshtein(found, name) };
    let (slips, name) = known.into_iter().map(|name| (slips(name), name)).min()?;
    // Allows at least one wrong letter; otherwise short names would never get a suggestion.
    (slips <= TYPOS_MAX.min(found.len() / 3).max(1)).then_some(name)
}

/// Returns "; did you mean …?" with the closest known name, or an empty string if no name is close.
pub(crate) fn suggest_name<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    find_nearest(found, known).map_or(String::new(), |name| format!("; did you mean `{name}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_name_has_a_nearest_name_and_another_word_has_none() {
        let known = ["investigators", "lease_s", "log", "nats_port"];
        assert_eq!(find_nearest("invesigators", known), Some("investigators"));
        assert_eq!(find_nearest("laese_s", known), Some("lease_s"));
        assert_eq!(find_nearest("logs", known), Some("log"));
        assert_eq!(find_nearest("lease", known), Some("lease_s"));
        assert_eq!(find_nearest("port", known), None);
        assert_eq!(find_nearest("service_host", known), None);
    }
}
