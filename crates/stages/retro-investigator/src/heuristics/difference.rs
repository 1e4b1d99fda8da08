//! Compares two calls of a tool and reduces their difference to a manner that holds for other names and
//! values.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use retro_gate::is_plain_name;
use serde_json::{Map, Value};

use super::arguments::same_command;
use super::call::Call;
use super::format::value_pattern;
use super::manner::{Manner, format_value, id_kind, json_type_name};

mod commands;

/// Maximum nesting depth to which parameters are compared.
const DEPTH_MAX: usize = 3;
/// Maximum length of a fixed choice, such as `one_way`, in characters.
const CHOICE_CHARS_MAX: usize = 24;
/// Maximum number of words in a choice, such as `round trip`.
const PHRASE_WORDS_MAX: usize = 4;
/// Names of parameters that contain free text. Free text differs in every call, so changing it is not a
/// manner.
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

/// Difference between two calls of one tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Difference {
    /// The calls are identical or have too little in common, so nothing can be learned from them.
    Unrelated,
    /// The calls differ in one manner.
    Manner {
        /// Manner of the first call.
        avoid: Manner,
        /// Manner of the second call.
        prefer: Manner,
    },
    /// The calls differ in the values of these parameters; if the list is empty, in the text of a command.
    Values(Vec<String>),
}

/// Effect of the calls between two compared calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InterveningCalls {
    /// No call in between can have changed anything, so the difference between the two calls must be the
    /// cause.
    Harmless,
    /// Calls in between may have changed something, so one of them may be the cause.
    Others,
}

/// Compares a call with a later call of the same tool.
pub(super) fn compare_calls(
    first: &Call<'_>,
    second: &Call<'_>,
    calls_between: InterveningCalls,
) -> Difference {
    if first.raw == second.raw {
        return Difference::Unrelated;
    }
    let named = |call: &Call<'_>| call.arguments.as_object().is_some();
    let (one, other) = (&first.arguments, &second.arguments);
    if let (Some(a), Some(b)) = (one.parameters_named_by(other), other.parameters_named_by(one))
        && ((named(first) && named(second)) || same_command(&a, &b))
    {
        return compare_objects(
            &a,
            &b,
            RefusalContext {
                line: first.failure().map_or("", |failure| failure.line),
                intervening: calls_between,
            },
        );
    }
    match (first.arguments.as_command(), second.arguments.as_command()) {
        (Some(a), Some(b)) => commands::compare_commands(a, b, first, calls_between),
        _ => Difference::Unrelated,
    }
}

/// Parameter whose value differs between two calls; `None` if the call lacks the parameter.
struct ChangedParameter<'a> {
    path: String,
    before: Option<&'a Value>,
    after: Option<&'a Value>,
}

/// Line that reports an error, and the effect of the calls between the failing call and the next attempt.
#[derive(Clone, Copy)]
struct RefusalContext<'a> {
    line: &'a str,
    intervening: InterveningCalls,
}

impl RefusalContext<'_> {
    /// Returns `true` if the error refuses the value that changed: it mentions the value or its parameter, or
    /// no other call can be the cause.
    fn refuses_value(self, path: &str, before: &str, after: &str) -> bool {
        let named = mentions_word(self.line, before)
            || mentions_word(self.line, after)
            || mentions_word(self.line, path);
        REFUSES.is_match(self.line) && (named || self.intervening == InterveningCalls::Harmless)
    }
}

fn compare_objects(a: &Map<String, Value>, b: &Map<String, Value>, error: RefusalContext<'_>) -> Difference {
    let mut changed = Vec::new();
    collect_changes(a, b, "", 0, &mut changed);
    let tops: BTreeSet<_> = changed.iter().map(|one| one.path.split('.').next().unwrap_or("")).collect();
    let equal = a.keys().filter(|key| b.contains_key(*key) && !tops.contains(key.as_str())).count();
    if let Some((avoid, prefer)) = find_manners(&changed, error) {
        return Difference::Manner { avoid, prefer };
    }
    if equal == 0 || tops.len() > equal + 1 {
        return Difference::Unrelated;
    }
    // A lesson names these parameters.
    if !tops.iter().all(|key| is_plain_name(key)) {
        return Difference::Unrelated;
    }
    Difference::Values(tops.into_iter().map(str::to_owned).collect())
}

