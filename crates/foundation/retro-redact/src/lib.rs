#![doc = include_str!("../README.md")]

mod allowlist;
mod assignment;
mod escape;
mod expression;
mod json;
mod marker;
mod rules;
mod run;
mod scan;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use marker::{Masks, format_marker};
use rules::RuleSet;
pub use run::RunRedactor;

/// Maximum size of a text that is searched, in bytes: the size of the largest body that intake accepts. A
/// larger text is replaced completely, because unsearched text must not be stored.
pub const TEXT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Finds and removes secrets. Each rule is compiled when one of its keywords first occurs in a text.
#[derive(Debug)]
pub struct Redactor {
    rules: RuleSet,
}

/// A secret found in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret<'r> {
    /// Id of the rule that found the secret.
    pub rule: &'r str,
    /// Byte range of the secret in the text, with both ends on character boundaries.
    pub range: Range<usize>,
}

/// A text with its secrets replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted<'t> {
    /// Redacted text; borrowed if it contained no secrets.
    pub text: Cow<'t, str>,
    /// Number of secrets that were redacted.
    pub secrets: usize,
}

/// Maximum number of passes over a text. Later passes find secrets that overlapped those of earlier ones; the
/// bound guarantees termination.
const ROUNDS_MAX: u32 = 4;

static SHARED: LazyLock<Redactor> = LazyLock::new(|| Redactor { rules: RuleSet::built_in() });

impl Redactor {
    /// Returns the shared redactor of this process, with the built-in rules. Panics if the rules are invalid,
    /// which a test rules out.
    pub fn shared() -> &'static Self {
        &SHARED
    }

    /// Replaces every secret in a text by `[redacted:rule-id]`, in time linear in its length. Different secrets
    /// that one rule found are numbered from the second on (`[redacted:rule-id#2]`); equal secrets get equal
    /// replacements.
    pub fn redact_text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.redact(text).text
    }

    /// Redacts like [`Redactor::redact_text`], and also returns the number of secrets.
    pub fn redact<'t>(&self, text: &'t str) -> Redacted<'t> {
        self.redact_with(text, &mut Masks::default())
    }

    /// Redacts with the masks of the run or document that the text belongs to.
    fn redact_with<'t>(&self, text: &'t str, masks: &mut Masks) -> Redacted<'t> {
        let mut redacted = self.redact_once(text, masks);
        for _ in 1..ROUNDS_MAX {
            if redacted.secrets == 0 {
                break;
            }
            // Replacing a secret may reveal one that overlapped it.
            let again = self.redact_once(&redacted.text, masks);
            if again.secrets == 0 {
                break;
            }
            let secrets = redacted.secrets + again.secrets;
            redacted = Redacted { text: Cow::Owned(again.text.into_owned()), secrets };
        }
        redacted
    }

    fn redact_once<'t>(&self, text: &'t str, masks: &mut Masks) -> Redacted<'t> {
        if text.len() > TEXT_BYTES_MAX {
            return Redacted { text: Cow::Owned(format_marker("too-large", 1)), secrets: 1 };
        }
        replace_secrets(text, &self.find_secrets(text), masks)
    }

    /// Redacts a name: a tool, a commit, a version. Only rules that know a secret by its own form are tried,
    /// because a name such as `reset_password=1` is no secret.
    fn redact_name(&self, name: &mut String, masks: &mut Masks) -> usize {
        let secrets = self.to_secrets(scan::scan_name(&self.rules, name));
        let redacted = replace_secrets(name, &secrets, masks);
        let count = redacted.secrets;
        if let Cow::Owned(clean) = redacted.text {
            *name = clean;
        }
        count
    }

    /// Returns the secrets found in a text, sorted by position and without overlaps.
    pub fn find_secrets(&self, text: &str) -> Vec<Secret<'_>> {
        self.to_secrets(scan::scan_text(&self.rules, text))
    }

    fn to_secrets(&self, hits: Vec<scan::Hit>) -> Vec<Secret<'_>> {
        let secret = |hit: scan::Hit| Secret { rule: &self.rules.rule(hit.rule).id, range: hit.range };
        hits.into_iter().map(secret).collect()
    }

    /// Replaces the secrets in `text` and returns their number.
    fn redact_in_place(&self, text: &mut String, masks: &mut Masks) -> usize {
        let redacted = self.redact_with(text, masks);
        let secrets = redacted.secrets;
        if let Cow::Owned(clean) = redacted.text {
            *text = clean;
        }
        secrets
    }
}

/// Replaces these secrets of a text, which are sorted by position, by their masks.
fn replace_secrets<'t>(text: &'t str, secrets: &[Secret<'_>], masks: &mut Masks) -> Redacted<'t> {
    if secrets.is_empty() {
        return Redacted { text: Cow::Borrowed(text), secrets: 0 };
    }
    masks.reserve_markers(text);
    let mut out = String::with_capacity(text.len());
    let mut kept_to = 0;
    for secret in secrets {
        out.push_str(&text[kept_to..secret.range.start]);
        out.push_str(masks.mask(secret.rule, &text[secret.range.clone()]));
        kept_to = secret.range.end;
    }
    out.push_str(&text[kept_to..]);
    Redacted { text: Cow::Owned(out), secrets: secrets.len() }
}
