//! Parses the arguments of a call: a JSON object, or one command (shell, SQL or code), possibly in a code
//! block.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use super::quote::first_chars;

/// Maximum number of characters of the arguments that are parsed; the rest is ignored.
const ARGUMENTS_CHARS_MAX: usize = 16_384;
/// Maximum number of words of a command that are compared. A repair changes a few words, and nothing can be
/// learned from the difference between two long scripts.
const WORDS_MAX: usize = 400;
/// Names of parameters whose value is a whole command.
const COMMAND_KEYS: &[&str] =
    &["command", "cmd", "code", "script", "query", "sql", "statement", "action", "input", "commands"];

/// Parsed arguments of a call.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Arguments {
    /// Named parameters.
    Object(Map<String, Value>),
    /// A single command.
    Command(Command),
}

/// Command without the code block or brackets that enclosed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Command {
    /// Text of the command, without code fence and shell prompt.
    pub(super) text: String,
    /// `true` if the command was in a code block.
    pub(super) fenced: bool,
    /// `true` if the command is an SQL statement.
    pub(super) sql: bool,
    /// `true` if the command is the source code of a program. Its words name no programs, and changing them
    /// is not a manner.
    pub(super) program: bool,
    /// `true` if the text reads as source code, such as `read.csv(path)`. Its words are not those of a shell, even if it was
    /// given to one by mistake.
    pub(super) code: bool,
    /// Words of the command including their quotes, at most [`WORDS_MAX`].
    pub(super) words: Vec<String>,
    /// All parameters of the call, including the command; `None` if the arguments were only the text of the
    /// command.
    pub(super) parameters: Option<Map<String, Value>>,
}

impl Arguments {
    /// Parses the arguments as recorded in the log.
    pub(super) fn parse(raw: &str) -> Self {
        let text = first_chars(raw.trim(), ARGUMENTS_CHARS_MAX);
        if text.starts_with('{')
            && let Ok(Value::Object(map)) = serde_json::from_str(text)
        {
            return match only_command(&map) {
                Some(text) => Self::Command(Command { parameters: Some(map), ..Command::parse(&text) }),
                None => Self::Object(map),
            };
        }
        Self::Command(Command::parse(text))
    }

    /// Parses the source code of a program that a terminal executed.
    pub(super) fn parse_program(text: &str) -> Self {
        let text = first_chars(text.trim(), ARGUMENTS_CHARS_MAX);
        Self::Command(Command {
            text: text.to_owned(),
            fenced: false,
            sql: false,
            program: true,
            code: true,
            words: split_words(text, false),
            parameters: None,
        })
    }

    /// Returns the named parameters; `None` for a command.
    pub(super) const fn as_object(&self) -> Option<&Map<String, Value>> {
        match self {
            Self::Object(map) => Some(map),
            Self::Command(_) => None,
        }
    }

    /// Returns all parameters by name, including a command; `None` for a command without a parameter name.
    pub(super) fn parameters(&self) -> Option<&Map<String, Value>> {
        match self {
            Self::Object(map) => Some(map),
            Self::Command(command) => command.parameters.as_ref(),
        }
    }

    /// Returns all parameters by name. If the log records a command without its parameter name, the name is
    /// taken from `other`, the arguments of another call of the same tool with the same command.
    pub(super) fn parameters_named_by(&self, other: &Self) -> Option<Cow<'_, Map<String, Value>>> {
        if let Some(own) = self.parameters() {
            return Some(Cow::Borrowed(own));
        }
        let (alone, among) = (self.as_command()?, other.as_command()?.parameters.as_ref()?);
        let is_it =
            |(_, value): &(&String, &Value)| value.as_str().is_some_and(|text| text.trim() == alone.text);
        let (name, value) = among.iter().find(is_it)?;
        Some(Cow::Owned(Map::from_iter([(name.clone(), value.clone())])))
    }

    /// Returns the command; `None` for named parameters.
    pub(super) const fn as_command(&self) -> Option<&Command> {
        match self {
            Self::Object(_) => None,
            Self::Command(command) => Some(command),
        }
    }
}

/// Returns `true` if both objects contain the same commands, or if neither contains one.
pub(super) fn same_command(a: &Map<String, Value>, b: &Map<String, Value>) -> bool {
    COMMAND_KEYS.iter().all(|key| a.get(*key) == b.get(*key))
}

/// Returns the command of an object whose other parameters are only settings, such as numbers and flags.
fn only_command(map: &Map<String, Value>) -> Option<String> {
    let mut texts = map.iter().filter_map(|(key, value)| Some((key, value.as_str()?)));
    let (key, text) = texts.next()?;
    let settings = map.values().all(|value| !value.is_object() && !value.is_array());
    (settings && texts.next().is_none() && COMMAND_KEYS.contains(&key.as_str())).then(|| text.to_owned())
}

static WRAPPED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?s)^[A-Za-z_]{1,20}\[(.*)\]$").expect("constant patterns compile"));
static SQL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?is)^\(?\s*(?:select\b|insert\s+into\b|update\s+\S+\s+set\b|delete\s+from\b|explain\s+select\b|",
        r"show\s+(?:full\s+)?(?:tables|databases|schemas|columns|create|index|fields)\b|desc(?:ribe)?\s+[\w.`]+\s*;?$|",
        r"(?:create|drop|alter)\s+(?:table|view|database|index)\b|with\s+\w+\s+as\s*\(|pragma\s+\w+)"
    ))
    .expect("constant patterns compile")
});

