//! What a rule is about, in one word: contradiction stays within it.

/// Topics in the order in which they are looked for, with the beginnings of the words that tell of them.
const TOPICS: &[(&str, &[&str])] = &[
    ("tests", &["test", "assert", "mock", "fixture", "spec", "snapshot"]),
    ("logging", &["log", "logging", "logger", "trace", "tracing"]),
    ("errors", &["error", "exception", "panic", "unwrap", "throw", "raise", "catch"]),
    ("naming", &["name", "naming", "prefix", "suffix", "rename", "camelcase", "snake_case", "abbreviat"]),
    ("imports", &["import", "include", "require("]),
    ("dependencies", &["dependenc", "package", "crate", "library", "version"]),
    ("documentation", &["doc", "comment", "readme", "changelog", "docstring", "jsdoc"]),
    (
        "formatting",
        &["format", "indent", "whitespace", "newline", "line length", "capital", "quote", "tabs", "spaces"],
    ),
    ("types", &["type", "generic", "enum", "interface", "optional", "null", "nullable"]),
    ("commits", &["commit", "pull request", "branch", "merge", "rebase"]),
    ("security", &["secret", "token", "credential", "password", "escape", "sanitize", "sanitise"]),
    ("performance", &["allocat", "cache", "performance", "clone", "copy", "lazy"]),
    ("concurrency", &["thread", "lock", "mutex", "async", "await", "sleep"]),
    ("data", &["sql", "query", "migration", "table", "column", "schema"]),
    ("configuration", &["config", "flag", "setting", "environment variable", "option"]),
    ("interface", &["api", "endpoint", "route", "component", "prop", "css", "html"]),
];

/// The topic of a sentence; `code` when nothing tells.
pub(crate) fn of(sentence: &str) -> &'static str {
    let lower = sentence.to_lowercase();
    let begins = |start: &&str| {
        lower
            .match_indices(*start)
            .any(|(at, _)| lower[..at].chars().next_back().is_none_or(|before| !before.is_alphanumeric()))
    };
    TOPICS.iter().find(|(_, starts)| starts.iter().any(&begins)).map_or("code", |(topic, _)| topic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opposite_rules_have_one_topic() {
        assert_eq!((of("Always use mocks in tests"), of("Never use mocks in tests")), ("tests", "tests"));
        assert_eq!(of("Prefer `a` over `b`"), "code");
        assert_eq!(of("Catalogue the rest"), "code", "log does not begin a word here");
    }
}
