//! Parses the rules from the vendored files, and compiles each rule when it is first needed.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use regex::bytes::Regex;
use serde::Deserialize;

use crate::allowlist::{Allowlist, AllowlistSpec};
use crate::escape::ESCAPE_STARTS;
use crate::expression::compile_regex;

/// Vendored gitleaks rules, unchanged.
const GITLEAKS_RULES: &str = include_str!("../rules/gitleaks.toml");
/// Additional rules of this project, for secrets that gitleaks does not cover.
const OWN_RULES: &str = include_str!("../rules/own.toml");

/// Maximum distance from the start of a match to its keyword, in bytes. Upstream's prefixes have at most 50
/// bytes; secrets in YAML, with the keyword at the end, at most 400.
const WINDOW_BEFORE: usize = 512;
/// Maximum distance from a keyword to the end of its match, in bytes, for rules without a bound of their own.
const WINDOW_AFTER: usize = 4 * 1024;
/// Maximum distance from a keyword to the end of an assignment, in bytes: a name, an operator, and a value of
/// at most 400 bytes.
const WINDOW_AFTER_ASSIGNMENT: usize = 512;
/// Maximum distance from a keyword to the end of a private key, in bytes. A 16,384-bit RSA key takes 13 KiB
/// in PEM.
const WINDOW_AFTER_PEM: usize = 32 * 1024;

/// Bytes around a keyword that are searched for a token without white space. A window always ends at the end
/// of a word, so it holds the whole token whatever its length.
const WINDOW_BEFORE_TOKEN: usize = 64;
const WINDOW_AFTER_TOKEN: usize = 64;
/// Parts of an expression that may match white space, so that a match may have several words.
const MATCHES_SPACE: [&str; 12] =
    [r"\s", " ", ".*", ".+", ".?", ".{", "(?s", "[^", r"\S", r"\W", r"\n", r"[\w.-]{0,50}"];
/// End of upstream's expressions for tokens: what may follow one.
const TOKEN_END: &str = r#"(?:[\x60'"\s;]|\\[nr]|$)"#;

/// Part of upstream's expressions that matches the operator of an assignment. No part before it can match an
/// operator.
const OPERATOR: &str = r"(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)";
const NAME_PREFIX: &str = r"(?i)[\w.-]{0,50}?";

/// All rules, with one automaton that finds their keywords.
#[derive(Debug)]
pub(crate) struct RuleSet {
    rules: Vec<Rule>,
    global: Allowlist,
    ascii: Keywords,
    /// Keywords in other scripts, which are searched only in texts that are not ASCII: their bytes would make
    /// the automaton of all texts four times as large, and slower.
    other_scripts: Keywords,
    without_keyword: Vec<usize>,
}

/// Keywords with the automaton that finds them.
#[derive(Debug)]
struct Keywords {
    automaton: AhoCorasick,
    meanings: Vec<Keyword>,
}

/// What a keyword in a text means.
#[derive(Debug, Default)]
pub(crate) struct Keyword {
    /// Indexes of the rules that are tried around it.
    pub(crate) rules: Vec<usize>,
    /// `true` if it is the beginning of an escape.
    pub(crate) starts_escape: bool,
}

/// A rule. Its expression is compiled when first needed.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) id: String,
    pattern: String,
    /// Keywords of the rule, moved into the automaton when the set is built.
    keywords: Vec<String>,
    compiled: OnceLock<Regex>,
    /// Capture group that contains the secret. `None` means the first group that matched any text, or the
    /// whole match if no group did.
    pub(crate) group: Option<usize>,
    /// Entropy that the secret must exceed, in bits per byte; 0 means no minimum.
    pub(crate) entropy: f64,
    /// `true` if the rule matches only where an assignment operator follows the keyword.
    pub(crate) assignment: bool,
    /// `true` if the rule knows a secret by its own form, such as a vendor's prefix, so that it can be trusted
    /// in a name.
    pub(crate) strict: bool,
    /// Number of bytes before a keyword that the rule searches.
    pub(crate) before: usize,
    /// Number of bytes after a keyword that the rule searches.
    pub(crate) after: usize,
    /// Allowlists that apply only to this rule.
    pub(crate) allowlists: Vec<Allowlist>,
}

