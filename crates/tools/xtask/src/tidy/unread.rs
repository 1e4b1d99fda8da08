//! Finds what is written and never read: columns of the database, and events that are published.
//!
//! Both are read off the text, file by file. A column counts as read if a file of the database crate that names its
//! table also names the column outside the columns of an `INSERT`, the left sides of a `SET` and `excluded`. That
//! overlooks a column whose name another table in the same file has, and finds none wrongly.

use std::collections::BTreeSet;

use regex::Regex;

use super::problem::Problem;
use super::tree::{Source, Tree};

/// Crate with every statement of the program.
const DATABASE_CRATE: &str = "retro-store-sql";

/// Columns that no statement of the program reads, each with its reason.
const UNREAD_COLUMNS: &[(&str, &str, &str)] = &[
    ("database_identity", "single", "its key and its constraint allow one row"),
    ("investigations", "ended_token", "retro-checker compares it with the leases"),
    ("dead_letters", "retryable", "older programs write it; the code decides"),
    ("dead_letter_versions", "edited_ms", "when a message was edited, beside the audit log that is shown"),
    ("remarks", "stored_ms", "when a remark arrived, for a person who looks for a missed webhook"),
    ("review_calls", "token", "which claim made a call, for a person who looks into what was paid"),
    ("streams", "republished_messages", "what a repair sent again, for a person who looks into a loss"),
];

/// Types of what is published, each with its file. A stage must handle every variant.
const PUBLISHED: &[(&str, &str)] = &[
    ("Notice", "crates/foundation/retro-core/src/message.rs"),
    ("RepositoryEvent", "crates/foundation/retro-events/src/github.rs"),
];

/// Variants that are for programs outside, which `BrokerUser::Reader` lets them hear.
const ANNOUNCED: &[&str] = &["MemoryChanged", "DeadLettered", "ReportReady"];

/// Checks that every stored column is read by some statement, or is listed with the reason why it is not.
pub(super) fn check_columns(tree: &Tree) -> Vec<Problem> {
    let Some(database) = tree.crates.iter().find(|krate| krate.name == DATABASE_CRATE) else {
        return Vec::new();
    };
    let mut read: Vec<String> =
        database.sources.iter().filter(|source| !source.is_test()).map(read_statements).collect();
    read.push(views_and_indexes(&tree.schema));
    let is_read = |table: &str, column: &str| {
        let (table, column) = (whole_word(table), whole_word(column));
        read.iter().any(|text| table.is_match(text) && column.is_match(text))
    };
    let columns = list_columns(&tree.schema);
    let mut problems = Vec::new();
    for (table, column) in &columns {
        let reason =
            UNREAD_COLUMNS.iter().any(|(home, name, _)| (home, name) == (&table.as_str(), &column.as_str()));
        match (is_read(table, column), reason) {
            (false, false) => problems.push(format!(
                "{table}.{column} is written and never read; read it, drop it, or give the reason in UNREAD_COLUMNS"
            )),
            (true, true) => problems.push(format!("{table}.{column} is read; take it out of UNREAD_COLUMNS")),
            _ => {}
        }
    }
    let gone = UNREAD_COLUMNS
        .iter()
        .filter(|(table, column, _)| !columns.contains(&((*table).to_owned(), (*column).to_owned())));
    problems
        .extend(gone.map(|(table, column, _)| format!("{table}.{column} in UNREAD_COLUMNS does not exist")));
    problems
}

/// Checks that a stage handles each kind of event and of message that is published.
pub(super) fn check_events(tree: &Tree) -> Vec<Problem> {
    let stages = tree.crates.iter().filter(|krate| krate.folder.starts_with("crates/stages/"));
    let handled: String = stages
        .flat_map(|krate| &krate.sources)
        .flat_map(Source::production_text)
        .collect::<Vec<_>>()
        .join("\n");
    let sources: Vec<&Source> = tree.crates.iter().flat_map(|krate| &krate.sources).collect();
    let mut problems = Vec::new();
    for (name, path) in PUBLISHED {
        let Some(source) = sources.iter().find(|source| source.path == *path) else { continue };
        for variant in list_variants(&source.text, name) {
            let is_handled = handled.contains(&format!("{name}::{variant}"));
            if !is_handled && !ANNOUNCED.contains(&variant.as_str()) {
                problems.push(format!("{path}: {name}::{variant} is published, and no stage handles it"));
            }
        }
    }
    problems
}

fn whole_word(word: &str) -> Regex {
    Regex::new(&format!(r"\b{word}\b")).expect("a name is a pattern")
}

/// Lists the columns of every table, as table and column.
fn list_columns(schema: &str) -> BTreeSet<(String, String)> {
    let table = Regex::new(r"(?s)CREATE TABLE (\w+)\s*\((.*?)\n\)").expect("a pattern");
    let column = Regex::new(r"(?m)^\s+(\w+)\s+(?:TEXT|INTEGER|BLOB|REAL)\b").expect("a pattern");
    let added = Regex::new(r"ALTER TABLE (\w+) ADD COLUMN (\w+)").expect("a pattern");
    let mut columns = BTreeSet::new();
    for made in table.captures_iter(schema) {
        columns.extend(column.captures_iter(&made[2]).map(|found| (made[1].to_owned(), found[1].to_owned())));
    }
    columns.extend(added.captures_iter(schema).map(|found| (found[1].to_owned(), found[2].to_owned())));
    columns
}

