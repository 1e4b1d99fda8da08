//! Manners: ways in which a call can be made, as they stand in `Cue::avoid` and `Cue::prefer`.
//!
//! A manner has a text form that a person can read, that is equal for equal manners, and that is read back when a
//! later run is judged: "was the call made like this?" A text that is none of these (a person's own words) holds
//! when the arguments contain it.

use std::fmt;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::arguments::Command;
use super::call::Call;
use super::lookup;
use super::prerequisite;

/// Makes the manner of a parameter or a program from its name and what is said of it.
type OfKey = fn(String, String) -> Manner;

/// One way of making a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Manner {
    /// With a parameter.
    With(String),
    /// Without a parameter.
    Without(String),
    /// A parameter of this JSON type.
    Typed(String, String),
    /// A parameter written in this pattern.
    Written(String, String),
    /// A parameter naming a thing of this kind, such as `credit_card` of `credit_card_17`.
    Kind(String, String),
    /// A parameter with this word of a fixed choice.
    Value(String, String),
    /// A program with an option.
    Option(String, String),
    /// A program without an option.
    NoOption(String, String),
    /// This program of several that do the same.
    Program(String),
    /// Another tool.
    Tool(String),
    /// Another call before: looking something up, or what the call needs done.
    First(String),
    /// In the marks of a code block.
    Fenced,
    /// As a bare command.
    Bare,
    /// The same call once more.
    Again,
    /// Anything else: the arguments contain it.
    Text(String),
}

impl fmt::Display for Manner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::With(key) => write!(f, "with `{key}`"),
            Self::Without(key) => write!(f, "without `{key}`"),
            Self::Typed(key, kind) => write!(f, "`{key}` as {kind}"),
            Self::Written(key, pattern) => write!(f, "`{key}` written {pattern}"),
            Self::Kind(key, kind) => write!(f, "`{key}` of kind `{kind}`"),
            Self::Value(key, value) => write!(f, "`{key}` = `{value}`"),
            Self::Option(program, option) => write!(f, "`{program}` with `{option}`"),
            Self::NoOption(program, option) => write!(f, "`{program}` without `{option}`"),
            Self::Program(program) => write!(f, "program `{program}`"),
            Self::Tool(tool) => write!(f, "tool `{tool}`"),
            Self::First(label) => write!(f, "first `{label}`"),
            Self::Fenced => f.write_str("in a code block"),
            Self::Bare => f.write_str("as a bare command"),
            Self::Again => f.write_str("the same call again"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

static FORM: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"^(?:(?P<word>with|without|program|tool|first) `(?P<only>[^`]+)`|",
        r"`(?P<key>[^`]+)` (?:as (?P<type>.+)|written (?P<pattern>.+)|of kind `(?P<kind>[^`]+)`|= `(?P<value>[^`]+)`|",
        r"with `(?P<option>[^`]+)`|without `(?P<no_option>[^`]+)`))$"
    ))
    .expect("a constant pattern")
});

impl Manner {
    /// Reads a manner back from its text.
    pub(super) fn read(text: &str) -> Self {
        match text {
            "in a code block" => return Self::Fenced,
            "as a bare command" => return Self::Bare,
            "the same call again" => return Self::Again,
            _ => {}
        }
        let Some(found) = FORM.captures(text) else { return Self::Text(text.to_owned()) };
        let part = |name| found.name(name).map(|part| part.as_str().to_owned());
        if let (Some(word), Some(only)) = (part("word"), part("only")) {
            return match word.as_str() {
                "with" => Self::With(only),
                "without" => Self::Without(only),
                "program" => Self::Program(only),
                "tool" => Self::Tool(only),
                _ => Self::First(only),
            };
        }
        let key = part("key").unwrap_or_default();
        let shapes: [(&str, OfKey); 6] = [
            ("type", Self::Typed),
            ("pattern", Self::Written),
            ("kind", Self::Kind),
            ("value", Self::Value),
            ("option", Self::Option),
            ("no_option", Self::NoOption),
        ];
        let read = shapes.into_iter().find_map(|(name, make)| Some(make(key.clone(), part(name)?)));
        read.unwrap_or_else(|| Self::Text(text.to_owned()))
    }

    /// Whether the call could be made in this manner or its opposite at all: it has the parameter or the program.
    pub(super) fn concerns(&self, call: &Call<'_>) -> bool {
        match self {
            Self::Typed(key, _) | Self::Written(key, _) | Self::Kind(key, _) | Self::Value(key, _) => {
                parameter(call, key).is_some()
            }
            Self::Option(program, _) | Self::NoOption(program, _) => {
                call.arguments.command().is_some_and(|command| command.programs().any(|one| one == program))
            }
            _ => true,
        }
    }

    /// Whether the call was made in this manner. Never for what shows only between calls.
    pub(super) fn holds(&self, call: &Call<'_>) -> bool {
        let command = call.arguments.command();
        let text_of = |key: &str| parameter(call, key).and_then(Value::as_str);
        match self {
            Self::With(key) => parameter(call, key).is_some(),
            Self::Without(key) => parameter(call, key).is_none(),
            Self::Typed(key, kind) => parameter(call, key).is_some_and(|value| type_of(value) == kind),
            Self::Written(key, pattern) => text_of(key).is_some_and(|text| pattern_of(text) == *pattern),
            Self::Kind(key, kind) => text_of(key).and_then(kind_of) == Some(kind),
            Self::Value(key, value) => parameter(call, key).is_some_and(|found| plain(found) == *value),
            Self::Option(program, option) => has_option(call, program, option) == Some(true),
            Self::NoOption(program, option) => has_option(call, program, option) == Some(false),
            Self::Program(program) => command.is_some_and(|command| runs(command, program)),
            Self::Tool(tool) => call.tool == tool,
            Self::First(label) => {
                lookup::label(call).or_else(|| prerequisite::label(call)).as_deref() == Some(label)
            }
            Self::Fenced => command.is_some_and(|command| command.fenced),
            Self::Bare => command.is_some_and(|command| !command.fenced),
            Self::Again => false,
            Self::Text(text) => !text.is_empty() && call.raw.to_lowercase().contains(&text.to_lowercase()),
        }
    }
}