#[derive(Deserialize)]
struct RuleFile {
    #[serde(default)]
    allowlist: AllowlistSpec,
    /// Allowlists to add to rules, possibly those of another file.
    #[serde(default)]
    exceptions: Vec<Exception>,
    rules: Vec<RuleSpec>,
}

#[derive(Deserialize)]
struct Exception {
    rules: Vec<String>,
    #[serde(flatten)]
    allow: AllowlistSpec,
}

#[derive(Deserialize)]
struct RuleSpec {
    id: String,
    regex: String,
    #[serde(rename = "secretGroup")]
    secret_group: Option<usize>,
    #[serde(default)]
    entropy: f64,
    #[serde(default)]
    assignment: bool,
    #[serde(default)]
    strict: bool,
    before: Option<usize>,
    after: Option<usize>,
    keywords: Vec<String>,
    #[serde(default)]
    allowlists: Vec<AllowlistSpec>,
}

impl RuleSet {
    /// Parses the built-in rules of both files. Panics if a file is invalid, which a test rules out.
    pub(crate) fn built_in() -> Self {
        let read = |text: &str| toml::from_str::<RuleFile>(text).expect("the vendored rules are valid TOML");
        let (upstream, own) = (read(GITLEAKS_RULES), read(OWN_RULES));
        let mut rules: Vec<Rule> = upstream.rules.into_iter().chain(own.rules).map(Rule::from).collect();
        for exception in own.exceptions {
            for id in exception.rules {
                let rule = rules.iter_mut().find(|rule| rule.id == id).expect("an exception names a rule");
                rule.allowlists.push(Allowlist::from(exception.allow.clone()));
            }
        }
        let mut by_keyword: BTreeMap<String, Keyword> = BTreeMap::new();
        let mut without_keyword = Vec::new();
        for (at, rule) in rules.iter_mut().enumerate() {
            let keywords = std::mem::take(&mut rule.keywords);
            if keywords.is_empty() {
                without_keyword.push(at);
            }
            for keyword in keywords {
                by_keyword.entry(keyword).or_default().rules.push(at);
            }
        }
        for start in ESCAPE_STARTS {
            by_keyword.entry(start.to_owned()).or_default().starts_escape = true;
        }
        let is_ascii = |(keyword, _): &(String, Keyword)| keyword.is_ascii();
        let (ascii, other_scripts) = by_keyword.into_iter().partition::<Vec<_>, _>(is_ascii);
        Self {
            rules,
            global: Allowlist::from(upstream.allowlist),
            ascii: Keywords::build(ascii),
            other_scripts: Keywords::build(other_scripts),
            without_keyword,
        }
    }

    /// Returns the rule at an index of this set.
    pub(crate) fn rule(&self, index: usize) -> &Rule {
        &self.rules[index]
    }

    /// Returns the allowlist that applies to all rules.
    pub(crate) fn global_allowlist(&self) -> &Allowlist {
        &self.global
    }

    /// Returns the indexes of the rules without a keyword, which search every text.
    pub(crate) fn without_keyword(&self) -> &[usize] {
        &self.without_keyword
    }

    /// Finds every keyword in a text in ASCII lower case, including overlapping ones, with its byte range. The
    /// keywords of one rule are sorted by their ends.
    pub(crate) fn find_keywords<'r>(
        &'r self,
        text: &'r str,
    ) -> impl Iterator<Item = (&'r Keyword, Range<usize>)> {
        let other_scripts = (!text.is_ascii()).then(|| self.other_scripts.find_in(text));
        self.ascii.find_in(text).chain(other_scripts.into_iter().flatten())
    }
}

