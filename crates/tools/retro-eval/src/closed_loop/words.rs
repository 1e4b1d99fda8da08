//! Decides whether a line states some words, with their polarity: "do not pass `x`" does not state "pass `x`".

use std::collections::BTreeSet;

use serde_json::Value;

/// Words that deny what follows them, up to the end of the clause.
const DENY_CLAUSE: &[&str] = &[
    "not",
    "don't",
    "never",
    "avoid",
    "stop",
    "cannot",
    "can't",
    "mustn't",
    "shouldn't",
    "forbid",
    "refuse",
];
/// Words that deny only what follows closely.
const DENY_NEXT: &[&str] =
    &["without", "instead", "rather", "leave", "omit", "drop", "remove", "no", "refused", "rejected"];
/// Number of words after one of [`DENY_NEXT`] that it denies: "instead of the `x`", "leave the `x` out".
const DENIED_NEXT: usize = 3;
/// Words that ask for what follows closely.
const ASK_NEXT: &[&str] = &["pass", "add", "use", "with", "set", "give", "provide", "include", "call"];

/// Words that say, directly after something, that it did not work.
const FAILED: &[&str] = &["fails", "failed", "refused", "rejected", "breaks", "broke"];
/// Texts that end a clause. A dot or colon inside a name ends none.
const CLAUSE_ENDS: &[&str] = &[". ", ": ", ", ", "; ", "? ", "! ", "“", "”", "(", ")", "—"];

/// Direction in which a remedy mentions a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Polarity {
    /// The remedy contains what the word names.
    Asked,
    /// The remedy leaves out what the word names.
    LeftOut,
}

/// The texts of the calls of a remedy, from which polarity and the letter case that counts are derived.
#[derive(Debug, Clone, Default)]
pub(crate) struct RemedyTexts {
    wrong: BTreeSet<String>,
    right: BTreeSet<String>,
}

impl RemedyTexts {
    /// Collects the words of the failing call and of the calls of the remedy, names of parameters included.
    pub(crate) fn new<'v>(wrong: &Value, right: impl IntoIterator<Item = &'v Value>) -> Self {
        let mut texts = Self::default();
        collect_words(wrong, &mut texts.wrong);
        right.into_iter().for_each(|arguments| collect_words(arguments, &mut texts.right));
        texts
    }

    fn polarity_of(&self, phrase: &str) -> Polarity {
        let words: Vec<String> = split_words(phrase).collect();
        let in_any = |set: &BTreeSet<String>| {
            words.iter().any(|word| set.iter().any(|one| one.eq_ignore_ascii_case(word)))
        };
        if in_any(&self.wrong) && !in_any(&self.right) { Polarity::LeftOut } else { Polarity::Asked }
    }

    /// Returns the words of a phrase, in the spelling of the remedy, that differ from words of the failing
    /// call only in letter case.
    fn words_with_case(&self, phrase: &str) -> Vec<&str> {
        let only_case = |right: &&String| {
            !self.wrong.contains(*right) && self.wrong.iter().any(|wrong| wrong.eq_ignore_ascii_case(right))
        };
        let in_phrase = |right: &&String| split_words(phrase).any(|word| word.eq_ignore_ascii_case(right));
        self.right.iter().filter(only_case).filter(in_phrase).map(String::as_str).collect()
    }
}

/// Returns `true` if a line contains every word, ignoring case and polarity. `a|b` matches either.
pub(crate) fn contains_all_words(line: &str, words: &[String]) -> bool {
    let line = line.to_lowercase();
    words.iter().all(|word| word.to_lowercase().split('|').any(|one| line.contains(one)))
}

/// Returns `true` if a line states every word of a remedy in its direction. `a|b` is stated by either. Letter
/// case counts where the remedy differs from the failing call by nothing else.
pub(crate) fn states_remedy(line: &str, words: &[String], texts: &RemedyTexts) -> bool {
    words.iter().all(|word| word.split('|').any(|phrase| states_phrase(line, phrase, texts)))
}