/// The longest name of a tool, a parameter or a program that may stand in a lesson, in characters.
const NAME_CHARS_MAX: usize = 80;

/// Whether a text is a plain name: what holds other marks could end its place in a sentence.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().count() <= NAME_CHARS_MAX
        && text.chars().all(|c| c.is_alphanumeric() || "_.-/:+ ".contains(c))
}

/// The value of a parameter by its path, such as `address.zip`.
fn parameter<'a>(call: &'a Call<'_>, path: &str) -> Option<&'a Value> {
    let object = call.arguments.parameters()?;
    let mut parts = path.split('.');
    let first = object.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.get(part))
}

/// Whether a command runs a program, or one of several things that a program does: `helm upgrade`.
fn runs(command: &Command, program: &str) -> bool {
    let (program, does) = program.split_once(' ').map_or((program, None), |(one, does)| (one, Some(does)));
    command.programs().any(|one| one == program)
        && does.is_none_or(|does| command.words_of(program).first().is_some_and(|word| word == does))
}

fn has_option(call: &Call<'_>, program: &str, option: &str) -> Option<bool> {
    let command = call.arguments.command()?;
    let mut words = command.words_of(program).iter().chain(command.set_for(program));
    command.programs().any(|one| one == program).then(|| words.any(|word| word == option))
}

/// A value as a lesson names it: a word, `true`, `false`.
pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The JSON type of a value in a person's words.
pub(super) const fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The kind in an id such as `credit_card_2198526`: the words before its digits.
pub(super) fn kind_of(text: &str) -> Option<&str> {
    let (kind, digits) = text.rsplit_once(['_', '-'])?;
    let named = kind.starts_with(|c: char| c.is_ascii_lowercase())
        && kind.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c == '-');
    let numbered = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit());
    (named && numbered).then_some(kind)
}

/// How a value is written, without the value: dates by their fields, else digits as `9` and letters as `a`.
pub(super) fn pattern_of(text: &str) -> String {
    static DATES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        [
            (r"^\d{4}-\d{2}-\d{2}$", "YYYY-MM-DD"),
            (
                r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?$",
                "YYYY-MM-DDThh:mm:ss",
            ),
            (r"^\d{1,2}/\d{1,2}/\d{4}$", "NN/NN/YYYY"),
            (r"^\d{1,2}\.\d{1,2}\.\d{4}$", "DD.MM.YYYY"),
        ]
        .into_iter()
        .map(|(pattern, name)| (Regex::new(pattern).expect("a constant pattern"), name))
        .collect()
    });
    if let Some((_, name)) = DATES.iter().find(|(pattern, _)| pattern.is_match(text)) {
        return (*name).to_owned();
    }
    let mut out = String::new();
    for c in text.chars().take(40) {
        let class = if c.is_numeric() {
            '9'
        } else if c.is_alphabetic() {
            'a'
        } else {
            c
        };
        if !(class.is_alphanumeric() && out.ends_with(class)) {
            out.push(class);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(text: &str, tool: &str, raw: &str) -> bool {
        let call = Call::answered(tool, raw, "");
        let manner = Manner::read(text);
        assert_eq!(manner.to_string(), text, "a manner is read back as it was written");
        manner.holds(&call)
    }

    #[test]
    fn manners_are_seen_in_calls() {
        for (text, raw) in [
            ("with `seat`", r#"{"seat":1}"#),
            ("without `seat`", r#"{"row":1}"#),
            ("`row` as a number", r#"{"row":1}"#),
            ("`day` written YYYY-MM-DD", r#"{"day":"2024-05-01"}"#),
            ("`order` written #a9", r##"{"order":"#W123"}"##),
            ("`pay` of kind `credit_card`", r#"{"pay":"credit_card_17"}"#),
            ("`cabin` = `business`", r#"{"cabin":"business"}"#),
            ("`to.zip` as a string", r#"{"to":{"zip":"123"}}"#),
            ("`tar` with `-C`", "tar -xzf a -C b"),
            ("`tar` without `-c`", "tar -xzf a -C b"),
            ("program `python3`", "cd x && python3 y"),
            ("program `helm upgrade`", "helm upgrade x charts/x"),
            ("`pytest` with `PYTHONPATH=src`", "cd x && PYTHONPATH=src pytest -q"),
            ("first `ls`", "ls x"),
            ("first `npm install`", "npm install --silent"),
            ("in a code block", "```ls```"),
            ("as a bare command", "ls"),
            ("business", r#"{"cabin":"Business"}"#),
        ] {
            assert!(holds(text, "t", raw), "{text}: {raw}");
        }
        for (text, raw) in [
            ("with `seat`", r#"{"row":1}"#),
            ("`row` as a number", r#"{"row":"1"}"#),
            ("`pay` of kind `credit_card`", r#"{"pay":"gift_card_17"}"#),
            ("`tar` without `-c`", "ls"),
            ("`tar` with `-C`", "tar -c a | ls -C"),
            ("program `helm upgrade`", "helm install upgrade"),
            ("`pytest` with `PYTHONPATH=src`", "PYTHONPATH=src ls && pytest"),
            ("the same call again", "ls"),
        ] {
            assert!(!holds(text, "t", raw), "{text}: {raw}");
        }
        assert!(holds("tool `b`", "b", "{}") && !holds("tool `b`", "a", "{}"));
    }
}