fn collect_changes<'a>(
    a: &'a Map<String, Value>,
    b: &'a Map<String, Value>,
    path: &str,
    depth: usize,
    out: &mut Vec<ChangedParameter<'a>>,
) {
    let keys: BTreeSet<_> = a.keys().chain(b.keys()).collect();
    for key in keys {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match (a.get(key), b.get(key)) {
            (before, after) if before == after => {}
            (Some(Value::Object(a)), Some(Value::Object(b))) if depth < DEPTH_MAX => {
                collect_changes(a, b, &path, depth + 1, out)
            }
            (before, after) => out.push(ChangedParameter { path, before, after }),
        }
    }
}

/// Returns the manners of the first and the second call if the calls differ in exactly one manner. With two
/// changes, it is unknown which one mattered.
fn find_manners(changed: &[ChangedParameter<'_>], error: RefusalContext<'_>) -> Option<(Manner, Manner)> {
    if changed.iter().any(|one| !is_plain_name(&one.path)) {
        return None;
    }
    match changed {
        [one] => match (one.before, one.after) {
            (None, Some(_)) => {
                Some((Manner::WithoutParameter(one.path.clone()), Manner::WithParameter(one.path.clone())))
            }
            (Some(_), None) => {
                Some((Manner::WithParameter(one.path.clone()), Manner::WithoutParameter(one.path.clone())))
            }
            (Some(before), Some(after)) => find_value_manners(&one.path, before, after, error),
            (None, None) => None,
        },
        [one, two] => {
            let (removed, added) = if one.after.is_none() { (one, two) } else { (two, one) };
            let renamed = removed.after.is_none() && added.before.is_none() && removed.before == added.after;
            renamed.then(|| {
                (Manner::WithParameter(removed.path.clone()), Manner::WithParameter(added.path.clone()))
            })
        }
        _ => None,
    }
}

fn find_value_manners(
    path: &str,
    before: &Value,
    after: &Value,
    error: RefusalContext<'_>,
) -> Option<(Manner, Manner)> {
    let both = |make: fn(String, String) -> Manner, a: &str, b: &str| {
        Some((make(path.to_owned(), a.to_owned()), make(path.to_owned(), b.to_owned())))
    };
    if json_type_name(before) != json_type_name(after) {
        return both(Manner::Typed, json_type_name(before), json_type_name(after));
    }
    if let (Value::Bool(_), Value::Bool(_)) = (before, after) {
        return both(Manner::Value, &format_value(before), &format_value(after));
    }
    let (a, b) = (before.as_str()?, after.as_str()?);
    if let (Some(x), Some(y)) = (id_kind(a), id_kind(b))
        && x != y
    {
        return (mentions_word(error.line, x) || mentions_word(error.line, y))
            .then(|| both(Manner::Kind, x, y))?;
    }
    let last = path.rsplit(['.', '_']).next().unwrap_or(path);
    let choice = is_choice(a) && is_choice(b);
    let phrase =
        is_phrase(a) && is_phrase(b) && !FREE_TEXT.contains(&last) && error.refuses_value(path, a, b);
    if spelled_alike(a, b) {
        let (x, y) = (value_pattern(a), value_pattern(b));
        return if x != y && a.chars().any(|c| c.is_ascii_digit()) {
            both(Manner::Written, &x, &y)
        } else if choice || phrase {
            both(Manner::Value, a, b)
        } else {
            None
        };
    }
    let named = mentions_word(error.line, a) || mentions_word(error.line, b);
    let is_named_choice = choice && !FREE_TEXT.contains(&last) && (named || error.refuses_value(path, a, b));
    (is_named_choice || phrase).then(|| both(Manner::Value, a, b))?
}

/// Matches the words with which an error refuses a value.
static REFUSES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)invalid|unknown|unsupported|not supported|not allowed|cannot|must be|one of|expected|\breject(?:s|ed)\b")
        .expect("constant patterns compile")
});

