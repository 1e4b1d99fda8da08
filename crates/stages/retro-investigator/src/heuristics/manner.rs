//! Defines manners: ways of making a call, stored as text in `LessonCue::avoid` and `LessonCue::prefer`.
//!
//! The text form of a manner is readable, is the same for equal manners, and is parsed again when a later run
//! is judged. A string that is not a known manner (an operator's own words) matches a call whose arguments
//! contain the string.

mod matching;

use std::fmt;
use std::sync::LazyLock;

use regex::Regex;
use retro_core::finding::{AS_DOCUMENTED, FORM_SEPARATOR, SAME_CALL_AGAIN};
use serde_json::{Map, Value};

use super::arguments::basename;
use super::call::Call;
use super::format::has_format;
use super::lookup;
use super::parts;
use super::prerequisite;
use matching::{has_form, has_option, is_called_in_code, is_visible_form, runs_command, runs_program};

/// Constructor of a manner from the name of a parameter or program and a detail, such as a type or an option.
type MannerConstructor = fn(String, String) -> Manner;

/// Way of making a call. The first field is the name of the parameter, program or tool; the second field is
/// the detail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Manner {
    /// The call has this parameter.
    WithParameter(String),
    /// The call does not have this parameter.
    WithoutParameter(String),
    /// The value of the parameter has this JSON type.
    Typed(String, String),
    /// The value of the parameter is written in this format, such as `YYYY-MM-DD` or `ge####`.
    Written(String, String),
    /// The value of the parameter is an ID of this kind, such as `credit_card` in `credit_card_17`.
    Kind(String, String),
    /// The value of the parameter is this word of a fixed choice.
    Value(String, String),
    /// The program is called with this option.
    WithOption(String, String),
    /// The program is called without this option.
    WithoutOption(String, String),
    /// This program is used instead of another program with the same purpose.
    Program(String),
    /// This tool is used instead of another tool.
    Tool(String),
    /// A call with this label is made first, to look something up or to prepare this call.
    CalledFirst(String),
    /// The command is sent in a code block.
    Fenced,
    /// The command is sent without a code block.
    Bare,
    /// The call is made as a statement of a tool's answer says, which no single call shows.
    AsDocumented(String),
    /// The identical call is made again.
    SameCallAgain,
    /// The identical call is made again after this pause, in words such as `about 90 seconds`.
    AfterPause(String),
    /// The value of the parameter is written in this way, in words such as `in upper case`.
    Form(String, String),
    /// An argument of the program is written in this way.
    ArgumentForm(String, String),
    /// The value of the parameter comes from the answer of a call with this label.
    From(String, String),
    /// All of these at once.
    Several(Vec<Self>),
    /// The arguments contain this string, which describes no other manner.
    Text(String),
}

impl fmt::Display for Manner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WithParameter(key) => write!(f, "with `{key}`"),
            Self::WithoutParameter(key) => write!(f, "without `{key}`"),
            Self::Typed(key, kind) => write!(f, "`{key}` as {kind}"),
            Self::Written(key, pattern) => write!(f, "`{key}` written {pattern}"),
            Self::Kind(key, kind) => write!(f, "`{key}` of kind `{kind}`"),
            Self::Value(key, value) => write!(f, "`{key}` = `{value}`"),
            Self::WithOption(program, option) => write!(f, "`{program}` with `{option}`"),
            Self::WithoutOption(program, option) => write!(f, "`{program}` without `{option}`"),
            Self::Program(program) => write!(f, "program `{program}`"),
            Self::Tool(tool) => write!(f, "tool `{tool}`"),
            Self::CalledFirst(label) => write!(f, "first `{label}`"),
            Self::Fenced => f.write_str("in a code block"),
            Self::Bare => f.write_str("as a bare command"),
            Self::AsDocumented(statement) => write!(f, "{AS_DOCUMENTED}{statement}"),
            Self::SameCallAgain => f.write_str(SAME_CALL_AGAIN),
            Self::AfterPause(words) => write!(f, "after {words}"),
            Self::Form(key, form) => write!(f, "`{key}` {form}"),
            Self::ArgumentForm(program, form) => write!(f, "`{program}`{ARGUMENT_FORM}{form}"),
            Self::From(key, label) => write!(f, "`{key}` from `{label}`"),
            Self::Several(manners) => {
                let texts: Vec<_> = manners.iter().map(Self::to_string).collect();
                f.write_str(&texts.join(FORM_SEPARATOR))
            }
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
    .expect("constant patterns compile")
});

