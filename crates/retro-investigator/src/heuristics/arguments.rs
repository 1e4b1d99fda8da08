//! The arguments of a call: a JSON object, or one command (shell, SQL, code) however it was wrapped.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use super::quote::head;

/// The longest arguments that are taken apart, in characters; a longer text is looked at up to here.
const ARGUMENTS_CHARS_MAX: usize = 16_384;
/// The most words of a command that are compared: a repair changes a few, and two long scripts say nothing.
const WORDS_MAX: usize = 400;
/// Parameters that hold a whole command.
const COMMAND_KEYS: &[&str] =
    &["command", "cmd", "code", "script", "query", "sql", "statement", "action", "input", "commands"];

/// What a call was given.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Arguments {
    /// Named parameters.
    Object(Map<String, Value>),
    /// One command.
    Command(Command),
}

/// A command without its wrapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Command {
    /// The command itself.
    pub(super) text: String,
    /// It came with the marks of a code block.
    pub(super) fenced: bool,
    /// It is an SQL statement.
    pub(super) sql: bool,
    /// It is a program's text: its words name no programs, and a change of them is no manner.
    pub(super) program: bool,
    /// Its words; quotes around a word are part of it.
    pub(super) words: Vec<String>,
    /// The parameters that it came among, itself one of them; `None` where it is all that was given.
    pub(super) among: Option<Map<String, Value>>,
}

impl Arguments {
    /// Reads the arguments as the log keeps them.
    pub(super) fn read(raw: &str) -> Self {
        let text = head(raw.trim(), ARGUMENTS_CHARS_MAX);
        if text.starts_with('{')
            && let Ok(Value::Object(map)) = serde_json::from_str(text)
        {
            return match only_command(&map) {
                Some(text) => Self::Command(Command { among: Some(map), ..Command::read(&text) }),
                None => Self::Object(map),
            };
        }
        Self::Command(Command::read(text))
    }

    /// Reads the text of a program that a terminal ran.
    pub(super) fn program(text: &str) -> Self {
        let text = head(text.trim(), ARGUMENTS_CHARS_MAX);
        Self::Command(Command {
            text: text.to_owned(),
            fenced: false,
            sql: false,
            program: true,
            words: words(text, false),
            among: None,
        })
    }

    /// The named parameters; `None` for a command.
    pub(super) const fn object(&self) -> Option<&Map<String, Value>> {
        match self {
            Self::Object(map) => Some(map),
            Self::Command(_) => None,
        }
    }

    /// All parameters by name, a command among them; `None` for a command that is all that was given.
    pub(super) fn parameters(&self) -> Option<&Map<String, Value>> {
        match self {
            Self::Object(map) => Some(map),
            Self::Command(command) => command.among.as_ref(),
        }
    }

    /// All parameters by name, beside those of another call of the tool: logs keep a command that came alone without its name,
    /// which the other call may tell.
    pub(super) fn parameters_beside(&self, other: &Self) -> Option<Cow<'_, Map<String, Value>>> {
        if let Some(own) = self.parameters() {
            return Some(Cow::Borrowed(own));
        }
        let (alone, among) = (self.command()?, other.command()?.among.as_ref()?);
        let is_it =
            |(_, value): &(&String, &Value)| value.as_str().is_some_and(|text| text.trim() == alone.text);
        let (name, value) = among.iter().find(is_it)?;
        Some(Cow::Owned(Map::from_iter([(name.clone(), value.clone())])))
    }

    /// The command; `None` for named parameters.
    pub(super) const fn command(&self) -> Option<&Command> {
        match self {
            Self::Object(_) => None,
            Self::Command(command) => Some(command),
        }
    }
}

/// Whether both hold the same commands, or none.
pub(super) fn same_command(a: &Map<String, Value>, b: &Map<String, Value>) -> bool {
    COMMAND_KEYS.iter().all(|key| a.get(*key) == b.get(*key))
}

/// The command of an object that holds one and otherwise only settings (numbers, flags).
fn only_command(map: &Map<String, Value>) -> Option<String> {
    let mut texts = map.iter().filter_map(|(key, value)| Some((key, value.as_str()?)));
    let (key, text) = texts.next()?;
    let settings = map.values().all(|value| !value.is_object() && !value.is_array());
    (settings && texts.next().is_none() && COMMAND_KEYS.contains(&key.as_str())).then(|| text.to_owned())
}

static WRAPPED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?s)^[A-Za-z_]{1,20}\[(.*)\]$").expect("a constant pattern"));
static SQL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?is)^\(?\s*(?:select\b|insert\s+into\b|update\s+\S+\s+set\b|delete\s+from\b|explain\s+select\b|",
        r"show\s+(?:full\s+)?(?:tables|databases|schemas|columns|create|index|fields)\b|desc(?:ribe)?\s+[\w.`]+\s*;?$|",
        r"(?:create|drop|alter)\s+(?:table|view|database|index)\b|with\s+\w+\s+as\s*\(|pragma\s+\w+)"
    ))
    .expect("a constant pattern")
});

