//! What a call has that an earlier one had not, generalised over names and values.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use super::arguments::same_command;
use super::call::Call;
use super::manner::{Manner, is_name, kind_of, pattern_of, plain, type_of};

mod commands;

/// How deep nested parameters are compared.
const DEPTH_MAX: usize = 3;
/// The longest word of a fixed choice, in characters.
const CHOICE_CHARS_MAX: usize = 24;
/// The most words of a choice.
const PHRASE_WORDS_MAX: usize = 4;
/// Parameters of which each call has its own text, so that a change of it is no manner.
const FREE_TEXT: &[&str] = &[
    "name",
    "title",
    "city",
    "text",
    "message",
    "content",
    "summary",
    "thought",
    "query",
    "question",
    "description",
    "address",
    "email",
    "comment",
    "body",
    "note",
    "user",
    "country",
    "street",
    "expression",
    "path",
    "file",
    "cwd",
    "workdir",
    "directory",
];

/// How two calls of one tool differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Difference {
    /// They are about different things, or equal: nothing follows.
    Unrelated,
    /// They differ in how the call is made.
    Manner {
        /// How the first was made.
        avoid: Manner,
        /// How the second was made.
        prefer: Manner,
    },
    /// They differ in the values of these parameters, or (empty) in the text of a command.
    Values(Vec<String>),
}

/// What stood between two calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Between {
    /// Nothing that can have changed anything: only what differs in the calls themselves can have counted.
    Nothing,
    /// Other calls.
    Others,
}

/// Compares a call with a later one of the same tool.
pub(super) fn between(first: &Call<'_>, second: &Call<'_>, stood: Between) -> Difference {
    if first.raw == second.raw {
        return Difference::Unrelated;
    }
    let named = |call: &Call<'_>| call.arguments.object().is_some();
    let (one, other) = (&first.arguments, &second.arguments);
    if let (Some(a), Some(b)) = (one.parameters_beside(other), other.parameters_beside(one))
        && ((named(first) && named(second)) || same_command(&a, &b))
    {
        return objects(&a, &b, Refused { line: first.failure().map_or("", |failure| failure.line), stood });
    }
    match (first.arguments.command(), second.arguments.command()) {
        (Some(a), Some(b)) => commands::between(a, b, first, stood),
        _ => Difference::Unrelated,
    }
}

/// One parameter that differs.
struct Changed<'a> {
    path: String,
    before: Option<&'a Value>,
    after: Option<&'a Value>,
}

/// The words of an error, and what was done before the next call.
#[derive(Clone, Copy)]
struct Refused<'a> {
    line: &'a str,
    stood: Between,
}

impl Refused<'_> {
    /// Whether it refuses a value, which has to be the one that changed: it names the value or its parameter, or the value is all
    /// that changed from one call to the next.
    fn refuses(self, path: &str, before: &str, after: &str) -> bool {
        let named = speaks_of(self.line, before) || speaks_of(self.line, after) || speaks_of(self.line, path);
        REFUSES.is_match(self.line) && (named || self.stood == Between::Nothing)
    }
}

fn objects(a: &Map<String, Value>, b: &Map<String, Value>, error: Refused<'_>) -> Difference {
    let mut changed = Vec::new();
    collect(a, b, "", 0, &mut changed);
    let tops: BTreeSet<_> = changed.iter().map(|one| one.path.split('.').next().unwrap_or("")).collect();
    let equal = a.keys().filter(|key| b.contains_key(*key) && !tops.contains(key.as_str())).count();
    if let Some((avoid, prefer)) = manners(&changed, error) {
        return Difference::Manner { avoid, prefer };
    }
    if equal == 0 || tops.len() > equal + 1 {
        return Difference::Unrelated;
    }
    Difference::Values(tops.into_iter().map(str::to_owned).collect())
}