impl Command {
    fn parse(raw: &str) -> Self {
        let text = raw.trim();
        let text =
            WRAPPED.captures(text).and_then(|found| found.get(1)).map_or(text, |inner| inner.as_str().trim());
        let fenced = text.contains("```");
        let inner = if fenced { inside_fence(text) } else { text };
        let inner = inner.trim().trim_start_matches("$ ");
        let sql = SQL.is_match(inner);
        Self {
            text: inner.to_owned(),
            fenced,
            sql,
            program: false,
            code: !sql && reads_as_code(inner),
            words: split_words(inner, sql),
            parameters: None,
        }
    }

    /// Returns the base names of the programs that a shell command runs: its first word, and the words after
    /// `|`, `;`, `&&`, `||`, `$(`, `sudo` and `xargs`.
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

    /// Returns the program that decides the answer of a shell command, with the first word after it that is no
    /// option: usually its subcommand. It is the first program of the last pipeline. Returns `None` for SQL and
    /// source code.
    pub(super) fn deciding_program(&self) -> Option<(&str, &str)> {
        if self.program || self.sql {
            return None;
        }
        let ends_command = |word: &String| matches!(word.as_str(), "&&" | "||" | ";" | "&");
        let mut commands = self.words.split(ends_command).filter(|words| !words.is_empty());
        let words = commands.next_back()?;
        let at = words.iter().position(|word| !is_operator(word) && !is_assignment(word))?;
        let after = words[at + 1..].iter().take_while(|word| !is_operator(word));
        let first = after.map(String::as_str).find(|word| !word.starts_with('-')).unwrap_or_default();
        Some((basename(&words[at]), first))
    }

    /// Returns the words after `program` up to the next shell operator.
    pub(super) fn words_after(&self, program: &str) -> &[String] {
        let Some(at) = self.words.iter().position(|word| basename(word) == program) else { return &[] };
        let rest = &self.words[at + 1..];
        let end = rest.iter().position(|word| is_operator(word)).unwrap_or(rest.len());
        &rest[..end]
    }

    /// Returns the variable assignments directly before `program`.
    pub(super) fn assignments_before(&self, program: &str) -> &[String] {
        let Some(at) = self.words.iter().position(|word| basename(word) == program) else { return &[] };
        let before = self.words[..at].iter().rposition(|word| !is_assignment(word));
        &self.words[before.map_or(0, |before| before + 1)..at]
    }
}

static QUOTED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"(?s)"(?:[^"\\]|\\.)*"|'[^']*'"#).expect("constant patterns compile"));

/// Returns `true` if a text calls a function, as in `read.csv(path)`. No shell accepts a parenthesis directly after a word,
/// except after the name of a function that is being defined.
fn reads_as_code(text: &str) -> bool {
    if text.contains("<<") || text.contains("[[") {
        return false;
    }
    let bare = QUOTED.replace_all(text, "''");
    bare.match_indices('(').any(|(at, _)| {
        let (before, after) = (&bare[..at], bare[at + 1..].trim_start());
        let is_call = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let is_definition = after.strip_prefix(')').is_some_and(|rest| rest.trim_start().starts_with('{'));
        is_call && !is_definition
    })
}

/// Returns `true` if a word assigns a variable, as in `A=1`.
pub(super) fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// Returns the content of the first code block. An unclosed block extends to the end of the text.
fn inside_fence(text: &str) -> &str {
    let Some((before, rest)) = text.split_once("```") else { return text };
    if !before.trim().is_empty() && rest.trim().is_empty() {
        // The only fence closes a block whose opening fence is missing.
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

/// Returns the last segment of a path.
pub(super) fn basename(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

static SHELL_WORD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"\|\||&&|\$\(|[|;&()]|(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^\s|;&()"'])+|["']"#)
        .expect("constant patterns compile")
});
static SQL_WORD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"'(?:[^'\\]|\\.)*'|"[^"]*"|`[^`]*`|[A-Za-z_][\w$]*|\d[\d.]*|[^\s\w]"#)
        .expect("constant patterns compile")
});

fn split_words(text: &str, sql: bool) -> Vec<String> {
    let pattern: &Regex = if sql { &SQL_WORD } else { &SHELL_WORD };
    pattern.find_iter(text).take(WORDS_MAX).map(|word| word.as_str().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(raw: &str) -> Command {
        Arguments::parse(raw).as_command().unwrap().clone()
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
        assert!(Arguments::parse(r#"{"query":"x","user":"y"}"#).as_object().is_some());
    }

    #[test]
    fn sql_is_distinguished_from_shell_commands() {
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
    fn source_code_is_no_shell_command() {
        for code in [
            "d <- read.csv('a.csv'); nrow(d)",
            "library(lme4)",
            "df.head()",
            "db.orders.find({status: 'open'}).limit(5)",
        ] {
            assert!(command(code).code, "{code}");
        }
        for shell in [
            "kill $(lsof -ti:80)",
            "(cd a && make)",
            "f() { ls; }; f",
            "python -c 'print(1)'",
            "awk '{print substr($1, 2)}' a.txt",
            "diff <(sort a) <(sort b)",
            "a=(1 2); ls",
            "select f(a) from t",
        ] {
            assert!(!command(shell).code, "{shell}");
        }
    }

    #[test]
    fn programs_are_the_first_words_of_pipeline_parts() {
        let found = command("A=1 find . -name 'a b' | xargs /usr/bin/grep -l x && (tar czf a b)");
        assert_eq!(found.programs().collect::<Vec<_>>(), ["find", "xargs", "grep", "tar"]);
        assert_eq!(found.words_after("tar"), ["czf", "a", "b"]);
        assert!(found.words_after("awk").is_empty());
        assert_eq!(found.assignments_before("find"), ["A=1"]);
        assert!(found.assignments_before("tar").is_empty());
    }
}