impl Manner {
    /// Parses the text form of a manner. Any other string becomes [`Self::Text`].
    pub(super) fn parse(text: &str) -> Self {
        match text {
            "in a code block" => return Self::Fenced,
            "as a bare command" => return Self::Bare,
            SAME_CALL_AGAIN => return Self::SameCallAgain,
            _ => {}
        }
        // First: a statement may contain what separates other forms.
        if let Some(statement) = text.strip_prefix(AS_DOCUMENTED) {
            return Self::AsDocumented(statement.to_owned());
        }
        if let Some(pause) = text.strip_prefix("after ") {
            return Self::AfterPause(pause.to_owned());
        }
        if text.contains(FORM_SEPARATOR) {
            return Self::Several(text.split(FORM_SEPARATOR).map(Self::parse).collect());
        }
        let in_words = [" written with", " as named in "].iter().any(|words| text.contains(words));
        let Some(found) = FORM.captures(text).filter(|_| !in_words) else { return Self::parse_form(text) };
        let part = |name| found.name(name).map(|part| part.as_str().to_owned());
        if let (Some(word), Some(only)) = (part("word"), part("only")) {
            return match word.as_str() {
                "with" => Self::WithParameter(only),
                "without" => Self::WithoutParameter(only),
                "program" => Self::Program(only),
                "tool" => Self::Tool(only),
                _ => Self::CalledFirst(only),
            };
        }
        let key = part("key").unwrap_or_default();
        let shapes: [(&str, MannerConstructor); 6] = [
            ("type", Self::Typed),
            ("pattern", Self::Written),
            ("kind", Self::Kind),
            ("value", Self::Value),
            ("option", Self::WithOption),
            ("no_option", Self::WithoutOption),
        ];
        let read = shapes.into_iter().find_map(|(name, make)| Some(make(key.clone(), part(name)?)));
        read.unwrap_or_else(|| Self::Text(text.to_owned()))
    }

    /// Parses a form of a value in words, or any other text.
    fn parse_form(text: &str) -> Self {
        let own = |part: &str| part.to_owned();
        match text.split('`').collect::<Vec<_>>().as_slice() {
            ["", key, " from ", label, ""] => Self::From(own(key), own(label)),
            ["", program, " with ", option, " from ", _, ""] => Self::WithOption(own(program), own(option)),
            ["", program, " with ", option, named] if named.starts_with(NAMED_IN_ERROR) => {
                Self::WithOption(own(program), format!("{option} {}", quoted_value(named)))
            }
            ["", key, named] if named.starts_with(NAMED_IN_ERROR) && named.contains('“') => {
                Self::Value(own(key), quoted_value(named).to_owned())
            }
            ["", program, form @ ..]
                if form.first().is_some_and(|words| words.starts_with(ARGUMENT_FORM)) =>
            {
                let form = form.join("`");
                Self::ArgumentForm(own(program), form[ARGUMENT_FORM.len()..].to_owned())
            }
            ["", key, form @ ..] if form.first().is_some_and(|words| words.starts_with(' ')) => {
                Self::Form(own(key), form.join("`").trim().to_owned())
            }
            _ => Self::Text(own(text)),
        }
    }

    /// Returns the part of the manner that is a call of its own before the call, or another tool instead of it.
    pub(super) fn other_call(&self) -> Option<&Self> {
        match self {
            Self::CalledFirst(_) | Self::Tool(_) => Some(self),
            Self::Several(manners) => manners.iter().find_map(Self::other_call),
            _ => None,
        }
    }

    /// Returns `true` if the arguments of a call show whether it was made in this manner.
    pub(super) fn shows_in_call(&self) -> bool {
        match self {
            Self::WithParameter(_)
            | Self::WithoutParameter(_)
            | Self::Typed(..)
            | Self::Written(..)
            | Self::Kind(..)
            | Self::Value(..)
            | Self::WithOption(..)
            | Self::WithoutOption(..)
            | Self::Program(_) => true,
            Self::Form(_, form) => is_visible_form(form),
            // Some argument of a command is always without a text.
            Self::ArgumentForm(_, form) => is_visible_form(form) && !form.starts_with("not "),
            Self::Several(manners) => manners.iter().all(Self::shows_in_call),
            _ => false,
        }
    }

    /// Returns `true` if the call could be made in this manner or in its opposite, because it has the
    /// parameter or runs the program.
    pub(super) fn applies_to(&self, call: &Call<'_>) -> bool {
        match self {
            Self::Typed(key, _) | Self::Written(key, _) | Self::Kind(key, _) | Self::Value(key, _) => {
                find_parameter(call, key).is_some()
            }
            Self::WithOption(program, _)
            | Self::WithoutOption(program, _)
            | Self::ArgumentForm(program, _) => {
                is_called_in_code(call, program)
                    || parts::words_of(call).first().is_some_and(|word| basename(word) == program)
                    || call
                        .arguments
                        .as_command()
                        .is_some_and(|command| command.programs().any(|one| one == program))
            }
            Self::Form(key, _) | Self::From(key, _) => find_parameter(call, key).is_some(),
            Self::Several(manners) => manners.iter().all(|manner| manner.applies_to(call)),
            _ => true,
        }
    }