/// Returns the strings of a file without the places in which a statement writes a column.
fn read_statements(source: &Source) -> String {
    let text: Vec<&str> = source.production_lines().into_iter().map(|(_, line)| line).collect();
    let text = text.join("\n");
    let literal = Regex::new(r#"(?s)"((?:[^"\\]|\\.)*)""#).expect("a pattern");
    let literals: Vec<&str> =
        literal.captures_iter(&text).map(|found| found.get(1).expect("a group").as_str()).collect();
    without_writes(&literals.join(" "))
}

fn without_writes(statements: &str) -> String {
    let inserted = Regex::new(r"(?s)INSERT INTO (\w+)\s*\([^)]*\)").expect("a pattern");
    let set = Regex::new(r"(?s)\bSET\b.*?(?:\bWHERE\b|\bFROM\b|\bRETURNING\b|$)").expect("a pattern");
    let target = Regex::new(r"(SET|,)\s*\w+\s*=").expect("a pattern");
    let excluded = Regex::new(r"excluded\.\w+").expect("a pattern");
    let statements = inserted.replace_all(statements, "INSERT INTO $1");
    let statements = excluded.replace_all(&statements, "excluded");
    set.replace_all(&statements, |found: &regex::Captures<'_>| {
        target.replace_all(&found[0], "$1").into_owned()
    })
    .into_owned()
}

/// Returns the views and indexes of a schema: they read columns for the statements that use them.
fn views_and_indexes(schema: &str) -> String {
    let made = Regex::new(r"(?s)CREATE (?:VIEW|UNIQUE INDEX|INDEX|TRIGGER).*?;").expect("a pattern");
    made.find_iter(schema).map(|found| found.as_str()).collect::<Vec<_>>().join("\n")
}

fn list_variants(text: &str, name: &str) -> Vec<String> {
    let body = Regex::new(&format!(r"(?s)pub enum {name} \{{(.*?)\n\}}")).expect("a pattern");
    let variant = Regex::new(r"(?m)^    ([A-Z]\w+)(?: \{|\(|,)").expect("a pattern");
    let Some(found) = body.captures(text) else { return Vec::new() };
    variant.captures_iter(&found[1]).map(|found| found[1].to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tree::Crate;
    use super::*;

    const SCHEMA: &str = "CREATE TABLE runs (\n    id TEXT NOT NULL,\n    seen INTEGER NOT NULL,\n    PRIMARY KEY (id)\n) STRICT;\n\
        ALTER TABLE runs ADD COLUMN late TEXT;\nCREATE INDEX runs_late ON runs (late);\n";

    fn tree(statement: &str) -> Tree {
        let text = format!("const SQL: &str = \"{statement}\";\n");
        let source = Source { path: "crates/x/src/ports/run.rs".to_owned(), text };
        let krate = Crate { name: DATABASE_CRATE.to_owned(), sources: vec![source], ..Crate::default() };
        Tree { crates: vec![krate], schema: SCHEMA.to_owned(), ..Tree::default() }
    }

    fn unread(statement: &str) -> Vec<String> {
        let problems = check_columns(&tree(statement)).into_iter();
        problems.filter(|problem| problem.contains("never read")).collect()
    }

    #[test]
    fn a_column_that_is_only_written_is_found() {
        for written in [
            "INSERT INTO runs (id, seen) VALUES ($1, $2) RETURNING id",
            "UPDATE runs SET seen = $2 WHERE id = $1",
            "INSERT INTO runs (id, seen) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET seen = excluded.seen WHERE id = $1",
        ] {
            let problems = unread(written);
            assert!(problems.len() == 1 && problems[0].starts_with("runs.seen"), "{written}: {problems:?}");
        }
    }

    #[test]
    fn a_column_is_read_by_a_list_a_condition_a_value_or_an_index() {
        for read in [
            "SELECT id, seen FROM runs",
            "SELECT id FROM runs WHERE seen > $1",
            "UPDATE runs SET late = seen WHERE id = $1",
        ] {
            assert_eq!(unread(read), Vec::<String>::new(), "{read}");
        }
    }

    #[test]
    fn an_event_that_no_stage_handles_is_found() {
        let events = "pub enum Notice {\n    /// Due.\n    Due {\n        id: u8,\n    },\n    Lost {},\n    ReportReady,\n}\n";
        let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
        let core = Crate { sources: vec![source(PUBLISHED[0].1, events)], ..Crate::default() };
        let stage = Crate {
            folder: "crates/stages/retro-sampler".to_owned(),
            sources: vec![source(
                "crates/stages/retro-sampler/src/lib.rs",
                "Notice::Due { .. } => work(),\n",
            )],
            ..Crate::default()
        };
        let problems = check_events(&Tree { crates: vec![core, stage], ..Tree::default() });
        assert!(problems.len() == 1 && problems[0].contains("Notice::Lost"), "{problems:?}");
    }
}