/// Returns `true` if a text states a value exactly, as a word of its own, and does not deny it.
pub(crate) fn states_value(text: &str, value: &str) -> bool {
    let joins = |neighbour: Option<char>, edge: Option<char>| {
        neighbour.is_some_and(char::is_alphanumeric) && edge.is_some_and(char::is_alphanumeric)
    };
    text.match_indices(value).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + value.len()..]);
        let inside = joins(before.chars().next_back(), value.chars().next())
            || joins(after.chars().next(), value.chars().next_back());
        !inside && has_polarity(before, value, after, Polarity::Asked)
    })
}

fn states_phrase(line: &str, phrase: &str, texts: &RemedyTexts) -> bool {
    let polarity = texts.polarity_of(phrase);
    let said = |needle: &str, line: &str| {
        let mut found = line.match_indices(needle);
        found.any(|(at, _)| has_polarity(&line[..at], needle, &line[at + needle.len()..], polarity))
    };
    said(&phrase.to_lowercase(), &line.to_lowercase())
        && texts.words_with_case(phrase).into_iter().all(|word| said(word, line))
}

/// Returns `true` if a phrase between `before` and `after` is asked for, or left out, as `polarity` says.
fn has_polarity(before: &str, phrase: &str, after: &str, polarity: Polarity) -> bool {
    let words = clause_words(before, phrase);
    let failed = clean_words(after).take(2).any(|word| FAILED.contains(&word.as_str()));
    let denied = is_denied(&words) != failed;
    match polarity {
        Polarity::Asked => !denied,
        // The phrase itself may say "without"; then only a denial of all of it contradicts.
        Polarity::LeftOut if clean_words(phrase).any(|word| is_denial(&word)) => !denied,
        Polarity::LeftOut => {
            let asked = words.iter().rev().take(2).any(|word| ASK_NEXT.contains(&word.as_str()));
            denied || !(asked || words.iter().any(|word| is_denial(word)))
        }
    }
}

/// Returns the words of a clause before a phrase, in lower case and without quotes.
fn clause_words(before: &str, phrase: &str) -> Vec<String> {
    let lower = before.to_lowercase();
    let ends = CLAUSE_ENDS.iter().filter_map(|end| lower.rfind(end).map(|at| at + end.len()));
    let clause = &lower[ends.max().unwrap_or(0)..];
    // "and run …" begins a demand of its own; "and `b`" continues a list.
    let demand = clause.rmatch_indices(" and ").map(|(at, and)| at + and.len()).find(|at| {
        let next = clause[*at..].trim_start();
        let next = if next.is_empty() { phrase } else { next };
        !next.starts_with(['`', '\'', '"'])
    });
    clean_words(&clause[demand.unwrap_or(0)..]).collect()
}

fn clean_words(text: &str) -> impl Iterator<Item = String> + '_ {
    let words = text.split_whitespace().map(|word| word.trim_matches(['`', '\'', '"', '.', ',', ';', ':']));
    words.filter(|word| !word.is_empty()).map(str::to_owned)
}

fn is_denial(word: &str) -> bool {
    DENY_CLAUSE.contains(&word) || DENY_NEXT.contains(&word)
}

fn is_denied(words: &[String]) -> bool {
    let last = |among: &[&str]| words.iter().rposition(|word| among.contains(&word.as_str()));
    // "do not forget to pass" and "not only" ask.
    let cancelled =
        |at: usize| words[at + 1..].first().is_some_and(|next| next == "forget" || next == "only");
    let by_clause = last(DENY_CLAUSE).is_some_and(|at| !cancelled(at));
    let by_next = last(DENY_NEXT).is_some_and(|at| words.len() - at - 1 <= DENIED_NEXT);
    // "do not leave `x` out" asks for it.
    by_clause != by_next
}

fn collect_words(value: &Value, out: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, item) in map {
                out.insert(key.clone());
                collect_words(item, out);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_words(item, out)),
        Value::String(text) => out.extend(split_words(text)),
        other => {
            out.insert(other.to_string());
        }
    }
}