fn collect<'a>(
    a: &'a Map<String, Value>,
    b: &'a Map<String, Value>,
    path: &str,
    depth: usize,
    out: &mut Vec<Changed<'a>>,
) {
    let keys: BTreeSet<_> = a.keys().chain(b.keys()).collect();
    for key in keys {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match (a.get(key), b.get(key)) {
            (before, after) if before == after => {}
            (Some(Value::Object(a)), Some(Value::Object(b))) if depth < DEPTH_MAX => {
                collect(a, b, &path, depth + 1, out)
            }
            (before, after) => out.push(Changed { path, before, after }),
        }
    }
}

/// The manner behind the changes, where there is exactly one: with two changes nobody knows which one counted.
fn manners(changed: &[Changed<'_>], error: Refused<'_>) -> Option<(Manner, Manner)> {
    if changed.iter().any(|one| !is_name(&one.path)) {
        return None;
    }
    match changed {
        [one] => match (one.before, one.after) {
            (None, Some(_)) => Some((Manner::Without(one.path.clone()), Manner::With(one.path.clone()))),
            (Some(_), None) => Some((Manner::With(one.path.clone()), Manner::Without(one.path.clone()))),
            (Some(before), Some(after)) => value_manners(&one.path, before, after, error),
            (None, None) => None,
        },
        [one, two] => {
            let (gone, come) = if one.after.is_none() { (one, two) } else { (two, one) };
            let renamed = gone.after.is_none() && come.before.is_none() && gone.before == come.after;
            renamed.then(|| (Manner::With(gone.path.clone()), Manner::With(come.path.clone())))
        }
        _ => None,
    }
}

fn value_manners(path: &str, before: &Value, after: &Value, error: Refused<'_>) -> Option<(Manner, Manner)> {
    let both = |make: fn(String, String) -> Manner, a: &str, b: &str| {
        Some((make(path.to_owned(), a.to_owned()), make(path.to_owned(), b.to_owned())))
    };
    if type_of(before) != type_of(after) {
        return both(Manner::Typed, type_of(before), type_of(after));
    }
    if let (Value::Bool(_), Value::Bool(_)) = (before, after) {
        return both(Manner::Value, &plain(before), &plain(after));
    }
    let (a, b) = (before.as_str()?, after.as_str()?);
    if let (Some(x), Some(y)) = (kind_of(a), kind_of(b))
        && x != y
    {
        return (speaks_of(error.line, x) || speaks_of(error.line, y)).then(|| both(Manner::Kind, x, y))?;
    }
    let last = path.rsplit(['.', '_']).next().unwrap_or(path);
    let choice = is_choice(a) && is_choice(b);
    let phrase = is_phrase(a) && is_phrase(b) && !FREE_TEXT.contains(&last) && error.refuses(path, a, b);
    if spelled_alike(a, b) {
        let (x, y) = (pattern_of(a), pattern_of(b));
        return if x != y && a.chars().any(|c| c.is_ascii_digit()) {
            both(Manner::Written, &x, &y)
        } else if choice || phrase {
            both(Manner::Value, a, b)
        } else {
            None
        };
    }
    let named = speaks_of(error.line, a) || speaks_of(error.line, b);
    let meant = choice && !FREE_TEXT.contains(&last) && (named || error.refuses(path, a, b));
    (meant || phrase).then(|| both(Manner::Value, a, b))?
}

/// Errors that refuse a value.
static REFUSES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)invalid|unknown|unsupported|not supported|not allowed|cannot|must be|one of|expected|\breject(?:s|ed)\b")
        .expect("a constant pattern")
});

/// Whether an error speaks of a word or a parameter, however it is joined: only then did a change of it count.
/// Many values can change while an error passes (a cheaper cabin fits a gift card), and few of them are the lesson.
fn speaks_of(error: &str, word: &str) -> bool {
    let plain = |text: &str| text.to_lowercase().replace(['_', '-'], " ");
    !word.is_empty() && format!(" {} ", plain(error)).contains(plain(word).as_str())
}