impl Command {
    fn read(raw: &str) -> Self {
        let text = raw.trim();
        let text =
            WRAPPED.captures(text).and_then(|found| found.get(1)).map_or(text, |inner| inner.as_str().trim());
        let fenced = text.contains("```");
        let inner = if fenced { inside_fence(text) } else { text };
        let inner = inner.trim().trim_start_matches("$ ");
        let sql = SQL.is_match(inner);
        Self { text: inner.to_owned(), fenced, sql, program: false, words: words(inner, sql), among: None }
    }

    /// The programs of a shell command: the first word, and those after `|`, `;`, `&&`, `||`, `$(`, `sudo`, `xargs`.
    pub(super) fn programs(&self) -> impl Iterator<Item = &str> {
        let mut next = !self.program;
        self.words.iter().filter_map(move |word| {
            let starts = next && !is_operator(word) && !is_assignment(word);
            next = !self.program
                && (is_operator(word)
                    || (next && is_assignment(word))
                    || matches!(word.as_str(), "sudo" | "xargs"));
            starts.then(|| basename(word))
        })
    }

    /// The words of the pipeline's part that starts with `program`, without it.
    pub(super) fn words_of(&self, program: &str) -> &[String] {
        let Some(at) = self.words.iter().position(|word| basename(word) == program) else { return &[] };
        let rest = &self.words[at + 1..];
        let end = rest.iter().position(|word| is_operator(word)).unwrap_or(rest.len());
        &rest[..end]
    }

    /// The variables that are set right in front of `program`.
    pub(super) fn set_for(&self, program: &str) -> &[String] {
        let Some(at) = self.words.iter().position(|word| basename(word) == program) else { return &[] };
        let before = self.words[..at].iter().rposition(|word| !is_assignment(word));
        &self.words[before.map_or(0, |before| before + 1)..at]
    }
}

/// Whether a word gives a variable its value.
pub(super) fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// What stands between the first pair of code marks; an open one reaches to the end.
fn inside_fence(text: &str) -> &str {
    let Some((before, rest)) = text.split_once("```") else { return text };
    if !before.trim().is_empty() && rest.trim().is_empty() {
        return before;
    }
    let body = rest.split("```").next().unwrap_or(rest);
    let first_line_is_language = body.split_once('\n').map(|(first, after)| {
        let word = first.trim();
        if word.chars().all(char::is_alphanumeric) { after } else { body }
    });
    first_line_is_language.unwrap_or(body)
}

fn is_operator(word: &str) -> bool {
    matches!(word, "|" | "||" | "&&" | ";" | "&" | "(" | ")" | "$(" | "do" | "then")
}

/// The last part of a path.
pub(super) fn basename(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

static SHELL_WORD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"\|\||&&|\$\(|[|;&()]|(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^\s|;&()"'])+|["']"#)
        .expect("a constant pattern")
});
static SQL_WORD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"'(?:[^'\\]|\\.)*'|"[^"]*"|`[^`]*`|[A-Za-z_][\w$]*|\d[\d.]*|[^\s\w]"#)
        .expect("a constant pattern")
});

fn words(text: &str, sql: bool) -> Vec<String> {
    let pattern: &Regex = if sql { &SQL_WORD } else { &SHELL_WORD };
    pattern.find_iter(text).take(WORDS_MAX).map(|word| word.as_str().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(raw: &str) -> Command {
        Arguments::read(raw).command().unwrap().clone()
    }

    #[test]
    fn a_command_is_found_in_every_wrapping() {
        for raw in [
            "ls -l",
            "execute[ls -l]",
            r#"{"command":"ls -l"}"#,
            r#"{"cmd":"ls -l","timeout":5}"#,
            "```bash\nls -l\n```",
            "```\nls -l```",
            "$ ls -l",
            "ls -l ```",
        ] {
            assert_eq!(command(raw).text.trim(), "ls -l", "{raw}");
        }
        assert!(command("```bash\nls\n```").fenced && !command("ls").fenced);
        assert!(Arguments::read(r#"{"query":"x","user":"y"}"#).object().is_some());
    }

    #[test]
    fn sql_is_told_from_a_shell() {
        for sql in ["SELECT 1", "show tables", "DESC t", "execute[DESCRIBE a.b]", "insert into t values (1)"]
        {
            assert!(command(sql).sql, "{sql}");
        }
        for other in
            ["create file.py", "update", "selection", "with open(x) as f:", "desc is not a command here"]
        {
            assert!(!command(other).sql, "{other}");
        }
    }

    #[test]
    fn programs_stand_at_the_start_of_each_part() {
        let found = command("A=1 find . -name 'a b' | xargs /usr/bin/grep -l x && (tar czf a b)");
        assert_eq!(found.programs().collect::<Vec<_>>(), ["find", "xargs", "grep", "tar"]);
        assert_eq!(found.words_of("tar"), ["czf", "a", "b"]);
        assert!(found.words_of("awk").is_empty());
        assert_eq!(found.set_for("find"), ["A=1"]);
        assert!(found.set_for("tar").is_empty());
    }
}