/// Returns `true` if an error mentions a word or parameter name, however its parts are joined. A value may
/// change for reasons other than the error (a cheaper cabin is covered by a gift card), so a change counts
/// only if the error mentions it.
fn mentions_word(error: &str, word: &str) -> bool {
    let plain = |text: &str| text.to_lowercase().replace(['_', '-'], " ");
    !word.is_empty() && format!(" {} ", plain(error)).contains(plain(word).as_str())
}

/// Returns `true` if two strings have the same letters and digits in any order and case, so they are one
/// value written in two ways.
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

/// Returns `true` if a string is a choice of a few plain words, such as `round trip`. Prose looks the same,
/// so such a string counts only if an error refuses it.
fn is_phrase(text: &str) -> bool {
    let words = text.split(' ').count();
    let plain = text.split(' ').all(|word| !word.is_empty() && is_choice(word));
    plain && words <= PHRASE_WORDS_MAX && text.len() <= CHOICE_CHARS_MAX
}

/// Returns `true` if a string is a word of a fixed choice, such as `one_way`: short, without digits or
/// spaces, and not capitalised like a name.
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
    use crate::heuristics::outcome::{CallFailure, CallOutcome};

    fn compare(a: &str, b: &str) -> String {
        compare_after("invalid region or option; a gift card is not enough", InterveningCalls::Others, a, b)
    }

    fn compare_after(line: &str, intervening: InterveningCalls, a: &str, b: &str) -> String {
        let call = |raw| {
            let outcome = CallOutcome::Failed(CallFailure { line, error: line.to_owned() });
            Call { outcome, ..Call::with_answer("t", raw, line) }
        };
        match compare_calls(&call(a), &call(b), intervening) {
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
            assert_eq!(compare(a, b), expected, "{a} / {b}");
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
            assert_eq!(compare(a, b), expected, "{a} / {b}");
        }
    }

    #[test]
    fn a_value_that_an_error_refuses_is_the_manner() {
        const NAMELESS: &str = "the field rejects this";
        let format = |value| format!(r#"{{"day":"x","format":"{value}"}}"#);
        let (a, b) = (format("iso"), format("us"));
        let expected = "`format` = `iso` -> `format` = `us`";
        assert_eq!(compare_after(NAMELESS, InterveningCalls::Harmless, &a, &b), expected);
        assert_eq!(
            compare_after(NAMELESS, InterveningCalls::Others, &a, &b),
            "values format",
            "another call may be the cause"
        );
        assert_eq!(compare_after("not enough money", InterveningCalls::Harmless, &a, &b), "values format");
        assert_eq!(compare_after("unknown format", InterveningCalls::Others, &a, &b), expected);
    }

    #[test]
    fn a_choice_of_several_words_counts_only_when_refused() {
        let kind = |key: &str, value: &str| format!(r#"{{"{key}":"{value}","x":1}}"#);
        let compare = |error, a: &str, b: &str| compare_after(error, InterveningCalls::Others, a, b);
        let (a, b) = (kind("trip", "one way"), kind("trip", "round trip"));
        assert_eq!(compare("invalid trip", &a, &b), "`trip` = `one way` -> `trip` = `round trip`");
        assert_eq!(
            compare("invalid trip", &kind("trip", "one_way"), &b),
            "`trip` = `one_way` -> `trip` = `round trip`"
        );
        assert_eq!(compare("the trip is full", &a, &b), "values trip");
        assert_eq!(compare("invalid user", &a, &b), "values trip");
        let prose = kind("trip", "I would like to go to Rome and to come back");
        assert_eq!(compare("invalid trip", &a, &prose), "values trip");
        assert_eq!(
            compare("invalid note", &kind("note", "to be read"), &kind("note", "read it")),
            "values note"
        );
    }
}