impl Keywords {
    /// Builds an automaton for texts in lower case. One that ignored case itself would have twice the columns,
    /// and be slower than the copy of a text.
    fn build(keywords: Vec<(String, Keyword)>) -> Self {
        let automaton = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::DFA))
            // `find_overlapping_iter` panics with any other kind.
            .match_kind(MatchKind::Standard)
            .build(keywords.iter().map(|(keyword, _)| keyword))
            .expect("a few hundred short keywords fit into an automaton");
        Self { automaton, meanings: keywords.into_iter().map(|(_, meaning)| meaning).collect() }
    }

    fn find_in<'r>(&'r self, text: &'r str) -> impl Iterator<Item = (&'r Keyword, Range<usize>)> {
        self.automaton
            .find_overlapping_iter(text)
            .map(|hit| (&self.meanings[hit.pattern().as_usize()], hit.range()))
    }
}

impl Rule {
    /// Returns the compiled expression. Character classes are ASCII, as in Go, so it matches bytes.
    pub(crate) fn regex(&self) -> &Regex {
        self.compiled.get_or_init(|| compile_regex(&self.pattern))
    }
}

impl From<RuleSpec> for Rule {
    fn from(spec: RuleSpec) -> Self {
        // An expression with several operators, or with an alternative after the value, may match without an
        // operator directly after the keyword. The cheap check would then lose secrets.
        let upstream = spec.regex.starts_with(NAME_PREFIX)
            && spec.regex.matches(OPERATOR).count() == 1
            && !spec.regex.contains("$)|");
        let assignment = spec.assignment || upstream;
        let is_token = !assignment && is_unbroken_token(&spec.regex);
        let (before, after) = match spec.id.as_str() {
            _ if assignment => (64, WINDOW_AFTER_ASSIGNMENT),
            id if id.starts_with("private-key") => (0, WINDOW_AFTER_PEM),
            _ if is_token => (WINDOW_BEFORE_TOKEN, WINDOW_AFTER_TOKEN),
            _ => (WINDOW_BEFORE, WINDOW_AFTER),
        };
        let (before, after) = (spec.before.unwrap_or(before), spec.after.unwrap_or(after));
        Self {
            id: spec.id,
            pattern: spec.regex,
            keywords: spec.keywords,
            compiled: OnceLock::new(),
            group: spec.secret_group,
            entropy: spec.entropy,
            assignment,
            strict: spec.strict || is_token,
            before,
            after,
            allowlists: spec.allowlists.into_iter().map(Allowlist::from).collect(),
        }
    }
}

/// Returns `true` if an expression of upstream matches only a token without white space, by the token's own
/// form.
fn is_unbroken_token(pattern: &str) -> bool {
    let token = pattern.replace(TOKEN_END, "");
    !MATCHES_SPACE.iter().any(|part| token.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_and_allowlist_compiles_and_the_unusable_ones_are_named() {
        let rules = RuleSet::built_in();
        for rule in &rules.rules {
            assert!(
                rule.group.unwrap_or(0) < rule.regex().captures_len(),
                "{} names a group it lacks",
                rule.id
            );
            rule.allowlists.iter().for_each(Allowlist::compile);
        }
        rules.global.compile();
        let upstream = toml::from_str::<RuleFile>(GITLEAKS_RULES).unwrap().rules;
        println!("not used of gitleaks: pkcs12-file (it has no expression)");
        assert_eq!(upstream.len(), 221);
        assert!(upstream.iter().all(|rule| rule.id != "pkcs12-file" && !rule.keywords.is_empty()));
    }

    #[test]
    fn keywords_are_lower_case_and_rule_names_are_unique() {
        let files = [GITLEAKS_RULES, OWN_RULES].map(|text| toml::from_str::<RuleFile>(text).unwrap().rules);
        let rules: Vec<RuleSpec> = files.into_iter().flatten().collect();
        let names: std::collections::BTreeSet<&str> = rules.iter().map(|rule| rule.id.as_str()).collect();
        assert_eq!(names.len(), rules.len());
        assert!(rules.iter().flat_map(|rule| &rule.keywords).all(|word| *word == word.to_ascii_lowercase()));
        // Windows of one rule are merged in the order of its keywords, so one automaton must find them all.
        for rule in &rules {
            let ascii = rule.keywords.iter().filter(|word| word.is_ascii()).count();
            assert!(ascii == 0 || ascii == rule.keywords.len(), "{} mixes scripts", rule.id);
        }
    }
}
