#![doc = include_str!("../README.md")]

mod allowlist;
mod assignment;
mod json;
mod rules;
mod run;
mod scan;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use rules::RuleSet;

/// Maximum size of a text that is searched, in bytes: that of the largest body that intake accepts. A longer text is
/// replaced completely, because an unsearched text must not be stored.
pub const TEXT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// First characters of every replacement. They mark what was redacted before, which is not redacted again.
const MARKER_PREFIX: &str = "[redacted:";

/// Finds and removes secrets. Each rule is compiled when a text first contains one of its keywords.
#[derive(Debug)]
pub struct Redactor {
    rules: RuleSet,
}

/// Secret that was found in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret<'r> {
    /// Id of the rule that found the secret.
    pub rule: &'r str,
    /// Byte range of the secret in the text; both ends are on character boundaries.
    pub range: Range<usize>,
}

/// Text whose secrets were replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted<'t> {
    /// The redacted text; borrowed when it contained no secrets.
    pub text: Cow<'t, str>,
    /// Number of secrets that were redacted.
    pub secrets: usize,
}

/// Maximum number of passes over a text. A second pass finds secrets that overlapped those of the first; the
/// bound guarantees termination.
const ROUNDS_MAX: u32 = 4;

static SHARED: LazyLock<Redactor> = LazyLock::new(|| Redactor { rules: RuleSet::built_in() });

impl Redactor {
    /// Returns the shared redactor of this process, which has the built-in rules. Panics when the rules are invalid,
    /// which a test excludes.
    pub fn shared() -> &'static Self {
        &SHARED
    }

    /// Returns the text with every secret replaced by `[redacted:rule-id]`. Takes time linear in its length.
    pub fn redact_text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.redact(text).text
    }

    /// Redacts a text like [`Redactor::redact_text`], and also returns the number of secrets.
    pub fn redact<'t>(&self, text: &'t str) -> Redacted<'t> {
        let mut redacted = self.redact_once(text);
        for _ in 1..ROUNDS_MAX {
            if redacted.secrets == 0 {
                break;
            }
            // A secret that overlapped a replaced one may be found only now.
            let again = self.redact_once(&redacted.text);
            if again.secrets == 0 {
                break;
            }
            let secrets = redacted.secrets + again.secrets;
            redacted = Redacted { text: Cow::Owned(again.text.into_owned()), secrets };
        }
        redacted
    }

    fn redact_once<'t>(&self, text: &'t str) -> Redacted<'t> {
        if text.len() > TEXT_BYTES_MAX {
            return Redacted { text: Cow::Owned(format_marker("too-large")), secrets: 1 };
        }
        let secrets = self.find_secrets(text);
        if secrets.is_empty() {
            return Redacted { text: Cow::Borrowed(text), secrets: 0 };
        }
        let mut out = String::with_capacity(text.len());
        let mut kept_to = 0;
        for secret in &secrets {
            out.push_str(&text[kept_to..secret.range.start]);
            out.push_str(&format_marker(secret.rule));
            kept_to = secret.range.end;
        }
        out.push_str(&text[kept_to..]);
        Redacted { text: Cow::Owned(out), secrets: secrets.len() }
    }

    /// Returns the secrets found in a text, in order of position and without overlaps.
    pub fn find_secrets(&self, text: &str) -> Vec<Secret<'_>> {
        let found = scan::scan_text(&self.rules, text);
        found
            .into_iter()
            .map(|hit| Secret { rule: &self.rules.rule(hit.rule).id, range: hit.range })
            .collect()
    }

    /// Replaces the secrets in `text` and returns their number.
    fn redact_in_place(&self, text: &mut String) -> usize {
        let redacted = self.redact(text);
        let secrets = redacted.secrets;
        if let Cow::Owned(clean) = redacted.text {
            *text = clean;
        }
        secrets
    }
}

fn format_marker(rule: &str) -> String {
    format!("{MARKER_PREFIX}{rule}]")
}
