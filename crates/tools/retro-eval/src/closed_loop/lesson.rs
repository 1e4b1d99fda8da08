//! The lesson of a memory, as the public interface shows it: its line, its content, and the structure of its cue.

use serde_json::Value;

use crate::closed_loop::instance::string_or_empty;

/// Lesson of a memory. The structure is empty if the memory is only text.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Lesson {
    /// One-line text that stands in an agent's prompt.
    pub(crate) line: String,
    /// Text that an agent gets when it opens the memory.
    pub(crate) content: String,
    /// Tool that the lesson is about.
    pub(crate) tool: Option<String>,
    /// Error that the lesson is about.
    pub(crate) error: Option<String>,
    /// What the lesson tells the agent not to do.
    pub(crate) avoid: Vec<Element>,
    /// What the lesson tells the agent to do.
    pub(crate) prefer: Vec<Element>,
}

/// Part of a call that a lesson prefers or avoids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Element {
    /// The call has this parameter, named by its dotted path or by its last part.
    Parameter(String),
    /// The call does not have this parameter.
    NoParameter(String),
    /// The parameter has this value.
    Value(String, String),
    /// The parameter is written in another form, such as `as a number`.
    Form(String, String),
    /// The value of the parameter is taken from the answer of a call with this name.
    Origin(String, String),
    /// The command has this option.
    Option(String),
    /// The command has this option with this value.
    OptionValue(String, String),
    /// The command does not have this option.
    NoOption(String),
    /// The command runs this program, perhaps with a subcommand.
    Program(String),
    /// This tool is called instead.
    Tool(String),
    /// A call with this name or command is made first.
    First(String),
    /// The same call is made again.
    SameCall,
    /// The same call is made again after a while.
    Pause,
    /// An argument of the program is written in another form, such as ``beginning with `chr` ``.
    ArgumentForm(String, String),
    /// An argument of the program is taken from the answer of a call with this name.
    ArgumentOrigin(String, String),
    /// The arguments contain this text.
    Text(String),
}

impl Lesson {
    /// Reads the lesson from the JSON of a memory or a proposal. Fields that are missing stay empty.
    pub(crate) fn from_json(lesson: &Value) -> Self {
        let cue = &lesson["cue"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let mut prefer = read_elements(&cue["prefer"]);
        prefer.extend(read_elements(&cue["added"]));
        if cue["parameter"].is_string() {
            prefer.extend(read_elements(cue));
        }
        let mut avoid = read_elements(&cue["avoid"]);
        avoid.extend(read_elements(&cue["removed"]));
        Self {
            line: string_or_empty(&lesson["title"]),
            content: string_or_empty(&lesson["content"]),
            tool: text(&cue["tool"]),
            error: text(&cue["error"]),
            avoid,
            prefer,
        }
    }

    /// Creates a lesson that is only a line.
    pub(crate) fn from_line(line: &str) -> Self {
        Self { line: line.to_owned(), ..Self::default() }
    }
}

/// Reads an element, or a list of elements. An element is a text such as ``with `region` ``, or an object
/// with `parameter` or `option` and perhaps `value`, with `tool` or `first`.
fn read_elements(value: &Value) -> Vec<Element> {
    match value {
        // A remedy of several parts is a list in one text.
        Value::String(text) => text.split("; ").map(Element::parse).collect(),
        Value::Array(items) => items.iter().flat_map(read_elements).collect(),
        Value::Object(map) => {
            let text = |key: &str| map.get(key).and_then(Value::as_str).map(str::to_owned);
            let parameter = text("parameter").map(|name| match map.get("value") {
                None | Some(Value::Null) => Element::Parameter(name),
                Some(value) => Element::Value(name, format_value(value)),
            });
            let option = text("option").map(|name| match map.get("value") {
                None | Some(Value::Null) => Element::Option(name),
                Some(value) => Element::OptionValue(name, format_value(value)),
            });
            let named = [
                parameter,
                option,
                // The tool beside a parameter is the one that has the parameter, not another one.
                text("tool").filter(|_| !map.contains_key("parameter")).map(Element::Tool),
                text("first").map(Element::First),
            ];
            named.into_iter().flatten().collect()
        }
        _ => Vec::new(),
    }
}

impl Element {
    /// Returns the element that says the opposite, or `None` if there is none.
    pub(crate) fn opposite(&self) -> Option<Self> {
        Some(match self.clone() {
            Self::Parameter(name) => Self::NoParameter(name),
            Self::NoParameter(name) => Self::Parameter(name),
            Self::Option(option) => Self::NoOption(option),
            Self::NoOption(option) => Self::Option(option),
            _ => return None,
        })
    }

