//! Recognises calls that only look something up, such as tables, columns, files or flights.

use std::sync::LazyLock;

use regex::Regex;
use retro_gate::is_plain_name;
use serde_json::Value;

use super::arguments::Command;
use super::call::Call;
use super::manner::is_name;

/// Verbs that begin the names of look-up tools.
const VERBS: &[&str] = &[
    "get", "list", "search", "find", "describe", "show", "lookup", "look", "read", "view", "fetch", "check",
    "inspect", "ls",
];
/// Programs that only look something up.
const PROGRAMS: &[&str] =
    &["ls", "find", "tree", "pwd", "which", "whereis", "type", "man", "file", "stat", "find_file"];

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($text).expect("constant patterns compile"));
    };
}

pattern!(
    TABLES,
    r"(?i)^(?:show\s+(?:full\s+)?tables|select\b.*\binformation_schema\.tables\b|select\b.*\bsqlite_master\b)"
);
pattern!(
    COLUMNS,
    concat!(
        r"(?i)^(?:desc(?:ribe)?\s+\S|show\s+(?:full\s+)?(?:columns|fields)\b|show\s+create\s+table|pragma\s+table_info|",
        r"select\b.*\binformation_schema\.columns\b)"
    )
);
pattern!(DATABASES, r"(?i)^show\s+(?:databases|schemas)");
pattern!(HELP, r"(?:^|\s)(?:--help|-h|--version)\s*$");

/// Returns the label of a look-up, equal for all look-ups of the same thing. Returns `None` for any other
/// call.
pub(super) fn lookup_label(call: &Call<'_>) -> Option<String> {
    let label = match call.arguments.as_command() {
        // A search tool takes its only string in a command parameter, so its name decides if the text does
        // not. For an SQL statement or a bare command, only the text decides.
        Some(command) if command.sql || !call.raw.trim_start().starts_with('{') => command_label(command),
        Some(command) => command_label(command).or_else(|| lookup_tool(call)),
        None => lookup_tool(call),
    };
    label.filter(|label| is_name(label))
}

/// Programs that print the content of a file or an address.
const READERS: &[&str] =
    &["cat", "curl", "wget", "head", "tail", "less", "more", "bat", "Get-Content", "type"];

/// Returns `true` if the call reads the content of a page or file, by the name of its tool or program.
pub(super) fn reads_content(call: &Call<'_>) -> bool {
    let program = call.arguments.as_command().and_then(|command| command.programs().next());
    is_lookup_name(call.tool) || program.is_some_and(|program| READERS.contains(&program))
}

/// Returns the tool of the call if its name says that it looks something up.
fn lookup_tool(call: &Call<'_>) -> Option<String> {
    (is_lookup_name(call.tool) && is_plain_name(call.tool)).then(|| call.tool.to_owned())
}

fn command_label(command: &Command) -> Option<String> {
    let text = command.text.trim();
    if command.sql {
        let known = [(&TABLES, "SHOW TABLES"), (&COLUMNS, "DESCRIBE"), (&DATABASES, "SHOW DATABASES")];
        return known.iter().find(|(pattern, _)| pattern.is_match(text)).map(|(_, name)| (*name).to_owned());
    }
    let program = command.programs().next()?;
    if HELP.is_match(text) {
        return Some(format!("{program} --help"));
    }
    // `find -delete`, `find -exec`, a redirection and `xargs` can change something.
    let acts = command
        .words
        .iter()
        .any(|word| word == "-delete" || word == "-exec" || word == ">" || word == "xargs");
    (PROGRAMS.contains(&program) && !acts && command.programs().count() <= 2).then(|| program.to_owned())
}

/// Returns `true` if the name of a tool begins with a look-up verb.
pub(super) fn is_lookup_name(tool: &str) -> bool {
    let first = tool.split(|c: char| !c.is_alphanumeric()).next().unwrap_or(tool);
    let word_end = first.find(char::is_uppercase).filter(|end| *end > 0).unwrap_or(first.len());
    VERBS.contains(&first[..word_end].to_lowercase().as_str())
}

/// Returns the page or file that the error was read from, or `None` if the tool itself reported it. The harness
/// flags what a tool reports; the content of a page is an answer like any other.
pub(super) fn find_source(failing: &Call<'_>) -> Option<String> {
    if failing.flagged || !reads_content(failing) {
        return None;
    }
    let is_place = |text: &&str| text.contains(['/', '.']) && !text.contains(char::is_whitespace);
    let found = match failing.arguments.as_object() {
        Some(map) => map.values().filter_map(Value::as_str).find(is_place),
        None => {
            // Options come first and what is read comes last: `head -n 20 notes.md`.
            let words = failing.arguments.as_command()?.words.iter().skip(1).map(String::as_str);
            words.filter(|word| !word.starts_with('-')).rfind(is_place)
        }
    }?;
    // One page may be asked for in several ways.
    let path = found.trim_matches(['"', '\'']).split(['?', '#']).next().unwrap_or(found);
    Some(path.trim_start_matches("./").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(tool: &str, raw: &str) -> Option<String> {
        lookup_label(&Call::with_answer(tool, raw, ""))
    }

    #[test]
    fn equivalent_lookups_have_one_label() {
        for (tool, raw, expected) in [
            ("mysql", "SHOW TABLES", "SHOW TABLES"),
            ("mysql", "execute[show tables;]", "SHOW TABLES"),
            ("mysql", "SELECT * FROM information_schema.tables WHERE x = 1", "SHOW TABLES"),
            ("mysql", "DESC friend", "DESCRIBE"),
            ("mysql", "SHOW COLUMNS FROM friend", "DESCRIBE"),
            ("bash", "ls -la /x | head", "ls"),
            ("bash", "tar --help", "tar --help"),
            ("search_direct_flight", r#"{"origin":"A"}"#, "search_direct_flight"),
            ("getUser", "{}", "getUser"),
            ("search_docs", r#"{"query":"how to book"}"#, "search_docs"),
        ] {
            assert_eq!(labelled(tool, raw).as_deref(), Some(expected), "{raw}");
        }
        for (tool, raw) in [
            ("mysql", "SELECT name FROM friend"),
            ("bash", "find . -name x -delete"),
            ("bash", "rm x"),
            ("getaway_booking", "{}"),
            ("get_rows", r#"{"query":"SELECT name FROM friend"}"#),
            ("book_reservation", "{}"),
        ] {
            assert_eq!(labelled(tool, raw), None, "{raw}");
        }
    }
}
