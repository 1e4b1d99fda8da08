//! Assigns a one-word topic to a rule, under which people find it.

/// Topics in order of precedence, each with the beginnings of the words that indicate it.
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

/// Returns the topic of a sentence, or `code` if no word indicates a topic.
pub(crate) fn topic_of(sentence: &str) -> &'static str {
    let lower = sentence.to_lowercase();
    let begins = |start: &&str| {
        // Only the start of a word counts: `catalogue` does not indicate logging.
        lower
            .match_indices(*start)
            .any(|(at, _)| lower[..at].chars().next_back().is_none_or(|before| !before.is_alphanumeric()))
    };
    TOPICS.iter().find(|(_, starts)| starts.iter().any(&begins)).map_or("code", |(topic, _)| topic)
}

/// Returns the topic of a sentence, or the suggested one if no word of the sentence indicates a topic and the suggestion is
/// one.
pub(crate) fn topic_with_hint(sentence: &str, suggested: Option<&str>) -> &'static str {
    let known = |name: &str| TOPICS.iter().find(|(topic, _)| *topic == name.trim().to_lowercase());
    match (topic_of(sentence), suggested.and_then(known)) {
        ("code", Some((topic, _))) => topic,
        (topic, _) => topic,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opposite_rules_have_one_topic() {
        assert_eq!(
            (topic_of("Always use mocks in tests"), topic_of("Never use mocks in tests")),
            ("tests", "tests")
        );
        assert_eq!(topic_of("Prefer `a` over `b`"), "code");
        assert_eq!(topic_of("Catalogue the rest"), "code", "`log` is not at the start of a word");
    }
}
