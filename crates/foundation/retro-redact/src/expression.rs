//! Compiles the regular expressions of the rule files.

use regex::bytes::{Regex, RegexBuilder};

/// Maximum memory of one compiled rule, in bytes: more than ten times that of upstream's largest rule
/// (`[\w-]{50,1000}`).
const REGEX_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Compiles an expression from the rule files. Panics if it is invalid, which a test rules out.
pub(crate) fn compile_regex(pattern: &str) -> Regex {
    RegexBuilder::new(pattern)
        .unicode(false)
        .size_limit(REGEX_BYTES_MAX)
        .build()
        .expect("every vendored expression compiles; a test compiles each one")
}
