//! Allowlists, which exempt matches of a rule that are not secrets.

use std::collections::HashSet;
use std::sync::OnceLock;

use aho_corasick::AhoCorasick;
use regex::bytes::Regex;
use retro_core::canonical::sha256_hex;
use serde::Deserialize;

use crate::expression::compile_regex;

/// A match of a rule, as examined by an allowlist.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate<'t> {
    /// Bytes of the match that would be redacted.
    pub(crate) secret: &'t [u8],
    /// Bytes of the whole match, including the context of the secret.
    pub(crate) full_match: &'t [u8],
    /// Lines that contain the match, shortened if they are long.
    pub(crate) line: &'t [u8],
}

/// An allowlist. Its expressions are compiled when first needed.
#[derive(Debug)]
pub(crate) struct Allowlist {
    spec: AllowlistSpec,
    compiled: OnceLock<Vec<Regex>>,
    stopwords: OnceLock<Option<AhoCorasick>>,
}

/// An allowlist, as written in the rule files.
#[derive(Debug, Default, Clone, Deserialize)]
pub(crate) struct AllowlistSpec {
    #[serde(default)]
    condition: Condition,
    #[serde(default, rename = "regexTarget")]
    target: RegexTarget,
    #[serde(default)]
    regexes: Vec<String>,
    #[serde(default)]
    stopwords: Vec<String>,
    /// SHA-256 hashes of published example secrets, in lower-case hex. Stored as hashes, because other
    /// scanners would report the secrets themselves.
    #[serde(default)]
    sha256: HashSet<String>,
}

/// Combination of the kinds of reasons that an allowlist contains: one kind suffices, or every kind must
/// apply.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Condition {
    #[default]
    Or,
    And,
}

/// Part of the match that the expressions of an allowlist are applied to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RegexTarget {
    #[default]
    Secret,
    Match,
    Line,
}

impl From<AllowlistSpec> for Allowlist {
    fn from(spec: AllowlistSpec) -> Self {
        Self { spec, compiled: OnceLock::new(), stopwords: OnceLock::new() }
    }
}

impl Allowlist {
    /// Returns `true` if this allowlist says that the match is not a secret. Kinds of reasons that the list
    /// does not contain are ignored.
    pub(crate) fn allows(&self, candidate: Candidate<'_>) -> bool {
        let spec = &self.spec;
        let target = match spec.target {
            RegexTarget::Secret => candidate.secret,
            RegexTarget::Match => candidate.full_match,
            RegexTarget::Line => candidate.line,
        };
        let reasons = [
            (!spec.regexes.is_empty()).then(|| self.regexes().iter().any(|regex| regex.is_match(target))),
            self.stopwords().map(|words| words.is_match(candidate.secret)),
            (!spec.sha256.is_empty()).then(|| spec.sha256.contains(&sha256_hex(candidate.secret))),
        ];
        let mut reasons = reasons.into_iter().flatten().peekable();
        match spec.condition {
            Condition::Or => reasons.any(|holds| holds),
            Condition::And => reasons.peek().is_some() && reasons.all(|holds| holds),
        }
    }

    /// Compiles everything that is otherwise compiled when first needed.
    #[cfg(test)]
    pub(crate) fn compile(&self) {
        self.regexes();
        self.stopwords();
    }

    fn regexes(&self) -> &[Regex] {
        self.compiled.get_or_init(|| self.spec.regexes.iter().map(|pattern| compile_regex(pattern)).collect())
    }

    fn stopwords(&self) -> Option<&AhoCorasick> {
        let build = || {
            let words = &self.spec.stopwords;
            let built = AhoCorasick::builder().ascii_case_insensitive(true).build(words);
            (!words.is_empty()).then(|| built.expect("stopwords are short and few enough for an automaton"))
        };
        self.stopwords.get_or_init(build).as_ref()
    }
}