    /// Returns `true` if the call was made in this manner. Always returns `false` for
    /// [`Self::SameCallAgain`] and [`Self::AfterPause`], which a single call cannot show.
    pub(super) fn matches_call(&self, call: &Call<'_>) -> bool {
        let command = call.arguments.as_command();
        let has_value =
            |key: &str, is_so: &dyn Fn(&Value) -> bool| find_values(call, key).into_iter().any(is_so);
        let has_text = |key: &str, is_so: &dyn Fn(&str) -> bool| {
            has_value(key, &|value| value.as_str().is_some_and(is_so))
        };
        match self {
            Self::WithParameter(key) => find_parameter(call, key).is_some(),
            // Something else within a parameter may have the same name.
            Self::WithoutParameter(key) => {
                let is_given = |map: &Map<String, Value>| map.contains_key(key);
                match key.contains('.') {
                    true => find_parameter(call, key).is_none(),
                    false => !call.arguments.parameters().is_some_and(is_given),
                }
            }
            Self::Typed(key, kind) => has_value(key, &|value| json_type_name(value) == kind),
            Self::Written(key, pattern) => has_value(key, &|value| has_format(&format_value(value), pattern)),
            Self::Kind(key, kind) => has_text(key, &|text| id_kind(text) == Some(kind)),
            Self::Value(key, value) => has_value(key, &|found| format_value(found) == *value),
            Self::WithOption(program, option) => has_option(call, program, option) == Some(true),
            Self::WithoutOption(program, option) => has_option(call, program, option) == Some(false),
            Self::Program(program) => command.is_some_and(|command| runs_program(command, program)),
            Self::Tool(tool) => call.tool == tool,
            Self::CalledFirst(label) => {
                lookup::lookup_label(call).or_else(|| prerequisite::prerequisite_label(call)).as_deref()
                    == Some(label)
                    || call.tool == label
                    || runs_command(call, label)
            }
            Self::Form(key, form) => has_value(key, &|value| has_form(&format_value(value), form)),
            Self::ArgumentForm(_, form) => {
                parts::words_of(call).iter().skip(1).any(|word| has_form(word, form))
            }
            // Where the value came from does not show in the call.
            Self::From(key, _) => find_parameter(call, key).is_some(),
            Self::Several(manners) => {
                manners.iter().filter(|one| one.other_call().is_none()).all(|one| one.matches_call(call))
            }
            Self::Fenced => command.is_some_and(|command| command.fenced),
            Self::Bare => command.is_some_and(|command| !command.fenced),
            Self::SameCallAgain | Self::AfterPause(_) | Self::AsDocumented(_) => false,
            Self::Text(text) => !text.is_empty() && call.raw.to_lowercase().contains(&text.to_lowercase()),
        }
    }
}

/// Words before a value that the error names, and before the form of an argument.
const NAMED_IN_ERROR: &str = " as named in the error";
const ARGUMENT_FORM: &str = " with an argument ";

/// Returns the value that stands in quotation marks; empty if there is none.
fn quoted_value(text: &str) -> &str {
    let quoted = text.split_once('“').and_then(|(_, rest)| rest.split_once('”'));
    quoted.map_or("", |(value, _)| value)
}

/// Maximum length, in characters, of a tool, parameter or program name in a lesson.
const NAME_CHARS_MAX: usize = 80;

/// Returns `true` if a string is a plain name. Other characters, such as a backtick, could end the code span
/// that contains the name in a lesson.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().count() <= NAME_CHARS_MAX
        // An address is no choice of a tool, and whoever wrote it could be reached through it.
        && !text.contains("://")
        && text.chars().all(|c| c.is_alphanumeric() || "_.-/:+ ".contains(c))
}

/// Returns the value of a parameter by its dotted path, such as `address.zip`. Of a list, the first item that has the
/// rest of the path counts.
fn find_parameter<'a>(call: &'a Call<'_>, path: &str) -> Option<&'a Value> {
    find_values(call, path).into_iter().next()
}

/// Returns all values at the dotted path of a parameter: more than one if it leads through a list. A path of one part may
/// also be the end of a long path.
fn find_values<'a>(call: &'a Call<'_>, path: &str) -> Vec<&'a Value> {
    let mut found = Vec::new();
    let Some(object) = call.arguments.parameters() else { return found };
    match path.split_once('.') {
        Some((first, rest)) => {
            object.get(first).into_iter().for_each(|value| collect_at(value, rest, &mut found));
        }
        None => match object.get(path) {
            Some(value) => found.push(value),
            None => object.values().for_each(|value| collect_below(value, path, 0, &mut found)),
        },
    }
    found
}