/// Whether two texts have the same letters and digits, in whatever order and case: one value written in two ways.
fn spelled_alike(a: &str, b: &str) -> bool {
    let sorted = |text: &str| {
        let mut chars: Vec<char> =
            text.chars().filter(|c| c.is_alphanumeric()).take(64).flat_map(char::to_lowercase).collect();
        chars.sort_unstable();
        chars
    };
    let chars = sorted(a);
    !chars.is_empty() && chars == sorted(b)
}

/// A choice of a few plain words, such as `round trip`. Prose looks the same, so that it counts only where an error refuses it.
fn is_phrase(text: &str) -> bool {
    let words = text.split(' ').count();
    let plain = text.split(' ').all(|word| !word.is_empty() && is_choice(word));
    plain && words <= PHRASE_WORDS_MAX && text.len() <= CHOICE_CHARS_MAX
}

/// A word of a fixed choice, such as `one_way`: no digits, no space, not long.
fn is_choice(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= CHOICE_CHARS_MAX
        && text.chars().all(|c| c.is_ascii_alphabetic() || c == '_' || c == '-')
        && !(text.starts_with(|c: char| c.is_ascii_uppercase())
            && text.chars().any(|c| c.is_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heuristics::outcome::{Failure, Outcome};

    fn told(a: &str, b: &str) -> String {
        told_after("invalid region or option; a gift card is not enough", Between::Others, a, b)
    }

    fn told_after(line: &str, stood: Between, a: &str, b: &str) -> String {
        let call = |raw| {
            let outcome = Outcome::Failed(Failure { line, error: line.to_owned() });
            Call { outcome, ..Call::answered("t", raw, line) }
        };
        match between(&call(a), &call(b), stood) {
            Difference::Unrelated => "unrelated".to_owned(),
            Difference::Values(keys) => format!("values {}", keys.join(" ")),
            Difference::Manner { avoid, prefer } => format!("{avoid} -> {prefer}"),
        }
    }

    #[test]
    fn the_manner_behind_a_change_is_found() {
        for (a, b, expected) in [
            (r#"{"a":1}"#, r#"{"a":1,"b":2}"#, "without `b` -> with `b`"),
            (r#"{"a":1,"b":2}"#, r#"{"a":1}"#, "with `b` -> without `b`"),
            (r#"{"a":1,"usr":7}"#, r#"{"a":1,"user":7}"#, "with `usr` -> with `user`"),
            (r#"{"n":"3"}"#, r#"{"n":3}"#, "`n` as a string -> `n` as a number"),
            (
                r#"{"d":"05/17/2024"}"#,
                r#"{"d":"2024-05-17"}"#,
                "`d` written NN/NN/YYYY -> `d` written YYYY-MM-DD",
            ),
            (r#"{"o":"W12"}"#, r##"{"o":"#W12"}"##, "`o` written a9 -> `o` written #a9"),
            (
                r#"{"p":"gift_card_1","a":1}"#,
                r#"{"p":"credit_card_22","a":1}"#,
                "`p` of kind `gift_card` -> `p` of kind `credit_card`",
            ),
            (r#"{"t":"oneway"}"#, r#"{"t":"one_way"}"#, "`t` = `oneway` -> `t` = `one_way`"),
            (r#"{"region":"eu","x":1}"#, r#"{"region":"us","x":1}"#, "`region` = `eu` -> `region` = `us`"),
            (r#"{"dry":true}"#, r#"{"dry":false}"#, "`dry` = `true` -> `dry` = `false`"),
            (
                r#"{"to":{"zip":1,"c":"x"}}"#,
                r#"{"to":{"zip":"1","c":"x"}}"#,
                "`to.zip` as a number -> `to.zip` as a string",
            ),
            (
                r#"{"command":"make"}"#,
                r#"{"command":"make","timeout":600}"#,
                "without `timeout` -> with `timeout`",
            ),
            (r#"{"cmd":"make","cwd":"a"}"#, r#"{"cmd":"make"}"#, "with `cwd` -> without `cwd`"),
            ("SELECT 1", r#"{"sql":"SELECT 1","max_bytes":9}"#, "without `max_bytes` -> with `max_bytes`"),
            (r#"{"sql":"SELECT 1","cached":true}"#, "SELECT 1", "with `cached` -> without `cached`"),
            ("tar -xzf a -c b", "tar -xzf a -C b", "`tar` with `-c` -> `tar` with `-C`"),
            ("rm a b", "rm -r a b", "`rm` without `-r` -> `rm` with `-r`"),
            ("python a.py x", "python3 a.py x", "program `python` -> program `python3`"),
            ("```ls -l /a```", "ls -l /a", "in a code block -> as a bare command"),
        ] {
            assert_eq!(told(a, b), expected, "{a} / {b}");
        }
    }

    #[test]
    fn values_of_one_run_are_no_manner() {
        for (a, b, expected) in [
            (r#"{"id":"W1","x":1}"#, r#"{"id":"W2","x":1}"#, "values id"),
            (r#"{"name":"anna","x":1}"#, r#"{"name":"bert","x":1}"#, "values name"),
            (r#"{"city":"Rome","x":1}"#, r#"{"city":"Oslo","x":1}"#, "values city"),
            (r#"{"cabin":"first","x":1}"#, r#"{"cabin":"economy","x":1}"#, "values cabin"),
            (r#"{"pay":"paypal_1","x":1}"#, r#"{"pay":"credit_card_1","x":1}"#, "values pay"),
            (r#"{"id":"W1"}"#, r#"{"id":"W2"}"#, "unrelated"),
            (r#"{"a":1,"b":2,"c":3}"#, r#"{"a":2,"b":3,"c":4}"#, "unrelated"),
            ("SELECT a FROM t", "SELECT b FROM t", "values "),
            (r#"{"command":"make a"}"#, r#"{"command":"make b","timeout":600}"#, "values "),
            (r#"{"command":"make a"}"#, r#"{"command":"make b","cwd":"c"}"#, "unrelated"),
            ("ls /a", "grep -r x . | wc", "unrelated"),
            ("ls", "ls", "unrelated"),
        ] {
            assert_eq!(told(a, b), expected, "{a} / {b}");
        }
    }

    #[test]
    fn a_value_that_an_error_refuses_is_the_manner() {
        const NAMELESS: &str = "the field rejects this";
        let format = |value| format!(r#"{{"day":"x","format":"{value}"}}"#);
        let (a, b) = (format("iso"), format("us"));
        let expected = "`format` = `iso` -> `format` = `us`";
        assert_eq!(told_after(NAMELESS, Between::Nothing, &a, &b), expected);
        assert_eq!(told_after(NAMELESS, Between::Others, &a, &b), "values format", "something else counted");
        assert_eq!(told_after("not enough money", Between::Nothing, &a, &b), "values format");
        assert_eq!(told_after("unknown format", Between::Others, &a, &b), expected);
    }

    #[test]
    fn a_choice_of_several_words_counts_where_it_is_refused() {
        let kind = |key: &str, value: &str| format!(r#"{{"{key}":"{value}","x":1}}"#);
        let told = |error, a: &str, b: &str| told_after(error, Between::Others, a, b);
        let (a, b) = (kind("trip", "one way"), kind("trip", "round trip"));
        assert_eq!(told("invalid trip", &a, &b), "`trip` = `one way` -> `trip` = `round trip`");
        assert_eq!(
            told("invalid trip", &kind("trip", "one_way"), &b),
            "`trip` = `one_way` -> `trip` = `round trip`"
        );
        assert_eq!(told("the trip is full", &a, &b), "values trip");
        assert_eq!(told("invalid user", &a, &b), "values trip");
        let prose = kind("trip", "I would like to go to Rome and to come back");
        assert_eq!(told("invalid trip", &a, &prose), "values trip");
        assert_eq!(
            told("invalid note", &kind("note", "to be read"), &kind("note", "read it")),
            "values note"
        );
    }
}