    /// Parses the text form of an element. Any other text becomes [`Self::Text`].
    pub(crate) fn parse(text: &str) -> Self {
        let parts: Vec<&str> = text.split('`').collect();
        let own = |part: &str| part.to_owned();
        match parts.as_slice() {
            ["with ", name, ""] => Self::Parameter(own(name)),
            ["without ", name, ""] => Self::NoParameter(own(name)),
            ["program ", name, ""] => Self::Program(own(name)),
            ["tool ", name, ""] => Self::Tool(own(name)),
            ["first ", name, ""] => Self::First(own(name)),
            ["", name, " = ", value, ""] => Self::Value(own(name), own(value)),
            ["", name, " from ", source, ""] => Self::Origin(own(name), own(source)),
            ["", _, " with ", option, ""] => match option.split_once(' ') {
                Some((option, value)) if option.starts_with('-') => {
                    Self::OptionValue(own(option), own(value))
                }
                _ => Self::Option(own(option)),
            },
            ["", _, " without ", option, ""] => Self::NoOption(own(option)),
            ["", program, " with a value from ", source, ""] => {
                Self::ArgumentOrigin(own(program), own(source))
            }
            ["", program, " with ", _, " from ", source, ""] => {
                Self::ArgumentOrigin(own(program), own(source))
            }
            ["", _, " with ", option, named] if named.starts_with(NAMED_IN_ERROR) => {
                Self::OptionValue(own(option), own(quoted_value(named)))
            }
            ["", name, named] if named.starts_with(NAMED_IN_ERROR) && named.contains('“') => {
                Self::Value(own(name), own(quoted_value(named)))
            }
            ["", name, form, rest @ ..] if form.starts_with(' ') => {
                let form = std::iter::once(*form).chain(rest.iter().copied()).collect::<Vec<_>>().join("`");
                match form.strip_prefix(" with an argument ") {
                    Some(form) => Self::ArgumentForm(own(name), own(form)),
                    None => Self::Form(own(name), own(form.trim())),
                }
            }
            _ if text == "the same call again" => Self::SameCall,
            _ if text.starts_with("after about ") || text == "after a pause" => Self::Pause,
            _ => Self::Text(own(text)),
        }
    }
}

/// Words before a value that the error names.
const NAMED_IN_ERROR: &str = " as named in the error";

/// Returns the value that stands in quotation marks; empty if there is none.
fn quoted_value(text: &str) -> &str {
    let quoted = text.split_once('“').and_then(|(_, rest)| rest.split_once('”'));
    quoted.map_or("", |(value, _)| value)
}

/// Formats a value as a lesson does: a string without quotes, any other value as JSON.
pub(crate) fn format_value(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_structure_of_a_cue_is_read_from_texts_and_from_objects() {
        let of = |cue: Value| Lesson::from_json(&json!({"title": "t", "content": "c", "cue": cue}));
        let lesson = of(json!({"tool": "deploy", "avoid": "without `region`", "prefer": "with `region`"}));
        assert_eq!(lesson.tool.as_deref(), Some("deploy"));
        assert_eq!(lesson.avoid, [Element::NoParameter("region".into())]);
        assert_eq!(lesson.prefer, [Element::Parameter("region".into())]);
        let lesson = of(json!({"tool": "deploy", "parameter": "retries", "value": 3, "removed": ["--fast"]}));
        assert_eq!(lesson.prefer, [Element::Value("retries".into(), "3".into())]);
        assert_eq!(lesson.avoid, [Element::Text("--fast".into())]);
        let lesson = of(json!({"added": [{"parameter": "a.b"}, {"first": "npm ci"}, "`tar` with `-C`"]}));
        let of_three =
            [Element::Parameter("a.b".into()), Element::First("npm ci".into()), Element::Option("-C".into())];
        assert_eq!(lesson.prefer, of_three);
        let lesson = of(json!({"added": {"option": "--region", "value": "eu"}}));
        assert_eq!(lesson.prefer, [Element::OptionValue("--region".into(), "eu".into())]);
        assert_eq!(Lesson::from_json(&json!({"title": "t"})), Lesson::from_line("t"), "only text");
    }

    #[test]
    fn each_text_form_is_its_own_element() {
        for (text, element) in [
            ("`cabin` = `business`", Element::Value("cabin".into(), "business".into())),
            ("`row` as a number", Element::Form("row".into(), "as a number".into())),
            ("`day` written YYYY-MM-DD", Element::Form("day".into(), "written YYYY-MM-DD".into())),
            ("`pay` of kind `credit_card`", Element::Form("pay".into(), "of kind `credit_card`".into())),
            ("`no` ending with `0`", Element::Form("no".into(), "ending with `0`".into())),
            (
                "`view` with an argument in upper case",
                Element::ArgumentForm("view".into(), "in upper case".into()),
            ),
            ("`boot` with a value from `list`", Element::ArgumentOrigin("boot".into(), "list".into())),
            ("`limit` as named in the error, “100”", Element::Value("limit".into(), "100".into())),
            (
                "`post` with `--type` as named in the error, “a”",
                Element::OptionValue("--type".into(), "a".into()),
            ),
            ("after about `90` seconds", Element::Pause),
            ("`node` from `get_leader`", Element::Origin("node".into(), "get_leader".into())),
            ("`tar` with `-f a.tar`", Element::OptionValue("-f".into(), "a.tar".into())),
            ("`zone` in upper case", Element::Form("zone".into(), "in upper case".into())),
            ("`tar` without `-c`", Element::NoOption("-c".into())),
            ("program `helm upgrade`", Element::Program("helm upgrade".into())),
            ("tool `b`", Element::Tool("b".into())),
            ("the same call again", Element::SameCall),
            ("in a code block", Element::Text("in a code block".into())),
        ] {
            assert_eq!(Element::parse(text), element, "{text}");
        }
    }
}
