#![doc = include_str!("../README.md")]

mod allow;
mod assign;
mod json;
mod rules;
mod run;
mod scan;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use rules::Rules;

/// The largest text that is searched, in bytes: the largest body that intake takes at all. A larger one is
/// replaced as a whole, since what was not searched must not be kept.
pub const TEXT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What every replacement starts with; a text that was redacted before is left as it is.
const MARK: &str = "[redacted:";

/// Finds secrets and cuts them out. Rules are compiled when a text first holds one of their keywords.
#[derive(Debug)]
pub struct Redactor {
    rules: Rules,
}

/// A secret in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret<'r> {
    /// The rule that found it.
    pub rule: &'r str,
    /// Its bytes; both ends are on character boundaries.
    pub range: Range<usize>,
}

/// A text without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted<'t> {
    /// The text; borrowed when there was nothing to cut out.
    pub text: Cow<'t, str>,
    /// How many secrets were cut out.
    pub secrets: usize,
}

/// How often a text is gone through at most while something is found. A second round finds what overlapped the first
/// one's secrets; the bound is there so that no text can make it go on.
const ROUNDS_MAX: u32 = 4;

static SHARED: LazyLock<Redactor> = LazyLock::new(|| Redactor { rules: Rules::built_in() });

impl Redactor {
    /// The one redactor of the process, with the built-in rules. Panics when these are broken, which a test excludes.
    pub fn shared() -> &'static Self {
        &SHARED
    }

    /// The text with every secret replaced by `[redacted:rule-id]`. Takes time linear in its length.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.redact(text).text
    }

    /// The same as [`Redactor::text`], and how many secrets were cut out.
    pub fn redact<'t>(&self, text: &'t str) -> Redacted<'t> {
        let mut redacted = self.redact_once(text);
        for _ in 1..ROUNDS_MAX {
            if redacted.secrets == 0 {
                break;
            }
            // A secret that overlapped one that was cut out may show itself now.
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
            return Redacted { text: Cow::Owned(marker("too-large")), secrets: 1 };
        }
        let secrets = self.find(text);
        if secrets.is_empty() {
            return Redacted { text: Cow::Borrowed(text), secrets: 0 };
        }
        let mut out = String::with_capacity(text.len());
        let mut kept_to = 0;
        for secret in &secrets {
            out.push_str(&text[kept_to..secret.range.start]);
            out.push_str(&marker(secret.rule));
            kept_to = secret.range.end;
        }
        out.push_str(&text[kept_to..]);
        Redacted { text: Cow::Owned(out), secrets: secrets.len() }
    }

    /// The secrets of a text in order, none overlapping another.
    pub fn find(&self, text: &str) -> Vec<Secret<'_>> {
        let found = scan::scan(&self.rules, text);
        found
            .into_iter()
            .map(|hit| Secret { rule: &self.rules.rule(hit.rule).id, range: hit.range })
            .collect()
    }

    /// Replaces `text` when it holds secrets. Returns how many.
    fn in_place(&self, text: &mut String) -> usize {
        let redacted = self.redact(text);
        let secrets = redacted.secrets;
        if let Cow::Owned(clean) = redacted.text {
            *text = clean;
        }
        secrets
    }
}

fn marker(rule: &str) -> String {
    format!("{MARK}{rule}]")
}
