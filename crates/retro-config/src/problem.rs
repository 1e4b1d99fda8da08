//! What is wrong: every mistake at once, each with its place.

use std::path::Path;

/// Sentences, each beginning with its place (`retro.toml:7`, `RETRO_LEASE_S`). There is at least one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct Problems(Vec<String>);

impl Problems {
    /// One mistake.
    pub fn one(sentence: impl Into<String>) -> Self {
        Self(vec![sentence.into()])
    }

    /// Nothing, or all that was found.
    pub fn none_or(found: Vec<String>) -> Result<(), Self> {
        if found.is_empty() { Ok(()) } else { Err(Self(found)) }
    }

    /// The sentences, in the order of the file and then of the environment.
    pub fn sentences(&self) -> &[String] {
        &self.0
    }

    /// Each sentence.
    pub fn into_sentences(self) -> Vec<String> {
        self.0
    }
}

/// How a place in a file is written.
pub(crate) fn place(path: &Path, line: usize) -> String {
    format!("{}:{line}", path.display())
}

/// Distance beyond which two names are not a slip of the pen.
const SLIPS_MAX: usize = 3;

/// The name that was probably meant. A third of a name may be wrong, at most `SLIPS_MAX` letters, and its unit missing.
pub(crate) fn nearest<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let without_unit = |name: &str| name.strip_prefix(found).is_some_and(|rest| rest.starts_with('_'));
    let slips = |name: &str| if without_unit(name) { 1 } else { strsim::damerau_levenshtein(found, name) };
    let (slips, name) = known.into_iter().map(|name| (slips(name), name)).min()?;
    (slips <= SLIPS_MAX.min(found.len() / 3).max(1)).then_some(name)
}

/// "; did you mean …?", when something is near.
pub(crate) fn did_you_mean<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(found, known).map_or(String::new(), |name| format!("; did you mean `{name}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_has_a_nearest_name_and_another_word_has_none() {
        let known = ["investigators", "lease_s", "log", "nats_port"];
        assert_eq!(nearest("invesigators", known), Some("investigators"));
        assert_eq!(nearest("laese_s", known), Some("lease_s"));
        assert_eq!(nearest("logs", known), Some("log"));
        assert_eq!(nearest("lease", known), Some("lease_s"));
        assert_eq!(nearest("port", known), None);
        assert_eq!(nearest("service_host", known), None);
    }
}