fn collect_at<'a>(value: &'a Value, path: &str, found: &mut Vec<&'a Value>) {
    if let Value::Array(items) = value {
        return items.iter().for_each(|item| collect_at(item, path, found));
    }
    match path.split_once('.') {
        Some((first, rest)) => value.get(first).into_iter().for_each(|value| collect_at(value, rest, found)),
        None => found.extend(value.get(path)),
    }
}

/// Collects the values of this name within a value.
fn collect_below<'a>(value: &'a Value, name: &str, depth: usize, found: &mut Vec<&'a Value>) {
    match value {
        _ if depth > parts::NESTING_MAX => {}
        Value::Object(map) => {
            found.extend(map.get(name));
            map.values().for_each(|inner| collect_below(inner, name, depth + 1, found));
        }
        Value::Array(items) => items.iter().for_each(|inner| collect_below(inner, name, depth + 1, found)),
        _ => {}
    }
}

/// Formats a parameter value for a lesson: a string without quotes, any other value as JSON.
pub(super) fn format_value(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the name of a value's JSON type in plain English.
pub(super) const fn json_type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Returns the kind of an ID: the words before its digits, such as `credit_card` in `credit_card_2198526`.
pub(super) fn id_kind(text: &str) -> Option<&str> {
    let (kind, digits) = text.rsplit_once(['_', '-'])?;
    let named = kind.starts_with(|c: char| c.is_ascii_lowercase())
        && kind.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c == '-');
    let numbered = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit());
    (named && numbered).then_some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(text: &str, tool: &str, raw: &str) -> bool {
        let call = Call::with_answer(tool, raw, "");
        let manner = Manner::parse(text);
        assert_eq!(manner.to_string(), text, "the text form of a manner parses back to itself");
        manner.matches_call(&call)
    }

    #[test]
    fn manners_match_calls() {
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
        for (text, raw, follows) in [
            ("`no` written with 8 digits", r#"{"no":"00012345"}"#, true),
            ("`no` written with 8 digits", r#"{"no":"12345"}"#, false),
            ("`no` written without separators", r#"{"no":"12345"}"#, true),
            ("`no` written without separators", r#"{"no":"12 345"}"#, false),
            ("`at` written YYYY-DDD", r#"{"at":"2026-073"}"#, true),
            ("`at` written YYYY-DDD", r#"{"at":"2026-03-14"}"#, false),
            ("`at` written Unix seconds", r#"{"at":1773469200}"#, true),
            ("`ref` written CR-####", r#"{"ref":"CR-1882"}"#, true),
            ("`ref` written CR-####", r#"{"ref":"1882"}"#, false),
            ("`night` with an argument written YYYYMMDD", "night --on 20260314", true),
            ("`night` with an argument written YYYYMMDD", "night --on 2026-03-14", false),
            ("`zone` in upper case", r#"{"zone":"EU"}"#, true),
            ("`zone` in upper case", r#"{"zone":"eu"}"#, false),
            ("`id` beginning with `#`", r##"{"id":"#7"}"##, true),
            ("`id` not beginning with `#`", r##"{"id":"#7"}"##, false),
            ("`id` as named in the error", r#"{"id":"x"}"#, true),
            ("`id` as named in the error", r#"{"no":"x"}"#, false),
            ("`node` from `get_leader`", r#"{"node":"db-1"}"#, true),
            ("`a` = `1`; with `b`", r#"{"a":1,"b":2}"#, true),
            ("`a` = `1`; with `b`", r#"{"a":1}"#, false),
            ("`lines.tax` = `x`", r#"{"lines":[{"tax":"y"},{"tax":"x"}]}"#, true),
            ("`lines.tax` = `x`", r#"{"lines":[{"tax":"y"}]}"#, false),
            ("`mask` = `x`", r#"{"ip":{"primary":{"mask":"x"}}}"#, true),
            ("without `mask`", r#"{"ip":{"primary":{"mask":"x"}}}"#, true),
            ("`tar` with `-f a.tar`", "tar -x -f a.tar", true),
            ("`tar` with `-f a.tar`", "tar -x -f b.tar", false),
            ("`tar` with `-f`", r#"{"argv":["tar","-x","-f","a"]}"#, true),
            ("first `terraform init -input=false`", "terraform -chdir=a init -input=false", true),
            ("first `terraform init -input=false`", "terraform plan && terraform init", false),
            ("first `pip install`", "pip install -r requirements.txt && pytest -q", true),
        ] {
            assert_eq!(holds(text, "t", raw), follows, "{text}: {raw}");
        }
        assert!(holds("tool `b`", "b", "{}") && !holds("tool `b`", "a", "{}"));
    }
}