fn split_words(text: &str) -> impl Iterator<Item = String> + '_ {
    let parts = text.split(|c: char| c.is_whitespace() || "`'\"“”=,;()[]{}".contains(c));
    parts.filter(|word| !word.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn stated(line: &str, words: &[&str], wrong: &Value, right: &Value) -> bool {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        states_remedy(line, &words, &RemedyTexts::new(wrong, [right]))
    }

    #[test]
    fn a_denied_remedy_is_not_stated() {
        let (plain, more) = (json!({"a": 1}), json!({"a": 1, "region": "eu"}));
        for (line, is) in [
            ("When `t` answers “no region”, pass `region` as well.", true),
            ("When `t` answers “do not stop”, pass `region` as well.", true),
            ("Do not guess and pass `region`.", true),
            ("Do not forget to pass `region`.", true),
            ("Do not leave `region` out: pass `region`.", true),
            ("Do not pass `region`.", false),
            ("Never pass `region` to `t`.", false),
            ("When `t` answers “no region”, avoid a call where you pass `region`.", false),
        ] {
            assert_eq!(stated(line, &["pass `region`"], &plain, &more), is, "{line}");
        }
        assert!(stated("Do not leave `region` out.", &["`region`"], &plain, &more));
        assert!(!stated("Leave `region` out.", &["`region`"], &plain, &more));
        assert!(!stated("Do not pass `a` and `region`.", &["`region`"], &plain, &more));
        assert!(!stated("`t` with `region` failed.", &["`region`"], &plain, &more));
        assert!(stated("`t` refused `a`; with `region` it worked.", &["`region`"], &plain, &more));
    }

    #[test]
    fn what_a_remedy_leaves_out_must_not_be_asked_for() {
        let (with, without) = (json!({"cmd": "run --fast x"}), json!({"cmd": "run x"}));
        for (line, is) in [
            ("Call `run` without `--fast`.", true),
            ("`run` with `--fast` failed; without it, it worked.", true),
            ("Call `run` with `--fast`.", false),
            ("Never run it without `--fast`.", false),
            ("Leave `--fast` out.", true),
            ("Pass `--fast` as well.", false),
        ] {
            assert_eq!(stated(line, &["--fast"], &with, &without), is, "{line}");
        }
        assert!(stated("Run it without `--fast`.", &["without `--fast`|leave"], &with, &without));
        assert!(!stated("Never run it without `--fast`.", &["without `--fast`|leave"], &with, &without));
    }

    #[test]
    fn letter_case_counts_where_nothing_else_differs() {
        let (wrong, right) = (json!({"format": "PDF"}), json!({"format": "pdf"}));
        let words = ["`PDF`"];
        assert!(stated("Set `format` to `pdf` instead of `PDF`.", &words, &wrong, &right));
        assert!(!stated("Set `format` to `PDF`.", &words, &wrong, &right));
        assert!(!stated("Set `format` to `PDF` instead of `pdf`.", &words, &wrong, &right));
        assert!(stated("SET `JAVA_HOME`.", &["java_home"], &json!({}), &json!({"cmd": "JAVA_HOME=x y"})));
    }

    #[test]
    fn a_value_is_stated_exactly_or_not_at_all() {
        for (line, is) in [
            ("Pass `limit` = `1000`.", true),
            ("Pass limit=1000, not 5000.", true),
            ("Pass `limit` = `10000`.", false),
            ("Do not pass `limit` = `1000`.", false),
            ("Pass `limit`.", false),
        ] {
            assert_eq!(states_value(line, "1000"), is, "{line}");
        }
        assert!(states_value("Use `EU-west`.", "EU-west") && !states_value("Use `eu-west`.", "EU-west"));
    }

    #[test]
    fn one_of_several_alternative_words_is_enough() {
        let words = ["gone|retired".to_owned(), "Pass `version`".to_owned()];
        assert!(contains_all_words("answers “410 gone”, pass `version`", &words));
        assert!(contains_all_words("this is retired: pass `version`", &words));
        assert!(!contains_all_words("pass `version`", &words));
    }
}
